"""`embedbench reproduce masana2020`: Masana et al. (2020) on any embedding file.

**Departs**: the paper trains a network on CIFAR-100's images. So do we with a pixel file of them
(the preset `class-orderings-images`, the published orders). Otherwise we use embeddings of other
data, with settings chosen for them. Random is drawn anew for each run here, as the spread of the
paper's runs suggests. Accuracy is the mean over the classes seen; it equals the accuracy per sample
if classes are equally large, as in CIFAR-100.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats, Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers import runs
from embedbench.papers.data import named_files
from embedbench.papers.drawing import draw_curves, legend
from embedbench.papers.paper import Paper, ReproduceRequest, per_file
from embedbench.papers.paper_facts import read_paper
from embedbench.papers.published import PaperTable, Value
from embedbench.papers.runs import read_settings, read_variants
from embedbench.runs.run_spec import RunSpec
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import Stat, format_signed
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import RunRecord
from embedbench.streams import make_class_order
from embedbench.streams.class_order import cifar100_labels

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
LEARNERS = read_variants(FACTS["learners"])
ORDERS: dict[str, str] = FACTS["orders"]
OFFICIAL, DATA = "cifar100", "CIFAR-100"  # our name and the paper's of its own data: images
PROTOCOL = "incremental-class"
SESSIONS = 10
AFTER = {"after 1": 1, "after 2": 2, "after 5": 5, "after the last": SESSIONS}  # tasks learned


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """Files by their names in tables; without any, the shipped emoji are used.

    Parameters
    ----------
    given : sequence of str
        "cifar100=FILE" for the paper's images, or FILE for a stand-in.
    out : Path
        Directory for the files that are made.

    Raises
    ------
    UserError
        A file is missing, or is not what its name says.
    """
    files = {name: path for name, (path, _) in named_files(given, [OFFICIAL], out, notify).items()}
    if (path := files.get(OFFICIAL)) is not None and not (
        runs.holds_images(path) and cifar100_labels(EmbeddingFile.open(path)) is not None
    ):
        raise UserError(
            f"{OFFICIAL}= takes a pixel file of CIFAR-100's 100 classes, and {path} is none; make "
            "it with embedbench extract torch/cifar100 --backbone none --size 32, or give the file "
            "without a name, as a stand-in"
        )
    return files


@dataclass
class OrderingRuns(runs.PaperRuns):
    """The runs on CIFAR-100's images, or on files that replace them.

    Parameters
    ----------
    data : dict
        Files by their names in tables; `OFFICIAL` is the paper's own data.
    orders : dict
        (file, kind) → "random" or the path of the order file.
    """

    data: dict[str, Path] = field(kw_only=True)
    orders: dict[tuple[str, str], str] = field(default_factory=dict)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(dict.fromkeys(v.learner for v in LEARNERS.values()))

    @cached_property
    def sessions(self) -> int:
        """Number of sessions."""
        return self.sessions_asked(PROTOCOL) or SESSIONS

    def make_orders(self) -> None:
        """Make the orders of every file, or use those that were made before.

        The name of an order file contains the content of the file and the number of sessions. A
        file without a class hierarchy has no coarse order. Random orders are drawn by the runs.
        CIFAR-100's are the published ones.
        """
        directory = self.out / "orders"
        directory.mkdir(parents=True, exist_ok=True)
        for name, path in self.data.items():
            file = EmbeddingFile.open(path)
            stem = f"{name}-{file.digests['content'][:8]}-{self.sessions}"
            self.orders[name, "random"] = "random"
            for kind in (k for k in ORDERS if k != "random"):
                prefix = (
                    "cifar100-" if name == OFFICIAL and kind in make_class_order.CONFUSION else ""
                )
                made = directory / f"{stem}-{kind}.json"
                if not made.is_file():
                    try:
                        order = make_class_order.make_order(
                            file, prefix + kind, sessions=self.sessions
                        )
                    except UserError as e:
                        if kind != "coarse":
                            raise
                        self.notify(f"no coarse order: {e}")
                        continue
                    make_class_order.write_order(order, made)
                self.orders[name, kind] = str(made)

    def order(self, name: str, kind: str) -> dict[str, Any] | None:
        """Return the content of the order file of a kind; None if there is none."""
        if (name, kind) not in self.orders:
            return None
        result: dict[str, Any] = json.loads(Path(self.orders[name, kind]).read_text("utf-8"))
        return result

    def specs(self, name: str, kind: str, learner: str) -> list[RunSpec]:
        """One spec per seed; none if the file has no such order."""
        if (name, kind) not in self.orders:
            return []
        return self._plan(name, LEARNERS[learner], self.orders[name, kind])

    def joint(self, name: str) -> list[RunSpec]:
        """One joint training on all classes at once, for the first seed."""
        return self._plan(name, runs.Variant("joint", "offline"), "natural")[:1]

    def _plan(self, name: str, variant: runs.Variant, order: str) -> list[RunSpec]:
        file, settings = self.data[name], read_settings(FACTS["set"])
        preset = "class-orderings-images" if runs.holds_images(file) else None
        if preset is None:
            settings |= read_settings(FACTS["set_embeddings"])
        fixed = read_settings({"protocol": {"order": order}}) | variant.fixed
        return self.plan(variant.learner, PROTOCOL, [file], settings, fixed=fixed, preset=preset)

    def of(self, name: str, kind: str, learner: str) -> list[RunRecord]:
        """The finished runs of a learner on an order, one per seed."""
        return self.records(self.specs(name, kind, learner))


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> OrderingRuns:
    """Return the runs on the requested files, with their class orders."""
    runs = asked.runs(OrderingRuns, data=find_data(asked.data, asked.out, asked.notify))
    asked.notify("ordering the classes; orders that are there are kept")
    runs.make_orders()
    return runs


def plan_runs(runs: OrderingRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once."""
    specs = [spec for name in runs.data for spec in runs.joint(name)] if "fig1" in tables else []
    if {"1", "fig4"} & set(tables):
        for name, kind in itertools.product(runs.data, ORDERS):
            by_learner = [runs.specs(name, kind, learner) for learner in runs.learners]
            specs += [spec for seed in zip(*by_learner, strict=True) for spec in seed]
    return specs


# --- Table 1 ---


def accuracy(record: RunRecord, head: str) -> float:
    """Accuracy in percent over all classes learned, at a column of Table 1; NaN in a short run."""
    pooled = record.pooled
    at = len(pooled) if head == "after the last" else AFTER[head]
    return 100 * pooled[at - 1] if at <= len(pooled) else float("nan")


def _table(runs: OrderingRuns, name: str) -> PaperTable:
    """Table 1: accuracy after sessions 1, 2, 5 and the last, for every learner and order."""
    table = _beside(lambda kind, learner: runs.of(name, kind, learner))
    if name != OFFICIAL:
        table.stand_in(name, f"{name} for {DATA}")
        table.title = (
            f"accuracy in percent, {runs.sessions} sessions of {name} for {SESSIONS} of {DATA}"
        )
        table.notes.append(f"{name} stands in for CIFAR-100's images: no difference is formed")
    if (name, "coarse") not in runs.orders:
        table.notes.append(f"{name} has no class hierarchy, so no coarse order")
    return table


def _beside(records: Callable[[str, str], Sequence[RunRecord]]) -> PaperTable:
    """Table 1; `records` returns our runs of an order and a learner."""
    paper = {
        (r["learner"], r["task"], kind): (r["accuracy"][kind], r["sd"][kind])
        for r in FACTS["printed"]["tables"]["1"]
        for kind in ORDERS
    }
    table = PaperTable.of_facts(FACTS, "1", label=DATA)
    for learner, kind in itertools.product(LEARNERS, ORDERS):
        values, found = {}, records(kind, learner)
        for head, task in AFTER.items():
            mean, sd = paper.get((learner, task, kind), (None, None))
            each = [accuracy(r, head) for r in found]
            ours = Stat.of(each) if each and not np.isnan(each).any() else None
            values[head] = Value(mean, ours, 1, sd=sd)
        table.rows.append(((LEARNERS[learner].label, ORDERS[kind]), values))
    return table


# --- figures ---


def _empty(key: str, name: str) -> PaperTable:
    return PaperTable.of_facts(FACTS, key, file=name, label=name)


def _figure1(runs: OrderingRuns, name: str) -> PaperTable:
    """Figure 1: accuracy of every class after joint training, by accuracy and by group."""
    table = _empty("fig1", name)
    run_dirs = [runs.streams.run_dir(spec, runs.out / "runs") for spec in runs.joint(name)]
    if all(map(record_files.is_finished, run_dirs)):
        predictions = record_files.read_predictions(run_dirs[0])
        assert isinstance(predictions, Predictions)
        recall, file = _recall(predictions), EmbeddingFile.open(runs.data[name])
        groups = _groups(file)
        cuts = np.cumsum(make_class_order.session_sizes(file.samples.n_leaves, runs.sessions))[
            :-1
        ].tolist()
        orders = {"from the lowest accuracy up": np.argsort(recall, kind="stable")}
        if (name, "coarse") in runs.orders:
            orders["grouped by the file's hierarchy"] = _order(runs, name, "coarse")
        for title, order in orders.items():
            caption = f"{name}, classes {title}"
            table.figures.append((caption, _bars(recall[order], groups[order], cuts, caption)))
    return table


def _bars(values: Floats, styles: Ints, cuts: Sequence[int], label: str) -> str:
    """One bar per class, fractions in the colours of `styles`; dashed lines before bars `cuts`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from embedbench.reports.figure_files import STYLE
    from embedbench.reports.inline_svg import svg
    from embedbench.reports.learner_colours import SOFT, colour

    with rc_context(STYLE):
        figure = Figure(figsize=(6.75, 1.9), layout="constrained")
        axes = figure.add_subplot()
        axes.bar(np.arange(len(values)), 100 * values, color=[colour(s) for s in styles])
        for cut in cuts:
            axes.axvline(cut - 0.5, color=SOFT, linewidth=0.6, dashes=(4, 3))
        axes.set(xlim=(-0.6, len(values) - 0.4), ylim=(0, 102), xticks=[], xlabel="classes")
        axes.set_title("%", loc="left")
        return svg(figure, label)


def _recall(p: Predictions) -> Floats:
    """(C,) share of right answers per class after the last session; NaN without test samples."""
    n = p.seen.shape[1]
    with np.errstate(invalid="ignore"):
        right = np.bincount(p.y, p.answer[-1] == p.y, n)
        share: Floats = right / np.bincount(p.y, minlength=n)
    return share


def _groups(file: EmbeddingFile) -> Ints:
    """(C,) index of the top group of every class; 0 if it has none."""
    tops = []
    for leaf in range(file.samples.n_leaves):
        node = leaf
        while file.parents[node] >= 0:
            node = int(file.parents[node])
        tops.append(node if node != leaf else -1)
    return np.unique(tops, return_inverse=True)[1]


def _order(runs: OrderingRuns, name: str, kind: str) -> Ints:
    """(C,) the classes of an order, by their indices in the file."""
    result, file = runs.order(name, kind), EmbeddingFile.open(runs.data[name])
    assert result is not None
    number = {c: i for i, c in enumerate(file.classes[: file.samples.n_leaves])}
    return np.array([number[c] for c in result["order"]])


def _matrix(runs: OrderingRuns, name: str) -> Floats:
    """(C, C) confusion from 0 to 1: square roots of shares of the largest entry."""
    result = runs.order(name, make_class_order.CONFUSION[0])
    assert result is not None
    errors = np.array(result["matrix"], dtype=np.float64)
    shares: Floats = np.sqrt(errors / max(errors.max(), 1.0))
    return shares


def _heat_map(matrix: Floats, caption: str, axis: tuple[str, str]) -> tuple[str, str]:
    from embedbench.reports.matrix_figures import heat_map

    return caption, heat_map(matrix, caption, axes_names=axis, numbers=False)


def _confusion(runs: OrderingRuns, name: str, order: Ints, caption: str) -> tuple[str, str]:
    """The confusion matrix in an order."""
    matrix = _matrix(runs, name)[np.ix_(order, order)]
    return _heat_map(matrix, caption, ("class", "taken for class"))


def _figure2(runs: OrderingRuns, name: str) -> PaperTable:
    """Figure 2: the confusion matrix in the original and in the coarse order."""
    table = _empty("fig2", name)
    orders = {"the file's order": np.arange(len(_matrix(runs, name)))}
    if (name, "coarse") in runs.orders:
        orders["coarse"] = _order(runs, name, "coarse")
    table.figures += [_confusion(runs, name, o, f"{name}, {title}") for title, o in orders.items()]
    return table


def _figure3(runs: OrderingRuns, name: str) -> PaperTable:
    """Figure 3: the objectives W, and the confusion matrix in the order from each of them."""
    table, results = _empty("fig3", name), []
    for kind in make_class_order.CONFUSION:
        order = runs.order(name, kind)
        assert order is not None
        W = make_class_order.objective(kind, order["sizes"])
        unit = (W - W.min()) / max(W.max() - W.min(), 1.0)
        caption = f"{ORDERS[kind]}: what confusion costs"
        table.figures.append(_heat_map(unit, caption, ("position", "position")))
        scores = (format_signed(order[key], 0) for key in ("natural_score", "score"))
        caption = f"{ORDERS[kind]}: {' → '.join(scores)}"
        results.append(_confusion(runs, name, _order(runs, name, kind), caption))
    table.figures += results
    return table


def _figure4(runs: OrderingRuns, name: str) -> PaperTable:
    """Figures 4 to 9: accuracy over all classes learned, one curve per order."""
    table = _empty("fig4", name)
    table.notes.append(legend(dict(enumerate(ORDERS.values()))))
    for learner, where in FACTS["curves"].items():
        curves = {}
        for style, kind in enumerate(ORDERS):
            if records := runs.of(name, kind, learner):
                curves[style] = np.array([r.pooled for r in records], dtype=np.float64)
        caption = f"{name}, {LEARNERS[learner].label} ({where})"
        table.figures += draw_curves(caption, curves, first=1, axis="sessions learned")
    return table


PAPER = Paper(
    FACTS,
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=lambda: [_beside(lambda *_: ())],
    tables={
        "1": per_file(_table),
        "fig1": per_file(_figure1),
        "fig2": per_file(_figure2),
        "fig3": per_file(_figure3),
        "fig4": per_file(_figure4),
    },
)
