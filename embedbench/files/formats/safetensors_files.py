"""safetensors files: tensors by name. The library compares declared sizes with the bytes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.config.json_types import parse_json
from embedbench.errors import UserError
from embedbench.files.format_digests import texts
from embedbench.storage.atomic_write import open_regular

from .sliced_tables import SlicedTable

SUFFIXES = (".safetensors",)
_TYPES = {
    "F64": np.float32,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.float32,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "BOOL": np.bool_,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
}


def read(path: Path) -> Mapping[str, Any]:
    """Return the tensors of a file; those of several axes are read slice by slice.

    float64 and bfloat16 become float32.

    Raises
    ------
    UserError
        It cannot be read, or holds a type that NumPy has not.
    """
    from safetensors import safe_open

    try:
        open_regular(path).close()
        file: Any = safe_open(str(path), "np")
        names = list(file.keys())
        kinds = {name: file.get_slice(name).get_dtype() for name in names}
        if "BF16" in kinds.values():
            file = safe_open(str(path), "pt")
        tensors = {name: _table(file, name, kinds[name]) for name in names}
        return {**_texts(file.metadata() or {}), **tensors}
    except UserError:
        raise
    except Exception as error:  # safetensors and the disk raise errors of many kinds
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} cannot be read as safetensors ({reason}).") from error


def _texts(metadata: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Texts that `export` puts into the metadata as JSON lists, and the provenance."""
    result: dict[str, NDArray[Any]] = {}
    for name in ("sample_ids", "classes", "domain", "group"):
        values = parse_json(metadata[name], name) if name in metadata else None
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            result[name] = texts(values, name)
    if "provenance" in metadata:
        result["provenance"] = np.array(metadata["provenance"])
    return result


def _table(file: Any, name: str, kind: str) -> Any:
    if kind not in _TYPES:
        raise UserError(f"tensor {name!r} is {kind}; save it as float32 or as integers.")
    part, dtype = file.get_slice(name), np.dtype(_TYPES[kind])

    def take(first: int, end: int) -> NDArray[Any]:
        rows = part[first:end]
        return np.asarray(rows.float() if kind == "BF16" else rows)

    table = SlicedTable(tuple(part.get_shape()), dtype, take)
    return table if table.ndim > 1 else table[:] if table.ndim else np.zeros(())
