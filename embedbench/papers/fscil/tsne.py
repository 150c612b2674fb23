"""Our version of Figures 3 (left) and A2 of Tang et al. (2024): raw and rectified test features.

**Departs**: the paper shows 4 base and 5 novel classes and does not say which. We show the first of
the stream that have enough test samples. Features are scaled to length 1, as for the classifier.
Two numbers stand beside the pictures; they include all base or all novel classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.array_types import Float32s, Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import FINAL
from embedbench.papers.paper_table import PaperTable
from embedbench.reports.figure_style import STYLE, words, write
from embedbench.reports.learner_colours import look
from embedbench.runs.run_spec import RunSpec
from embedbench.streams.stream import Stream

from .runs import FACTS, NO_LAYERS, FSCILRuns

N_BASE, N_NOVEL = 4, 5  # classes in a picture, as in the paper
FEWEST, MOST = 5, 40  # test samples a class must have, and the most that are drawn
PERPLEXITY = 30.0
SIDE, PALE = 1.45, 0.4  # width and height of a panel, inches; alpha of base classes

Features = Float32s


def tsne(runs: FSCILRuns) -> list[PaperTable]:
    """Our version of Figures 3 (left) and A2."""
    runs.asked.notify("tsne: one FR a file is trained once more, since runs keep no state")
    return [_tsne(runs, name) for name in runs.data]


def _tsne(runs: FSCILRuns, name: str) -> PaperTable:
    data, layers = runs.data[name], runs.layers(name)
    table = PaperTable.of_facts(FACTS, "tsne", file=name, label=data.label)
    if not layers:
        table.notes += (NO_LAYERS,)
        return table
    spec = runs.specs(name, "fr")[0]
    try:
        stream = runs.streams.stream(spec)
        by_kind, y = features(spec, stream, layers)
    except UserError as e:
        runs.failed.append(f"{spec.learner} for {table.name}: {e}")
        return table
    base, *others = (s.classes for s in stream.sessions)
    novel = np.concatenate(others)
    for kind, x in by_kind.items():
        numbers = [f(x, y, side) for f in (neighbours, silhouette) for side in (base, novel)]
        table.add_numbers([kind], numbers)
    chosen = [with_samples(y, base, N_BASE), with_samples(y, novel, N_NOVEL)]
    if any(chosen):
        rows = {data.opened.classes[c]: np.flatnonzero(y == c)[:MOST] for of in chosen for c in of}
        path = runs.asked.out / f"tsne-{name}.svg"
        write(path, draw_panels(by_kind, rows, len(chosen[0]), len(layers) + 1, spec.seed))
        table.notes += (f"the picture is {path.name}",)
    return table


def features(
    spec: RunSpec, stream: Stream, layers: Sequence[str]
) -> tuple[dict[str, Features], Ints]:
    """Test features of length 1, (n, d) each, raw and then rectified, and their labels, (n,).

    This trains the FR of the run; `layers` are those for which it has modules, in its order.
    """
    import torch
    from torch.nn.functional import normalize

    from embedbench.runs.stream_runner import run_stream

    learner: Any = spec.learner.fresh()
    run_stream(stream, learner, spec.seeds, spec.device)
    x = torch.cat([e.x.tensor(spec.device) for e in stream.eval_sets])
    spans = {n: stream.spec.layers[n] for n in layers}
    spans[FINAL] = (0, min(first for first, _ in stream.spec.layers.values()))
    result = {f"{n}, raw": x[:, first:end] for n, (first, end) in spans.items()}
    result |= {
        f"{n}, rectified": values for n, values in zip(layers, learner.rectified(x), strict=True)
    }
    y = np.concatenate([e.y for e in stream.eval_sets])
    return {name: normalize(values, dim=1).cpu().numpy() for name, values in result.items()}, y


def with_samples(y: Ints, classes: Ints, n: int) -> list[int]:
    """The first `n` of `classes` with enough test samples; y (n,) are the labels of all samples."""
    return [int(c) for c in classes if np.count_nonzero(y == c) >= FEWEST][:n]


# --- numbers ---


def _among(y: Ints, classes: Ints) -> Ints:
    """Rows of the classes with at least two samples; none if that is one class."""
    counts = np.bincount(y)
    rows: Ints = np.flatnonzero(np.isin(y, classes) & (counts[y] > 1))
    return rows if len(np.unique(y[rows])) > 1 else rows[:0]


def neighbours(x: Features, y: Ints, classes: Ints) -> float:
    """Share of samples whose nearest neighbour in `classes` has their label; x of length 1."""
    rows = _among(y, classes)
    if not len(rows):
        return float("nan")
    similar = x[rows] @ x[rows].T
    np.fill_diagonal(similar, -np.inf)
    return float((y[rows][similar.argmax(axis=1)] == y[rows]).mean())


def silhouette(x: Features, y: Ints, classes: Ints) -> float:
    """Mean silhouette of the samples of `classes`, by cosine distance."""
    from sklearn.metrics import silhouette_score

    rows = _among(y, classes)
    if not len(rows):
        return float("nan")
    return float(silhouette_score(x[rows], y[rows], metric="cosine"))


@rc_context({**STYLE, "axes.spines.top": True, "axes.spines.right": True})
def draw_panels(
    by_kind: Mapping[str, Features], rows: Mapping[str, Ints], pale: int, across: int, seed: int
) -> Figure:
    """t-SNE of the same samples in a panel for each kind of features, `across` in a row.

    `rows` are those of each class, by its name; the first `pale` classes are drawn pale.
    """
    from sklearn.manifold import TSNE

    every = np.concatenate(list(rows.values()))
    ends = np.cumsum([len(of_class) for of_class in rows.values()])
    perplexity = min(PERPLEXITY, (len(every) - 1) / 3)
    down = -(-len(by_kind) // across)
    figure = Figure(figsize=(SIDE * across, SIDE * down), layout="constrained")
    for place, (title, x) in enumerate(by_kind.items(), 1):
        axes = figure.add_subplot(down, across, place, xticks=[], yticks=[])
        axes.set_title(title)
        made = TSNE(perplexity=perplexity, init="pca", random_state=seed)
        points = np.split(made.fit_transform(x[every]), ends[:-1])  # (n, 2) of each class
        for number, (name, of_class) in enumerate(zip(rows, points, strict=True)):
            style: Any = look((number - pale) % len(rows))  # bright classes come first
            style |= {"linestyle": "none", "markersize": 2.4, "label": words(name)}
            axes.plot(*of_class.T, **style, alpha=PALE if number < pale else 1.0)
    return figure
