"""The one way to open a file of torch.save.

A process of its own (`embedbench.gate`), with bounded memory and time, has loaded it before. What
passed there is known by its SHA-256, and loaded at once from then on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedbench import cache, gate
from embedbench.disk import check_regular
from embedbench.errors import UserError

_examiner = gate.Examiner("torch")


def load(path: Path, remedy: str) -> Any:
    """Load plain values and tensors; objects are never unpickled.

    Tensors are mapped: they are not whole in memory.

    Parameters
    ----------
    path : Path
        The file.
    remedy : str
        What to give instead, for messages.

    Raises
    ------
    UserError
        It cannot be read, holds other objects, or would crash, hang or fill the memory.
    """
    import torch

    try:
        check_regular(path.stat().st_mode)
        before = cache.identity(path)
        version = f"{gate.TENSORS} {torch.__version__} "
        digest = cache.sha256(path)
        if cache.load("torch", version + digest) is not True:
            answer = _examiner.ask(path)
            if answer.get("sha256") != digest:
                ended = f"torch {answer['ended']}" if "ended" in answer else "it has changed"
                raise gate.RefusedError(answer.get("refused", ended))
            cache.save("torch", version + digest, True)
        loaded = gate.load_tensors(str(path))
        if cache.identity(path) != before:
            raise gate.RefusedError("it has changed")
    except Exception as error:  # torch, pickle and zip raise errors of their own
        raise UserError(f"{path} cannot be read ({gate.reason(error)[:120]}); {remedy}.") from error
    return loaded
