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
from embedbench.files.embedding_file import FINAL
from embedbench.papers.paper import per_file
from embedbench.papers.paper_table import PaperTable
from embedbench.reports.figure_style import STYLE, words, write
from embedbench.runs.run_spec import RunSpec
from embedbench.streams.stream import Stream

from .runs import FACTS, NO_LAYERS, FSCILRuns

N_BASE, N_NOVEL = 4, 5  # classes in a picture, as in the paper
FEWEST, MOST = 5, 40  # test samples a class must have, and the most that are drawn
PERPLEXITY = 30.0
SIDE = 1.45  # width and height of a panel, inches

Features = Float32s


@per_file
def tsne(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Figures 3 (left) and A2; one FR is trained once more."""
    layers = runs.layers(name)
    table = PaperTable.of_facts(FACTS, "tsne", file=runs.tag(name), label=runs.label(name))
    if not layers:
        table.notes += (NO_LAYERS,)
        return table
    spec = runs.specs(name, "fr")[0]
    stream = runs.streams.stream(spec)
    by_kind, y = features(spec, stream, layers)
    base, *others = (s.classes for s in stream.sessions)
    novel = np.concatenate(others)
    for kind, x in by_kind.items():
        both = zip(separate(x, y, base), separate(x, y, novel), strict=True)
        table.add_numbers([kind], [number for pair in both for number in pair])
    enough = [[c for c in of if np.count_nonzero(y == c) >= FEWEST] for of in (base, novel)]
    if chosen := [*enough[0][:N_BASE], *enough[1][:N_NOVEL]]:
        classes = runs.data[name].opened.classes
        rows = {classes[c]: np.flatnonzero(y == c)[:MOST] for c in chosen}
        path = runs.out / f"tsne-{name}.svg"
        write(path, draw_panels(by_kind, rows, len(enough[0][:N_BASE]), spec.seed))
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


# --- numbers and picture ---


def separate(x: Features, y: Ints, classes: Ints) -> tuple[float, float]:
    """How far classes stand apart, x of length 1: NaN where fewer than two have two samples.

    The share of samples whose nearest other one has their label, and the mean silhouette.
    """
    from sklearn.metrics import silhouette_score

    rows = np.flatnonzero(np.isin(y, classes) & (np.bincount(y)[y] > 1))
    if len(np.unique(y[rows])) < 2:
        return float("nan"), float("nan")
    similar = x[rows] @ x[rows].T
    np.fill_diagonal(similar, -np.inf)
    nearest = (y[rows][similar.argmax(axis=1)] == y[rows]).mean()
    return float(nearest), float(silhouette_score(x[rows], y[rows], metric="cosine"))


@rc_context(STYLE)
def draw_panels(
    by_kind: Mapping[str, Features], rows: Mapping[str, Ints], pale: int, seed: int
) -> Figure:
    """t-SNE of the same samples in a panel for each kind of features.

    `rows` are those of each class, by its name; the first `pale` classes are drawn pale.
    """
    from sklearn.manifold import TSNE

    every = np.concatenate(list(rows.values()))
    ends = np.cumsum([len(of_class) for of_class in rows.values()])
    perplexity = min(PERPLEXITY, (len(every) - 1) / 3)
    across = (len(by_kind) + 1) // 2  # raw above rectified
    figure = Figure(figsize=(SIDE * across, 2 * SIDE), layout="constrained")
    for place, (title, x) in enumerate(by_kind.items(), 1):
        axes = figure.add_subplot(2, across, place, title=title, xticks=[], yticks=[])
        made = TSNE(perplexity=perplexity, init="pca", random_state=seed)
        points = np.split(made.fit_transform(x[every]), ends[:-1])  # (n, 2) of each class
        for number, (name, of_class) in enumerate(zip(rows, points, strict=True)):
            alpha = 0.4 if number < pale else 1.0
            axes.plot(*of_class.T, ".", markersize=3, label=words(name), alpha=alpha)
    return figure
