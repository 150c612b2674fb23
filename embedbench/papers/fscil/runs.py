"""The data, streams and runs for our measurements of Tang et al. (2024)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.files.layer_alignment import alignment_words
from embedbench.papers.paper_runs import PaperRuns, Variant, over, read_settings, read_variants
from embedbench.papers.paper_table import Value
from embedbench.papers.reproduction_data import PaperData, named_files, shipped_layers
from embedbench.runs.learner_and_protocol_names import learner_class, learner_names
from embedbench.runs.run_spec import RunSpec
from embedbench.scores import few_shot_scores
from embedbench.scores.run_record import RunRecord
from embedbench.streams.layer_columns import layer_names
from embedbench.streams.measure_layer_alignment import stream_alignment
from embedbench.studies.presets import preset

from .printed import FACTS

PROTOCOL = "fscil"
SCORE = "accuracy"  # per sample, as is usual in the field
RATIO = 12  # |base|/|novel| of a stand-in, as in the paper
SMALL = 20  # with fewer classes: three fifths in the base session, then one per session
LEARNERS = read_variants(FACTS["learners"])
OFFICIAL = {name: about["label"] for name, about in FACTS["official"].items()}
BETAS: dict[str, list[str]] = FACTS["betas"]
WHOSE = ("paper", "code")  # weights
NO_LAYERS = "the file has no intermediate layers; embedbench extract --layers makes one that has"
Read = Callable[[RunRecord], float]
SWEPT = (0.0, 0.1, 0.25, 0.5, 1.0)  # Figure A4 goes from 0 to 1; its points are not printed


def make_variant(label: str, weights: dict[str, float], ensemble: str = "") -> Variant:
    """A variant of FR with these weights of its losses."""
    fixed: dict[str, Any] = {w: f"{v:g}" for w, v in weights.items()}
    return Variant(
        label, "fr", read_settings({"fr": fixed | ({"ensemble": ensemble} if ensemble else {})})
    )


SWEEPS = {
    f"fr-{beta}-{v:g}": make_variant(f"{v:g}", dict.fromkeys(BETAS[beta], v))
    for beta in BETAS
    for v in SWEPT
}
VARIANTS = {**LEARNERS, **SWEEPS}


def weights(whose: str, official: str | None = None) -> dict[str, float]:
    """Weights of the losses for a data set; `whose` is "paper" or "code", None a stand-in.

    >>> weights("code", "cub200")["w_novel"]
    0.5
    """
    facts = FACTS["weights"]
    given = {key.name: v for key, v in preset(facts[whose].get(official or "cifar100")).items()}
    defaults: dict[str, float] = facts["defaults"]
    return defaults | {k: float(v) for k, v in given.items() if k in defaults}


def of_losses(official: str | None = None) -> dict[str, Variant]:
    """FR with each loss added, and with both ensembles, by the paper's weights and the code's.

    >>> list(of_losses())[:3]
    ['fr-paper-cos', 'fr-paper-cr', 'fr-paper-softmax']
    """
    return {
        f"fr-{whose}-{name}": make_variant(
            f"FR, {row['label']}; the {whose}'s weights",
            weights(whose, official)
            | {w: 0.0 for beta in row.get("without", ()) for w in BETAS[beta]},
            row.get("ensemble", ""),
        )
        for whose in WHOSE
        for name, row in FACTS["losses"].items()
    }


def of_layers(layers: Iterable[str]) -> dict[str, Variant]:
    """The prototype on each layer alone, and FR with the module of that layer alone.

    >>> list(of_layers(["block-8"]))
    ['block-8-raw', 'block-8-recti']
    """
    result = {}
    for layer in layers:
        alone = read_settings({"protocol": {"embedding": layer, "layers": "none"}})
        result[f"{layer}-raw"] = Variant(f"{layer}, raw", "prototype", alone)
        module = read_settings({"fr": {"layers": layer}})
        result[f"{layer}-recti"] = Variant(f"{layer}, rectified", "fr", module)
    return result


def list_registered() -> list[str]:
    """The names in `LEARNERS` that are registered learners."""
    return [n for n in LEARNERS if n in learner_names()]


class FSCILData(PaperData):
    """One of the paper's data sets by its lists, or a stand-in, whose classes make the sessions."""

    @property
    def label(self) -> str:
        """The paper's name, or for example "emoji, a stand-in"."""
        return f"{self.file.stem}, a stand-in" if self.official is None else OFFICIAL[self.official]

    def settings(self) -> dict[str, Any]:
        """Settings of the protocol."""
        if self.official is not None:
            return {"lists": self.official}
        base, way = shape(self.opened.samples.n_leaves)
        return {"base": base, "way": way, "order": "size"}


def shape(n_classes: int) -> tuple[int, int]:
    """Number of classes in the base session of a stand-in, and in each later session.

    >>> shape(88), shape(100), shape(200), shape(10)
    ((48, 4), (60, 5), (120, 10), (6, 1))
    """
    way = max(1, n_classes // SMALL)
    return (RATIO * way if n_classes >= SMALL else max(1, 3 * n_classes // 5)), way


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, FSCILData]:
    """The data of a reproduction by name; without any, shipped emoji with layers are used.

    `given` are "cifar100=FILE", "cub200=FILE", "mini-imagenet=FILE", or FILE for a stand-in.
    """
    if not given:
        notify("no --data: 600 shipped emoji with the layers of a ViT are taken")
        given = [str(shipped_layers())]
    files = named_files(given, OFFICIAL, out, notify)
    return {name: FSCILData(path, official) for name, (path, official) in files.items()}


@dataclass
class FSCILRuns(PaperRuns):
    """The runs of every learner on each file; `data` by name."""

    data: dict[str, FSCILData] = field(kw_only=True)
    learners: Sequence[str] = field(default_factory=list_registered)
    known: Sequence[str] = field(default_factory=list_registered)
    _aligned: dict[str, list[str]] = field(default_factory=dict, init=False)

    def layers(self, name: str) -> tuple[str, ...]:
        """The layers for which FR has modules; none if the file has no layers."""
        specs = self.specs(name, "fr")
        if not specs:
            return ()
        both: tuple[Any, ...] = (specs[0].learner.settings, specs[0].protocol.settings)
        modules, of_stream = (str(settings.layers) for settings in both)
        return layer_names(self.data[name].opened, of_stream if modules == "all" else modules)

    def alignment(self, name: str) -> list[str]:
        """A note on the alignment of FR's layers, by the stream of the first seed.

        None if the file has no layers.
        """
        layers = self.layers(name)
        if layers and name not in self._aligned:
            try:
                stream = self.streams.stream(self.specs(name, "fr")[0])
                words = "; ".join(alignment_words(stream_alignment(stream, layers)))
            except UserError as e:
                words = f"not measured: {e}"
            self._aligned[name] = [f"alignment of the layers: {words}"]
        return self._aligned.get(name, [])

    def variants(self, name: str) -> dict[str, Variant]:
        """`VARIANTS`, those for the data set's weights, and those for the file's layers."""
        data = self.data[name]
        return VARIANTS | of_losses(data.official) | of_layers(data.opened.layers)

    def possible(self, name: str, variant: str) -> bool:
        """Whether the learner exists, and the file has the layers that it needs."""
        learner = self.variants(name)[variant].learner
        if learner not in self.known:
            return False
        return bool(self.data[name].opened.layers) or not learner_class(learner).tags.needs_layers

    def specs(self, name: str, variant: str) -> list[RunSpec]:
        """One spec per seed; none if the run is not possible."""
        if not self.possible(name, variant):
            return []
        chosen, data = self.variants(name)[variant], self.data[name]
        # no table shows Ω
        settings = read_settings({"protocol": data.settings(), "references": 0})
        return self.plan(chosen.learner, PROTOCOL, [data.file], settings, fixed=chosen.fixed)

    def of(self, name: str, variant: str) -> list[RunRecord]:
        """The finished runs that means may include."""
        return self.records(self.specs(name, variant))

    def gaps(
        self, name: str, more: str, less: str, read: Callable[[RunRecord], float]
    ) -> list[float]:
        """Differences of two variants in points, by seed; `read` returns fractions."""
        each = [{r.seed: read(r) for r in self.of(name, v)} for v in (more, less)]
        return [100 * (each[0][s] - each[1][s]) for s in each[0] if s in each[1]]

    def curve(self, name: str, variant: str, read: Callable[[RunRecord], Any]) -> Floats | None:
        """(n, T) a curve, or (n,) a number, for each run; None without runs."""
        values = [read(r) for r in self.of(name, variant)]
        return np.array(values, dtype=np.float64) if values else None


def curve(name: str) -> Callable[[RunRecord], Any]:
    """A function that reads a curve of the per-sample accuracy."""
    return lambda r: (r.by_score[SCORE].curves or {})[name]


def summary(record: RunRecord) -> dict[str, float]:
    """The summary number of each curve."""
    curves = record.by_score[SCORE].curves or {}
    return few_shot_scores.summary({n: np.array(v, dtype=np.float64) for n, v in curves.items()})


def accuracies(record: RunRecord) -> Floats:
    """(T, T) R[i, j], the per-sample accuracy."""
    return np.array(record.by_score[SCORE].R, dtype=np.float64)


def percent(records: Sequence[RunRecord], read: Read, decimals: int = 2) -> Value:
    """A number of each record, in percent."""
    return Value(None, over(records, lambda r: 100 * read(r)), decimals)


def quote(records: Sequence[RunRecord], what: Sequence[str]) -> list[Value]:
    """Numbers of `few_shot_scores.summary`."""
    return [percent(records, partial(read_summary, w)) for w in what]


def read_summary(what: str, record: RunRecord) -> float:
    """A number of `summary`."""
    return summary(record)[what]
