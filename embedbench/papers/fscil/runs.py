"""The data, streams and runs for our measurements of Tang et al. (2024)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedbench.errors import UserError
from embedbench.papers import paper
from embedbench.papers.paper import Variant
from embedbench.papers.paper_folders import facts
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.run_spec import RunSpec
from embedbench.streams.layer_columns import layer_names
from embedbench.streams.measure_layer_alignment import alignment_words, stream_alignment
from embedbench.studies.presets import preset

FACTS = facts("tang2024")
PROTOCOL = "fscil"
RATIO = 12  # |base|/|novel| of a stand-in, as in the paper
SMALL = 20  # with fewer classes: three fifths in the base session, then one per session
LEARNERS = paper.read_variants(FACTS["learners"])
OFFICIAL = {name: about["label"] for name, about in FACTS["official"].items()}
BETAS: dict[str, list[str]] = FACTS["betas"]
WHOSE = ("paper", "code")  # weights
NO_LAYERS = "the file has no intermediate layers; embedbench extract --layers makes one that has"
SWEPT = (0.0, 0.1, 0.25, 0.5, 1.0)  # Figure A4 goes from 0 to 1; its points are not printed


def make_variant(label: str, weights: Mapping[str, float], **settings: str) -> Variant:
    """A variant of FR with these weights of its losses."""
    texts = {name: f"{value:g}" for name, value in weights.items()}
    return Variant(label, "fr", paper.read_settings({"fr": texts | settings}))


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
    return {name: float(given.get(name, default)) for name, default in facts["defaults"].items()}


def of_losses(official: str | None = None) -> dict[str, Variant]:
    """FR with each loss added, and with both ensembles, by the paper's weights and the code's.

    >>> list(of_losses())[:3]
    ['fr-paper-cos', 'fr-paper-cr', 'fr-paper-softmax']
    """
    result = {}
    for whose in WHOSE:
        for name, row in FACTS["losses"].items():
            left_out = {w: 0.0 for beta in row.get("without", ()) for w in BETAS[beta]}
            ensemble = {key: row[key] for key in ("ensemble",) if key in row}
            label = f"FR, {row['label']}; the {whose}'s weights"
            of_row = weights(whose, official) | left_out
            result[f"fr-{whose}-{name}"] = make_variant(label, of_row, **ensemble)
    return result


def of_layers(layers: Iterable[str]) -> dict[str, Variant]:
    """The prototype on each layer alone, and FR with the module of that layer alone.

    >>> list(of_layers(["block-8"]))
    ['block-8-raw', 'block-8-recti']
    """
    result = {}
    for layer in layers:
        alone = paper.read_settings({"protocol": {"embedding": layer, "layers": "none"}})
        result[f"{layer}-raw"] = Variant(f"{layer}, raw", "prototype", alone)
        module = paper.read_settings({"fr": {"layers": layer}})
        result[f"{layer}-recti"] = Variant(f"{layer}, rectified", "fr", module)
    return result


class FSCILData(paper.PaperData):
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


@dataclass
class FSCILRuns(paper.PaperRuns):
    """The runs of every learner on each file; `data` by name."""

    data: dict[str, FSCILData] = field(default_factory=dict)
    _aligned: dict[str, list[str]] = field(default_factory=dict, init=False)

    every, official, kind = LEARNERS, OFFICIAL, FSCILData

    @classmethod
    def find_data(cls, asked: paper.ReproduceRequest, tables: Sequence[str]) -> dict[str, Any]:
        """The requested files, or the shipped emoji with layers."""
        if not asked.data:
            asked.notify("no --data: 600 shipped emoji with the layers of a ViT are taken")
        given = asked.data or [str(paper.shipped_layers())]
        return paper.find_files(given, OFFICIAL, FSCILData)

    def plan_tables(self, tables: Sequence[str]) -> list[RunSpec]:
        """The runs of tables; a weight that two tables share is run once."""
        shared = {
            "losses": ["prototype", *of_losses()],
            "layers": ["prototype", "fr"],
            "figa4": list(SWEEPS),
        }
        usual = {*tables} & {"learners", "compared"}
        variants = [n for n in LEARNERS if n in self.learners and usual]
        variants += [variant for table in tables for variant in shared.get(table, ())]
        specs: dict[Any, RunSpec] = {}
        for name in self.data:
            alone = of_layers(self.layers(name)) if "layers" in tables else ()
            for spec in self.plan_streams([(name,)], dict.fromkeys([*variants, *alone])):
                specs.setdefault((name, spec.protocol, spec.learner, spec.seed), spec)
        return list(specs.values())

    def layers(self, name: str) -> tuple[str, ...]:
        """The layers for which FR has modules; none if the file has no layers."""
        if not (specs := self.specs(name, "fr")):
            return ()
        spec = specs[0]
        both: tuple[Any, ...] = (spec.learner.settings, spec.protocol.settings)
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
        """Whether the file has the layers that a learner needs."""
        learner = self.variants(name)[variant].learner
        return bool(self.data[name].opened.layers) or not learner_class(learner).tags.needs_layers

    def specs(self, name: str, variant: str) -> list[RunSpec]:
        """One spec per seed; none if the run is not possible."""
        if not self.possible(name, variant):
            return []
        data = self.data[name]
        settings = {"protocol": data.settings(), "references": 0}  # no table shows Ω
        return self.plan(self.variants(name)[variant], PROTOCOL, [data], settings)
