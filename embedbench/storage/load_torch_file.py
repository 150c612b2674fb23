"""Load a file of torch.save safely: after a process of its own has loaded it.

That process (`embedbench.storage.untrusted_files`) has bounded memory and time. A file that has not
changed since it passed is loaded at once.
"""

from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from . import untrusted_files, user_cache
from .regular_files import check_regular


def load(path: Path, remedy: str) -> Any:
    """Load plain values and tensors; objects are never unpickled.

    Tensors are mapped: they are not whole in memory. `remedy` is what to give instead. A file that
    would crash, hang or fill the memory is refused.
    """
    import torch

    try:
        check_regular(path.stat().st_mode)
        before = user_cache.identity(path)
        version = f"{untrusted_files.TENSORS} {torch.__version__}"
        if user_cache.recall("torch", path, version) is not True:
            if answer := untrusted_files.ask("torch", path):
                refused = answer.get("refused") or f"torch {answer['ended']}"
                raise untrusted_files.RefusedError(refused)
            user_cache.remember("torch", path, True, before, version)
        loaded = untrusted_files.load_tensors(str(path))
        if user_cache.identity(path) != before:
            raise untrusted_files.RefusedError("it has changed")
    except Exception as error:  # torch, pickle and zip raise errors of their own
        raise UserError(
            f"{path} cannot be read ({untrusted_files.reason(error)[:120]})", remedy
        ) from error
    return loaded
