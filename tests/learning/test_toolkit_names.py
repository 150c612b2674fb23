"""`embedbench.learning` names the toolkit once, and imports a name when it is first used."""

import ast
import subprocess
import sys
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


def test_a_learner_imports_what_it_names() -> None:
    """`chance` has no network: no part of the toolkit comes with the contract."""
    code = (
        "import sys, embedbench.models.chance\n"
        "print(sorted(m for m in sys.modules if m.startswith('embedbench.learning.')))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(made.stdout) == [
        "embedbench.learning.footprint",
        "embedbench.learning.learner",
    ]
