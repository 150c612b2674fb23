"""Digests of an embedding file: SHA-256 of samples, recipe, content, columns and metadata."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import h5py
import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.storage.safe_hdf5 import attribute

from .hdf5_layout import COLUMNS, digest_keys, list_tables, table_signature


def sha256_parts(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return the SHA-256 over named byte strings, in hexadecimal.

    Each part enters as its name in UTF-8, a zero byte, the number of bytes as an unsigned
    little-endian 64-bit integer, and the bytes. So different lists of parts never look alike.
    """
    digest = hashlib.sha256()
    for name, value in parts:
        digest.update(name.encode() + b"\0" + len(value).to_bytes(8, "little"))
        digest.update(value)
    return digest.hexdigest()


def block_digest(rows: Array) -> bytes:
    """Return the SHA-256 of rows as they lie in the file (C order, little-endian)."""
    return hashlib.sha256(np.ascontiguousarray(rows).view(np.uint8).data).digest()


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value, which digests are of.

    Keys are sorted, there are no blanks, and letters stay as they are (no escapes, UTF-8).

    Raises
    ------
    UserError
        It is no plain JSON: NaN, infinity, half of a surrogate pair, or another type.
    """
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        text.encode()  # half of a surrogate pair is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"the provenance must be plain JSON ({error})",
            "use strings, numbers, lists and objects",
        ) from error
    return text


def columns_digest(columns: Mapping[str, Array]) -> str:
    """Return the digest of the optional columns, in row order."""
    return sha256_parts(
        (name, columns[name].astype(code).tobytes())
        if code != "S"
        else (name, "\0".join(columns[name].tolist()).encode())
        for name, code in COLUMNS.items()
        if name in columns
    )


def recipe_backbone(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the backbone's provenance that decides the features.

    It leaves out the version of the library. It also leaves out the id of the weights if their
    SHA-256 is known, because the same weights may have several names.
    """
    backbone = dict(provenance.get("backbone") or {})  # which may be null
    backbone.pop("library_version", None)
    if backbone.get("weights_sha256"):
        backbone.pop("weights_id", None)
    return backbone


def recipe(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the features were made: backbone, preprocessing, dtype."""
    return {
        "backbone": recipe_backbone(provenance),
        "preprocessing": provenance.get("preprocessing") or {},
        "dtype": (provenance.get("arithmetic") or {}).get("dtype"),
    }


def read_sums(file: h5py.File, tables: Iterable[str]) -> dict[str, bytes]:
    """Return the block checksums of tables, one after another, by table."""
    return {name: file[f"checksums/{name}"][()].tobytes() for name in tables}


def content_digest(file: h5py.File, tables: Iterable[str]) -> str:
    """Return the digest of the features and layers: signature and block checksums of each."""
    return digest_of_sums(file, read_sums(file, tables))


def digest_of_sums(file: h5py.File, sums: Mapping[str, bytes]) -> str:
    """Return the content digest of tables whose block checksums were read before."""
    signatures = (
        (table_signature(name, file[name].dtype, file[name].shape), value)
        for name, value in sums.items()
    )
    return sha256_parts(sorted(signatures))


def metadata_digest(file: h5py.File) -> str:
    """Return the checksum over everything that is not a row: attributes, classes, provenance.

    It also covers the name, type and shape of every table.
    """
    signatures = [table_signature(name, *form) for name, form in list_tables(file).items()]
    parts = [(key, attribute(file, key).encode()) for key in ("format", "format_version", "kind")]
    parts += [
        ("tables", "\n".join(sorted(signatures)).encode()),
        ("classes", file["classes"][()].tobytes()),
        ("parents", file["parents"][()].astype("<i4").tobytes()),
        ("provenance", bytes(file["provenance"][()])),
    ]
    for key in digest_keys(file):
        parts.append((f"digest {key}", attribute(file["digests"], key).encode()))
    return sha256_parts(parts)
