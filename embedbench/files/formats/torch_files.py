"""Files of torch.save: a dictionary of tensors, or one tensor."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError, short
from embedbench.files.format_digests import texts
from embedbench.storage import load_torch_file

from .sliced_tables import SlicedTable

SUFFIXES = (".pt", ".pth")
REMEDY = "save a dictionary of tensors with torch.save, and no other objects"


def read(path: Path) -> Mapping[str, Any]:
    """Return the tensors, and lists of texts or numbers, of a file; one tensor is `features`.

    Tensors are mapped: they are never whole in memory. float64 and bfloat16 become float32.

    Raises
    ------
    UserError
        It cannot be read, holds other objects, or tensors of more bytes than it has.
    """
    loaded, size = load_torch_file.load(path, REMEDY), path.stat().st_size
    values = loaded if isinstance(loaded, dict) else {"features": loaded}
    tables = {
        key: _table(value, f"{path}: {short(key)[1:-1]}", size)
        for key, value in values.items()
        if isinstance(key, str)
    }
    return {key: table for key, table in tables.items() if table is not None}


def _table(value: Any, where: str, size: int) -> Any:
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

    def take(first: int, end: int) -> NDArray[Any]:
        rows = tensor[first:end]
        wide = rows.is_floating_point() and rows.dtype != torch.float16
        out: NDArray[Any] = (rows.float() if wide else rows).numpy()
        return out

    if tensor.ndim < 2:
        return take(0, len(tensor)).copy() if tensor.ndim else None
    return SlicedTable(tuple(tensor.shape), take(0, 0).dtype, take)
