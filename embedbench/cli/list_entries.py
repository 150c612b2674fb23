"""Entries of `embedbench list`: what has a name, and its settings, without importing torch."""

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench import plugins
from embedbench.config.describe_settings import flatten_settings, format_setting, parts, source
from embedbench.config.make_from_settings import make
from embedbench.errors import UserError, unknown
from embedbench.files.remote import download_cache, known_files, uri
from embedbench.reports.trackers import TRACKERS
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.scores.unrecorded_metrics import FUNCTIONS
from embedbench.streams import class_order, protocol
from embedbench.studies import presets
from embedbench.text import table_export, terminal_text
from embedbench.zoo.zoo_entries import zoo_rows

from .command_output import show_tables

if TYPE_CHECKING:
    from .command_output import Part

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
PACKAGE = Path(__file__).parents[1]


def entries(kind: str) -> list[dict[str, str]]:
    """Everything of a kind: name, summary, and the package of what is not ours."""
    if kind not in KINDS:
        raise unknown("listing", kind, KINDS)
    listed = OURS[kind]()
    rows = (
        [{"name": name, "summary": summary} for name, summary in listed.items()]
        if isinstance(listed, dict)
        else listed
    )
    names = {row["name"] for row in rows}
    return rows + [
        {"name": name, "summary": plugins.summary(entry), "package": plugins.origin(entry)}
        for name, entry in sorted(plugins.entry_points_by_name(kind).items())
        if name not in names
    ]


def listed_text(rows: Sequence[dict[str, str]]) -> str:
    """Entries as text, one a line."""
    pairs = [(r["name"], r["summary"] + f" [{r.get('package')}]" * ("package" in r)) for r in rows]
    return terminal_text.align_pairs(pairs) if pairs else "none"


def _metrics() -> dict[str, str]:
    """Public functions that take scores or accuracies; not those over all metrics."""
    listed = {}
    for module, first in (
        ("metrics", ["scores", "reference"]),
        ("against_chance", ["scores"]),
        ("few_shot_scores", ["accuracies"]),
    ):
        for node in _public(PACKAGE / "scores" / f"{module}.py", ast.FunctionDef):
            over_all = node.name in ("compute", "curves", "curves_from_accuracies")
            if [a.arg for a in node.args.args][: len(first)] == first and not over_all:
                listed[node.name] = _first_line(node)
    return listed | {n: (inspect.getdoc(f) or "").partition("\n")[0] for n, f in FUNCTIONS.items()}


def _public(path: Path, kind: type[Any]) -> Iterator[Any]:
    """Yield the public definitions of a kind in a module, from its source."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, kind) and not node.name.startswith("_"):
            yield node


def _first_line(node: Any) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _classes(room: str, names: Sequence[str]) -> dict[str, str]:
    """Learners or protocols, by name: the first line of the class, or what an alias stands for."""
    listed = {}
    for name in names:
        path = PACKAGE / room / f"{name.replace('-', '_')}.py"
        if path.is_file():
            listed[name] = _first_line(next(_public(path, ast.ClassDef)))  # its helpers follow
        else:
            same, given = by_name.ALIASES[name]
            settings = ", ".join(f"{k}={v}" for k, v in given.items())
            listed[name] = f"{same} with {settings}" if given else f"another name of {same}"
    return listed


def _orders() -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "summary": what if count == "any" else f"{what}; {count} classes",
            "classes": count,
        }
        for name, (what, count) in class_order.NAMED.items()
    ]


def _backbones() -> dict[str, str]:
    """Our own, and every model that timm or we register in timm, read from the source."""
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.origin is None:
        raise UserError("timm is not installed; install it with: pip install timm")
    pattern = re.compile(r"^@register_model\s+def (\w+)\(", re.MULTILINE)
    ours = PACKAGE / "networks" / "paper_networks.py"
    names: dict[str, str] = {}
    for path in (*sorted((Path(spec.origin).parent / "models").glob("*.py")), ours):
        what = "a network of the papers, to be pretrained" if path == ours else f"timm, {path.stem}"
        names |= dict.fromkeys(pattern.findall(path.read_text("utf-8")), what)
    return {**BACKBONES, **dict(sorted(names.items()))}


def file_rows() -> list[dict[str, str]]:
    """The known files, and those that were fetched, for `embedbench list files`."""
    rows = []
    for name, known in sorted(known_files.known_files().items()):
        summary = f"{known.what}; {known.size / 1e6:,.1f} MB; {known.licence}"
        row = {
            "name": uri.KNOWN + name,
            "summary": summary,
            "url": known.url,
            "sha256": known.sha256,
        }
        rows.append({**row, "size": str(known.size), "content": known.content})
    for file in download_cache.entries():
        content = file.digests.get("content", "")
        summary = f"fetched; {file.size / 1e6:,.1f} MB; content {content[:16]}"
        row = {"name": file.url, "summary": summary, "url": file.fixed, "sha256": file.sha256}
        rows.append({**row, "size": str(file.size), "content": content})
    return rows


# What this package has of a kind: summaries by name, or rows that say more.
OURS: dict[str, Callable[[], dict[str, str] | list[dict[str, str]]]] = {
    "learners": lambda: _classes("models", by_name.our_learners()),
    "protocols": lambda: _classes("protocols", by_name.our_protocols()),
    "metrics": _metrics,
    "presets": lambda: {name: presets.about(name)[0] for name in presets.preset_names()},
    "orders": _orders,
    "sources": lambda: SOURCES,
    "engines": lambda: ENGINES,
    "trackers": lambda: TRACKERS,
    "backbones": _backbones,
    "files": file_rows,
    "zoo": zoo_rows,
}
KINDS = tuple(OURS)


# --- the settings behind a name ---


NAMES: dict[str, Callable[[], Sequence[str]]] = {
    "learners": by_name.learner_names,
    "protocols": by_name.protocol_names,
    "presets": presets.preset_names,
}


def show_settings(kind: str | None, name: str, form: str) -> None:
    """Print what a name is, and its settings; of a protocol and a preset of one name, both.

    Parameters
    ----------
    kind : str or None
        A key of `NAMES`; None: those that have the name.
    """
    every = [listed_settings(k, name) for k in ([kind] if kind else _kinds_of(name))]
    tables: list[Part] = []
    for data in every:
        tables += map(terminal_text.line, _head(data))
        tables += [table_export.make_table(data["settings"])] if data["settings"] else []
    show_tables(
        form,
        every[0] if len(every) == 1 else every,
        [row for data in every for row in data["settings"]],
        text="\n\n".join(map(_text, every)),
        parts=tables,
    )


def _head(data: dict[str, Any]) -> list[str]:
    said = [data["name"] + ": " + data["summary"], data["about"]]
    return [*filter(None, said), data["set"] if data["settings"] else "It has no settings."]


def _text(data: dict[str, Any]) -> str:
    """Each setting with its default as `--set` takes it, what it may be, and below it its meaning.

    A table would leave the meanings a narrow column.
    """
    lines = _head(data)
    for row in data["settings"]:
        setting, value, *rest = row.values()
        lines.append("  ".join([f"{setting}={value}", *(f"({kind})" for kind in rest[:1])]))
        lines += [f"    {meaning}" for meaning in rest[1:] if meaning]
    return terminal_text.fit_width("\n".join(lines), terminal_text.terminal_width())


def listed_settings(kind: str, name: str) -> dict[str, Any]:
    """Describe a name of a kind, and its settings as `--set` takes them."""
    if kind not in NAMES:
        raise UserError(
            f"{kind} have no settings; `list KIND NAME` takes one of {', '.join(NAMES)}, "
            "such as embedbench list learners ewc"
        )
    if kind != "presets":
        return {"kind": kind, "name": name, **_of_class(kind, name)}
    summary, about = presets.about(name)
    return {
        "kind": kind,
        "name": name,
        "summary": summary,
        "about": about,
        "set": f"`run --preset {name}` has these settings; `--set` goes over them.",
        "settings": [{"setting": str(k), "value": v} for k, v in presets.preset(name).items()],
    }


def _of_class(kind: str, name: str) -> dict[str, Any]:
    """Describe a learner, by any of its names, or a protocol."""
    given: dict[str, Any] = {}
    cls: type[Any]
    if kind == "learners":
        cls, key, given = by_name.learner_class(name), name, by_name.alias_settings(name)
    else:
        cls, key = by_name.protocol_class(name), "protocol"
    # What the learner does not refuse, in the place of what any memory takes.
    selects = getattr(cls, "selects", ())
    ranges = {"memory.select": f"one of {', '.join(selects)}"} if selects else {}
    rows = [
        {
            "setting": f"{key}.{s.name}",
            "default": format_setting(s.default),
            "values": ", ".join(filter(None, (s.type, ranges.get(s.name, s.range)))),
            "meaning": s.meaning,
        }
        for s in flatten_settings(cls, make(cls, given, name=name) if given else None)
    ]
    summary = parts(cls)[""].partition("\n")[0]
    if name in by_name.ALIASES:
        settings = ", ".join(f"{k}={format_setting(v)}" for k, v in given.items())
        same = by_name.ALIASES[name][0] + (f" with {settings}" if given else "")
        summary = f"another name of {same}. {summary}"
    return {
        "summary": summary,
        "about": f"Source: {text}" if (text := source(cls)) else "",
        "set": f"`run --set {key}.SETTING=VALUE` changes one.",
        "settings": rows,
    }


def _kinds_of(name: str) -> list[str]:
    """The kinds that have a name."""
    if ":" in name:
        thing = plugins.outside(name)
        is_protocol = inspect.isclass(thing) and issubclass(thing, protocol.Protocol)
        return ["protocols" if is_protocol else "learners"]
    plain = {name, name.replace("_", "-")}
    kinds = [kind for kind, names in NAMES.items() if plain & {*names()}]
    if kinds:
        return kinds
    if name in by_name.FIELD_NAMES:
        by_name.protocol_class(name)  # refuses it, and names ours
    every = [*KINDS, *(known for names in NAMES.values() for known in names())]
    error = unknown("listing", name, KINDS, get_close_matches(name, every, n=1, cutoff=0.6))
    raise UserError(
        f"{error} The name of a learner, a protocol or a preset gives its settings: "
        "embedbench list ewc"
    )
