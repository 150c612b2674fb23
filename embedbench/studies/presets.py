"""Named sets of settings: what a paper used, fixed before a run.

Each is a TOML file with a table `[set]`; with `metric` where its paper has another one than the
accuracy per sample; and, if it extends another, with its `preset`. Those that ship lie in
`embedbench/assets/presets`, and say where their values are from: `source`, what they have as it is
there, `fixes`, and what they do not decide or have otherwise, `leaves`.
"""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from embedbench.errors import UserError, unknown

from .study import Settings
from .study_file import read_toml, toml_settings, toml_to_text

FOLDER = Path(__file__).parents[1] / "assets" / "presets"
SUFFIX = ".toml"
KEYS = ("preset", "set", "metric", "source", "fixes", "leaves")


def preset_names() -> list[str]:
    """Names of the presets that ship."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def about(name: str) -> tuple[str, str]:
    """The comments at the top of a preset: the first line, and the rest on one line."""
    lines = []
    for text in _path(name).read_text(encoding="utf-8").splitlines():
        if not text.startswith("#"):
            break
        lines.append(text.removeprefix("#").strip())
    first, *more = lines or [""]
    return first, " ".join(filter(None, more))


class Origin(NamedTuple):
    """Where the values of a preset are from; a part that a file does not state is empty.

    Parameters
    ----------
    source : str
        Paper, code and its commit; "Ours."
    fixes, leaves : str
        What it has as it is there; what it does not decide, or has otherwise.
    """

    source: str
    fixes: str
    leaves: str


def origin(name: str) -> Origin:
    """What a preset says of its values."""
    path = _path(name)
    table = _table(path)
    texts = [toml_to_text(table.get(key, ""), f"{path}: {key}") for key in Origin._fields]
    return Origin(*(" ".join(text.split()) for text in texts))


def preset(name: str | None) -> Settings:
    """The settings of a preset, as `--set` takes them; None has none.

    A name is one that ships, or the path of a file that ends in `.toml`.
    """
    settings: Settings = {}
    for path, table in _tables(name):
        settings = toml_settings(table.get("set", {}), f"{path}: [set]") | settings
    return settings


def metric(name: str | None) -> str | None:
    """The base score that tables of a preset's runs show; None where it says none."""
    for path, table in _tables(name):
        if "metric" in table:
            return check_score(toml_to_text(table["metric"], f"{path}: metric"), f"{path}: metric")
    return None


def check_score(name: str, at: str) -> str:
    """A base score by its name; another name is refused."""
    from embedbench.scores.label_set_predictions import KINDS  # which imports h5py

    scores = list(itertools.chain(*[kind.SCORES for kind in KINDS]))
    if name not in scores:
        raise unknown("base score", name, scores, at=at)
    return name


def _tables(name: str | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a preset and those that it extends, each with its path."""
    paths: list[Path] = []
    while name is not None:
        path = _path(name)
        if path in paths:
            raise UserError(f"{path} extends itself", "take its preset out")
        paths.append(path)
        table = _table(path)
        for key in table:
            if key not in KEYS:
                study = "A whole study is run with --config."
                raise unknown("key", key, KEYS, at=path, more=study)
        yield path, table
        given = table.get("preset")
        name = None if given is None else toml_to_text(given, f"{path}: preset")


def _path(name: str) -> Path:
    """The file of a preset."""
    if name.endswith(SUFFIX):
        return Path(name)
    if name not in preset_names():
        yours = f"A file of yours ends in {SUFFIX}."
        raise unknown("preset", name, preset_names(), more=yours)
    return FOLDER / f"{name}{SUFFIX}"


def _table(path: Path) -> dict[str, Any]:
    """The table of a preset's file."""
    return _shipped(path) if path.parent == FOLDER else read_toml(path)


_shipped = cache(read_toml)
