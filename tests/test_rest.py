"""`make test`, then `make test-rest`: what passed is not run again, what was left out is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BODY = """
import pytest

def test_short():
    pass

@pytest.mark.thorough
def test_thorough():
    pass

def test_skipped():
    pytest.skip("not here")
"""


@pytest.mark.thorough
def test_the_rest_is_what_did_not_pass_before(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "known_skips.txt"):
        (tests / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (tests / "test_a.py").write_text(BODY)
    settings = "[pytest]\nmarkers = thorough\ntestpaths = tests\n"
    (tmp_path / "pytest.ini").write_text(settings)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "THOROUGH"))}
    outcomes = []
    for options in ([], ["--rest"]):
        words = [sys.executable, "-m", "pytest", "-n", "1", "-v", *options]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        outcomes.append({name for name in ("short", "thorough") if f"test_{name} " in done.stdout})
    assert outcomes == [{"short"}, {"thorough"}]
