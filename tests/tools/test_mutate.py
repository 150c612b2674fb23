"""`tools/mutate.py`: what it changes, what it leaves alone, which tests it takes, what it says."""

import ast
from functools import cache
from pathlib import Path

import mutate
import pytest

SOURCE = '''"""Text with 1 < 2."""
from typing import Annotated
Share = Annotated[float, at_least(3)]
@dataclass(frozen=True)
class One:
    def size(self, n: "int < 4" = 5) -> Literal[6]:
        """7 + 8."""
        if not n:
            raise ValueError(f"{n + 9}: {10}")
        self.é = n * 2
        return n <= self.é and n
'''


def test_what_a_mutant_changes() -> None:
    mutants = mutate.list_mutants("models/one.py", SOURCE)
    changed = [(m.kind, SOURCE.encode()[m.start : m.end].decode(), m.new) for m in mutants]
    assert sorted(changed) == [
        ("and/or", "n <= self.é and n", "(n <= self.é or n)"),
        ("comparison", "n <= self.é", "(n < self.é)"),
        ("condition", "not n", "(not (not n))"),
        ("constant", "2", "3"),
        ("constant", "5", "6"),
        ("not", "not n", "(n)"),
        ("operator", "n * 2", "(n / 2)"),
        ("return", "return n <= self.é and n", "return None"),
        ("statement", 'raise ValueError(f"{n + 9}: {10}")', "pass"),
        ("statement", "self.é = n * 2", "pass"),
    ]
    for mutant in mutants:
        assert ast.unparse(ast.parse(mutant.apply(SOURCE))) != ast.unparse(ast.parse(SOURCE))
    assert {m.room for m in mutants} == {"models"}


TESTS = """import sys
sys.path.insert(0, ".")
from models.one import double

def test_red(): assert double(0) == 1
def test_green(): assert double(2) == 4
def test_other(): pass
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree in the place of ours."""
    for name, text in {
        "embedbench/scores/metrics.py": SOURCE,
        "embedbench/text/lines.py": "x = 2\n",
        "models/__init__.py": "",
        "models/one.py": "def double(n):\n    return n * 2\n",
        "tests/models/test_one.py": TESTS,
        "tests/runs/test_grid.py": "ncm = 'one'\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    for cached in (mutate.mutants_by_room, mutate.mentions):
        monkeypatch.setattr(mutate, cached.__name__, cache(cached.__wrapped__))
    return tmp_path


@pytest.mark.usefixtures("tree")
def test_a_seed_decides_and_every_room_has_its_share() -> None:
    drawn = mutate.draw(8, 3, set())
    assert drawn == mutate.draw(8, 3, set())
    assert drawn != mutate.draw(8, 4, set())
    assert len(set(drawn)) == len(drawn)
    assert {m.room for m in drawn} == {"models", "scores", "text"}
    assert {m.room for m in mutate.draw(5, 3, {"text"})} == {"text"}
    with pytest.raises(SystemExit, match=r"expected some of .*models.*; got lobby"):
        mutate.draw(5, 3, {"lobby"})


@pytest.mark.usefixtures("tree")
def test_quick_tests_of_the_line_come_first_then_those_of_the_file() -> None:
    seconds = {
        "tests/models/test_one.py::test_slow": 4.0,
        "tests/models/test_one.py::test_other": 0.1,
        "tests/runs/test_grid.py::test_far": 2.0,
        "tests/runs/test_grid.py::test_long": 200.0,
        "tests/runs/test_grid.py::test_quick": 0.1,
    }
    slow, other, far, long, quick = seconds
    reached = {1: [""], 2: [slow, far, quick, "tests/models/test_one.py::test_red"]}
    trace = mutate.Trace(seconds, {"models/one.py": reached})
    mutant = next(m for m in mutate.mutants_by_room()["models"] if m.kind == "operator")
    assert trace.find_tests(mutant) == [[slow, quick], [far, other]]
    del reached[2][1]  # nothing that reaches the line, but it names the module
    assert trace.find_tests(mutant) == [[slow, quick, other], [far]]
    assert long not in str(trace.find_tests(mutant))


@pytest.mark.thorough
def test_only_green_tests_kill(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second to import
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    trace = mutate.trace_tests(tree, 1)
    green, other = (f"tests/models/test_one.py::test_{name}" for name in ("green", "other"))
    assert set(trace.seconds) == {green, other}  # red is red without a mutant
    assert set(trace.lines["models/one.py"][2]) == {green, green.replace("green", "red")}
    mutant = next(m for m in mutate.mutants_by_room()["models"] if m.kind == "return")
    assert mutate.judge(mutant, tree, trace) == ("killed", green)
    monkeypatch.setattr(mutate.Trace, "find_tests", lambda *_: [[other]])
    assert mutate.judge(mutant, tree, trace) == ("survived", "")
    monkeypatch.setattr(mutate.Trace, "find_tests", lambda *_: [[other], [green]])
    monkeypatch.setattr(mutate, "passes", lambda *_: False)  # as if it were red without it
    assert mutate.judge(mutant, tree, trace) == ("survived", "")
    assert "n * 2" in (tree / "models/one.py").read_text()
