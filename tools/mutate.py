"""Random mutants of the source, so many from each room: which of them do the tests notice?

Each is tried in a copy of the tree, by the tests that mirror its module, then those that import
it, then those of its room and of the modules that import it. A test kills a mutant only if it
passes without it. Same tree and same seed, same mutants. Whether a survivor changes anything that
a user can see is for a reader to say. By hand: mutmut and cosmic-ray run one command for all.
"""

import argparse
import ast
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
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
    for path in sorted(f for f in imports_by_file() if not f.startswith("tests")):
        for mutant in list_mutants(path, (ROOT / path).read_text(encoding="utf-8")):
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


def module_name(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("embedbench") else f"embedbench.{name}"


@cache
def imports_by_file() -> dict[str, set[str]]:
    """The Python files of source and tests; modules each imports, and `module.name` of names."""
    found: dict[str, set[str]] = {}
    for path in [p for place in (*PLACES, "tests") for p in (ROOT / place).rglob("*.py")]:
        if path.resolve() != path:  # behind a link of embedbench/
            continue
        name = str(path.relative_to(ROOT))
        here, found[name] = module_name(name).split("."), set()
        here = here if path.name == "__init__.py" else here[:-1]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = here[: len(here) - node.level + 1] if node.level else []
                module = ".".join([*base, *filter(None, [node.module])])
                found[name] |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def list_importers(names: set[str]) -> set[str]:
    return {path for path, imported in imports_by_file().items() if imported & names}


def find_tests(path: str) -> list[list[str]]:
    """Tests that mirror the module, import it, and those of its room and its importers."""
    importers = list_importers({module_name(path)})
    direct = {f for f in importers if f.startswith("tests")}
    direct |= list_importers({Path(f).stem for f in direct if f.startswith("tests/helpers")})
    folder = f"tests/{Path(path.removeprefix('embedbench/')).parent}/".replace("/./", "/")
    room = {f for f in imports_by_file() if f.startswith(folder) and folder != "tests/"}
    mirrored = {f for f in room if f.startswith(f"{folder}test_{Path(path).stem.strip('_')}")}
    wide = room | {"tests/test_doctests.py"} | list_importers(set(map(module_name, importers)))
    suite = "tests/checks/test_conformance.py"
    learner = path.startswith("models/") and not path.startswith("models/_")
    if learner:
        wide.discard(suite)
    elif path.startswith(("models", "protocols", "embedbench/learning", "embedbench/checks")):
        wide.add(suite)
    parts = mirrored, direct - mirrored, wide - direct - mirrored
    found = [[f for f in sorted(part) if "/test_" in f] for part in parts]
    if learner:  # its own checks, before other learners' tests
        found.insert(2, [suite, "-k", Path(path).stem.replace("_", "-")])
    return [tests for tests in found if tests]


def compile_files(tree: Path) -> None:
    """Compile source and tests once; no later run writes what it compiles of a mutant."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(tree / "src"), "PYTEST_ADDOPTS": ""}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    subprocess.run(words, cwd=tree, env=env, stdout=subprocess.DEVNULL, check=True)


def run_tests(tree: Path, tests: list[str], seconds: float) -> tuple[str, str]:
    """Run tests up to the first that fails: the outcome and what failed."""
    scratch = tempfile.mkdtemp(dir=tree.parent)
    env = {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": scratch}
    env |= {"THOROUGH": "1", "PYTEST_ADDOPTS": ""}
    more: Any = {"env": os.environ | env, "start_new_session": True}
    words = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-rfE", "--tb=no", *tests]
    words += [f"--basetemp={scratch}/pytest", "-p", "no:cacheprovider"]
    with subprocess.Popen(words, cwd=tree, stdout=subprocess.PIPE, text=True, **more) as child:
        try:
            said, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return "slow", ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            shutil.rmtree(scratch, ignore_errors=True)
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", said, re.MULTILINE)
    return ("survived" if child.returncode in (0, 5) else "killed"), failed[1] if failed else ""


@cache
def passes(tree: Path, tests: tuple[str, ...], seconds: float) -> bool:
    return run_tests(tree, list(tests), seconds)[0] == "survived"


def judge(mutant: Mutant, tree: Path, seconds: float) -> tuple[str, str]:
    """Whether a test notices the mutant that passes (in time) without it, and which."""
    target = tree / mutant.path
    source, final = target.read_text(encoding="utf-8"), "survived"
    for tests in find_tests(mutant.path):
        target.write_text(mutant.apply(source), encoding="utf-8")
        outcome, failed = run_tests(tree, tests, seconds)
        target.write_text(source, encoding="utf-8")
        final = "slow" if outcome == "slow" else final  # it runs for ever, or the tests need longer
        if outcome != "survived" and passes(tree, (failed,) if failed else tuple(tests), seconds):
            return "killed", failed or "no end"
    return final, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="decides which (default 1)")
    parser.add_argument("--rooms", default="", help="only these rooms: scores,files")
    parser.add_argument("--only", default="", help="only these of the drawn, by number: 7,12")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, a copy each")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, for a set of tests")
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
            compile_files(tree)

        def try_one(number: int) -> tuple[int, Mutant, str]:
            tree, mutant = trees.pop(), drawn[number]
            outcome, failed = judge(mutant, tree, asked.seconds)
            trees.append(tree)
            print(f"{number} {outcome} {mutant.path} {mutant.kind} {failed}", flush=True)
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
