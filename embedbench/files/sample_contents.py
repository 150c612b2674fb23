"""Contents of the samples of a file: hashes in its provenance, by which `diff` tells what changed.

They are in no digest: two files of the same names may be of other contents, and each says of which.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Bools, Bytes, Ints, Strings

KEY = "contents"  # in the provenance
SHORT = 3  # bytes kept of each sample's hash
MOST = 4 * 2**20  # samples whose hashes are kept one by one; a provenance has room for as many
FIRST = 10  # ids that are named
ENCODED, DECODED = "encoded", "decoded"  # what the hashes are of


def describe_contents(ids: Sequence[str], hashes: Bytes, *, decoded: bool) -> dict[str, Any]:
    """Return the entry of a provenance on the contents of samples.

    Parameters
    ----------
    ids : sequence of str
        (N,) sample ids.
    hashes : array of int
        (N, 16) bytes: the start of the SHA-256 of each content.
    decoded : bool
        Whether the hashes are of decoded images and not of bytes as they lie in the source.
    """
    names = np.asarray(ids, np.str_)
    order = np.argsort(names)
    entry = {
        "of": DECODED if decoded else ENCODED,
        "sha256": hashlib.sha256(hashes[order].tobytes()).hexdigest(),
        "ids_sha256": _ids_digest(names[order]),
    }
    if len(names) <= MOST:
        entry["each"] = base64.b64encode(hashes[order, :SHORT].tobytes()).decode()
    return entry


def _ids_digest(names: Strings) -> str:
    """The digest of sorted ids: hashes belong to these samples and no others."""
    return hashlib.sha256("\0".join(names.tolist()).encode()).hexdigest()


@dataclass(frozen=True)
class RecordedContents:
    """The contents of a file's samples, as its provenance has them.

    Parameters
    ----------
    of, sha256 : str
        `encoded` or `decoded`, and the digest of all.
    each : array of int or None
        (N, 3) bytes of the hash of each row's sample; None: they are too many.
    """

    of: str
    sha256: str
    each: Bytes | None


def recorded_contents(provenance: Mapping[str, Any], ids: Strings) -> RecordedContents | None:
    """Return what a provenance has of the contents of samples (N,).

    None if it has nothing, or something of other samples: a provenance may come with some of the
    rows, or with other names.
    """
    entry = provenance.get(KEY)
    if not isinstance(entry, Mapping) or entry.get("of") not in (ENCODED, DECODED):
        return None
    order = np.argsort(ids)
    if entry.get("ids_sha256") != _ids_digest(ids[order]):
        return None
    each = None
    if entry.get("each") is not None:
        try:
            flat = np.frombuffer(base64.b64decode(str(entry["each"]), validate=True), np.uint8)
            each = np.empty((len(ids), SHORT), np.uint8)
            each[order] = flat.reshape(len(ids), SHORT)
        except ValueError:
            return None
    return RecordedContents(str(entry["of"]), str(entry.get("sha256")), each)


def compare_contents(
    a: RecordedContents | None, b: RecordedContents | None, rows: tuple[Ints, Ints], ids: Strings
) -> dict[str, Any] | None:
    """Compare the contents of the samples that two files share; None if they cannot be compared.

    Parameters
    ----------
    rows : tuple of array of int
        Rows of the shared samples in a and in b, (M,) each.
    ids : array of str
        (M,) their ids.

    Returns
    -------
    dict or None
        Numbers of samples `compared` and `changed`, and the ids of the `first` of the latter.
    """
    if a is None or b is None or a.of != b.of:
        return None
    if a.each is None or b.each is None:
        same = a.sha256 == b.sha256
        return {"compared": len(ids), "changed": 0, "first": []} if same else None
    changed: Bools = (a.each[rows[0]] != b.each[rows[1]]).any(axis=1)
    return {
        "compared": len(ids),
        "changed": int(changed.sum()),
        "first": ids[changed][:FIRST].tolist(),
    }


def without_each(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return a provenance for people: without the hashes of single samples."""
    made = dict(provenance)
    entry = made.get(KEY)
    if isinstance(entry, Mapping):
        made[KEY] = {key: value for key, value in entry.items() if key != "each"}
    return made
