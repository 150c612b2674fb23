"""One thread: the tests' matrices are small, and threads that wait for each other take longer.

Of all tests, `make test` runs the short ones and a third of long tables of cases; THOROUGH=1 runs
all but what is marked long or fuzz, as does a call that names files. With `--rest`, what passed in
the run before is left out: `make test` and `make test-rest` together run everything, most of it
once. With `--known-skips`, what is skipped fails the run unless `known_skips.txt` expects it.
"""

import fnmatch
import gc
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from commands import Call

KNOWN_SKIPS = Path(__file__).with_name("known_skips.txt")
PASSED = "embedbench/passed"  # tests of the last whole run, in pytest's cache
TABLE = 6  # the fewest cases of which `make test` runs every third
# Files with loops that numba compiles, and a short test that runs them.
COMPILED = {
    "models/_som_kernel.py": "tests/models/test_som.py::test_samples_that_are_all_alike",
    "models/exstream.py": "tests/models/test_exstream.py::test_a_queue_keeps_the_newest",
    "embedbench/streams/simulated_annealing.py": (
        "tests/streams/test_make_class_order.py::test_annealing_repeats_and_follows_its_seed"
    ),
}

gc.disable()  # until all tests are collected
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch and NumPy are imported


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Undo what a run in an earlier test has set."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests' entries out of the user's cache directory."""
    os.environ["EMBEDBENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> "Call":
    """Run one command in this process: exit code, stdout, stderr."""
    from commands import caller

    return caller(monkeypatch, capfd)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Let one process fill numba's cache, before several compile the same loops at once."""
    root = KNOWN_SKIPS.parents[1]
    for source, test in COMPILED.items():
        place = root / source
        cached = place.parent.glob(f"__pycache__/{place.stem}.*.nbi")
        fresh = (index.stat().st_mtime > place.stat().st_mtime for index in cached)
        if place.is_file() and not any(fresh):
            words = [sys.executable, "-m", "pytest", "-n", "0", test]
            done = subprocess.run(words, cwd=root, stdout=subprocess.DEVNULL, check=False)
            if done.returncode == pytest.ExitCode.USAGE_ERROR:
                raise pytest.UsageError(f"{test}, which compiles {source}, is gone")


@pytest.hookimpl(trylast=True)  # after -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only THOROUGH=1 runs, of the conformance suite what it chooses itself."""
    if config.getoption("--rest"):
        _leave_out(config, items, _passed_before(config, items))
        return
    named = {Path(a).resolve() for a in config.args} != {KNOWN_SKIPS.parent}
    if named or os.environ.get("THOROUGH") == "1":
        return
    tables: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tables[item.nodeid.partition("[")[0]].append(item)
    out = {item for item in items if item.get_closest_marker("thorough")}
    for name, cases in tables.items():
        if len(cases) >= TABLE and not name.startswith("tests/checks/test_conformance_suite.py"):
            out |= {case for i, case in enumerate(cases) if i % 3}
    _leave_out(config, items, out)


def _leave_out(config: pytest.Config, items: list[pytest.Item], out: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = [item for item in items if item not in out]


def _passed_before(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    """Tests that passed in the run before and would do the same again."""
    passed = set(config.cache.get(PASSED, []))
    # One test there runs a third of the checks in itself, and all of them with THOROUGH=1.
    same = (item for item in items if not item.nodeid.startswith("tests/checks/"))
    return {item for item in same if item.nodeid in passed}


def pytest_collection_finish() -> None:
    """The garbage collector need not walk over thousands of collected tests again and again."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--known-skips", action="store_true", help=f"fail unless in {KNOWN_SKIPS}")
    parser.addoption("--rest", action="store_true", help="leave out what passed in the run before")


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    cache = getattr(session.config, "cache", None)  # none with -p no:cacheprovider
    if reporter and cache and not hasattr(session.config, "workerinput"):  # no worker of xdist
        passed = [report.nodeid for report in reporter.stats.get("passed", [])]
        cache.set(PASSED, sorted(set(passed)))
    if session.config.getoption("--known-skips") and unknown_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("--known-skips"):
        for line in unknown_skips(config):
            terminalreporter.write_line(f"SKIPPED, not in {KNOWN_SKIPS.name}: {line}", red=True)


def unknown_skips(config: pytest.Config) -> list[str]:
    """What was skipped against expectation: the test and the reason; with xdist, of all workers."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    lines = KNOWN_SKIPS.read_text(encoding="utf-8").splitlines()
    known = [line for line in lines if line and not line.startswith("#")]
    came = [f"{report.nodeid}: {report.longrepr[2]}" for report in skipped]
    return [skip for skip in came if not any(fnmatch.fnmatchcase(skip, line) for line in known)]
