"""Plugins: code of other packages, by `package.module:Name` or by an entry point of theirs.

docs/plugins.md describes the kinds. Nothing is imported before it is loaded by its name.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from embedbench.errors import UserError, error_text, keep_inside, short, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

KINDS = ("learners", "protocols", "metrics", "backbones", "sources", "engines", "trackers")
YOURS = "Code of yours is named package.module:Name."


def entry_points_by_kind() -> dict[str, dict[str, EntryPoint]]:
    """The entry points of all kinds; the packages, which are slow to read, are read once."""
    from importlib.metadata import entry_points  # slow

    every = entry_points()
    return {kind: _by_name(every.select(group=f"embedbench.{kind}")) for kind in KINDS}


def entry_points_by_name(kind: str) -> dict[str, EntryPoint]:
    """Entry points of installed packages in the group `embedbench.<kind>`, by name.

    Where several have the same name, the first is returned; `load` refuses such a name.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    """
    return _by_name(_entries(kind))


def _by_name(entries: EntryPoints) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in reversed(tuple(entries))}


def load(kind: str, name: str, known: Iterable[str] = ()) -> Any:
    """Import what `name` means: the entry point of a package, or `package.module:Name`.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    name : str
        As written on the command line. The code is run: the user trusts it.
    known : iterable of str
        Further names of this kind, for the error message.

    Raises
    ------
    UserError
        Nothing has this name, packages disagree about it, or the import fails.
    """
    if ":" in name:
        return outside(name)
    named = {entry.value: entry for entry in _entries(kind) if entry.name == name}
    if not named:
        raise absent(kind, name, known)
    if len(named) > 1:
        raise UserError(
            f"several installed packages offer the {kind[:-1]} {short(name)}",
            f"name the one that is meant: {' or '.join(sorted(named))}",
        )
    (entry,) = named.values()
    try:
        with keep_inside("its module"):
            return entry.load()
    except Exception as e:  # the module may fail in any way
        what = f"the {kind[:-1]} {name!r} of {origin(entry)} ({entry.value})"
        raise UserError(f"cannot import {what}: {error_text(e)}") from e


def subclass(kind: str, name: str, base: type, known: Iterable[str] = ()) -> Any:
    """Load a class by name, as `load` does.

    Raises
    ------
    UserError
        As `load`; or it is no subclass of `base`.
    """
    cls = load(kind, name, known)
    if not (inspect.isclass(cls) and issubclass(cls, base)):
        raise UserError(f"{name!r} is not a subclass of embedbench's {base.__name__}")
    return cls


def absent(kind: str, name: str, known: Iterable[str] = ()) -> UserError:
    """Return the error for a name that nothing has; it names all that can be had."""
    return unknown(kind[:-1], name, {*known, *entry_points_by_name(kind)}, more=YOURS)


def name_in_runs(name: str) -> str:
    """What runs are called whose code a study file names as `file.py:Name`; other names stay.

    >>> name_in_runs("mine.py:Mine"), name_in_runs("package.module:Mine"), name_in_runs("slda")
    ('mine:Mine', 'package.module:Mine', 'slda')
    """
    return name.replace(".py:", ":", 1)


def outside(name: str) -> Any:
    """Import `package.module:Name`; the working directory is searched too.

    It is not added to the path for a module that is imported already.

    Parameters
    ----------
    name : str
        As written on the command line. The module is run: it is code that the user trusts.

    Raises
    ------
    UserError
        The module cannot be imported, or lacks the name.
    """
    module_name, _, attribute = name.partition(":")
    if module_name.endswith(".py"):
        stem = os.path.basename(module_name).removesuffix(".py")
        raise UserError(
            f"{module_name} is a file", f"name its module, {stem}:{attribute}, where it lies"
        )
    if module_name not in sys.modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with keep_inside("the module"):
            module = importlib.import_module(module_name)
            value = getattr(module, attribute, None)
    except Exception as e:  # the module may fail in any way
        raise UserError(f"cannot import {module_name!r} for {name!r}: {error_text(e)}") from e
    if value is None:
        raise UserError(f"module {module_name!r} has no {attribute!r}")
    return value


@functools.cache  # of the code as it was imported: a file that is edited later is not what runs
def code_digest(cls: type) -> str:
    """SHA-256 over the files of a class, and of its bases that are neither ours nor Python's.

    What these import is not in it. Empty: none is written in a file.
    """
    files: dict[str, bytes] = {}
    for base in cls.__mro__:
        top = base.__module__.partition(".")[0]
        if base is not cls and (top == "embedbench" or top in sys.stdlib_module_names):
            continue
        try:
            file = inspect.getfile(base)
            files[file] = Path(file).read_bytes()
        except (OSError, TypeError):  # it is written in no file
            continue
    if not files:
        return ""
    parts = [hashlib.sha256(text).digest() for text in files.values()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def find_package(thing: object) -> tuple[str, str] | None:
    """Name and version of the distribution that code came from; None for ours and for loose files.

    Parameters
    ----------
    thing : object
        A class, a function, or an instance of a class.
    """
    name = getattr(thing, "__module__", None) or type(thing).__module__
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if top == "embedbench" or file is None:
        return None
    return _package(top, file, tuple(sys.path))


@functools.cache
def _package(top: str, file: str, path: tuple[str, ...]) -> tuple[str, str] | None:
    """The distribution that holds a file of the top package `top`; many runs ask for it."""
    from importlib.metadata import distribution, packages_distributions  # slow
    from urllib.request import url2pathname

    # One installed for development lists no files, but may have entry points of ours.
    entries = itertools.chain.from_iterable(map(_entries, KINDS))
    named = [e.dist for e in entries if e.dist and re.split(r"[.:]", e.value)[0] == top]
    for made in itertools.chain(named, map(distribution, packages_distributions().get(top, ()))):
        roots = [str(made.locate_file(""))]
        url = urlsplit(json.loads(made.read_text("direct_url.json") or "{}").get("url", ""))
        if url.scheme == "file":  # where it is developed
            roots.append(url2pathname(url.path))
        if any(Path(file).resolve().is_relative_to(Path(root).resolve()) for root in roots):
            return made.name, made.version
    return None


def origin(entry: EntryPoint) -> str:
    """The package of an entry point, for a listing: "package 1.0"."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an installed package"


def _entries(kind: str) -> EntryPoints:
    from importlib.metadata import entry_points  # slow

    return entry_points(group=f"embedbench.{kind}")
