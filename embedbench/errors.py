"""Errors that end a command with one sentence and exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """Bad input: says what was expected, what came, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


class DamagedFileError(UserError):
    """An embedding file whose bytes do not match its checksums."""


def unknown(kind: str, name: str, known: Iterable[str], better: Sequence[str] = ()) -> UserError:
    """Return the error for an unknown name; it suggests the nearest known one.

    Names in `better` are suggested first.

    >>> str(unknown("learner", "ewcc", ["mlp", "ewc"]))
    "unknown learner 'ewcc'. Did you mean 'ewc'? Known: ewc, mlp."
    """
    names = sorted(known)
    near = better or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names) or 'none'}.")
