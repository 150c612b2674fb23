"""The one way to open a file of torch.save.

A process of its own (`embedbench.storage.hdf5_check`), with bounded memory and time, has loaded it
before. What passed there is known by its SHA-256, and loaded at once from then on.
"""

from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from . import cache, hdf5_check
from .atomic_write import check_regular

_examiner = hdf5_check.Examiner("torch")


def load(path: Path, remedy: str) -> Any:
    """Load plain values and tensors; objects are never unpickled.

    Tensors are mapped: they are not whole in memory. `remedy` is what to give instead. A file that
    would crash, hang or fill the memory is refused.
    """
    import torch

    try:
        check_regular(path.stat().st_mode)
        before = cache.identity(path)
        version = f"{hdf5_check.TENSORS} {torch.__version__} "
        digest = cache.sha256(path)
        if cache.load("torch", version + digest) is not True:
            answer = _examiner.ask(path)
            if answer.get("sha256") != digest:
                ended = f"torch {answer['ended']}" if "ended" in answer else "it has changed"
                raise hdf5_check.RefusedError(answer.get("refused", ended))
            cache.save("torch", version + digest, True)
        loaded = hdf5_check.load_tensors(str(path))
        if cache.identity(path) != before:
            raise hdf5_check.RefusedError("it has changed")
    except Exception as error:  # torch, pickle and zip raise errors of their own
        raise UserError(
            f"{path} cannot be read ({hdf5_check.reason(error)[:120]}); {remedy}."
        ) from error
    return loaded
