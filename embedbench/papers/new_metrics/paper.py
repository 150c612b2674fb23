"""`embedbench reproduce michel2023`: Michel et al. (2023) on any embedding file.

The tables of the random classifier, the coefficients, the curves.

**Departs**: the curves are from embeddings, not from the images of CIFAR-100 and Tiny ImageNet. The
paper's memory of 2,000 is 4 % and 2 % of these data; in a small file that would be less than one
sample per class. Ours is a tenth of the training samples. For a file of images (a pixel file) the
settings are the preset `online-images`, with the paper's memory.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from embedbench.array_types import Floats
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TRAIN
from embedbench.papers.paper import Paper, ReproduceRequest, each
from embedbench.papers.paper_folders import read_paper
from embedbench.papers.paper_runs import PaperRuns, holds_images, read_settings, read_variants
from embedbench.papers.paper_table import EXACT, PaperTable, Value
from embedbench.papers.reproduction_data import find_files
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.against_chance import beta, gamma, random_tables
from embedbench.scores.mean_intervals import Stat

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
LEARNERS = read_variants(FACTS["learners"])
PROTOCOL = "incremental-class"
SEEN = (2, 4, 6, 8, 10)  # classes after each of the five tasks of Tables 1 and 2
SHORT, LONG = 10, 50  # sessions; the paper: 10 for CIFAR-100, 100 for Tiny ImageNet
COEFFICIENTS = (20, 100)  # sessions of Figure 2
MEMORY = 0.1  # share of the training samples
PAPERS_MEMORY = 2000  # samples, for images
QUARTERS = (0.25, 0.5, 0.75, 1.0)  # of a stream
POINT = 0.01


@dataclass
class MetricRuns(PaperRuns):
    """Online runs on a short and a long stream of each file."""

    data: dict[str, Path] = field(kw_only=True)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = ("er", "gdumb")

    def sessions(self, name: str) -> list[int]:
        """Numbers of sessions: the user's, or one for a short and one for a long stream."""
        if asked := self.sessions_asked(PROTOCOL):
            return [asked]
        n = EmbeddingFile.open(self.data[name]).samples.n_leaves
        return list(dict.fromkeys(equal_sessions(n, asked) for asked in (SHORT, LONG)))

    def memory(self, name: str) -> int:
        """Number of samples that ER and GDumb keep, unless the user sets it."""
        if holds_images(self.data[name]):
            return PAPERS_MEMORY
        split = EmbeddingFile.open(self.data[name]).split
        return max(1, round(MEMORY * int((split == TRAIN).sum())))

    def specs(self, name: str, sessions: int, learner: str) -> list[RunSpec]:
        """Return one spec per seed. Each seed draws another class order."""
        variant = LEARNERS[learner]
        file, settings = self.data[name], read_settings(FACTS["set"])
        settings |= read_settings(
            {
                "protocol": {"sessions": sessions},
                variant.learner: {"memory": {"total": self.memory(name)}},
            }
        )
        preset = "online-images" if holds_images(file) else None
        return self.plan(
            variant.learner, PROTOCOL, [file], settings, fixed=variant.fixed, preset=preset
        )

    def all_specs(self) -> list[RunSpec]:
        """All runs; runs on one stream are neighbours, so that it is built once."""
        streams = [(name, k) for name in self.data for k in self.sessions(name)]
        lists = [[self.specs(*s, learner) for learner in self.learners] for s in streams]
        return [
            spec for of_stream in lists for seed in zip(*of_stream, strict=True) for spec in seed
        ]

    def curves(self, name: str, sessions: int, learner: str, curve: str) -> Floats | None:
        """(n, K) values of the finished runs, one row per seed; None without runs."""
        records = self.records(self.specs(name, sessions, learner))
        if not records:
            return None
        return np.array([(r.curves or {})[curve] for r in records], dtype=np.float64)


def equal_sessions(n_classes: int, asked: int) -> int:
    """The number of sessions nearest to `asked` with equally many classes each, at least two.

    If none lies within a fifth of `asked`, the sizes of sessions differ by one class.

    >>> equal_sessions(100, 50), equal_sessions(88, 10), equal_sessions(88, 50)
    (50, 11, 44)
    >>> equal_sessions(10, 50), equal_sessions(101, 10)
    (5, 10)
    """
    most = max(2, n_classes // 2)
    asked = min(asked, most)
    even = [k for k in range(2, most + 1) if n_classes % k == 0 and abs(k - asked) <= asked / 5]
    return min(even, key=lambda k: abs(k - asked), default=asked)


# --- exact, without runs ---


def table1() -> PaperTable:
    """Table 1: accuracy of the random classifier after each of five tasks of two classes."""
    return _random("1", random_tables(SEEN)[0])


def table2() -> PaperTable:
    """Table 2: forgetting of the random classifier after each of these tasks."""
    return _random("2", random_tables(SEEN)[1])


def _random(name: str, exact: Sequence[Sequence[Fraction]]) -> PaperTable:
    """Printed values beside the exact ones, with the printed number of digits."""
    table = PaperTable.of_facts(FACTS, name)
    *columns, mean = table.columns
    rows = {row["after"]: row for row in FACTS["printed"]["tables"][name]}
    for after, fractions in enumerate(exact, start=1):
        if after not in rows:
            continue
        numbers = [100 * float(v) for v in fractions]
        numbers.append(float(np.mean(numbers)))
        printed = [*rows[after]["on"], rows[after]["mean"]]
        heads = [*columns[: len(fractions)], mean]
        values = {h: _exact(p, v) for h, p, v in zip(heads, printed, numbers, strict=True)}
        table.rows.append(((f"T{after}",), values))
    return table


def _exact(printed: float, value: float) -> Value:
    decimals = len(f"{printed:g}".partition(".")[2])
    cut = round(printed, decimals) != round(value, decimals)
    if not cut:
        return Value(printed, Stat.of([value]), decimals, made=EXACT)
    remark, reads = "printed with its further digits cut off", round(value, decimals)
    return Value(printed, Stat.of([value]), decimals, remark=remark, reads=reads, made=EXACT)


def figure2() -> PaperTable:
    """Figure 2: γ_k and β_k for 20 and for 100 equal sessions."""
    table = PaperTable.of_facts(FACTS, "fig2")
    for sessions in COEFFICIENTS:
        steps = [float(gamma(k, sessions)) for k in range(1, sessions + 1)]
        drops = [math.nan, *(float(beta(k, sessions)) for k in range(2, sessions + 1))]
        numbers = [*(steps[k - 1] for k in (1, sessions // 2, sessions))]
        numbers += [drops[k - 1] for k in (2, sessions // 2, sessions)]
        pairs = zip(table.columns, numbers, strict=True)
        table.rows.append(((str(sessions),), {h: Value(None, Stat.of([v]), 4) for h, v in pairs}))
    return table


# --- the runs ---


def figure3(runs: MetricRuns) -> PaperTable:
    """Figure 3: AA and RAA by session, and where RAA stops rising."""
    return _curves(runs, "fig3", ("aa", "raa"))


def figure4(runs: MetricRuns) -> PaperTable:
    """Figure 4: AF and RAF by session."""
    return _curves(runs, "fig4", ("af", "raf"))


def _curves(runs: MetricRuns, key: str, names: tuple[str, str]) -> PaperTable:
    """Values at the quarters of every stream."""
    table = PaperTable.of_facts(FACTS, key)
    for name in runs.data:
        for metric, sessions in itertools.product(names, runs.sessions(name)):
            for learner, variant in LEARNERS.items():
                curves = runs.curves(name, sessions, learner, metric)
                values = {}
                if curves is not None:
                    places = [max(1, round(share * curves.shape[1])) - 1 for share in QUARTERS]
                    pairs = zip(table.columns, places, strict=False)
                    values = {h: Value(None, Stat.of(100 * curves[:, k]), 1) for h, k in pairs}
                    if metric == "raa":
                        values[table.columns[-1]] = Value(None, Stat.of([near_highest(curves)]), 0)
                labels = (name, str(sessions), variant.label, metric.upper())
                table.rows.append((labels, values))
    memory = ", ".join(f"{runs.memory(name)} of {name}" for name in runs.data)
    table.notes.insert(
        0,
        f"ER and GDumb keep {memory} training samples, unless --set er.memory.total=…, "
        "gdumb.memory.total=… says otherwise: a tenth of them, of a pixel file the paper's 2,000",
    )
    return table


def near_highest(curves: Floats) -> int:
    """The first session, from 1, where the mean curve is within a point of its highest value."""
    mean = curves.mean(axis=0)
    return int(np.argmax(mean >= np.nanmax(mean) - POINT)) + 1


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> MetricRuns:
    """Return the runs on the requested files."""
    return asked.runs(MetricRuns, data=find_files(asked.data, asked.out, asked.notify))


PAPER = Paper(
    FACTS,
    runs=runs_on,
    specs=lambda runs, tables: runs.all_specs(),
    learners=lambda: LEARNERS,
    printed=lambda: [table1(), table2()],
    exact={"1": table1, "2": table2, "fig2": figure2},
    tables={"fig3": each(figure3), "fig4": each(figure4)},
)
