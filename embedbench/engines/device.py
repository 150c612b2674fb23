"""The device of a name."""

from embedbench.errors import UserError


def find_device(name: str) -> str:
    """The device that can be used here; `auto` is a CUDA card if there is one.

    Raises
    ------
    UserError
        It cannot be used here.
    """
    import torch  # slow

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name).cpu()  # "meta" holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as e:
        reason = str(e).partition("\n")[0]
        raise UserError(
            f"device {name!r} cannot be used here ({reason})", "try --device cpu"
        ) from e
    return name
