"""Random mutants of the source, so many from each room: which of them do the tests notice?

All tests run once, and it is noted which lines each of them reaches. Each mutant is then tried in a
copy of the tree: first by a few quick tests that reach its line, then by all others that do, or
that name or reach its file. A test kills a mutant only if it passes without it. Same tree and same
seed, same mutants. Whether a survivor changes anything that a user can see is for a reader to say.
By hand: mutmut and cosmic-ray run one command for all.
"""

import argparse
import ast
import difflib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
QUICK, MOST = 5.0, 150.0  # seconds of the first tests that a mutant meets, and of all
CONTEXT = multiprocessing.get_context("forkserver")
LIBRARIES = ["coverage", "h5py", "hypothesis", "pytest", "scipy.stats", "sklearn", "torch", "typer"]
PLACES = ("embedbench", "extract", "models", "protocols")
PAIRS = "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, Add Sub, Mult Div, BitAnd BitOr, And Or"
SWAPS = {getattr(ast, a): getattr(ast, b) for a, b in map(str.split, PAIRS.split(","))}
SWAPS |= {b: a for a, b in SWAPS.items()} | dict.fromkeys(
    (ast.FloorDiv, ast.Mod, ast.Pow), ast.Mult
)


@dataclass(frozen=True)
class Mutant:
    """One change: `new` in place of the bytes from `start` to `end` of `path`."""

    path: str
    kind: str
    start: int
    end: int
    new: str

    @property
    def room(self) -> str:
        parts = Path(self.path).parts
        return parts[0] if parts[0] != "embedbench" or len(parts) == 2 else parts[1]

    def apply(self, source: str) -> str:
        raw = source.encode()
        return (raw[: self.start] + self.new.encode() + raw[self.end :]).decode()

    def diff(self) -> str:
        source = (ROOT / self.path).read_text(encoding="utf-8")
        sides = source.splitlines(), self.apply(source).splitlines()
        return "\n".join(difflib.unified_diff(*sides, self.path, self.kind, n=1, lineterm=""))


def list_changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Changes of one node: kind, the part that is replaced, and the new text."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            new = ast.unparse(ast.Compare(left, [SWAPS[type(op)]()], right))
            yield "comparison", node, f"({new})"
        case ast.BinOp(left=left, op=op, right=after) if type(op) in SWAPS:
            yield "operator", node, f"({ast.unparse(ast.BinOp(left, SWAPS[type(op)](), after))})"
        case ast.BoolOp(op=op, values=values):
            yield "and/or", node, f"({ast.unparse(ast.BoolOp(SWAPS[type(op)](), values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, f"({ast.unparse(node.operand)})"
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            if ast.unparse(test) != "TYPE_CHECKING":
                yield "condition", test, f"(not ({ast.unparse(test)}))"
        case ast.Constant(value=bool() | int() | float() as value):
            other = value * 2 or 1.0 if isinstance(value, float) else value + 1
            yield "constant", node, str(not value if isinstance(value, bool) else other)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return", node, "return None"
        case (
            ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Expr(ast.Call())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
        ):  # fmt: skip
            yield "statement", node, "pass"


def list_mutants(path: str, source: str) -> list[Mutant]:
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    found = []
    for node in _walk(ast.parse(source)):
        for kind, part, new in list_changes(node):
            start = starts[part.lineno - 1] + part.col_offset
            end = starts[(part.end_lineno or 0) - 1] + (part.end_col_offset or 0)
            found.append(Mutant(path, kind, start, end, new))
    return found


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run: no hints, texts or decorators, and nothing inside a `raise`."""
    yield node
    skipped = {"annotation", "returns", "decorator_list"}
    hint = isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Annotated", "Literal")
    if hint or isinstance(node, ast.Raise | ast.JoinedStr):
        return
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in skipped:
                yield from _walk(child)


@cache
def mutants_by_room() -> dict[str, list[Mutant]]:
    """All mutants of the source."""
    found: dict[str, list[Mutant]] = {}
    files = [f for p in PLACES for f in (ROOT / p).rglob("*.py") if f.resolve() == f]  # no links
    for file in sorted(files):
        path = str(file.relative_to(ROOT))
        for mutant in list_mutants(path, file.read_text(encoding="utf-8")):
            found.setdefault(mutant.room, []).append(mutant)
    return found


def draw(count: int, seed: int, rooms: set[str]) -> list[Mutant]:
    """Each room's share of `count` by its number of mutants, at least one."""
    known = mutants_by_room()
    if rooms - set(known):
        sys.exit(f"expected some of {', '.join(known)}; got {', '.join(rooms)}")
    by_room = {room: known[room] for room in sorted(rooms or known)}
    total, rng, drawn = sum(map(len, by_room.values())), random.Random(seed), []
    for mutants in by_room.values():
        drawn += rng.sample(mutants, min(len(mutants), max(1, round(count * len(mutants) / total))))
    rng.shuffle(drawn)
    return drawn


@dataclass(frozen=True)
class Trace:
    """What the tests that passed did: seconds of each, and the tests that reached each line."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def find_tests(self, mutant: Mutant) -> list[list[str]]:
        """Quick tests of the mutant's line, then the others, each set the most apt first."""
        raw = (ROOT / mutant.path).read_bytes()
        first, last = (raw.count(b"\n", 0, at) + 1 for at in (mutant.start, mutant.end))
        reached = self.lines.get(mutant.path, {})
        on_line = {test for n in range(first, last + 1) for test in reached.get(n, ())}
        stem = Path(mutant.path).stem.strip("_")
        every = on_line.union(*reached.values())
        every |= {test for test in self.seconds if mentions(test.split("::")[0], stem)}

        def aptness(test: str) -> tuple[bool, bool, float]:
            mirrors = Path(test.split("::")[0]).stem.startswith(f"test_{stem}")
            return test not in on_line, not mirrors, self.seconds[test]

        tests = sorted(every & self.seconds.keys(), key=aptness)
        spent = list(accumulate(self.seconds[test] for test in tests))
        quick = sum(1 for _ in takewhile(lambda s: s < QUICK, spent[:50])) or 1
        most = sum(1 for _ in takewhile(lambda s: s < MOST, spent))
        return [part for part in (tests[:quick], tests[quick:most]) if part]


@cache
def mentions(file: str, stem: str) -> bool:
    """Whether a test file mentions a module: `si` is in most of them, but seldom a word."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.search(rf"(?<![a-z0-9]){stem}(?![a-z0-9])", text) is not None


class Tracer:
    """A plug-in of pytest: which lines each test reaches, written into a folder at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds, self.red = folder, Counter[str](), set[str]()
        file = folder / f"lines.{os.getpid()}"
        self.coverage = coverage.Coverage(file, source=PLACES, config_file=False, messages=False)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.red.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        passed = {test: s for test, s in self.seconds.items() if test not in self.red}
        (self.folder / f"seconds.{os.getpid()}").write_text(json.dumps(passed), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Trace the tests of this process (`-p mutate`), if it runs any itself."""
    folder = os.environ.get("MUTATE_TRACE")
    if folder and (hasattr(config, "workerinput") or not config.getoption("numprocesses", 0)):
        config.pluginmanager.register(Tracer(Path(folder)))


def trace_tests(tree: Path, jobs: int) -> Trace:
    """Run all tests of a tree."""
    folder = Path(tempfile.mkdtemp(dir=tree.parent))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    paths = os.pathsep.join([str(tree / "src"), str(Path(__file__).parent)])
    env |= {"PYTHONPATH": paths, "THOROUGH": "1", "MUTATE_TRACE": str(folder)}
    env["PYTEST_ADDOPTS"] = ""
    words = [sys.executable, "-m", "pytest", "-p", "mutate", "-q", "-n", str(jobs)]
    words += ["-p", "no:cacheprovider", f"--basetemp={folder}/pytest"]
    subprocess.run(words, cwd=tree, env=env, check=False)
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[str]]] = {}
    for part in folder.glob("seconds.*"):
        seconds |= json.loads(part.read_text(encoding="utf-8"))
    for part in folder.glob("lines.*"):
        data = coverage.CoverageData(part)
        data.read()
        for file in data.measured_files():
            into = lines.setdefault(str(Path(file).resolve().relative_to(tree.resolve())), {})
            for line, tests in data.contexts_by_lineno(file).items():
                into.setdefault(line, []).extend(tests)
    return Trace(seconds, lines)


def run_tests(tree: Path, tests: list[str], seconds: float) -> tuple[str, str]:
    """Run tests up to the first that fails: the outcome and what failed."""
    mine, theirs = CONTEXT.Pipe(duplex=False)
    child = CONTEXT.Process(target=_run_tests, args=(tree, tests, theirs))
    child.start()
    theirs.close()
    try:
        return mine.recv() if mine.poll(seconds) else ("killed", "no end")
    except EOFError:
        return "killed", "the process"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()


def _run_tests(tree: Path, tests: list[str], answer: Any) -> None:
    """The same in a process of its own that has imported the libraries, and nothing of ours."""
    os.setsid()
    os.chdir(tree)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    scratch = tempfile.mkdtemp(dir=tree.parent)
    os.environ |= {"PYTHONPATH": str(tree / "src"), "TMPDIR": scratch, "THOROUGH": "1"}
    tempfile.tempdir = scratch
    sys.path[:0] = [str(tree), str(tree / "src")]  # as `python -m pytest` has them
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    failed: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            failed.extend([report.nodeid] if report.failed else [])

    words = ["-x", "-n", "0", "--tb=no", "-p", "no:cacheprovider", f"--basetemp={scratch}/pytest"]
    code = pytest.main([*words, *tests], [Listener()])
    answer.send(("survived" if code in (0, 5) else "killed", failed[0] if failed else "collection"))
    shutil.rmtree(scratch, ignore_errors=True)


@cache
def passes(tree: Path, tests: tuple[str, ...], seconds: float) -> bool:
    return run_tests(tree, list(tests), seconds)[0] == "survived"


def judge(mutant: Mutant, tree: Path, trace: Trace) -> tuple[str, str]:
    """Whether a test notices the mutant that passes (in time) without it, and which."""
    target = tree / mutant.path
    source = target.read_text(encoding="utf-8")
    for tests in trace.find_tests(mutant):
        seconds = 30 + 4 * sum(trace.seconds[test] for test in tests)
        target.write_text(mutant.apply(source), encoding="utf-8")
        outcome, failed = run_tests(tree, tests, seconds)
        target.write_text(source, encoding="utf-8")
        known = failed in trace.seconds
        if outcome == "killed" and passes(tree, (failed,) if known else tuple(tests), seconds):
            return "killed", failed
    return "survived", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="decides which (default 1)")
    parser.add_argument("--rooms", default="", help="only these rooms: scores,files")
    parser.add_argument("--only", default="", help="only these of the drawn, by number: 7,12")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, a copy each")
    parser.add_argument("--list", action="store_true", help="show the drawn mutants, run nothing")
    asked = parser.parse_args()
    drawn = draw(asked.count, asked.seed, set(filter(None, asked.rooms.split(","))))
    chosen = {int(n) for n in filter(None, asked.only.split(","))} or set(range(len(drawn)))
    if asked.list:
        print("\n".join(f"{n} {drawn[n].diff()}" for n in sorted(chosen)))
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        trees = [Path(folder) / str(job) / "tree" for job in range(asked.jobs)]
        for tree in trees:
            left = shutil.ignore_patterns(".git", ".venv", "*_cache", "__pycache__", "_build")
            shutil.copytree(ROOT, tree, symlinks=True, ignore=left)
        os.environ |= {"OMP_NUM_THREADS": "1"}
        CONTEXT.set_forkserver_preload(LIBRARIES)
        trace = trace_tests(trees[0], asked.jobs)
        print(f"{len(trace.seconds)} tests passed", flush=True)

        def try_one(number: int) -> tuple[int, Mutant, str]:
            tree, mutant = trees.pop(), drawn[number]
            began = time.monotonic()
            outcome, failed = judge(mutant, tree, trace)
            trees.append(tree)
            seconds = f"{time.monotonic() - began:.0f} s"
            print(f"{number} {outcome} {mutant.path} {mutant.kind} {seconds} {failed}", flush=True)
            return number, mutant, outcome

        print_table(list(pool.map(try_one, sorted(chosen))))


def print_table(rows: list[tuple[int, Mutant, str]]) -> None:
    """Mutants by room, then what was not killed as diffs."""
    every = Counter(m.room for _, m, _ in rows)
    killed = Counter(m.room for _, m, outcome in rows if outcome == "killed")
    print(f"\n{'room':12}{'mutants':>9}{'killed':>9}{'%':>7}")
    for room in [*sorted(every), "all"]:
        both = (every[room], killed[room]) if room != "all" else (every.total(), killed.total())
        print(f"{room:12}{both[0]:9}{both[1]:9}{100 * both[1] / both[0]:7.1f}")
    for number, mutant, outcome in rows:
        if outcome != "killed":
            print(f"\n{number} {outcome}: {mutant.diff()}")


if __name__ == "__main__":
    main()
