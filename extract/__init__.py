"""Images and sounds to embedding files; `extract` is what `embedbench extract` calls."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipeline import extract

__all__ = ["extract"]


def __getattr__(name: str) -> Any:
    """Import the pipeline, and torch with it, at its first use."""
    if name == "extract":
        from .pipeline import extract

        return extract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What has a name here, also before its first use."""
    return __all__
