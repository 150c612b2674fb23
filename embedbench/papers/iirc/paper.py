"""`embedbench reproduce abdelsalam2021`: Abdelsalam et al. (2021) on any hierarchy.

**Departs**: the paper trains residual networks on images; on embeddings learning rates are chosen
for them. Other data get as many exemplars as are the same share of a class's training samples.
Means are over task configurations; each counts with the mean over its seeds.
"""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from embedbench.array_types import Floats, Ints
from embedbench.config.run_seeds import parse_seeds
from embedbench.files.sample_metadata import TRAIN
from embedbench.papers import paper
from embedbench.papers.data_kinds import paper_sets
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import EXACT, PaperTable, Value
from embedbench.protocols._hierarchy import Hierarchy, hierarchy_text
from embedbench.protocols.iirc import IIRC, share_out, union
from embedbench.reports.results import column_stats
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.run_record import RunRecord
from embedbench.studies.study import Key, Settings

FACTS = facts("abdelsalam2021")
LEARNERS = paper.read_variants(FACTS["learners"])
BUFFERS = paper.read_variants(FACTS["buffers"])
OFFICIAL: dict[str, dict[str, Any]] = FACTS["official"]
# joint: all classes at once, complete labels
VARIANTS = {**LEARNERS, **BUFFERS, "joint": paper.Variant("joint", "offline")}
COLUMNS = [*LEARNERS, "joint"]
PROTOCOL, PRESET = "iirc", "iirc"
ER_PER_CLASS = Key("er", "memory.per_class")  # exemplars
CONFIGURATION = Key("protocol", "configuration")  # the setting that selects a task configuration
STAND_IN_CONFIGURATIONS = 5  # the paper's number for ImageNet
TRAINED, HELD, TESTED = 400, 50, 100  # images of a class of CIFAR-100; HELD: in each validation
EXEMPLARS = 20  # of a class of these images
KEEPING = ("er", "agem", "icarl-cnn", "icarl-norm", "lucir", "bic")  # learners with so many
MOMENT = 10  # the session after which Figure 6 shows the labels that are given
Counts = dict[tuple[str, ...], Sequence[int]]  # in the order of the columns, by a row's labels


class IIRCRuns(paper.PaperRuns):
    """The runs of every learner on every task configuration of each data set."""

    every, replaces = LEARNERS, "cifar"
    official: ClassVar = {name: str(about["label"]) for name, about in OFFICIAL.items()}
    sets = paper_sets(FACTS)
    known = tuple(dict.fromkeys(v.learner for v in VARIANTS.values()))

    def published(self, name: str) -> dict[str, Any]:
        """The data set whose published values are shown beside ours."""
        return OFFICIAL[name if name in OFFICIAL else self.replaces]

    @property
    def given(self) -> Settings:
        """The user's settings without the choice of task configurations."""
        return {key: value for key, value in super().given.items() if key != CONFIGURATION}

    def configurations(self, name: str) -> list[int]:
        """Indices of the task configurations: the user's, or all."""
        if chosen := super().given.get(CONFIGURATION):
            return parse_seeds(chosen)
        every = STAND_IN_CONFIGURATIONS
        if self.data[name].all_classes:
            every = int(self.published(name)["configurations"])
        return list(range(every))

    def specs(self, name: str, configuration: int, variant: str) -> list[RunSpec]:
        """One spec per seed, on an official configuration or one of the file's hierarchy.

        The official ones name all classes; without some of them a file is arranged as other data.
        """
        data = self.data[name]
        hierarchy = f"iirc-{data.all_classes}" if data.all_classes else "file"
        fixed = {"protocol": {"hierarchy": hierarchy, "configuration": configuration}}
        preset = str(self.published(name)["preset"]) if data.holds_images else PRESET
        given: dict[str, Any] = {"references": 0}  # no table shows Ω
        of = VARIANTS[variant]
        if data.official is None and of.learner in KEEPING:
            given[of.learner] = {"memory": {"per_class": self.exemplars(name, EXEMPLARS)}}
            if ER_PER_CLASS in of.fixed:
                size = self.exemplars(name, int(of.fixed[ER_PER_CLASS]))
                of = replace(of, fixed={**of.fixed, ER_PER_CLASS: str(size)})
        return self.plan(of, PROTOCOL, [data], given, fixed=fixed, preset=preset)

    def exemplars(self, name: str, of_paper: int) -> int:
        """How many samples of a class are the share that so many are of a class of CIFAR-100."""
        file = self.data[name].opened
        of_class = int((file.split == TRAIN).sum()) / file.samples.n_leaves
        return max(1, round(of_paper * of_class / (TRAINED + 2 * HELD)))

    def buffers(self, name: str) -> dict[str, paper.Variant]:
        """ER with more and fewer exemplars; of sizes that are one in a small file, the first."""
        if self.data[name].official is not None:
            return BUFFERS
        sizes: dict[int, str] = {}
        for variant, of in BUFFERS.items():
            sizes.setdefault(self.exemplars(name, int(of.fixed[ER_PER_CLASS])), variant)
        return {variant: BUFFERS[variant] for variant in sizes.values()}

    def each(self, name: str, variant: str) -> list[list[RunRecord]]:
        """The finished runs that means may include: one list per configuration with runs."""
        every = (self.of(name, k, variant) for k in self.configurations(name))
        return [records for records in every if records]

    def flags(self, name: str, variant: str) -> tuple[str, ...] | None:
        """The flags of the finished runs of a variant; None without runs."""
        return paper.flags_of(itertools.chain(*self.each(name, variant)))

    def curve(self, name: str, variant: str) -> Floats:
        """(n, T) pw-JS (R_j) of each configuration, mean over its seeds; (0, 0) without runs.

        Runs with fewer sessions than the others end in NaN.
        """
        means = [
            np.mean([np.asarray(r.by_score["pw_js"].pooled, np.float64) for r in records], axis=0)
            for records in self.each(name, variant)
        ]
        if not means:
            return np.zeros((0, 0))
        return np.array([*itertools.zip_longest(*means, fillvalue=np.nan)]).T


# --- tables ---


def score_tables(number: str, runs: IIRCRuns) -> list[PaperTable]:
    """Table 5, 6 or 7: pw-JS after every session, of its data set or of files that replace it."""
    return [_scores(runs, name) for name in runs.data if runs.published(name)["table"] == number]


def _scores(runs: IIRCRuns, name: str) -> PaperTable:
    """The published table of a data set, with our values beside it."""
    data = runs.data[name]
    published = runs.published(name)
    curves = {n: runs.curve(name, n) for n in COLUMNS}
    ours = {n: curve for n, curve in curves.items() if len(curve)}
    rows = {row["task"]: row for row in FACTS["printed"]["tables"][published["table"]]}
    sessions = max((v.shape[1] for n, v in ours.items() if n != "joint"), default=len(rows))
    columns = [n for n in COLUMNS if n in ours or any(n in row["pw_js"] for row in rows.values())]
    table = PaperTable.of_facts(
        FACTS,
        "scores",
        file="" if data.is_own else runs.tag(name),
        label=runs.label(name),
        name=published["table"],
        columns=[VARIANTS[n].label for n in columns],
    )
    for t in range(max(sessions, len(rows))):
        printed = rows.get(t, {"pw_js": {}, "sd": {}})
        values = {}
        for n in columns:
            column = t
            if n == "joint":  # it has one number, after the last session
                column = 0 if t == sessions - 1 else -1
            mine = ours.get(n, np.zeros((0, 0)))
            stat = None
            if 0 <= column < mine.shape[1]:
                stat = column_stats(mine[:, [column]])[0]
            theirs = printed["pw_js"].get(n)
            sd = printed["sd"].get(n)
            flags = None if stat is None else runs.flags(name, n)
            values[VARIANTS[n].label] = Value(theirs, stat, 2, not data.is_own, sd=sd, flags=flags)
        table.add([str(t)], values)
    table.notes += (
        f"in brackets the paper's standard deviation over {published['configurations']} task "
        f"configurations; ± is our 95 % interval over {len(runs.configurations(name))} of them, "
        f"of each the mean over its seeds ({', '.join(map(str, runs.seeds))})",
    )
    return table


def _read_measures(record: RunRecord) -> list[float]:
    """Mean R_jj of the second half; of the labels given last, how many, how new, how right.

    The last two are how many and how new at the moment of Figure 6; NaN in a shorter stream.
    """
    late = np.diagonal(np.array(record.by_score["pw_js"].R))[len(record.pooled) // 2 :]
    last = _labels_at(record, -1)
    then = _labels_at(record, MOMENT)
    others = ("labels_newest", "subclass_precision", "lone_subclass_precision")
    of_last = [last["of_true"], *(last[name] for name in others)]
    return [float(late.mean()), *of_last, then["of_true"], then["labels_newest"]]


def _labels_at(record: RunRecord, session: int) -> dict[str, float]:
    """The curves of a run after a session, and the labels given for each true one."""
    curves = {} if record.curves is None else record.curves
    numbers = {
        name: float(curve[session]) if session < len(curve) else math.nan
        for name, curve in curves.items()
    }
    of_true = numbers["labels_predicted"] / (numbers["labels_true"] or math.nan)
    return numbers | {"of_true": of_true}


@paper.per_file
def measures(runs: IIRCRuns, name: str) -> PaperTable:
    """Numbers that the paper's claims are about and that it shows in figures only."""
    table = PaperTable.of_facts(FACTS, "measures", file=runs.tag(name), label=runs.label(name))
    for learner, variant in LEARNERS.items():
        if each := runs.each(name, learner):
            by_seed = (zip(*map(_read_measures, records), strict=True) for records in each)
            means = [[float(np.mean(values)) for values in numbers] for numbers in by_seed]
            flags = runs.flags(name, learner)
            table.add_numbers([variant.label], column_stats(means), decimals=2, flags=flags)
    return table


@paper.per_file
def buffers(runs: IIRCRuns, name: str) -> PaperTable:
    """Figures A.27 and A.28: ER with more and fewer exemplars per class."""
    table = PaperTable.of_facts(FACTS, "buffer", file=runs.tag(name), label=runs.label(name))
    for variant, of in BUFFERS.items() if "er" in runs.learners else ():
        curves = runs.curve(name, variant)
        if len(curves) and variant in runs.buffers(name):
            stats = column_stats([curve[-1], curve.mean()] for curve in curves)
            flags = runs.flags(name, variant)
            table.add_numbers([of.label], stats, decimals=2, flags=flags)
    return table


# --- Tables 1 to 3, counted ---
#
# CIFAR-100 has 500 training and 100 test images of every class, so its counts need no images. Those
# of IIRC-ImageNet in Table 1, and of its bird in Table 3, need ImageNet's lists and are left open.


def count_table(number: str) -> PaperTable:
    """Return printed Table 1, 2 or 3 with our counts beside it; a row without counts has none."""
    table = PaperTable.of_facts(FACTS, f"counts-{number}")
    counts = {"1": _samples, "2": _classes, "3": _sizes}[number]()
    for row in FACTS["counts"][number]:
        ours = counts.get(tuple(row["labels"]), ())
        table.add_numbers(row["labels"], ours, row["values"], 0, made=EXACT)
    return table


def _published(name: str) -> Hierarchy:
    """A published hierarchy over its own classes, leaves first."""
    parents = json.loads(hierarchy_text(name))["parents"]
    inner = [c for c in parents if c in parents.values()]
    classes = [*(c for c in parents if c not in inner), *inner]
    above = [-1 if parents[c] is None else classes.index(parents[c]) for c in classes]
    return Hierarchy(name, tuple(classes), np.array(above), np.arange(len(classes) - len(inner)))


def _taught(images: int) -> list[Ints]:
    """The samples of each class of IIRC-CIFAR, of so many images of every leaf."""
    hierarchy = _published("iirc-cifar")
    by_leaf = [(k, np.arange(images) + k * images) for k in hierarchy.leaf]
    return share_out(hierarchy, by_leaf, IIRC.superclass_share, IIRC.subclass_share, IIRC.cap)


def _samples() -> Counts:
    """Table 1's row of IIRC-CIFAR."""
    taught = _taught(TRAINED)
    held = _taught(HELD)
    duplicates = [sum(map(len, of_class)) for of_class in (taught, held)]
    numbers = [*duplicates, len(union(taught)), len(union(held)), 100 * HELD, 100 * TESTED]
    return {("IIRC-CIFAR",): numbers}


def _classes() -> Counts:
    """Table 2, from the hierarchies alone."""
    rows: Counts = {}
    for label, name in (("IIRC-CIFAR", "iirc-cifar"), ("IIRC-ImageNet-full", "iirc-imagenet-full")):
        hierarchy = _published(name)
        n = len(hierarchy.parents)
        leaves = len(hierarchy.leaf)
        alone = int((hierarchy.parents[:leaves] == -1).sum())
        rows[label,] = (n - leaves, leaves - alone, alone, n)
    return rows


def _sizes() -> Counts:
    """Table 3's rows of IIRC-CIFAR: training samples that a class is taught with."""
    hierarchy = _published("iirc-cifar")
    sizes = [*map(len, _taught(TRAINED))]
    rows: Counts = {}
    for k, top in zip(hierarchy.leaf, hierarchy.parents, strict=False):
        above = hierarchy.classes[top] if top != -1 else "–"
        of_top = (int(hierarchy.n_leaves[top]), sizes[top]) if top != -1 else ()
        rows["IIRC-CIFAR", above, hierarchy.classes[k]] = (sizes[k], *of_top)
    return rows


PAPER = paper.Paper(
    FACTS,
    runs=IIRCRuns,
    exact={number: partial(count_table, number) for number in ("1", "2", "3")},
    tables={
        **{number: partial(score_tables, number) for number in ("5", "6", "7")},
        "measures": measures,
        "buffer": buffers,
    },
)
