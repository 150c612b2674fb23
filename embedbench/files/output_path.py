"""The path that an embedding file is written to, checked before anything is computed."""

from dataclasses import dataclass
from pathlib import Path

from embedbench.errors import UserError

from .unfinished_work import drop_leftover, made_at, work_directory


@dataclass(frozen=True)
class Target:
    """The path that an embedding file is written to; `check_target` makes it.

    Parameters
    ----------
    before : str
        Digest of the provenance of the file that was there; empty if there was none.
    """

    path: Path
    overwrite: bool
    before: str = ""

    @property
    def directory(self) -> Path:
        """Of unfinished work on the file."""
        return work_directory(self.path)

    def check_free(self) -> None:
        """Raise UserError if there is a file that must not be replaced."""
        if self.path.exists() and not self.overwrite:
            raise UserError(
                f"{self.path} exists; choose another name, or replace it with --overwrite."
            )


def check_target(path: Path, *, overwrite: bool) -> Target:
    """Raise UserError where `path` cannot be written."""
    if path.is_dir():
        raise UserError(f"{path} is a directory; give a file name, such as {path / 'features.h5'}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device; give the name of a file.")
    drop_leftover(path)
    Target(path, overwrite).check_free()
    if not path.parent.is_dir():
        raise UserError(f"there is no directory {path.parent}; make it first (mkdir -p).")
    made = made_at(path)
    return Target(path, overwrite, made[1] if made else "")
