"""Classes that a backbone has seen in pretraining, found by their names.

They are compared with the lists of ImageNet's classes that timm ships: WordNet's ids (`n01443537`)
and names (`goldfish, Carassius auratus`). Nothing is known of other data sets.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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
    """Return, for each data set of `pretrained_on`, which classes it has; none: it is left out.

    Parameters
    ----------
    classes : sequence of str
        Names of the leaf classes of a file.
    data_set : str
        Name of the file's data set. A backbone that was pretrained on it has seen all classes.
    pretrained_on : iterable of str
        Names of data sets.
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
    """Return a sentence for each data set that has classes of a stream.

    Parameters
    ----------
    seen : mapping
        Data set → classes of the file, as of `classes_seen`.
    classes : collection of str
        Names of the stream's classes.

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
    lines = (line.split("\t") for line in (folder / _NAMES).read_text("utf-8").splitlines())
    names = {name for id_, text in lines if id_ in ids for name in text.split(", ")}
    return frozenset(ids | {_plain(name) for name in names})
