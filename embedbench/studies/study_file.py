"""Study files: a study as TOML, which docs/studies.md describes.

The keys are those of `Study`, written with `-`. A study file names what is installed, or, as
`file.py:Name`, what lies beside it. Code that it names is imported only if the user allows it;
`package.module:Name` is never imported from the working directory. A value is the text that would
follow `=` in `--set`; numbers are taken as they are written.
"""

import importlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from embedbench import plugins
from embedbench.config import json_records, run_seeds
from embedbench.config.make_from_settings import join_list
from embedbench.config.plain_numbers import plain_number, read_whole
from embedbench.errors import UserError, error_text, keep_inside, short, unknown
from embedbench.reports.row_names import read_names
from embedbench.storage.regular_files import read_text
from embedbench.system.cpu_threads import MOST_THREADS

from .study import Key, Lists, Settings, Study, split_names

KEYS = tuple(f.name.replace("_", "-") for f in fields(Study))
PROTOCOL = "protocol"  # the head of a protocol's settings
MOST = 2**20  # bytes of a study file
MOST_KEYS = 10_000  # of a table, after names with commas are taken apart


def read_study(path: Path, *, allow_code: bool = False) -> Study:
    """Read a study file.

    Parameters
    ----------
    allow_code : bool
        Whether it may name code by `package.module:Name`, or `file.py:Name` beside it. That is
        imported here, and the study has the second as `file:Name`, as `--learner` would name it.
    """
    # what to show of the runs is for `report` to read
    table = {k: v for k, v in read_toml(path).items() if k not in ("report", "published")}
    study = study_of(table, path)
    named = [name for name in (*study.protocols, *study.learners) if ":" in name]
    if named and not allow_code:
        raise UserError(
            f"{path} names code, {short(named[0])}",
            "add --allow-code if you trust it, or install a package that offers it by a name",
        )
    beside = [name for name in named if name.partition(":")[0].endswith(".py")]
    for name in named:
        if name not in beside:
            _import_installed(name, path)
    for name in beside:  # after the others, as its folder is searched from then on
        _import_beside(name, path)
    return _rename(study, {name: plugins.name_in_runs(name) for name in beside})


def study_of(table: Mapping[str, Any], where: object) -> Study:
    """The study of the keys of a study file; `where` is what errors call their place."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key.replace("_", "-") not in KEYS:
            raise unknown("key", key, KEYS, at=where)
        name = key.replace("-", "_")
        read = _READERS.get(name, toml_to_text)
        values[name] = read(value, f"{where}: {key}")
    return Study(**values)


def study_text(study: Study) -> str:
    """A study as the text of a study file; JSON's texts, lists and numbers are TOML's."""
    lines = list[str]()
    tables = list[str]()
    for name, value in vars(study).items():
        if name == "set_of":
            for file, settings in value.items():
                tables += ["", f"[set-of.{_quoted(file)}]"]
                tables += [f"{_quoted(str(key))} = {_quoted(one)}" for key, one in settings.items()]
        elif isinstance(value, dict) and value:
            tables += ["", f"[{name}]"]
            tables += [f"{_quoted(str(key))} = {_quoted(one)}" for key, one in value.items()]
        elif value not in (None, (), {}):
            lines.append(f"{name.replace('_', '-')} = {_quoted(value)}")
    return "\n".join([*lines, *tables, ""])


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _files(value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(toml_to_texts(one, where) for one in listed)


def _names(value: Any, where: str) -> tuple[str, ...]:
    """Names in a list, or in one text with commas."""
    return tuple(itertools.chain(*map(split_names, toml_to_texts(value, where))))


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    return tuple(run_seeds.parse_seeds(",".join(toml_to_texts(value, where))))


def _lists(value: Any, where: str) -> Lists:
    """Lists of values by key."""
    lists: Lists = {}
    for key, listed in flat_table(value, where):
        name = f"{where}.{key}"
        each = listed if isinstance(listed, list) else [listed]
        values = tuple(_setting(key, one, name) for one in each)
        commas = key.head != PROTOCOL and any("," in value for value in values)
        if not values or commas or any(not value.strip() for value in values):
            raise UserError(name, expected="values without commas", got=values)
        lists[key] = values
    return lists


def _whole(most: int) -> Callable[[Any, str], int]:
    return lambda value, where: read_whole(toml_to_text(value, where), where, 1, most)


def _number(value: Any, where: str) -> float:
    text = toml_to_text(value, where)
    number = plain_number(text)
    if number is None or not 0 <= number <= 1e9:
        raise UserError(where, expected="a number from 0 to 1e9", got=text)
    return float(number)


# --- TOML to the texts of a command line ---


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file; floats are texts, as they are written."""
    return json_records.parse_toml(read_text(path, most=MOST), str(path))


def toml_to_text(value: Any, where: str) -> str:
    """The text of one value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, str | int):
            return str(value)
    except ValueError:  # an integer of more than 4,300 digits
        value = "a number of thousands of digits"
    raise UserError(where, 'None is "none"', expected="a text, a number, true or false", got=value)


def _setting(key: Key, value: Any, where: str) -> str:
    """The text of a setting, as `--set` takes it.

    One of a protocol may be a list, such as the classes of each session: its values with commas.
    """
    if key.head == PROTOCOL and isinstance(value, list):
        return join_list([toml_to_text(one, where) for one in value], where)
    return toml_to_text(value, where)


def toml_to_texts(value: Any, where: str) -> tuple[str, ...]:
    """The texts of a list; of a single value, that one."""
    listed = value if isinstance(value, list) else [value]
    return tuple(toml_to_text(one, where) for one in listed)


def flat_table(table: Any, where: str) -> Iterator[tuple[Key, Any]]:
    """Yield keys with dots and their values from nested tables.

    A first key with commas, `"ewc,mlp"`, means each of these names.

    Raises
    ------
    UserError
        It is no table, or one of too many keys.

    Examples
    --------
    >>> [(str(key), value) for key, value in flat_table({"a,b.c": {"d": "1"}}, "here")]
    [('a.d', '1'), ('b.c.d', '1')]
    """
    if not isinstance(table, dict):
        raise UserError(where, expected="a table", got=table)
    number = 0
    for first, inner in table.items():
        for name in first.split(","):
            for key, value in _flat(name.strip(), inner):
                if number == MOST_KEYS:
                    raise UserError(
                        f"{where} has more than {MOST_KEYS:,} keys", "cut it into several files"
                    )
                yield Key.parse(key), value
                number += 1


def toml_settings(table: Any, where: str) -> Settings:
    """The settings of a table, as `--set` takes them."""
    return {key: _setting(key, value, f"{where}.{key}") for key, value in flat_table(table, where)}


def _settings_of(table: Any, where: str) -> dict[str, Settings]:
    """Settings by the name of a file."""
    if not isinstance(table, dict):
        raise UserError(where, expected="a table", got=table)
    return {name: toml_settings(given, f"{where}.{name}") for name, given in table.items()}


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _flat(f"{key}.{name}", part)
    else:
        yield key, value


_READERS: dict[str, Callable[[Any, str], object]] = {
    "files": _files,
    "protocols": _names,
    "learners": _names,
    "seeds": _seeds,
    "threads": _whole(MOST_THREADS),
    "tune_sessions": _whole(10**6),
    "tune_seeds": _seeds,
    "budget_mb": _number,
    "names": read_names,
    "set": toml_settings,
    "set_of": _settings_of,
    "tune": _lists,
    "grid": _lists,
}


def _import_installed(name: str, path: Path) -> None:
    """Import the module of `package.module:Name`; the working directory is not added to the path.

    Whoever loads the name later gets this module.
    """
    module = name.partition(":")[0]
    try:
        with keep_inside("the module"):
            importlib.import_module(module)
    except Exception as e:  # the module may fail in any way
        remedy = "install it, or name it on the command line"
        if (path.parent / f"{module}.py").is_file():
            remedy = f"write {module}.py{name.removeprefix(module)} for the file beside the study"
        raise UserError(
            f"cannot import {module!r} for {short(name)} of {path} ({error_text(e)})", remedy
        ) from e


def _import_beside(name: str, path: Path) -> None:
    """Import the file of `file.py:Name` from the folder of a study file.

    The folder becomes the last that Python searches, here and where an engine runs the study.
    """
    file_name = name.partition(":")[0]
    module = file_name.removesuffix(".py")
    file = path.absolute().parent / file_name
    if not module.isidentifier():
        raise UserError(
            f"{short(name)} of {path}", expected="the name of a .py file beside it", got=file_name
        )
    if not file.is_file():
        raise UserError(f"{path} names {file_name}, which is not beside it", "put it there")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        with keep_inside("the module"):
            loaded = importlib.import_module(module)
    except Exception as e:  # the module may fail in any way
        raise UserError(f"cannot import {file} for {short(name)} ({error_text(e)})") from e
    origin = getattr(loaded, "__file__", None) or "Python itself"
    if Path(origin).resolve() != file.resolve():
        raise UserError(
            f"{file} cannot be imported, as a module {module!r} is there already ({origin})",
            "give the file another name",
        )


def _rename(study: Study, names: Mapping[str, str]) -> Study:
    """A study with other names for some learners and protocols, wherever it names them."""
    if not names:
        return study

    def key(old: Key) -> Key:
        return Key(names.get(old.head, old.head), old.name)

    return replace(
        study,
        protocols=tuple(names.get(name, name) for name in study.protocols),
        learners=tuple(names.get(name, name) for name in study.learners),
        set={key(k): value for k, value in study.set.items()},
        set_of={
            file: {key(k): value for k, value in settings.items()}
            for file, settings in study.set_of.items()
        },
        tune={key(k): values for k, values in study.tune.items()},
        grid={key(k): values for k, values in study.grid.items()},
    )
