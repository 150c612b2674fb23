"""Reading never executes: nothing unpickles, evaluates or executes, read from the syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("embedbench", "extract", "models", "protocols", "benchmarks", "tools")
MODULES = {
    *{"pickle", "_pickle", "cloudpickle", "dill", "joblib", "jsonpickle", "shelve", "marshal"},
    *{"copyreg", "torch.hub", "torch.jit", "torch.package"},
}
BUILTINS = {"eval", "exec", "compile", "__import__"}
# Of torch and timm: these read pickles.
READERS = {"load", "load_checkpoint", "load_state_dict", "load_state_dict_from_url"}
WRITERS = {"torch.save"}
ALLOWED = {
    # `import` of tensors, `--weights FILE` and the weights of the hub, first in a bounded process
    ("embedbench/storage/untrusted_files.py", "torch.load(weights_only=True)"),
    # calls that a command sends to its workers, and what they send back: never in files of others
    *(
        ("embedbench/engines/engine_tasks.py", name)
        for name in ("import pickle", "pickle", "pickle.dumps", "pickle.loads")
    ),
    # what a process and those that decode for it say to each other, over pipes that both began with
    *(
        ("extract/decoding_processes.py", name)
        for name in (
            *("import marshal", "marshal", "marshal.dumps", "import pickle", "pickle"),
            *("pickle.dump", "pickle.load", "pickle.UnpicklingError"),
        )
    ),
    *(
        ("extract/extraction_work.py", name)  # whether a source can be said to them
        for name in ("import pickle", "pickle", "pickle.dumps")
    ),
    *(
        ("extract/decoding_worker.py", name)
        for name in ("import pickle", "pickle", "pickle.dump", "pickle.load")
    ),
}


def names_of(nodes: list[ast.AST]) -> dict[str, str]:
    """What each imported name stands for: `np` for numpy, `load` for torch.load."""
    names = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for part in node.names:
                first = part.name.partition(".")[0]
                names[part.asname or first] = part.name if part.asname else first
        elif isinstance(node, ast.ImportFrom):
            for part in node.names:
                names[part.asname or part.name] = f"{node.module}.{part.name}"
    return names


def dotted(node: ast.expr) -> str:
    """`a.b` of the expression a.b; of others, as f(x).b, what follows a dot: `.b`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Full names of all that is imported ("import …") or mentioned, by line."""
    nodes = list(ast.walk(tree))
    names = names_of(nodes)
    safe = {
        id(node.func)
        for node in nodes
        if isinstance(node, ast.Call)
        and any(k.arg == "weights_only" and ast.unparse(k.value) == "True" for k in node.keywords)
    }
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from ((node.lineno, f"import {module}{part.name}") for part in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            first, dot, rest = dotted(node).partition(".")
            whole = names.get(first, first) + dot + rest
            yield node.lineno, whole + "(weights_only=True)" * (id(node) in safe)
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            yield node.value.lineno, ast.unparse(node)


def faults(tree: ast.AST, path: str = "") -> set[tuple[int, str]]:
    """What could run code that lies in a file: the line, and the name of what it uses."""
    return {
        (line, name)
        for line, name in used(tree)
        if (path, name) not in ALLOWED
        and (
            name in BUILTINS | WRITERS
            or any(f"{name.removeprefix('import ')}.".startswith(f"{m}.") for m in MODULES)
            or (name.startswith(("torch.", "timm.")) and _last(name) in READERS)
            or (name.startswith("allow_pickle=") and name != "allow_pickle=False")
            or (name.startswith("weights_only=") and name != "weights_only=True")
        )
    }


def _last(name: str) -> str:
    return name.partition("(")[0].rpartition(".")[2]


def test_nothing_that_is_read_can_run() -> None:
    broken = {
        (path.relative_to(ROOT), fault)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for fault in faults(ast.parse(path.read_text("utf-8")), str(path.relative_to(ROOT)))
    }
    assert not broken, "read data: JSON, safetensors (learning.checkpoint_state), NumPy, HDF5"


def test_this_test_sees_what_can_run() -> None:
    for line, caught in (
        ("import pickle", True),
        ("import torch.serialization as s; s.load(path)", True),
        ("import torch; torch.load(path, weights_only=True)", True),  # no place is allowed it
        ("from torch import load as get; get(path)", True),
        ("import torch; f = torch.load", True),
        ("import torch; torch.save(state, path)", True),
        ("import timm; timm.models.load_checkpoint(model, path)", True),
        ("import numpy as np; np.load(path, allow_pickle=True)", True),
        ("import numpy as np; np.load(path, allow_pickle=False)", False),
        ("load_state_dict(path, weights_only=False)", True),
        ("eval(text)", True),
        ("f = __import__", True),
        ("model.eval()", False),
        ("import re, torch; re.compile(text); torch.compile(model)", False),
        ("from safetensors.torch import load; load(data)", False),
    ):
        assert bool(faults(ast.parse(line))) is caught


def test_what_is_allowed_is_there() -> None:
    for path, name in ALLOWED:
        assert name in {whole for _, whole in used(ast.parse((ROOT / path).read_text("utf-8")))}
