"""Provenance: what made an embedding file, as JSON in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError


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
