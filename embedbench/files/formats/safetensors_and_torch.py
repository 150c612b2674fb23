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
from embedbench.files.known_names import LISTED
from embedbench.storage import load_torch_file
from embedbench.storage.regular_files import explain_errors, open_regular

from .numpy_files import NamedArrays

_TEXTS = {"sample_ids", "classes", "domain", "group"}  # in the metadata of a safetensors file
REMEDY = "save a dictionary of tensors with torch.save, and no other objects"
NAMED = "save them by name: torch.save({'features': x, 'labels': y}, FILE)"


def read_safetensors(path: Path) -> Mapping[str, Any]:
    """Return the tensors of a file, and the texts that `export` puts into its metadata as JSON."""
    from safetensors import safe_open

    with explain_errors(f"{path} cannot be read", "write it again as safetensors"):
        open_regular(path).close()
        with safe_open(str(path), "pt") as file:
            metadata = file.metadata() or {}  # None where it has none
            names = file.keys()
            values: dict[str, Any] = {name: file.get_tensor(name) for name in names}
        for name in _TEXTS & metadata.keys():
            values[name] = parse_json(metadata[name], name)
    tables = _tables(values, path)
    others = sorted(metadata.keys() - _TEXTS - {"provenance", "format"})
    if others:
        tables.not_read.append(f"{', '.join(others)} (in its metadata)")
    if "provenance" in metadata:
        tables["provenance"] = np.array(metadata["provenance"])
    return tables


def read_torch(path: Path) -> Mapping[str, Any]:
    """Return the tensors, and lists of texts or numbers, of a file.

    One tensor is `features`, and a pair of tensors `features` and `labels`.
    """
    loaded = load_torch_file.load(path, REMEDY)
    if isinstance(loaded, dict):
        return _tables(loaded, path)
    if not isinstance(loaded, list | tuple) or not _has_tensors(loaded):
        return _tables({"features": loaded}, path)
    pair = _as_pair(loaded)
    if pair is None:
        raise UserError(f"{path} is {_listed(loaded)}, without a name for any", NAMED)
    tables = _tables(pair, path)
    tables.remarks.append(_said_of_pair("the file"))
    return tables


def _has_tensors(values: Any) -> bool:
    import torch

    return any(isinstance(one, torch.Tensor) for one in values)


def _as_pair(values: Any) -> dict[str, Any] | None:
    """Features and labels of a list of two tensors, in either order; None: it is none.

    The labels have one value a row, the features more.
    """
    import torch

    if not isinstance(values, list | tuple) or len(values) != 2:
        return None
    if not all(isinstance(one, torch.Tensor) and one.ndim for one in values):
        return None
    first, second = values
    if len(first) != len(second):
        return None
    single = [one.numel() == len(one) for one in values]
    if single == [False, True]:
        return {"features": first, "labels": second}
    if single == [True, False]:
        return {"features": second, "labels": first}
    return None


def _said_of_pair(what: str) -> str:
    return (
        f"{what} is a pair of tensors: the one with one value a row is read as the labels, the "
        "other one as the features."
    )


def _listed(values: Any) -> str:
    """What a list or tuple holds: a list of 3 (Tensor 20 × 4, Tensor 20, str)."""
    kinds = []
    for one in values[:LISTED]:
        shape = " × ".join(map(str, getattr(one, "shape", ())))
        kinds.append(f"{type(one).__name__} {shape}".rstrip())
    more = ", …" if len(values) > LISTED else ""
    return f"a {type(values).__name__} of {len(values)} ({', '.join(kinds)}{more})"


def _tables(values: Mapping[Any, Any], path: Path) -> NamedArrays:
    """Return what is a tensor or a list of texts or numbers as arrays; bfloat16 becomes float32.

    What lies in a dictionary has its key before its name: `train/features`.
    """
    import torch

    tables = NamedArrays()
    size = path.stat().st_size
    for key, value in values.items():
        if isinstance(key, str) and _as_pair(value):
            tables.remarks.append(_said_of_pair(short(key)[1:-1]))
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
    """Values by name, in which dictionaries and pairs of the first level are taken apart."""
    flat: dict[Any, Any] = {}
    for key, given in values.items():
        value = _as_pair(given) or given
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
