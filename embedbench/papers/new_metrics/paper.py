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

from embedbench.arrays import Floats
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_list import TRAIN
from embedbench.papers import runs as reproduce_runs
from embedbench.papers.data import find_files
from embedbench.papers.paper import Paper, ReproduceRequest, each
from embedbench.papers.published import EXACT, PaperTable, Value, load_published
from embedbench.papers.runs import Variant
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.against_chance import beta, gamma, random_tables
from embedbench.scores.mean_intervals import Stat

PROTOCOL = "incremental-class"
SEEN = (2, 4, 6, 8, 10)  # classes after each of the five tasks of Tables 1 and 2
SHORT, LONG = 10, 50  # sessions; the paper: 10 for CIFAR-100, 100 for Tiny ImageNet
COEFFICIENTS = (20, 100)  # sessions of Figure 2
MEMORY = 0.1  # share of the training samples
PAPERS_MEMORY = 2000  # samples, for images
QUARTERS = {"at K/4": 0.25, "at K/2": 0.5, "at 3K/4": 0.75, "at K": 1.0}
POINT = 0.01
LEARNERS = {
    "er": Variant("ER", "er", ("er.updates=1",)),
    "gdumb": Variant("GDumb", "gdumb"),
    # ER without a memory takes one step on each stream batch alone: online fine-tuning
    "finetune": Variant("Finetune", "er", ("er.memory.total=0", "er.updates=1")),
}


@dataclass
class MetricRuns(reproduce_runs.PaperRuns):
    """Online runs on a short and a long stream of each file.

    Parameters
    ----------
    files : dict
        Embedding files by their names in tables.
    """

    files: dict[str, Path] = field(kw_only=True)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = ("er", "gdumb")

    def sessions(self, name: str) -> list[int]:
        """Numbers of sessions: the user's, or one for a short and one for a long stream."""
        if asked := self.sessions_asked(PROTOCOL):
            return [asked]
        n = EmbeddingFile.open(self.files[name]).samples.n_leaves
        return list(dict.fromkeys(equal_sessions(n, asked) for asked in (SHORT, LONG)))

    def memory(self, name: str) -> int:
        """Number of samples that ER and GDumb keep, unless the user sets it."""
        if reproduce_runs.holds_images(self.files[name]):
            return PAPERS_MEMORY
        split = EmbeddingFile.open(self.files[name]).split
        return max(1, round(MEMORY * int((split == TRAIN).sum())))

    def specs(self, name: str, sessions: int, learner: str) -> list[RunSpec]:
        """Return one spec per seed. Each seed draws another class order."""
        variant = LEARNERS[learner]
        items = [
            f"protocol.sessions={sessions}",
            "protocol.order=random",
            f"{variant.learner}.memory.total={self.memory(name)}",
            "references=0",
        ]
        file = self.files[name]
        preset = "online-images" if reproduce_runs.holds_images(file) else None
        return self.plan(
            variant.learner, PROTOCOL, [file], items, fixed=variant.fixed, preset=preset
        )

    def all_specs(self) -> list[RunSpec]:
        """All runs; runs on one stream are neighbours, so that it is built once."""
        streams = [(name, k) for name in self.files for k in self.sessions(name)]
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
    accuracy, _ = random_tables(SEEN)
    return _random("1", "Accuracy of a random classifier, percent", "AA", accuracy)


def table2() -> PaperTable:
    """Table 2: forgetting of the random classifier after each of these tasks."""
    _, forgetting = random_tables(SEEN)
    return _random("2", "Forgetting of a random classifier, percent", "AF", forgetting)


def _random(name: str, title: str, mean: str, exact: Sequence[Sequence[Fraction]]) -> PaperTable:
    """Printed values beside the exact ones, with the printed number of digits."""
    columns = [f"T{j}" for j in range(1, 6 if name == "1" else 5)]
    table = PaperTable(name, title, ("after",), [*columns, mean], unit="%")
    rows = {row["after"]: row for row in load_published("new-metrics")["tables"][name]}
    for after, fractions in enumerate(exact, start=1):
        if after not in rows:
            continue
        numbers = [100 * float(v) for v in fractions]
        numbers.append(float(np.mean(numbers)))
        printed = [*rows[after]["on"], rows[after]["mean"]]
        heads = [*columns[: len(fractions)], mean]
        values = {h: _exact(p, v) for h, p, v in zip(heads, printed, numbers, strict=True)}
        table.rows.append(((f"T{after}",), values))
    table.notes.append(f"exact fractions, for tasks of two classes; {mean}: mean of the row")
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
    from embedbench.reports.curve_figures import Curve, curve_plot
    from embedbench.reports.learner_colours import glyph

    heads = ["γ_1", "γ_K/2", "γ_K", "β_2", "β_K/2", "β_K"]
    table = PaperTable("Figure 2", "Figure 2: the coefficients γ_k and β_k", ("sessions K",), heads)
    for sessions in COEFFICIENTS:
        steps = [float(gamma(k, sessions)) for k in range(1, sessions + 1)]
        drops = [math.nan, *(float(beta(k, sessions)) for k in range(2, sessions + 1))]
        numbers = [*(steps[k - 1] for k in (1, sessions // 2, sessions))]
        numbers += [drops[k - 1] for k in (2, sessions // 2, sessions)]
        values = {h: Value(None, Stat.of([v]), 4) for h, v in zip(heads, numbers, strict=True)}
        table.rows.append(((str(sessions),), values))
        caption = f"K = {sessions}: RAA_k = γ_k AA_k and RAF_k = β_k AF_k"
        curves = [
            Curve(np.array([coefficients]), style)
            for style, coefficients in enumerate((steps, drops))
        ]
        picture = curve_plot(curves, math.nan, 1, caption, axis="after session k")
        table.figures.append((caption, picture))
    table.notes.append(f"{glyph(0)} γ_k, {glyph(1)} β_k, in percent")
    return table


# --- the runs ---


def figure3(runs: MetricRuns) -> PaperTable:
    """Figure 3: AA and RAA by session, and where RAA stops rising."""
    table = _curves(runs, "3", ("aa", "raa"))
    table.notes += [
        "a constant RAA: accuracy falls as a random classifier's would, nothing more is gained. "
        "“Near its highest from”: the first session at which the mean over the seeds is within a "
        "point of its highest value; K or nearly so is no plateau",
        "the paper, on 100 sessions of Tiny ImageNet: GDumb's RAA stops rising near session 25, "
        "ER's near 65, Finetune's is constant near 0; on 10 sessions of CIFAR-100 ER's does not",
    ]
    return table


def figure4(runs: MetricRuns) -> PaperTable:
    """Figure 4: AF and RAF by session."""
    table = _curves(runs, "4", ("af", "raf"))
    table.notes.append(
        "the paper: AF is rather constant, RAF rises strongly for Finetune and ER, less for GDumb"
    )
    return table


def _curves(runs: MetricRuns, number: str, names: tuple[str, str]) -> PaperTable:
    """Values at the quarters of every stream, and one picture per stream and metric."""
    from embedbench.reports.curve_figures import Curve, curve_plot
    from embedbench.reports.learner_colours import assign_styles, glyph

    styles = assign_styles((learner, learner) for learner in LEARNERS)
    plain, rescaled = (n.upper() for n in names)
    title = f"Figure {number}: {plain} and {rescaled} by session, percent"
    last = ["near its highest from"] if number == "3" else []
    heads = ("data", "sessions K", "learner", "metric")
    table = PaperTable(f"Figure {number}", title, heads, [*QUARTERS, *last], across=2, unit="%")
    for name in runs.files:
        for metric, sessions in itertools.product(names, runs.sessions(name)):
            drawn = []
            for learner, variant in LEARNERS.items():
                curves = runs.curves(name, sessions, learner, metric)
                values = {}
                if curves is not None:
                    drawn.append(Curve(curves, styles[learner]))
                    values = _at_quarters(curves)
                    if metric == "raa":
                        values[last[0]] = Value(None, Stat.of([near_highest(curves)]), 0)
                labels = (name, str(sessions), variant.label, metric.upper())
                table.rows.append((labels, values))
            if drawn:
                caption = f"{name}, {sessions} sessions: {metric.upper()}"
                picture = curve_plot(drawn, math.nan, 1, caption, axis="after session k")
                table.figures.append((caption, picture))
    memory = ", ".join(f"{runs.memory(name)} of {name}" for name in runs.files)
    table.notes += [
        ", ".join(f"{glyph(styles[n])} {v.label}" for n, v in LEARNERS.items()),
        "online: one pass in batches of 10, a class order of its own for each seed; Finetune is er "
        f"with memory.total=0; ER and GDumb keep {memory} training samples, a tenth of them (of a "
        "pixel file the paper's 2,000), unless --set er.memory.total=…, gdumb.memory.total=… says "
        "otherwise",
    ]
    return table


def _at_quarters(curves: Floats) -> dict[str, Value]:
    last = curves.shape[1]
    places = {head: max(1, round(share * last)) - 1 for head, share in QUARTERS.items()}
    return {h: Value(None, Stat.of(100 * curves[:, k]), 1) for h, k in places.items()}


def near_highest(curves: Floats) -> int:
    """The first session, from 1, where the mean curve is within a point of its highest value."""
    mean = curves.mean(axis=0)
    return int(np.argmax(mean >= np.nanmax(mean) - POINT)) + 1


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> MetricRuns:
    """Return the runs on the requested files."""
    return asked.runs(MetricRuns, files=find_files(asked.data, asked.out, asked.notify))


PAPER = Paper(
    name="michel2023",
    aliases=("new-metrics",),
    citation="Michel et al. (2023): New metrics for analyzing continual learners",
    stem="new-metrics",
    runs=runs_on,
    specs=lambda runs, tables: runs.all_specs(),
    learners=lambda: LEARNERS,
    printed=lambda: [table1(), table2()],
    exact={"1": table1, "2": table2, "fig2": figure2},
    tables={"fig3": each(figure3), "fig4": each(figure4)},
)
