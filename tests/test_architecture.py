"""Which room may import which, read from the syntax trees; see CONTRIBUTING.md."""

import ast
import collections
import dataclasses
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedbench.streams.view import View

ROOT = Path(__file__).resolve().parents[1]
FLAT = ("extract", "models", "protocols")  # beside the package, linked into it

# A room, or a file of the ground, imports from strictly lower floors only. Modules of `models` and
# `protocols` are found by name at run time, and `extract` is imported when a command is called.
FLOORS = (
    {"errors", "array_types", "system", "version"},
    {"config", "text", "plugins"},
    {"storage"},
    {"files", "networks", "scores", "engines"},
    {"streams", "reports", "extract"},
    {"learning", "protocols"},
    {"models", "runs"},
    {"studies", "interop", "api"},
    {"checks", "papers", "sharing", "zoo"},
    {"cli"},
    {"__init__", "__main__"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS, 1) for room in rooms}
# What these may import of the rooms below them: the floors alone would let them take more.
INTERNAL = {"table_of", "rows_of"}  # of `streams/view.py`: for streams, runner and checks
ONLY = {
    "models": {"learning", "networks", "streams"},
    "protocols": {"streams", "files"},
    "extract": {"files", "networks", "engines"},
    "reports": {"scores", "files"},
    "sharing": {"runs", "studies", "interop", "reports", "streams", "scores", "files"},
    "zoo": {"reports", "scores", "files"},
}
GROUND = set().union(*FLOORS[:3])
# What a room may import from outside the project and the standard library.
OUTSIDE = {
    "extract": {
        "PIL", "datasets", "huggingface_hub", "numpy", "safetensors", "scipy", "soundfile", "timm",
        "torch", "torchvision", "transformers", "yaml",
    },
    "engines": {"ray", "submitit", "torch"},
    "models": {"numba", "numpy", "scipy", "sklearn", "torch"},
    "protocols": {"numpy"},
    "scores": {"h5py", "numpy", "scipy"},
}  # fmt: skip
# Slow to import: done inside functions, but for these rooms and files, which are imported when work
# begins.
SLOW = {
    "datasets", "fsspec", "huggingface_hub", "jinja2", "matplotlib", "numba", "pandas", "pyarrow",
    "ray", "scipy", "sklearn", "soundfile", "submitit", "tensorboard", "timm", "torch",
    "torchvision", "transformers", "wandb",
}  # fmt: skip
MAY_BE_SLOW = {
    "models", "learning", "extract", "checks", "networks/paper_networks", "papers/fscil/tsne",
    "reports/picture_of_file", "reports/html_report", "reports/curve_figures",
    "reports/score_figures", "reports/figure_style", "reports/stream_plot",
    "reports/confusion_figure", "reports/order_figures", "reports/gacc_figure",
    "runs/answers_from_scores", "runs/run_one", "runs/stream_runner", "streams/simulated_annealing",
}  # fmt: skip
# Their `__init__.py` resolve names lazily; every other one is empty.
FACES = {"", "extract", "learning"}
# Functions are verbs and classes nouns: participles beside those in "ed", and verbs in "ed".
PARTICIPLES = {
    "begun", "bought", "bound", "broken", "brought", "built", "chosen", "done", "drawn", "found",
    "given", "gone", "held", "hidden", "kept", "known", "left", "made", "met", "said", "seen",
    "sent", "shown", "sold", "spoken", "taken", "taught", "told", "written",
}  # fmt: skip
VERBS = {"embed", "feed", "need", "seed", "speed"}
PARTICIPLES_ALLOWED = {"CheckFailed"}  # an exception, named for what happened


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


def imports(tree: ast.AST, package: str) -> list[Import]:
    """Every import of a module of `package`; `from a import b` counts as a.b."""
    result: list[Import] = []

    def visit(node: ast.AST, lazy: bool, typing: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue
            if isinstance(child, ast.Import):
                for name in child.names:
                    result.append(Import(name.name, child.lineno, False, lazy, typing))
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    parents = package.split(".")[: len(package.split(".")) - child.level + 1]
                    base = ".".join([*parents, *([base] if base else [])])
                result.extend(
                    Import(f"{base}.{n.name}", child.lineno, child.level > 0, lazy, typing)
                    for n in child.names
                )
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            visit(child, lazy or inside, typing or guarded)

    visit(tree, False, False)
    return result


def name_of(path: Path) -> str:
    """`files/inspect` of embedbench/files/inspect.py, `models/mlp` of models/mlp.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "/".join(parts[1:] if parts[0] == "embedbench" else parts)


def files() -> list[Path]:
    package = ROOT / "embedbench"
    shared = [p for p in package.rglob("*.py") if p.resolve().is_relative_to(package)]
    return sorted([*shared, *(p for room in FLAT for p in (ROOT / room).glob("*.py"))])


FILES = {name_of(path): path for path in files()}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
# `from embedbench.files import inspect` names a module, `from …array_types import Ints` none.
MODULES = {f"embedbench.{name.replace('/', '.')}": name for name in FILES}


def room_of(name: str) -> str:
    return name.partition("/")[0]


def target(module: str) -> str | None:
    """The file behind an imported name of the project, or None: a name from outside."""
    while module.startswith("embedbench."):
        if module in MODULES:
            return MODULES[module]
        if f"{module}.__init__" in MODULES:
            return MODULES[f"{module}.__init__"]
        module = module.rpartition(".")[0]
    return "__init__" if module == "embedbench" else None


ALL = [
    (name, imported)
    for name, tree in TREES.items()
    # the package that the relative imports of the file start from
    for imported in imports(tree, ".".join(["embedbench", *name.split("/")[:-1]]))
]


def report(broken: Iterable[tuple[str, Import]]) -> str:
    return "\n".join(f"{name}.py:{i.line} imports {i.module}" for name, i in broken)


def test_every_room_has_a_floor() -> None:
    assert {room_of(name) for name in FILES} == set(FLOOR)


def test_a_room_imports_from_lower_floors_only() -> None:
    broken = []
    for name, i in ALL:
        to = target(i.module)
        if to is None or room_of(to) == room_of(name):
            continue
        here, there = room_of(name), room_of(to)
        allowed = FLOOR[there] < FLOOR[here]
        if here in ONLY and there not in GROUND:
            allowed = there in ONLY[here]
        if there == "extract" or (there == "learning" and name == "cli/pretrain"):
            allowed = allowed and (i.lazy or i.typing)
        if not allowed:
            broken.append((name, i))
    assert not broken, report(broken)


def test_no_circle() -> None:
    """Neither at import time nor through lazy and typing imports."""
    edges: dict[str, set[str]] = {name: set() for name in FILES}
    for name, i in ALL:
        to = target(i.module)
        if to is not None and to != name:
            edges[name].add(to)
    while free := [name for name, to in edges.items() if not to & edges.keys()]:
        for name in free:
            del edges[name]
    rest = {name: sorted(to & edges.keys()) for name, to in edges.items()}
    assert not rest, f"these import each other, or what does: {rest}"


@pytest.mark.parametrize("room", OUTSIDE)
def test_a_room_imports_only_what_it_may_from_outside(room: str) -> None:
    known = sys.stdlib_module_names | {"embedbench", *OUTSIDE[room]}
    broken = [(name, i) for name, i in ALL if room_of(name) == room and i.top not in known]
    assert not broken, report(broken)


def test_inside_a_folder_imports_are_relative_and_across_they_are_absolute() -> None:
    broken = []
    for name, i in ALL:
        to = target(i.module)
        if to is not None and name not in GROUND:
            folder = name.rpartition("/")[0]
            same = bool(folder) and to.startswith(f"{folder}/")
            if same != i.relative and "__init__" not in (name, to):
                broken.append((name, i))
    assert not broken, report(broken)


def test_no_room_is_imported_by_its_bare_name() -> None:
    broken = [(name, i) for name, i in ALL if not i.relative and i.top in FLAT]
    assert not broken, report(broken)


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    broken = [
        (name, i)
        for name, i in ALL
        if i.top in SLOW and not (i.lazy or i.typing) and not {name, room_of(name)} & MAY_BE_SLOW
    ]
    assert not broken, report(broken)


def test_init_files_are_empty_but_for_the_faces() -> None:
    inits = {name.rpartition("/")[0]: tree for name, tree in TREES.items() if "__init__" in name}
    for folder, tree in inits.items():
        assert folder in FACES or all(isinstance(n, ast.Expr) for n in tree.body), folder


def test_no_learner_builds_on_another() -> None:
    """A public module of models/ takes functions from its siblings, no class to inherit from."""
    classes = [
        (name, node)
        for name, tree in TREES.items()
        if room_of(name) == "models" and "/_" not in name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    public = {node.name for _, node in classes}
    assert not [(n, c.name) for n, c in classes if {ast.unparse(b) for b in c.bases} & public]


def test_no_learner_looks_behind_a_view() -> None:
    """Learners and their toolkit read a view's samples, never its table or its row numbers."""
    hidden = {name for name in vars(View) if name[0] == "_" and name[:2] != "__"}
    hidden |= {f.name for f in dataclasses.fields(View) if f.name[0] == "_"}
    assert {"_table", "_rows"} <= hidden
    broken = [
        f"{name}.py:{node.lineno} {ast.unparse(node)}"
        for name, tree in TREES.items()
        if room_of(name) in ("models", "learning")
        for node in ast.walk(tree)
        if behind_a_view(node, hidden)
    ]
    assert not broken, broken
    for wrong in ("replace(x, _rows=r)", "s.x._table", "table_of(x)", "view.rows_of(x)"):
        assert any(behind_a_view(node, hidden) for node in ast.walk(ast.parse(wrong))), wrong


def behind_a_view(node: ast.AST, hidden: set[str]) -> bool:
    """Whether an expression reaches for what a view hides; `self._rows` is a class's own."""
    if isinstance(node, ast.Attribute):
        mine = ast.unparse(node.value) == "self"
        return node.attr in INTERNAL or (node.attr in hidden and not mine)
    if isinstance(node, ast.keyword):
        return node.arg in hidden
    if isinstance(node, ast.alias):
        return node.name in INTERNAL
    return isinstance(node, ast.Name) and node.id in INTERNAL


@pytest.mark.parametrize("room", FLAT)
def test_rooms_are_flat_and_linked_into_the_package(room: str) -> None:
    link = ROOT / "embedbench" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room
    assert not [p for p in (ROOT / room).rglob("*.py") if p.parent != ROOT / room]


def test_a_file_name_occurs_once() -> None:
    """A name without its folder says which file is meant; papers have parallel folders."""
    shared = (n for n in FILES if room_of(n) != "papers" and not n.endswith("__init__"))
    counts = collections.Counter(name.rpartition("/")[2] for name in shared)
    assert not {name for name, n in counts.items() if n > 1}


def test_functions_are_verbs_and_classes_nouns() -> None:
    """No bare participle names a public function or class of a module."""
    assert is_participle("Asked")
    named = {
        node.name
        for tree in TREES.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert {name for name in named if is_participle(name)} == PARTICIPLES_ALLOWED


def is_participle(name: str) -> bool:
    """Whether a public name is one word that says what was done: `planned`, `taught`."""
    word = name.lower()
    return "_" not in word and word not in VERBS and (word.endswith("ed") or word in PARTICIPLES)


def test_this_test_sees_imports() -> None:
    """The rules above hold because nothing breaks them, not because nothing is found."""
    tree = ast.parse(
        "import models\nfrom embedbench.runs import stream_runner\nfrom .ewc import EWC\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "def f():\n    from embedbench.extract import extract\n"
    )
    made = imports(tree, "embedbench.models")
    assert [(i.module, target(i.module), "lt"[: i.lazy] + "t" * i.typing) for i in made] == [
        ("models", None, ""), ("embedbench.runs.stream_runner", "runs/stream_runner", ""),
        ("embedbench.models.ewc.EWC", "models/ewc", ""), ("typing.TYPE_CHECKING", None, ""),
        ("torch", None, "t"), ("embedbench.extract.extract", "extract/__init__", "l"),
    ]  # fmt: skip
    assert len(ALL) > 800
