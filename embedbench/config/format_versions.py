"""Versions of formats: one rule for every file that embedbench writes and reads back.

A version is `1.2`, in JSON often after the name of its format, `embedbench-record/1.2`; of some
files it is one number. A file of a later version than this embedbench reads is not damaged: it is
whole, and stays. So the sentence says who wrote it, and never proposes to make it anew.
"""

import re
from collections.abc import Sequence

from embedbench.errors import UserError, short

_VERSION = re.compile(r"(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){0,3}")


class NewerFormatError(UserError):
    """A file of a later version than this embedbench reads."""


def check_version(where: str, version: object, known: Sequence[str], remedy: str) -> None:
    """Refuse a version that is not among those that can be read.

    Parameters
    ----------
    where : str
        The file.
    version : str or int or None
        What it says; None: it says none.
    known : sequence of str
        Those that can be read, the earliest first.
    remedy : str
        What to do about a file that says no version, or one that never was.

    Raises
    ------
    NewerFormatError
        It is later than all of `known`.
    UserError
        It is none of `known`.

    Examples
    --------
    >>> check_version("a.h5", "1.1", ["1.0", "1.1"], "copy it again")
    >>> check_version("a.h5", "1.2", ["1.0", "1.1"], "copy it again")
    Traceback (most recent call last):
    embedbench.config.format_versions.NewerFormatError: a.h5 was written by a newer embedbench: it \
is of format version 1.2, and this one reads 1.1 at most; install the embedbench that wrote it, \
or a newer one
    """
    if version in known and isinstance(version, str):
        return
    refuse_newer(where, version, known)
    says = "no format version" if version is None else f"format version {short(version)}"
    raise UserError(f"{where} says {says}; expected {' or '.join(known)}", remedy)


def refuse_newer(where: str, version: object, known: Sequence[str]) -> None:
    """Raise NewerFormatError for a version that is later than all of `known`."""
    stated = _numbers(version)
    if stated is not None and stated > max(filter(None, map(_numbers, known))):
        raise NewerFormatError.worded(
            f"{where} was written by a newer embedbench: it is of format version {version}, and "
            f"this one reads {known[-1]} at most; install the embedbench that wrote it, or a newer "
            "one",
            what=where,
            got=version,
            expected=known[-1],
        )


def check_schema(
    where: str, stated: object, schema: str, remedy: str, *, earlier: Sequence[str] = ()
) -> None:
    """Refuse another schema than `NAME/VERSION`; of a later version as `check_version` does.

    `earlier` are versions that are read as well.
    """
    name, _, version = schema.partition("/")
    given, slash, later = stated.partition("/") if isinstance(stated, str) else ("", "", "")
    if slash and given == name:
        check_version(where, later, [*earlier, version], remedy)
        return
    says = "no schema" if stated is None else f"schema {short(stated)}"
    raise UserError(f"{where} says {says}; expected {schema!r}", remedy)


def _numbers(version: object) -> tuple[int, ...] | None:
    """The numbers of a version; None of what is none."""
    if isinstance(version, bool) or not isinstance(version, str | int):
        return None
    text = str(version)
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else None
