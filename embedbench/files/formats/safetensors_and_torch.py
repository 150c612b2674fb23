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

from .numpy_files import NamedArrays

_TEXTS = {"sample_ids", "classes", "domain", "group"}  # in the metadata of a safetensors file
REMEDY = "save a dictionary of tensors with torch.save, and no other objects"


def read_safetensors(path: Path) -> Mapping[str, Any]:
    """Return the tensors of a file, and the texts that `export` puts into its metadata as JSON."""
    from safetensors import safe_open

    with explain_errors(f"{path} cannot be read", "write it again as safetensors"):
        open_regular(path).close()
        with safe_open(str(path), "pt") as file:
            metadata, names = file.metadata() or {}, file.keys()
            values: dict[str, Any] = {name: file.get_tensor(name) for name in names}
        for name in _TEXTS & metadata.keys():
            values[name] = parse_json(metadata[name], name)
    tables = _tables(values, path)
    others = sorted(metadata.keys() - _TEXTS - {"provenance", "format"})
    tables.not_read += [f"{', '.join(others)} (in its metadata)"] if others else []
    if "provenance" in metadata:
        tables["provenance"] = np.array(metadata["provenance"])
    return tables


def read_torch(path: Path) -> Mapping[str, Any]:
    """Return the tensors, and lists of texts or numbers, of a file; one tensor is `features`."""
    loaded = load_torch_file.load(path, REMEDY)
    return _tables(loaded if isinstance(loaded, dict) else {"features": loaded}, path)


def _tables(values: Mapping[Any, Any], path: Path) -> NamedArrays:
    """Return what is a tensor or a list of texts or numbers as arrays; bfloat16 becomes float32.

    What lies in a dictionary has its key before its name: `train/features`.
    """
    import torch

    tables, size = NamedArrays(), path.stat().st_size
    for key, value in _unnested(values).items():
        where = f"{path}: {short(key)[1:-1]}"
        if isinstance(value, list) and value and {type(x) for x in value} in ({str}, {int}):
            tables[key] = texts(value, where) if isinstance(value[0], str) else np.array(value)
        elif isinstance(key, str) and isinstance(value, torch.Tensor):
            tables[key] = _array(value, where, size)
        else:
            kind = type(value).__name__
            tables.not_read.append(f"{short(key)[1:-1]} (a {kind}, no tensor and no list of texts)")
    return tables


def _unnested(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Values by name, in which dictionaries of the first level are taken apart."""
    flat: dict[Any, Any] = {}
    for key, value in values.items():
        if not isinstance(value, dict) or not isinstance(key, str):
            flat[key] = value
            continue
        for name, inner in value.items():
            flat[f"{key}/{name}" if isinstance(name, str) else (key, name)] = inner
    return flat


def _array(tensor: Any, where: str, size: int) -> Array:
    """A tensor as an array, which is mapped where the tensor is."""
    brain = str(tensor.dtype) == "torch.bfloat16"
    known = brain or hasattr(np, str(tensor.dtype).removeprefix("torch."))
    if not known or tensor.is_complex():
        raise UserError(f"{where} is no table of numbers but {tensor.dtype}", "save it as float32")
    rows = len(tensor) if tensor.ndim else 0
    declared = max(rows, math.prod(tensor.shape) * tensor.element_size())
    if declared > size:
        raise UserError(
            f"{where} declares {declared:,} bytes of values in a file of {size:,}",
            "save it again with .contiguous()",
        )
    array: Array = (tensor.float() if brain else tensor).detach().numpy()
    return array
