"""Read tensors by name: of safetensors files, and of files of torch.save."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, short
from embedbench.files.hdf5_layout import texts
from embedbench.storage import load_torch_file
from embedbench.storage.regular_files import explain_errors, open_regular

from .lazy_arrays import SlicedTable

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


def read_safetensors(path: Path) -> Mapping[str, Any]:
    """Return the tensors of a file; those of several axes are read slice by slice.

    float64 and bfloat16 become float32.
    """
    from safetensors import safe_open

    with explain_errors(f"{path} cannot be read", "write it again as safetensors"):
        open_regular(path).close()
        file: Any = safe_open(str(path), "np")
        names = list(file.keys())
        kinds = {name: file.get_slice(name).get_dtype() for name in names}
        if "BF16" in kinds.values():
            file = safe_open(str(path), "pt")
        tensors = {name: _slice_table(file, name, kinds[name]) for name in names}
        return {**_texts(file.metadata() or {}), **tensors}


def _texts(metadata: Mapping[str, str]) -> dict[str, Array]:
    """Texts that `export` puts into the metadata as JSON lists, and the provenance."""
    result: dict[str, Array] = {}
    for name in ("sample_ids", "classes", "domain", "group"):
        values = parse_json(metadata[name], name) if name in metadata else None
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            result[name] = texts(values, name)
    if "provenance" in metadata:
        result["provenance"] = np.array(metadata["provenance"])
    return result


def _slice_table(file: Any, name: str, kind: str) -> Any:
    if kind not in _TYPES:
        raise UserError(f"tensor {name!r} is {kind}; save it as float32 or as integers.")
    part, dtype = file.get_slice(name), np.dtype(_TYPES[kind])

    def take(first: int, end: int) -> Array:
        rows = part[first:end]
        return np.asarray(rows.float() if kind == "BF16" else rows)

    table = SlicedTable(tuple(part.get_shape()), dtype, take)
    return table if table.ndim > 1 else table[:] if table.ndim else np.zeros(())


# --- torch.save: a dictionary of tensors, or one tensor ---


REMEDY = "save a dictionary of tensors with torch.save, and no other objects"


def read_torch(path: Path) -> Mapping[str, Any]:
    """Return the tensors, and lists of texts or numbers, of a file; one tensor is `features`.

    Tensors are mapped: they are never whole in memory. float64 and bfloat16 become float32.
    """
    loaded, size = load_torch_file.load(path, REMEDY), path.stat().st_size
    values = loaded if isinstance(loaded, dict) else {"features": loaded}
    tables = {
        key: _tensor_table(value, f"{path}: {short(key)[1:-1]}", size)
        for key, value in values.items()
        if isinstance(key, str)
    }
    return {key: table for key, table in tables.items() if table is not None}


def _tensor_table(value: Any, where: str, size: int) -> Any:
    """A table or column; None for what is neither."""
    import torch

    if isinstance(value, list) and value and {type(x) for x in value} in ({str}, {int}):
        return texts(value, where) if isinstance(value[0], str) else np.array(value)
    if not isinstance(value, torch.Tensor):
        return None
    dtype = str(value.dtype).removeprefix("torch.").replace("bfloat16", "float32")
    if not hasattr(np, dtype) or value.is_complex():
        raise UserError(f"{where} is no table of numbers but {value.dtype}; save it as float32.")
    declared = max(len(value) if value.ndim else 0, math.prod(value.shape) * value.element_size())
    if declared > size:
        raise UserError(
            f"{where} declares {declared:,} bytes of values in a file of {size:,}; save it again "
            "with .contiguous()."
        )
    tensor = value.detach()

    def take(first: int, end: int) -> Array:
        rows = tensor[first:end]
        wide = rows.is_floating_point() and rows.dtype != torch.float16
        out: Array = (rows.float() if wide else rows).numpy()
        return out

    if tensor.ndim < 2:
        return take(0, len(tensor)).copy() if tensor.ndim else None
    return SlicedTable(tuple(tensor.shape), take(0, 0).dtype, take)
