"""Provenance: what made an embedding file, as JSON in the file."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.text.undecoded_text import check_text


@dataclass(frozen=True)
class Weights(JsonRecord):
    """Facts on the weights of a backbone, measured or stated by a user."""

    backbone: str = ""
    licence: str = ""
    pretrained_on: tuple[str, ...] = ()
    classes_seen: dict[str, tuple[str, ...]] = field(default_factory=dict)


_OBJECTS = (
    *("backbone", "preprocessing", "arithmetic", "source", "split", "made_by", "weights"),
    "pictures",
)
_TYPES: dict[str, type] = {**dict.fromkeys(_OBJECTS, dict), "skipped": list, "date_utc": str}


def read_weights_entry(made: Mapping[str, Any], name: str = "the provenance") -> Weights:
    """Return what a provenance, called `name` in messages, says of the weights."""
    return Weights.from_json(made.get("weights") or {}, f"{name}: weights")


def read_provenance(text: str | bytes, name: str) -> dict[str, Any]:
    """Parse and check a provenance, called `name` in messages; what is empty counts as left out."""
    made = parse_json(text, name)
    if not isinstance(made, dict):
        raise UserError(f"{name} must be a JSON object", "make the file again")
    made = {key: value for key, value in made.items() if value not in ("", None)}
    for key, kind in _TYPES.items():
        if not isinstance(made.get(key, kind()), kind):
            raise UserError(f"{name}: {key} must be of type {kind.__name__}", "make the file again")
    read_weights_entry(made, name)
    return made


# --- what a user states; in no digest ---


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

    def __post_init__(self) -> None:
        check_text(vars(self), "what you say of the file", "write it in UTF-8")

    def added_to(self, provenance: Mapping[str, Any], leaves: Sequence[str]) -> dict[str, Any]:
        """Return a provenance with this in it, and which leaf classes the backbone has seen."""
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


# --- classes that a backbone has seen in pretraining ---


_LISTS = {
    "imagenet": "imagenet_synsets.txt",
    "ilsvrc2012": "imagenet_synsets.txt",
    "imagenet1k": "imagenet_synsets.txt",
    "imagenet12k": "imagenet12k_synsets.txt",
    "imagenet21k": "imagenet21k_goog_synsets.txt",
    "imagenet22k": "imagenet22k_synsets.txt",
}  # files of timm, by the letters and digits of a data set's name
_NAMES = "imagenet_synset_to_lemma.txt"


def classes_seen(
    classes: Sequence[str], data_set: str, pretrained_on: Iterable[str]
) -> dict[str, list[str]]:
    """Return, for each data set of `pretrained_on`, which leaf classes of a file it has.

    Names are compared with the lists of ImageNet's classes that timm ships: WordNet's ids
    (`n01443537`) and names. A backbone that was pretrained on the file's own data set has seen all
    classes; nothing is known of other data sets. What has none is left out.
    """
    seen = {}
    for name in pretrained_on:
        letters = _letters(name)
        if letters and letters == _letters(data_set.rpartition("/")[2]):
            seen[name] = list(classes)
        elif known := _known(letters):
            seen[name] = [c for c in classes if _plain(c) in known]
    return {name: names for name, names in seen.items() if names}


def seen_note(file: str, seen: Mapping[str, Sequence[str]], classes: Collection[str]) -> list[str]:
    """Return a sentence for each data set of `classes_seen` that has classes of a stream.

    >>> seen_note("a.h5", {"jft": ["crane", "fish"]}, ["cat", "crane"])
    ['the backbone of a.h5 was pretrained on jft, which has 1 of the 2 classes by name (crane)']
    """
    sentences = []
    for data_set, names in seen.items():
        if there := [name for name in names if name in set(classes)]:
            sentences.append(
                f"the backbone of {file} was pretrained on {data_set}, which has {len(there)} of "
                f"the {len(classes)} classes by name ({list_some(there)})"
            )
    return sentences


def list_some(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence; the rest of many is left out."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def _letters(name: str) -> str:
    """The letters and digits of a data set's name, in small letters."""
    return re.sub(r"[\W_]", "", name.lower())


def _plain(name: str) -> str:
    """A class name in small letters, without the folders above it and a number before it.

    >>> _plain("birds/007.Parakeet_Auklet")
    'parakeet auklet'
    """
    name = re.sub(r"^\d+\.", "", name.rpartition("/")[2].lower())
    return re.sub(r"[\W_]+", " ", name).strip()


@cache
def _known(data_set: str) -> frozenset[str]:
    """WordNet's ids and all names of a data set's classes; empty if they are not known."""
    timm = find_spec("timm")  # does not import it
    if data_set not in _LISTS or timm is None or timm.origin is None:
        return frozenset()
    folder = Path(timm.origin).parent / "data" / "_info"
    ids = set((folder / _LISTS[data_set]).read_text("utf-8").split())
    names: set[str] = set()
    for line in (folder / _NAMES).read_text("utf-8").splitlines():
        id_, text = line.split("\t")
        if id_ in ids:
            names.update(map(_plain, text.split(", ")))
    return frozenset(ids | names)
