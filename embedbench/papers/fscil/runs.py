"""The data, streams and runs for our measurements of Tang et al. (2024)."""

from collections.abc import Iterable, Mapping
from typing import Any

from embedbench.papers import paper
from embedbench.papers.data_kinds import paper_sets
from embedbench.papers.paper import Variant
from embedbench.papers.paper_folders import facts
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.run_spec import RunSpec
from embedbench.streams.load_table import layer_names
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
            left_out: dict[str, float] = {}
            for beta in row.get("without", ()):
                left_out |= dict.fromkeys(BETAS[beta], 0.0)
            ensemble = {"ensemble": row["ensemble"]} if "ensemble" in row else {}
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


def shape(n_classes: int) -> tuple[int, int]:
    """Number of classes in the base session of a stand-in, and in each later session.

    >>> shape(88), shape(100), shape(200), shape(10)
    ((48, 4), (60, 5), (120, 10), (6, 1))
    """
    way = max(1, n_classes // SMALL)
    return (RATIO * way if n_classes >= SMALL else max(1, 3 * n_classes // 5)), way


class FSCILRuns(paper.PaperRuns):
    """The runs of every learner on each file; the published lists name all classes.

    The classes of a stand-in, or of a part that lacks some, make their own sessions.
    """

    every, official, sets = LEARNERS, OFFICIAL, paper_sets(FACTS)

    def layers(self, name: str) -> tuple[str, ...]:
        """The layers for which FR has modules; none if the file has no layers."""
        if not (specs := self.specs(name, "fr")):
            return ()
        both: tuple[Any, ...] = (specs[0].learner.settings, specs[0].protocol.settings)
        modules, of_stream = (str(settings.layers) for settings in both)
        return layer_names(self.data[name].opened, of_stream if modules == "all" else modules)

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
        base_and_way = shape(self.data[name].opened.samples.n_leaves)
        protocol = dict(zip(("base", "way"), base_and_way, strict=True)) | {"order": "size"}
        protocol = {"lists": data.all_classes} if data.all_classes else protocol
        settings = {"protocol": protocol, "references": 0}  # no table shows Ω
        return self.plan(self.variants(name)[variant], PROTOCOL, [data], settings)
