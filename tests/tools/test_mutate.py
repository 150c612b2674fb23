"""`tools/mutate.py`: what it changes, what it leaves alone, which tests it takes, what it says."""

import ast
import sys
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


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree in the place of ours."""
    for name, text in {
        "embedbench/scores/metrics.py": SOURCE,
        "embedbench/scores/table.py": "from .metrics import One\nx = 1\n",
        "embedbench/text/lines.py": "x = 2\n",
        "models/som.py": "x = 3 + 4\n",
        "tests/checks/test_conformance.py": "from embedbench.scores.metrics import One\n",
        "tests/helpers/toy.py": "from embedbench.scores import metrics\n",
        "tests/models/test_som.py": "import embedbench.models.som\n",
        "tests/runs/test_grid.py": "import toy\n",
        "tests/scores/test_metrics.py": "",
        "tests/scores/test_other.py": "",
        "tests/reports/test_page.py": "from embedbench.scores import table\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    for cached in (mutate.imports_by_file, mutate.mutants_by_room):
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
def test_tests_that_mirror_a_module_come_first_then_those_that_import_it_then_its_room() -> None:
    mirrored, direct, wide = mutate.find_tests("embedbench/scores/metrics.py")
    assert mirrored == ["tests/scores/test_metrics.py"]
    assert direct == ["tests/checks/test_conformance.py", "tests/runs/test_grid.py"]
    others = ["tests/reports/test_page.py", "tests/scores/test_other.py", "tests/test_doctests.py"]
    assert wide == others
    first, own, _ = mutate.find_tests("models/som.py")
    assert first == ["tests/models/test_som.py"]
    assert own == ["tests/checks/test_conformance.py", "-k", "som"]
    assert "tests/checks/test_conformance.py" in mutate.find_tests("models/_som.py")[-1]


def test_a_mutant_is_killed_only_by_a_test_that_passes_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.py").write_text("def double(n):\n    return n * 2\n", encoding="utf-8")
    (tmp_path / "test_one.py").write_text(
        "import sys\nsys.path.insert(0, '.')\nfrom one import double\n"
        "def test_red(): assert double(0) == 1\n"
        "def test_green(): assert double(2) == 4\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second to import
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    first, second = mutate.list_mutants("one.py", (tmp_path / "one.py").read_text())[:2]
    assert (first.kind, second.kind) == ("return", "operator")
    for tests, outcome in (("::test_green", "killed"), ("::test_red", "survived")):
        monkeypatch.setattr(mutate, "find_tests", lambda _, t=tests: [[f"test_one.py{t}"]])
        assert mutate.judge(first, tmp_path, 60.0)[0] == outcome
    assert "n * 2" in (tmp_path / "one.py").read_text()


@pytest.mark.usefixtures("tree")
def test_a_list_of_mutants_as_a_user_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mutate.py", "--count", "3", "--rooms", "scores", "--list"])
    mutate.main()
    assert capsys.readouterr().out.count("--- embedbench/scores/") == 3


def test_the_table_by_room(capsys: pytest.CaptureFixture[str]) -> None:
    one = mutate.list_mutants("models/ncm.py", "a = 1\n")[0]
    mutate.print_table([(0, one, "killed"), (1, one, "slow"), (2, one, "killed")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["models", "3", "2", "66.7"]
    assert lines[3].split() == ["all", "3", "2", "66.7"]
    assert "1 slow: --- models/ncm.py" in lines
