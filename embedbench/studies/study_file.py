"""Study files: a study as TOML, which docs/studies.md describes.

The keys are those of `Study`, written with `-`. A study file names what is installed; code that it
names by `package.module:Name` is imported only if the user allows it, and never from the working
directory.
"""

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from embedbench.config.run_seeds import format_seeds, is_number, parse_seeds
from embedbench.errors import UserError, short, unknown
from embedbench.system.cpu_threads import MOST_THREADS

from . import toml_options
from .set_and_tune_options import Key, Lists
from .study import Study

KEYS = tuple(f.name for f in fields(Study))
ENGINES = ("local", "ray", "slurm")  # what follows their ":" is no code


def read_study(path: Path, *, allow_code: bool = False) -> Study:
    """Read a study file.

    Parameters
    ----------
    allow_code : bool
        Whether it may name code by `package.module:Name`, which is imported here, or the address
        of a Ray cluster, whose answers are pickles.

    Raises
    ------
    UserError
        It cannot be read, a key is unknown, a value is wrong, or it names code.
    """
    values: dict[str, Any] = {}
    for key, value in toml_options.read_toml(path).items():
        if key == "report":  # what to show of the runs, which `embedbench report` reads
            continue
        name = key.replace("-", "_")
        if name not in KEYS:
            plural = [_dashed(k) for k in KEYS if k == f"{name}s"]  # `protocol` is `protocols`
            error = unknown("key", key, [_dashed(k) for k in KEYS], plural)
            raise UserError(f"{path}: {error}")
        read = _READERS.get(name, toml_options.toml_to_text)
        values[name] = read(value, f"{path}: {key}")
    study = Study(**values)
    for name in _code(study):
        if not allow_code:
            raise UserError(
                f"{path} names code, {short(name)}; add --allow-code if you trust it, or install a "
                "package that offers it by a name"
            )
        _import_installed(name, path)
    if study.engine and study.engine.startswith("ray:") and not allow_code:
        raise UserError(
            f"{path} names a Ray cluster, {short(study.engine)}, whose answers can run code here; "
            "add --allow-code if you trust it, or name it with --engine"
        )
    return study


def study_text(study: Study) -> str:
    """A study as the text of a study file."""
    values = {}
    for name in KEYS:
        value = getattr(study, name)
        if name == "files":
            value = [one[0] if len(one) == 1 else one for one in value]
        elif name in ("seeds", "tune_seeds") and value:
            value = format_seeds(value)
        elif name == "engine_set":
            value = {Key.parse(key): one for key, one in value.items()}
        elif isinstance(value, int | float):
            value = f"{value:.17g}" if isinstance(value, float) else str(value)
        if value not in (None, (), [], {}):
            values[_dashed(name)] = dict(value) if isinstance(value, Mapping) else value
    return toml_options.write_toml(values)


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _files(value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(toml_options.toml_to_texts(one, where) for one in listed)


def _names(value: Any, where: str) -> tuple[str, ...]:
    """Names in a list, or in one text with commas."""
    parts = (part for text in toml_options.toml_to_texts(value, where) for part in text.split(","))
    return tuple(part.strip() for part in parts if part.strip())


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    return tuple(parse_seeds(",".join(toml_options.toml_to_texts(value, where))))


def _lists(value: Any, where: str) -> Lists:
    """Lists of values by key."""
    lists = {
        k: toml_options.toml_to_texts(v, f"{where}.{k}")
        for k, v in toml_options.flat_table(value, where)
    }
    for key, values in lists.items():
        if not values or any("," in v or not v.strip() for v in values):
            raise UserError(f"{where}.{key} must list values without commas, got {short(values)}")
    return lists


def _whole(most: int) -> Callable[[Any, str], int]:
    def read(value: Any, where: str) -> int:
        text = toml_options.toml_to_text(value, where)
        if not (is_number(text) and 1 <= int(text) <= most):
            raise UserError(f"{where} must be a whole number from 1 to {most:,}, got {short(text)}")
        return int(text)

    return read


def _number(value: Any, where: str) -> float:
    text = toml_options.toml_to_text(value, where)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1e9:
        raise UserError(f"{where} must be a number from 0 to 1e9, got {short(text)}")
    return number


_READERS: dict[str, Callable[[Any, str], object]] = {
    "files": _files,
    "protocols": _names,
    "learners": _names,
    "orders": toml_options.toml_to_texts,
    "vary": _names,
    "seeds": _seeds,
    "threads": _whole(MOST_THREADS),
    "tune_sessions": _whole(10**6),
    "tune_seeds": _seeds,
    "trials": _whole(10**6),
    "budget_mb": _number,
    "budget_passes": _number,
    "set": toml_options.toml_settings,
    "engine_set": lambda *given: {str(k): v for k, v in toml_options.toml_settings(*given).items()},
    "tune": _lists,
    "grid": _lists,
}


def _code(study: Study) -> Iterable[str]:
    """The names in a study that are code by its path."""
    engine = study.engine or ""
    if engine.partition(":")[0] not in ENGINES:
        yield from (engine,) if ":" in engine else ()
    yield from (n for n in (*study.protocols, *study.learners) if ":" in n)


def _import_installed(name: str, path: Path) -> None:
    """Import the module of `package.module:Name`; the working directory is not added to the path.

    Whoever loads the name later gets this module.
    """
    module = name.partition(":")[0]
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as e:  # the module may fail in any way
        raise UserError(
            f"cannot import {module!r} for {short(name)} of {path} ({e}); install it, or name it "
            "on the command line"
        ) from e
