"""Files of torch.save: a dictionary of tensors, or one tensor. Objects are never unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.disk import open_regular
from embedbench.errors import UserError
from embedbench.gate import too_large

from .tables import Sliced

SUFFIXES = (".pt", ".pth")


def read(path: Path) -> Mapping[str, Any]:
    """Return the tensors, and lists of texts or numbers, of a file; one tensor is `features`.

    Tensors are mapped: they are never whole in memory. float64 and bfloat16 become float32.

    Raises
    ------
    UserError
        It cannot be read, holds other objects, or tensors of more bytes than it has.
    """
    import torch

    try:
        with open_regular(path) as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is not of torch 1.6 or newer")
            size = path.stat().st_size
            with zipfile.ZipFile(file) as archive:
                if too_large(sum(info.file_size for info in archive.infolist()), size):
                    raise ValueError("it declares more than its bytes can hold")
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch, pickle and zip raise errors of their own
        reason = str(error).partition("\n")[0][:120]
        raise UserError(
            f"{path} cannot be read ({reason}); save a dictionary of tensors with torch.save, "
            "and no other objects."
        ) from error
    values = loaded if isinstance(loaded, dict) else {"features": loaded}
    tables = {str(key): _table(value, path, str(key), size) for key, value in values.items()}
    return {key: table for key, table in tables.items() if table is not None}


def _table(value: Any, path: Path, key: str, size: int) -> Any:
    """A table or column; None for what is neither."""
    import torch

    if isinstance(value, list) and value and all(isinstance(x, str | int) for x in value):
        return np.array(value) if len({type(x) for x in value}) == 1 else None
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout is not torch.strided or value.is_quantized or value.is_complex():
        raise UserError(f"{path}: {key} is no plain tensor of numbers; save it as float32.")
    if value.numel() * value.element_size() > size:
        raise UserError(
            f"{path}: {key} declares {value.numel() * value.element_size():,} bytes of values in "
            f"a file of {size:,}; save it again with .contiguous()."
        )
    tensor = value.detach()

    def take(first: int, end: int) -> NDArray[Any]:
        rows = tensor[first:end]
        wide = rows.is_floating_point() and rows.dtype != torch.float16
        out: NDArray[Any] = (rows.float() if wide else rows).numpy()
        return out

    if tensor.ndim < 2:
        return take(0, len(tensor)).copy() if tensor.ndim else None
    return Sliced(tuple(tensor.shape), take(0, 0).dtype, take)
