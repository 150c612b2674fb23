"""Which module may import which, read from the syntax trees; see CONTRIBUTING.md."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("extract", "models", "protocols")

# What a room may import from the core.
CORE_FOR = {
    "extract": {
        *{"cores", "errors", "exchange", "file", "idx", "samples", "split", "timm_models"},
        *{"weights", "writer"},
    },
    "models": {"errors", "learner", "repeatable", "scoring", "stream", "timm_models", "weights"},
    "protocols": {
        *{"class_sessions", "errors", "file", "fscil_lists", "hierarchy", "layers", "on_demand"},
        *{"protocol", "samples", "shares", "stream"},
    },
}
# What a room may import from outside the project and the standard library.
OUTSIDE_FOR = {
    "extract": {
        *{"PIL", "huggingface_hub", "numpy", "safetensors", "scipy"},
        *{"timm", "torch", "torchvision"},
    },
    "models": {"numba", "numpy", "scipy", "sklearn", "torch", "timm"},
    "protocols": {"numpy"},
}
# The commands that extract or pretrain; they import the room when they are called.
ENTRY_POINTS = {
    **dict.fromkeys(("cli_files", "demo", "reproduce_data"), "extract"),
    "cli_pretrain": "models",
}
# Slow to import: core modules do it inside functions, but for these, which are imported when work
# begins. The check modules hold learners to their promises.
SLOW = {"jinja2", "matplotlib", "numba", "scipy", "sklearn", "timm", "torch", "torchvision"}
MAY_BE_SLOW = {
    *{"_anneal", "_svg", "checkpoint", "evaluators", "plots", "report_html", "resume"},
    *{"runner", "scatter", "timm_models"},
}


@dataclass(frozen=True)
class Import:
    """One imported module, absolute; `lazy` inside a function, `typing` under TYPE_CHECKING."""

    module: str
    line: int
    relative: bool
    lazy: bool
    typing: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    @property
    def second(self) -> str:
        """`file` of `embedbench.file`."""
        return self.module.split(".")[1] if "." in self.module else ""


def imports(path: Path, package: str) -> list[Import]:
    """Every import of a module of `package`; `from a import b` counts as a.b where that is one."""
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool, typing: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for name in child.names:
                    found.append(Import(name.name, child.lineno, False, lazy, typing))
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    parents = package.split(".")[: len(package.split(".")) - child.level + 1]
                    base = ".".join([*parents, *([base] if base else [])])
                names = [f"{base}.{n.name}" for n in child.names]
                modules = names if base in ("embedbench", package) else [base]
                found.extend(
                    Import(m, child.lineno, child.level > 0, lazy, typing) for m in modules
                )
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            visit(child, lazy or inside, typing or guarded)

    visit(ast.parse(path.read_text(encoding="utf-8")), False, False)
    return found


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).glob("*.py"))


def all_imports(room: str) -> Iterator[tuple[Path, Import]]:
    package = "embedbench" if room == "embedbench" else f"embedbench.{room}"
    for path in modules(room):
        for found in imports(path, package):
            yield path, found


def outside(top: str) -> bool:
    return top not in sys.stdlib_module_names and top not in ("embedbench", *ROOMS)


def report(broken: list[tuple[Path, Import]]) -> str:
    return "\n".join(f"{p.relative_to(ROOT)}:{i.line} imports {i.module}" for p, i in broken)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may_of_the_core(room: str) -> None:
    broken = [
        (path, i)
        for path, i in all_imports(room)
        if i.top == "embedbench" and not i.relative and i.second not in CORE_FOR[room]
    ]
    assert not broken, report(broken)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may_from_outside(room: str) -> None:
    broken = [
        (path, i)
        for path, i in all_imports(room)
        if (outside(i.top) and i.top not in OUTSIDE_FOR[room])
        or (room == "models" and i.top == "timm" and path.stem != "_trunk")
    ]
    assert not broken, report(broken)


@pytest.mark.parametrize("room", ROOMS)
def test_inside_a_room_imports_are_relative_and_name_siblings(room: str) -> None:
    own = f"embedbench.{room}"
    broken = [
        (path, i)
        for path, i in all_imports(room)
        if (not i.relative and i.module.startswith(own))
        or (i.relative and not i.module.startswith(f"{own}."))
    ]
    assert not broken, report(broken)


@pytest.mark.parametrize("room", ["embedbench", *ROOMS])
def test_no_room_is_imported_by_its_bare_name(room: str) -> None:
    broken = [(path, i) for path, i in all_imports(room) if not i.relative and i.top in ROOMS]
    assert not broken, report(broken)


def test_the_core_imports_no_room() -> None:
    broken = [
        (path, i)
        for path, i in all_imports("embedbench")
        if i.top == "embedbench"
        and i.second in ROOMS
        and not (ENTRY_POINTS.get(path.stem) == i.second and i.lazy)
    ]
    assert not broken, report(broken)


def test_the_core_imports_nothing_slow_before_it_is_needed() -> None:
    broken = [
        (path, i)
        for path, i in all_imports("embedbench")
        if i.top in SLOW
        and not (i.lazy or i.typing)
        and path.stem not in MAY_BE_SLOW
        and not path.stem.startswith(("check_", "_check_"))
    ]
    assert not broken, report(broken)


def test_no_learner_builds_on_another() -> None:
    """A public module of models/ takes functions from its siblings, no class to inherit from."""
    public = _public_classes("models")
    for path in modules("models"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not path.stem.startswith("_"):
                bases = {ast.unparse(b) for b in node.bases}
                learners = bases & public
                assert not learners, f"{path.name}: {node.name} inherits from {learners}"


def _public_classes(room: str) -> set[str]:
    return {
        node.name
        for path in modules(room)
        if not path.stem.startswith("_")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_flat_and_linked_into_the_package(room: str) -> None:
    link = ROOT / "embedbench" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room
    nested = [p for p in (ROOT / room).rglob("*.py") if p.parent != ROOT / room]
    assert not nested


def test_this_test_sees_imports(tmp_path: Path) -> None:
    """The rules above hold because nothing breaks them, not because nothing is found."""
    path = tmp_path / "wrong.py"
    path.write_text(
        "import models\nfrom embedbench import runner\nfrom .ewc import EWC\n"
        "from . import _sgd\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "def f():\n    from embedbench.extract import extract\n"
    )
    found = {i.module: i for i in imports(path, "embedbench.models")}
    assert set(found) == {
        "models",
        "embedbench.runner",
        "embedbench.models.ewc",
        "embedbench.models._sgd",
        "typing",
        "torch",
        "embedbench.extract",
    }
    assert found["torch"].typing
    assert not found["torch"].lazy
    assert found["embedbench.extract"].lazy
    assert found["embedbench.models.ewc"].relative
    assert not found["embedbench.runner"].relative
    assert sum(1 for _ in all_imports("models")) > 10
