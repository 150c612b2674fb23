"""Named sets of settings: what a paper used, fixed before a run.

Each is a TOML file with a table `[set]` and, if it extends another, its `preset`. Those that ship
lie in `embedbench/assets/presets`.
"""

from functools import cache
from pathlib import Path
from typing import Any

from embedbench.errors import UserError, unknown

from .set_and_tune_options import Settings
from .toml_options import read_toml, toml_settings, toml_to_text

FOLDER = Path(__file__).parents[1] / "assets" / "presets"
SUFFIX = ".toml"


def preset_names() -> list[str]:
    """Names of the presets that ship."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def about(name: str) -> tuple[str, str]:
    """The comments at the top of a preset: the first line, and the rest on one line."""
    lines = []
    for text in _files(name)[0].read_text(encoding="utf-8").splitlines():
        if not text.startswith("#"):
            break
        lines.append(text.removeprefix("#").strip())
    first, *more = lines or [""]
    return first, " ".join(filter(None, more))


def preset(name: str | None) -> Settings:
    """The settings of a preset, as `--set` takes them; None has none.

    A name is one that ships, or the path of a file that ends in `.toml`.

    Raises
    ------
    UserError
        There is no such preset, or its file is wrong.
    """
    settings: Settings = {}
    for path in reversed(_files(name)):
        settings |= toml_settings(_table(path).get("set", {}), f"{path}: [set]")
    return settings


def _files(name: str | None) -> list[Path]:
    """The file of a preset, of the one that it extends, and so on."""
    files: list[Path] = []
    while name is not None:
        if name.endswith(SUFFIX):
            path = Path(name)
        elif name in preset_names():
            path = FOLDER / f"{name}{SUFFIX}"
        else:
            error = unknown("preset", name, preset_names())
            raise UserError(f"{error} A file of yours ends in {SUFFIX}.")
        if path in files:
            raise UserError(f"{path} extends itself; take its preset out")
        files.append(path)
        name = _extended(path)
    return files


def _extended(path: Path) -> str | None:
    """The preset that a preset names; refuses what a preset cannot say."""
    table = _table(path)
    for key in table:
        if key not in ("preset", "set"):
            error = unknown("key", key, ("preset", "set"))
            raise UserError(f"{path}: {error} A whole study is run with --config.")
    given = table.get("preset")
    return None if given is None else toml_to_text(given, f"{path}: preset")


def _table(path: Path) -> dict[str, Any]:
    return _shipped(path) if path.parent == FOLDER else read_toml(path)


_shipped = cache(read_toml)
