"""Metadata that a user states about a file: licence, citation, backbone; in no digest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .classes_seen_in_pretraining import classes_seen


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
