"""Entries of `embedbench list`: what has a name, and its settings, without importing torch."""

import ast
import importlib.util
import inspect
import re
from pathlib import Path

from embedbench import plugins
from embedbench.errors import UserError, unknown
from embedbench.reports.trackers import TRACKERS
from embedbench.runs import learner_and_protocol_names
from embedbench.scores.prediction_metrics import FUNCTIONS
from embedbench.streams.class_order import NAMED
from embedbench.studies import presets
from embedbench.text.terminal_text import align_pairs
from embedbench.zoo.zoo_entries import zoo_rows

from .command_output import note

KINDS = (
    *("learners", "protocols", "metrics", "presets", "orders", "sources", "engines", "trackers"),
    *("backbones", "files", "zoo"),
)
LONG = ("backbones", "files", "zoo")  # listed alone, when they are asked for
SOURCES = {
    "demo": "the images that are shipped: emoji",
    "FOLDER": "class folders of images or of WAV files, or a zip of them; CUB-200-2011; MNIST",
    "torch/NAME[?OPTION=VALUE][@ROOT]": "a data set of torchvision with one label an image",
    "hfds/NAME[?label=COLUMN][@REVISION]": "one of Hugging Face's hub, or a folder of its form",
    "wds/NAME[@ROOT]": "a stream that timm reads; likewise hfids/ and tfds/",
}
ENGINES = {
    "local": "processes on this machine, as many as the cores allow; local:N has N",
    "ray": "Ray, here or at ray://HOST:PORT",
    "slurm": "jobs of SLURM",
}
BACKBONES = {
    "pixels": "flattened raw values, divided by 255",
    "none": "no backbone: the images themselves, a pixel file",
    "log-mel": "of sounds: log-mel frames, one a second",
    "hf:NAME": "a model of transformers: of images, sounds or texts",
}


def entries(kind: str) -> list[dict[str, str]]:
    """Everything of a kind: name, summary, and the package of what is not ours."""
    if kind not in KINDS:
        raise unknown("listing", kind, KINDS)
    rows = _ours(kind)
    names = {row["name"] for row in rows}
    for name, entry in sorted(plugins.entry_points_by_name(kind).items()):
        if name not in names:
            rows.append(
                {"name": name, "summary": plugins.summary(entry), "package": plugins.origin(entry)}
            )
    return rows


def listed_text(rows: list[dict[str, str]]) -> str:
    """Entries as text, one a line."""
    pairs = [(r["name"], r["summary"] + f" [{r.get('package')}]" * ("package" in r)) for r in rows]
    return align_pairs(pairs) if pairs else "none"


def _ours(kind: str) -> list[dict[str, str]]:
    """The entries of a kind that this package has."""
    here = Path(__file__).parents[1]
    if kind == "learners":
        return _room(here / "models", learner_and_protocol_names.our_learners())
    if kind == "protocols":
        return _room(here / "protocols", learner_and_protocol_names.our_protocols())
    if kind == "orders":
        return [
            {
                "name": name,
                "summary": what if count == "any" else f"{what}; {count} classes",
                "classes": count,
            }
            for name, (what, count) in NAMED.items()
        ]
    if kind == "files":
        return file_rows()
    if kind == "zoo":
        return zoo_rows()
    listed = {"sources": SOURCES, "engines": ENGINES, "trackers": TRACKERS}.get(kind, {})
    if kind == "metrics":
        scores = here / "scores"
        functions = [
            *_functions(scores / "metrics.py", ["scores", "reference"]),
            *_functions(scores / "against_chance.py", ["scores"]),
            *_functions(scores / "few_shot_scores.py", ["accuracies"]),
        ]
        listed = {f.name: _first_line(f) for f in functions}
        listed |= {n: (inspect.getdoc(f) or "").partition("\n")[0] for n, f in FUNCTIONS.items()}
    if kind == "presets":
        listed = {name: presets.summary(name) for name in presets.preset_names()}
    if kind == "backbones":
        listed = _backbones()
    return [{"name": name, "summary": summary} for name, summary in listed.items()]


def _functions(path: Path, takes: list[str]) -> list[ast.FunctionDef]:
    """Public functions of a module that take these first arguments; not those over all metrics."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        n
        for n in tree.body
        if isinstance(n, ast.FunctionDef)
        and [a.arg for a in n.args.args][: len(takes)] == takes
        and not n.name.startswith("_")
        and n.name not in ("compute", "curves", "curves_from_accuracies")
    ]


def _room(folder: Path, names: list[str]) -> list[dict[str, str]]:
    rows = []
    for name in names:
        path = folder / f"{name.replace('-', '_')}.py"
        summary = ""
        if name in learner_and_protocol_names.ALIASES:
            same, given = (
                learner_and_protocol_names.ALIASES[name],
                learner_and_protocol_names.alias_settings(name),
            )
            settings = ", ".join(f"{k}={v}" for k, v in given.items())
            summary = f"{same} with {settings}" if given else f"another name of {same}"
        if path.is_file():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            classes = (n for n in tree.body if isinstance(n, ast.ClassDef))
            public = next(n for n in classes if not n.name.startswith("_"))  # then its helpers
            summary = _first_line(public)
        rows.append({"name": name, "summary": summary})
    return rows


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _backbones() -> dict[str, str]:
    """Our own, and every model that timm or we register in timm, read from the source."""
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.origin is None:
        raise UserError("timm is not installed; install it with: pip install timm")
    pattern = re.compile(r"^@register_model\s+def (\w+)\(", re.MULTILINE)
    ours = Path(__file__).parents[1] / "networks" / "paper_networks.py"
    names: dict[str, str] = {}
    for path in (*sorted((Path(spec.origin).parent / "models").glob("*.py")), ours):
        what = "a network of the papers, to be pretrained" if path == ours else f"timm, {path.stem}"
        names |= dict.fromkeys(pattern.findall(path.read_text("utf-8")), what)
    return {**BACKBONES, **dict(sorted(names.items()))}


def file_rows() -> list[dict[str, str]]:
    """The known files, and those that were fetched, for `embedbench list files`."""
    from embedbench.files.remote import download_cache
    from embedbench.files.remote.known_files import known_files
    from embedbench.files.remote.uri import KNOWN

    rows = []
    for name, known in sorted(known_files().items()):
        summary = f"{known.what}; {known.size / 1e6:,.1f} MB; {known.licence}"
        row = {"name": KNOWN + name, "summary": summary, "url": known.url, "sha256": known.sha256}
        rows.append({**row, "size": str(known.size), "content": known.content})
    for file in download_cache.entries():
        content = file.digests.get("content", "")
        summary = f"fetched; {file.size / 1e6:,.1f} MB; content {content[:16]}; used {file.used}"
        row = {"name": file.url, "summary": summary, "url": file.fixed, "sha256": file.sha256}
        rows.append({**row, "size": str(file.size), "content": content, "used": file.used})
    return rows


def prune_files(kind: str | None) -> None:
    """Remove the files that were fetched, for `embedbench list files --prune`."""
    from embedbench.files.remote import download_cache

    if kind != "files":
        raise UserError("--prune removes fetched files; write embedbench list files --prune")
    count, size = download_cache.prune()
    note(f"removed {count} fetched file{'s' * (count != 1)}, {size / 1e6:,.1f} MB")
