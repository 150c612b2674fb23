"""Code of other people, named by the user as `package.module:name`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .errors import UserError


def outside(name: str) -> Any:
    """Import `package.module:name`; the working directory is searched too.

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
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as e:  # the module may fail in any way
        raise UserError(f"cannot import {module_name!r} for {name!r}: {e}") from e
    value = getattr(module, attribute, None)
    if value is None:
        raise UserError(f"module {module_name!r} has no {attribute!r}")
    return value
