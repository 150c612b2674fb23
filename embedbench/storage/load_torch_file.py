"""The one way to open a file of torch.save.

A process of its own (`embedbench.storage.file_safety`), with bounded memory and time, has loaded it
before. What passed there is known by its SHA-256, and loaded at once from then on.
"""

from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from . import file_safety, user_cache
from .atomic_write import check_regular

_examiner = file_safety.Examiner("torch")


def load(path: Path, remedy: str) -> Any:
    """Load plain values and tensors; objects are never unpickled.

    Tensors are mapped: they are not whole in memory. `remedy` is what to give instead. A file that
    would crash, hang or fill the memory is refused.
    """
    import torch

    try:
        check_regular(path.stat().st_mode)
        before = user_cache.identity(path)
        version = f"{file_safety.TENSORS} {torch.__version__} "
        digest = user_cache.sha256(path)
        if user_cache.load("torch", version + digest) is not True:
            answer = _examiner.ask(path)
            if answer.get("sha256") != digest:
                ended = f"torch {answer['ended']}" if "ended" in answer else "it has changed"
                raise file_safety.RefusedError(answer.get("refused", ended))
            user_cache.save("torch", version + digest, True)
        loaded = file_safety.load_tensors(str(path))
        if user_cache.identity(path) != before:
            raise file_safety.RefusedError("it has changed")
    except Exception as error:  # torch, pickle and zip raise errors of their own
        raise UserError(
            f"{path} cannot be read ({file_safety.reason(error)[:120]}); {remedy}."
        ) from error
    return loaded
