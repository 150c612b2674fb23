"""Load a file of torch.save safely: after a process of its own has loaded it.

That process (`embedbench.storage.untrusted_files`) has bounded memory and time. What passed there
is known by its SHA-256, and loaded at once from then on.
"""

from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from . import untrusted_files, user_cache
from .regular_files import check_regular

_examiner = untrusted_files.Examiner("torch")


def load(path: Path, remedy: str) -> Any:
    """Load plain values and tensors; objects are never unpickled.

    Tensors are mapped: they are not whole in memory. `remedy` is what to give instead. A file that
    would crash, hang or fill the memory is refused.
    """
    import torch

    try:
        check_regular(path.stat().st_mode)
        before = user_cache.identity(path)
        version = f"{untrusted_files.TENSORS} {torch.__version__} "
        digest = user_cache.sha256(path)
        if user_cache.load("torch", version + digest) is not True:
            answer = _examiner.ask(path)
            if answer.get("sha256") != digest:
                ended = f"torch {answer['ended']}" if "ended" in answer else "it has changed"
                raise untrusted_files.RefusedError(answer.get("refused", ended))
            user_cache.save("torch", version + digest, True)
        loaded = untrusted_files.load_tensors(str(path))
        if user_cache.identity(path) != before:
            raise untrusted_files.RefusedError("it has changed")
    except Exception as error:  # torch, pickle and zip raise errors of their own
        raise UserError(
            f"{path} cannot be read ({untrusted_files.reason(error)[:120]}); {remedy}."
        ) from error
    return loaded
