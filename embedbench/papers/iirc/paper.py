"""`embedbench reproduce abdelsalam2021`: Abdelsalam et al. (2021) on any hierarchy.

**Departs**: the paper trains residual networks on images; on embeddings learning rates are chosen
for them. Means are over task configurations; each counts with the mean over its seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.run_seeds import parse_seeds
from embedbench.papers import paper_runs
from embedbench.papers.paper import Paper, ReproduceRequest, per_file
from embedbench.papers.paper_folders import read_paper
from embedbench.papers.paper_table import PaperTable, Value
from embedbench.papers.reproduction_data import PaperData, named_files
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .printed_counts import count_table

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
LEARNERS = paper_runs.read_variants(FACTS["learners"])
BUFFERS = paper_runs.read_variants(FACTS["buffers"])
OFFICIAL: dict[str, dict[str, Any]] = FACTS["official"]
# joint: all classes at once, complete labels
VARIANTS = {**LEARNERS, **BUFFERS, "joint": paper_runs.Variant("joint", "offline")}
COLUMNS = [*LEARNERS, "joint"]
PROTOCOL, PRESET = "iirc", "iirc"
CHOSEN = "protocol.configuration="  # the setting that selects a task configuration
STAND_IN_CONFIGURATIONS = 5  # the paper's number for ImageNet

Read = Callable[[RunRecord], Any]


class IIRCData(PaperData):
    """One of the paper's data sets, or a file that replaces IIRC-CIFAR, with its own hierarchy."""

    @property
    def stands_in(self) -> bool:
        return self.official is None

    @property
    def paper(self) -> dict[str, Any]:
        """The data set whose published values are shown beside ours."""
        return OFFICIAL[self.official or "cifar"]

    @property
    def label(self) -> str:
        """The paper's name, or "emoji for IIRC-CIFAR"."""
        name: str = self.paper["label"]
        return f"{self.file.stem} for {name}" if self.stands_in else name

    @property
    def configurations(self) -> int:
        """Number of task configurations."""
        return STAND_IN_CONFIGURATIONS if self.stands_in else int(self.paper["configurations"])

    @property
    def preset(self) -> str:
        """The paper's settings: for its images and networks, or for embeddings."""
        return str(self.paper["preset"]) if paper_runs.holds_images(self.file) else PRESET


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, IIRCData]:
    """The data sets of a reproduction by name; without any, the shipped emoji are used.

    `given` are "cifar=FILE", "imagenet-lite=FILE", "imagenet-full=FILE", or FILE for a stand-in.
    """
    files = named_files(given, OFFICIAL, out, notify)
    return {name: IIRCData(path, official) for name, (path, official) in files.items()}


@dataclass
class IIRCRuns(paper_runs.PaperRuns):
    """The runs of every learner on every task configuration of each data set; `data` by name."""

    data: dict[str, IIRCData] = field(kw_only=True)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(dict.fromkeys(v.learner for v in VARIANTS.values()))
    _chosen: list[int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for item in self.items:
            if item.startswith(CHOSEN):
                self._chosen = parse_seeds(item.removeprefix(CHOSEN))
        self.items = [i for i in self.items if not i.startswith(CHOSEN)]

    def configurations(self, name: str) -> list[int]:
        """Indices of the task configurations: the user's, or all."""
        return self._chosen or list(range(self.data[name].configurations))

    def specs(self, name: str, variant: str, configuration: int) -> list[RunSpec]:
        """One spec per seed, on an official configuration or one of the file's hierarchy."""
        chosen, data = VARIANTS[variant], self.data[name]
        hierarchy = "file" if data.official is None else f"iirc-{data.official}"
        protocol = {"hierarchy": hierarchy, "configuration": configuration}
        fixed = paper_runs.read_settings({"protocol": protocol}) | chosen.fixed
        settings = paper_runs.read_settings({"references": 0})  # no table shows Ω
        return self.plan(
            chosen.learner, PROTOCOL, [data.file], settings, fixed=fixed, preset=data.preset
        )

    def of(self, name: str, variant: str) -> list[list[RunRecord]]:
        """The finished runs that means may include: one list per configuration with runs."""
        each = (self.records(self.specs(name, variant, k)) for k in self.configurations(name))
        return [records for records in each if records]

    def curve(self, name: str, variant: str) -> Floats | None:
        """(n, T) pw-JS (R_j) of each configuration, mean over its seeds; None without runs.

        Runs with fewer sessions than the others end in NaN.
        """
        means = [
            np.mean(
                [np.array(r.by_score["pw_js"].pooled, dtype=np.float64) for r in records], axis=0
            )
            for records in self.of(name, variant)
        ]
        if not means:
            return None
        longest = max(map(len, means))
        return np.stack([np.append(m, np.full(longest - len(m), np.nan)) for m in means])

    def sessions(self, name: str) -> int:
        """Number of sessions of the longest finished run; 0 without runs."""
        curves = [self.curve(name, n) for n in LEARNERS]
        return max((c.shape[1] for c in curves if c is not None), default=0)


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> IIRCRuns:
    """Return the runs on the requested files."""
    return asked.runs(IIRCRuns, data=find_data(asked.data, asked.out, asked.notify))


def plan_runs(runs: IIRCRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once."""
    variants = list(BUFFERS) if "buffer" in tables and "er" in runs.learners else []
    if set(tables) - {"buffer"}:
        variants = [*runs.learners, "joint", *variants]
    specs = []
    for name in runs.data:
        for k in runs.configurations(name):
            by_variant = [runs.specs(name, variant, k) for variant in variants]
            specs += [spec for seed in zip(*by_variant, strict=True) for spec in seed]
    return specs


def _matrix(record: RunRecord) -> Floats:
    """R_jk for pw-JS, (T, T)."""
    return np.array(record.by_score["pw_js"].R, dtype=np.float64)


# --- tables ---


def score_tables(number: str, runs: IIRCRuns) -> list[PaperTable]:
    """Table 5, 6 or 7: pw-JS after every session, of its data set or of files that replace it."""
    return [_scores(runs, name) for name, d in runs.data.items() if d.paper["table"] == number]


def _scores(runs: IIRCRuns, name: str) -> PaperTable:
    """The published table of a data set, with our values beside it."""
    data = runs.data[name]
    curves = {n: runs.curve(name, n) for n in COLUMNS}
    ours = {n: values for n, values in curves.items() if values is not None}
    table = _beside(data.paper, ours, runs.sessions(name))
    if data.stands_in:
        table.stand_in(data.file.stem, data.label)
        table.title = table.title.replace(data.paper["label"], data.label)
        table.notes.append("other classes in other sessions: rows agree in their numbers alone")
    table.notes.append(
        f"in brackets the paper's standard deviation over {data.paper['configurations']} task "
        f"configurations; ± is our 95 % interval over {len(runs.configurations(name))} of them, "
        f"of each the mean over its seeds ({', '.join(map(str, runs.seeds))})"
    )
    return table


def _beside(official: Mapping[str, Any], ours: Mapping[str, Floats], sessions: int) -> PaperTable:
    """A printed table, and beside it our (n, T) values by learner."""
    paper = {row["task"]: row for row in FACTS["printed"]["tables"][official["table"]]}
    last = (sessions or len(paper)) - 1
    columns = [n for n in COLUMNS if n in ours or any(n in row["pw_js"] for row in paper.values())]
    heads = [VARIANTS[n].label for n in columns]
    table = PaperTable.of_facts(FACTS, "scores", columns=heads, label=official["label"])
    table.name = official["table"]
    for t in range(max(last, max(paper)) + 1):
        printed = paper.get(t, {"pw_js": {}, "sd": {}})
        values = {}
        for n, head in zip(columns, heads, strict=True):
            at = 0 if n == "joint" and t == last else t if n != "joint" else -1
            mine = ours.get(n)
            some = mine is not None and 0 <= at < mine.shape[1]
            stat = Stat.of(mine[:, at]) if mine is not None and some else None
            mean, sd = printed["pw_js"].get(n), printed["sd"].get(n)
            values[head] = Value(mean, stat, 2, sd=sd)
        table.rows.append(((str(t),), values))
    return table


def _measures(runs: IIRCRuns, name: str) -> PaperTable:
    """Numbers that the paper's claims are about and that it shows in figures only."""
    table = PaperTable.of_facts(FACTS, "measures", file=name, label=runs.data[name].label)
    reads: list[Read] = [
        lambda r: np.diagonal(_matrix(r))[len(r.pooled) // 2 :].mean(),
        lambda r: _last(r, "labels_predicted") / (_last(r, "labels_true") or np.nan),
        *(partial(_last, name=n) for n in ("labels_newest", "subclass_precision")),
        partial(_last, name="lone_subclass_precision"),
    ]
    for learner, variant in LEARNERS.items():
        if found := runs.of(name, learner):
            values = {
                head: Value(None, Stat.of(np.mean([read(r) for r in each]) for each in found), 2)
                for head, read in zip(table.columns, reads, strict=True)
            }
            table.rows.append(((variant.label,), values))
    return table


measures = per_file(_measures)


def _last(record: RunRecord, name: str) -> float:
    return float((record.curves or {})[name][-1])


def _buffers(runs: IIRCRuns, name: str) -> PaperTable:
    """Figures A.27 and A.28: ER with more and fewer exemplars per class."""
    table = PaperTable.of_facts(FACTS, "buffer", file=name, label=runs.data[name].label)
    for variant, of in BUFFERS.items():
        curves = runs.curve(name, variant)
        if curves is not None:
            stats = (Stat.of(curves[:, -1]), Stat.of(curves.mean(axis=1)))
            pairs = zip(table.columns, stats, strict=True)
            table.rows.append(((of.label,), {h: Value(None, s, 2) for h, s in pairs}))
    return table


PAPER = Paper(
    FACTS,
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=lambda: [_beside(official, {}, 0) for official in OFFICIAL.values()],
    exact={number: partial(count_table, number, FACTS) for number in ("1", "2", "3")},
    tables={
        **{number: partial(score_tables, number) for number in ("5", "6", "7")},
        "measures": measures,
        "buffer": per_file(_buffers),
    },
)
