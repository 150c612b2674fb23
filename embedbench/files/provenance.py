"""Provenance: what made an embedding file, and what people say of it: JSON in every file.

What people say enters no digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedbench.config.json_types import JsonRecord, parse_json
from embedbench.errors import UserError

from .pretraining_overlap import classes_seen


@dataclass(frozen=True)
class Weights(JsonRecord):
    """Facts on the weights of a backbone, measured or stated by a user."""

    backbone: str = ""
    licence: str = ""
    pretrained_on: tuple[str, ...] = ()
    classes_seen: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _ProvenanceParts(JsonRecord):
    """The parts that are read by name; docs/format.md says what is in them."""

    backbone: dict[str, Any] | None = None
    preprocessing: dict[str, Any] | None = None
    arithmetic: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    split: dict[str, Any] | None = None
    made_by: dict[str, Any] | None = None
    skipped: tuple[Any, ...] | None = None
    weights: Weights | None = None
    date_utc: str | None = None


def read_weights_entry(made: Mapping[str, Any]) -> Weights:
    """Return what a provenance that was read says of the weights."""
    return Weights.from_json(made.get("weights") or {})


def read_provenance(text: str | bytes, name: str) -> dict[str, Any]:
    """Parse and check a provenance; what is empty counts as left out.

    Parameters
    ----------
    text : str or bytes
        JSON text.
    name : str
        Name of the provenance in error messages, such as `a.h5: provenance`.

    Raises
    ------
    UserError
        It is no JSON object, or a part has another type.
    """
    made = parse_json(text, name)
    if not isinstance(made, dict):
        raise UserError(f"{name} must be a JSON object; make the file again.")
    made = {key: value for key, value in made.items() if value not in ("", None)}
    _ProvenanceParts.from_json(made, name)
    return made


# --- what people say of a file ---


@dataclass(frozen=True)
class UserMetadata:
    """Statements of a user on a file; what is empty leaves the provenance as it is.

    Parameters
    ----------
    licence, citation, url : str
        Of the data set.
    backbone : str
        Name of the backbone, for people.
    weights_licence : str
        Licence of the backbone's weights.
    pretrained_on : sequence of str
        Data sets that the backbone was pretrained on.
    """

    licence: str = ""
    citation: str = ""
    url: str = ""
    backbone: str = ""
    weights_licence: str = ""
    pretrained_on: Sequence[str] = ()

    def added_to(self, provenance: Mapping[str, Any], leaves: Sequence[str]) -> dict[str, Any]:
        """Return a provenance with this in it, and with the classes that the backbone has seen.

        Parameters
        ----------
        provenance : mapping
            What made a file.
        leaves : sequence of str
            Names of its leaf classes.
        """
        said = {"licence": self.licence, "citation": self.citation, "url": self.url}
        source = {**(provenance.get("source") or {}), **_given(said)}
        said_of_weights = {
            "backbone": self.backbone,
            "licence": self.weights_licence,
            "pretrained_on": list(self.pretrained_on),
        }
        weights = {**(provenance.get("weights") or {}), **_given(said_of_weights)}
        seen = classes_seen(leaves, str(source.get("name", "")), weights.get("pretrained_on", ()))
        weights = _given({**weights, "classes_seen": seen})
        parts = {"source": source, "weights": weights}
        return {**provenance, **_given(parts)}


NOTHING = UserMetadata()


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
