"""`--known-skips` fails for a skip that nobody expects, and for no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.thorough
def test_an_unknown_skip_fails(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    (tests / "engines").mkdir(parents=True)
    for name in ("conftest.py", "known_skips.txt"):
        (tests / name).write_bytes((ROOT / "tests" / name).read_bytes())
    body = "import pytest\n\ndef test_a():\n    pytest.skip({!r})\n"
    reason = "a SLURM of one node: no slurmd"
    (tests / "engines" / "test_slurm_engine_one_node.py").write_text(body.format(reason))
    (tests / "test_b.py").write_text(body.format(reason))
    words = ["-m", "pytest", "-q", "-p", "xdist.plugin", "-n", "1", "--known-skips", "tests"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED, not in")]
    assert lines == [f"SKIPPED, not in known_skips.txt: tests/test_b.py::test_a: Skipped: {reason}"]
