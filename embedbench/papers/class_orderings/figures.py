"""The figures of Masana et al. (2020), made from other data."""

from collections.abc import Sequence

import numpy as np

from embedbench.arrays import Floats, Ints
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers.published import PaperTable
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import format_signed
from embedbench.scores.predictions import Predictions
from embedbench.streams.make_class_order import CONFUSION, objective, session_sizes

from .runs import LEARNERS, ORDERS, OrderingRuns

CURVES = {  # learner → the paper's figure
    "finetune": "Fig. 4, left",
    "lwf": "Fig. 4, right",
    "lwf-exemplars": "Fig. 5",
    "icarl": "Fig. 6",
    "bic": "Fig. 7",
    "lucir": "Fig. 8",
    "il2m": "Fig. 9",
}
_CLASSES = ("class", "taken for class")
_POSITIONS = ("position", "position")


def figure1(runs: OrderingRuns) -> list[PaperTable]:
    """Figure 1: accuracy of every class after joint training, by accuracy and by group."""
    tables = []
    for name, path in runs.files.items():
        table = PaperTable(
            f"Figure 1 · {name}", f"Figure 1: accuracy of every class, {name}", (), ()
        )
        table.across = 1
        run_dirs = [runs.streams.run_dir(spec, runs.out / "runs") for spec in runs.joint(name)]
        if all(map(record_files.is_finished, run_dirs)):
            predictions = record_files.read_predictions(run_dirs[0])
            assert isinstance(predictions, Predictions)
            recall = _recall(predictions)
            file = EmbeddingFile.open(path)
            groups = _groups(file)
            cuts = np.cumsum(session_sizes(file.samples.n_leaves, runs.sessions))[:-1].tolist()
            orders = {"from the lowest accuracy up": np.argsort(recall, kind="stable")}
            if (name, "coarse") in runs.orders:
                orders["grouped by the file's hierarchy"] = _order(runs, name, "coarse", file)
            for title, order in orders.items():
                caption = f"{name}, classes {title}"
                table.figures.append((caption, _bars(recall[order], groups[order], cuts, caption)))
        table.notes.append(
            "test accuracy after one joint training on all classes; colours: groups of the "
            "hierarchy; dashed: sessions. Classes without test samples have no bar"
        )
        tables.append(table)
    return tables


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
    right = p.answer[-1] == p.y
    n = p.seen.shape[1]
    with np.errstate(invalid="ignore"):
        share: Floats = np.bincount(p.y, right, n) / np.bincount(p.y, minlength=n)
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


def _order(runs: OrderingRuns, name: str, kind: str, file: EmbeddingFile) -> Ints:
    """(C,) the classes of an order, by their indices in the file."""
    result = runs.order(name, kind)
    assert result is not None
    number = {c: i for i, c in enumerate(file.classes[: file.samples.n_leaves])}
    return np.array([number[c] for c in result["order"]])


def _matrix(runs: OrderingRuns, name: str) -> Floats:
    """(C, C) confusion from 0 to 1: square roots of shares of the largest entry."""
    result = runs.order(name, CONFUSION[0])
    assert result is not None
    errors = np.array(result["matrix"], dtype=np.float64)
    shares: Floats = np.sqrt(errors / max(errors.max(), 1.0))
    return shares


def figure2(runs: OrderingRuns) -> list[PaperTable]:
    """Figure 2: the confusion matrix in the original and in the coarse order."""
    from embedbench.reports.matrix_figures import heat_map

    tables = []
    for name, path in runs.files.items():
        file, confused = EmbeddingFile.open(path), _matrix(runs, name)
        table = PaperTable(
            f"Figure 2 · {name}", f"Figure 2: the confusion matrix of {name}", (), ()
        )
        orders = {"the file's order": np.arange(len(confused))}
        if (name, "coarse") in runs.orders:
            orders["coarse"] = _order(runs, name, "coarse", file)
        for title, order in orders.items():
            caption = f"{name}, {title}"
            matrix = confused[np.ix_(order, order)]
            picture = heat_map(matrix, caption, axes_names=_CLASSES, numbers=False)
            table.figures.append((caption, picture))
        table.notes.append(_CONFUSED)
        tables.append(table)
    return tables


_CONFUSED = (
    "errors of a linear probe on training samples that it was not fitted to, without the "
    "diagonal; the brighter the more, as square roots of shares of the largest entry"
)


def figure3(runs: OrderingRuns) -> list[PaperTable]:
    """Figure 3: the objectives W, and the confusion matrix in the order from each of them."""
    from embedbench.reports.matrix_figures import heat_map

    tables = []
    for name, path in runs.files.items():
        file, confused = EmbeddingFile.open(path), _matrix(runs, name)
        title = f"Figure 3: objectives and resulting confusion matrices, {name}"
        table = PaperTable(f"Figure 3 · {name}", title, (), (), across=len(CONFUSION))
        results = []
        for kind in CONFUSION:
            order_file = runs.order(name, kind)
            assert order_file is not None
            W = objective(kind, order_file["sizes"])
            caption = f"{ORDERS[kind]}: what confusion costs"
            picture = heat_map(_unit(W), caption, axes_names=_POSITIONS, numbers=False)
            table.figures.append((caption, picture))
            order = _order(runs, name, kind, file)
            scores = (format_signed(order_file[key], 0) for key in ("natural_score", "score"))
            caption = f"{ORDERS[kind]}: {' → '.join(scores)}"
            matrix = confused[np.ix_(order, order)]
            results.append((caption, heat_map(matrix, caption, axes_names=_CLASSES, numbers=False)))
        table.figures += results
        table.notes += [
            "dark: confusion costs little there. Scores: Σ_ij W_ij M_π(i)π(j) of the file's own "
            "order → of the order found; lower is better",
            f"below: {_CONFUSED}",
        ]
        tables.append(table)
    return tables


def _unit(W: Floats) -> Floats:
    """W scaled to the range 0 … 1."""
    scaled: Floats = (W - W.min()) / max(W.max() - W.min(), 1.0)
    return scaled


def figures4to9(runs: OrderingRuns) -> list[PaperTable]:
    """Figures 4 to 9: accuracy over all classes learned, one curve per order."""
    from embedbench.reports.curve_figures import Curve, curve_plot
    from embedbench.reports.learner_colours import glyph

    tables = []
    key = ", ".join(f"{glyph(i)} {label}" for i, label in enumerate(ORDERS.values()))
    for name in runs.files:
        title = f"Figures 4 to 9: accuracy by session on every order, {name} for CIFAR-100"
        table = PaperTable(f"Figures 4–9 · {name}", title, (), (), notes=[key])
        for learner, where in CURVES.items():
            curves = []
            for style, kind in enumerate(ORDERS):
                pooled = [r.pooled for r in runs.of(name, kind, learner)]
                if pooled:
                    curves.append(Curve(np.array(pooled, dtype=np.float64), style))
            if curves:
                caption = f"{name}, {LEARNERS[learner].label} ({where})"
                picture = curve_plot(curves, float("nan"), 1, caption, axis="sessions learned")
                table.figures.append((caption, picture))
        tables.append(table)
    return tables
