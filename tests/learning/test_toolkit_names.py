"""`embedbench.learning` names the toolkit once, and imports a name when it is first used."""

import ast
from pathlib import Path

import pytest

from embedbench import learning


def test_every_name_of_the_list_is_known() -> None:
    """Those that type checkers see, read from the syntax tree."""
    tree = ast.parse(Path(learning.__file__).read_text(encoding="utf-8"))
    (listed,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {a.name for node in listed.body for a in getattr(node, "names", [])}
    assert names == {n for n in learning._HOMES if getattr(learning, n) is not None}
    with pytest.raises(AttributeError, match="has no attribute 'Lerner'"):
        learning.Lerner  # noqa: B018
