"""Entries of `embedbench list`: what has a name, and its settings, without importing torch.

What only one kind needs is imported when that kind is listed.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench import plugins
from embedbench.config.describe_settings import flatten_settings, format_setting, parts, source
from embedbench.config.make_from_settings import make
from embedbench.config.named_streams import named_streams
from embedbench.errors import unknown
from embedbench.learning.learner import Learner, learner_words
from embedbench.reports.tracker_names import TRACKERS
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.runs.learner_tags import listed_words
from embedbench.streams.order_names import NAMED
from embedbench.studies import presets
from embedbench.text import terminal_text

from .command_output import show_tables

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LONG = ("backbones", "files", "zoo")  # listed alone, when they are asked for
SOURCES = {
    "demo": "the images that are shipped: emoji",
    "FOLDER": "class folders of images or of WAV files, or a zip of them; CUB-200-2011; MNIST",
    "torch/NAME[?OPTION=VALUE][@ROOT]": "a data set of torchvision with one label an image",
    "hfds/NAME[?label=COLUMN][@REVISION]": "one of Hugging Face's hub, or a folder of its form",
    "FILE.csv": "a table with the columns text and label; or .tsv, .jsonl, .parquet",
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
# The first line of the docstring of the first public class, up to the line's or the text's end.
_PUBLIC_CLASS = re.compile(r'^class [^_][^:]*:\n    r?"""(?P<line>.*?)(?:"""|$)', re.MULTILINE)


def every_entry() -> dict[str, list[dict[str, str]]]:
    """The entries of all kinds, but for those that are long."""
    installed = plugins.entry_points_by_kind()
    return {kind: entries(kind, installed.get(kind, {})) for kind in KINDS if kind not in LONG}


def entries(kind: str, installed: Mapping[str, EntryPoint] | None = None) -> list[dict[str, str]]:
    """Everything of a kind: name, summary, and the package of what is not ours.

    `installed` are the entry points of other packages; None: they are read.
    """
    rows = OURS[kind]()
    if kind == "protocols":
        named = named_streams().items()
        rows += [{"name": name, "summary": stream.summary()} for name, stream in named]
    if kind not in plugins.KINDS:
        return rows
    if installed is None:
        installed = plugins.entry_points_by_name(kind)
    names = {row["name"] for row in rows}
    unread = {"takes": ""} if kind == "learners" else {}  # its code is not imported
    for name, entry in sorted(installed.items()):
        if name not in names:
            package = plugins.origin(entry)
            rows.append({"name": name, "summary": entry.value, **unread, "package": package})
    return rows


def _named(summaries: Mapping[str, str]) -> list[dict[str, str]]:
    """Entries of which a name and a summary are all that is said."""
    return [{"name": name, "summary": summary} for name, summary in summaries.items()]


def listed_text(rows: Sequence[dict[str, str]]) -> str:
    """Entries as text, one a line."""
    pairs = [(row["name"], _summary(row)) for row in rows]
    return terminal_text.align_pairs(pairs) if pairs else "none"


def _summary(row: dict[str, str]) -> str:
    """What an entry is; what a learner takes; the package of what is not ours."""
    said = row["summary"]
    if row.get("takes"):
        said += f" ({row['takes']})"
    if "package" in row:
        said += f" [{row['package']}]"
    return said


def metric_functions() -> dict[str, Callable[..., Any]]:
    """Every metric by name: functions of scores, of accuracies, and of stored answers."""
    from embedbench.scores import against_chance, few_shot_scores, metrics
    from embedbench.scores.unrecorded_metrics import FUNCTIONS

    named: dict[str, Callable[..., Any]] = {**metrics.all_metrics()}
    for function in (*against_chance.CURVES, *few_shot_scores.FORMULAS):
        named[function.__name__] = function
    return named | FUNCTIONS


def _classes(room: str, names: Sequence[str]) -> dict[str, str]:
    """Learners or protocols, by name: the first line of the class, or what an alias stands for."""
    listed = {}
    for name in names:
        path = PACKAGE / room / f"{name.replace('-', '_')}.py"
        if not path.is_file():
            listed[name] = _alias(name)
            continue
        code = path.read_text(encoding="utf-8")  # not imported: torch is slow
        match = _PUBLIC_CLASS.search(code)
        listed[name] = match["line"] if match else ""
    return listed


def _learner_rows() -> list[dict[str, str]]:
    """Our learners, with what each takes and needs."""
    takes = listed_words()
    return [
        {"name": name, "summary": summary, "takes": ", ".join(takes[name])}
        for name, summary in _classes("models", by_name.our_learners()).items()
    ]


def _alias(name: str) -> str:
    """What another name of a learner stands for."""
    same, given = by_name.ALIASES[name]
    if not given:
        return f"another name of {same}"
    settings = ", ".join(f"{k}={format_setting(v)}" for k, v in given.items())
    return f"another name of {same} with {settings}"


def _backbones() -> dict[str, str]:
    """Our own, and every model that timm or we register in timm, read from the source."""
    timm = Path(str(getattr(importlib.util.find_spec("timm"), "origin", "")))
    # a function that is registered, or a row of our table of networks that are
    pattern = re.compile(r'^(?:@register_model\s+def |    "(?=vit_fscil_))(\w+)', re.MULTILINE)
    ours = PACKAGE / "networks" / "paper_networks.py"
    names: dict[str, str] = {}
    for path in (*sorted((timm.parent / "models").glob("*.py")), ours):
        what = "a network of the papers, to be pretrained" if path == ours else f"timm, {path.stem}"
        names |= dict.fromkeys(pattern.findall(path.read_text("utf-8")), what)
    return {**BACKBONES, **dict(sorted(names.items()))}


def file_rows() -> list[dict[str, str]]:
    """The known files, and those that were fetched, for `embedbench list files`."""
    from embedbench.files.remote import download_cache, names_here, uri

    rows = [
        {
            "name": uri.KNOWN + name,
            "summary": f"{known.what}; {known.size / 1e6:,.1f} MB; {known.licence}",
            "url": uri.KNOWN + name,
            "sha256": known.sha256,
            "size": str(known.size),
            "content": known.content,
        }
        for name, known in sorted(names_here.known_files().items())
    ]
    return rows + [
        {
            "name": file.url,
            "summary": f"fetched; {file.size / 1e6:,.1f} MB",
            "url": file.fixed,
            "sha256": file.sha256,
            "size": str(file.size),
            "content": file.digests.get("content", ""),
        }
        for file in download_cache.entries()
    ]


def _zoo_rows() -> list[dict[str, str]]:
    from embedbench.zoo.zoo_entries import zoo_rows

    return zoo_rows()


def _metric_summaries() -> dict[str, str]:
    return {
        name: (inspect.getdoc(function) or "").partition("\n")[0]
        for name, function in metric_functions().items()
    }


def _order_summaries() -> dict[str, str]:
    return {
        name: what if count == "any" else f"{what}; {count} classes"
        for name, (what, count) in NAMED.items()
    }


def _preset_summaries() -> dict[str, str]:
    return {name: presets.about(name)[0] for name in presets.preset_names()}


# What this package has of a kind, as `entries` lists it.
OURS: dict[str, Callable[[], list[dict[str, str]]]] = {
    "learners": _learner_rows,
    "protocols": lambda: _named(_classes("protocols", by_name.our_protocols())),
    "metrics": lambda: _named(_metric_summaries()),
    "presets": lambda: _named(_preset_summaries()),
    "orders": lambda: _named(_order_summaries()),
    "sources": lambda: _named(SOURCES),
    "engines": lambda: _named(ENGINES),
    "trackers": lambda: _named(TRACKERS),
    "backbones": lambda: _named(_backbones()),
    "files": file_rows,
    "zoo": _zoo_rows,
}
KINDS = tuple(OURS)


# --- the settings behind a name ---


NAMES: dict[str, Callable[[], Sequence[str]]] = {
    "learners": by_name.learner_names,
    "protocols": by_name.protocol_names,
    "presets": presets.preset_names,
    "streams": lambda: list(named_streams()),
}


def show_settings(name: str, form: str) -> None:
    """Print what a name is, and its settings; of a protocol and a preset of one name, both."""
    every = [describe(kind, name) for kind in _kinds(name)]
    rows: list[dict[str, Any]] = []
    for data in every:
        rows += data["settings"]
    text = "\n\n".join(settings_text(data["kind"], name) for data in every)
    show_tables(form, every[0] if len(every) == 1 else every, rows, text=text)


def settings_text(kind: str, name: str) -> str:
    """Each setting with its default as `--set` takes it, what it may be, and below it its meaning.

    A table would leave the meanings a narrow column.
    """
    data = describe(kind, name)
    lines = [f"{name}: {data['summary']}", *filter(None, [data["about"]])]
    lines.append(data["set"] if data["settings"] else "It has no settings.")
    for row in data["settings"]:
        setting, value, *rest = row.values()
        lines.append("  ".join([f"{setting}={value}", *(f"({kind})" for kind in rest[:1])]))
        lines += [f"    {meaning}" for meaning in rest[1:] if meaning]
    return terminal_text.fit_width("\n".join(lines), terminal_text.terminal_width())


def describe(kind: str, name: str) -> dict[str, Any]:
    """What has a name, and its settings as `--set` takes them."""
    if kind == "streams":
        return _stream(name)
    if kind != "presets":
        return _class(kind, name)
    summary, about = presets.about(name)
    origin = presets.origin(name)._asdict()
    said = [f"{key.capitalize()}: {text}" for key, text in origin.items() if text]
    return {
        "kind": "presets",
        "name": name,
        "summary": summary,
        "about": "\n".join(filter(None, [about, *said])),
        **origin,
        "set": f"`run --preset {name}` has these settings; `--set` goes over them.",
        "settings": [{"setting": str(k), "value": v} for k, v in presets.preset(name).items()],
    }


def _stream(name: str) -> dict[str, Any]:
    """Describe a stream that has a name."""
    stream = named_streams()[name]
    about = f"`embedbench list {stream.protocol}` says what the settings mean."
    if stream.metric is not None:
        about += f" Its papers print {stream.metric}."
    return {
        "kind": "streams",
        "name": name,
        "summary": f"a stream by name, {stream.summary()}",
        "about": about,
        "set": f"`run --protocol {name}` has these settings, over those of a preset; `--set` goes "
        "over them.",
        "settings": [{"setting": f"protocol.{k}", "value": v} for k, v in stream.set.items()],
    }


def _class(kind: str, name: str) -> dict[str, Any]:
    """Describe a learner, by any of its names, or a protocol."""
    given: dict[str, Any] = {}
    cls: type[Any]
    if kind == "learners":
        cls = by_name.learner_class(name)
        key = name
        given = by_name.alias_settings(name)
    else:
        cls = by_name.protocol_class(name)
        key = "protocol"
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
    about = [f"Source: {text}"] if (text := source(cls)) else []
    takes = {}
    if issubclass(cls, Learner):
        takes = {"takes": ", ".join(learner_words(cls))}
        about.append(f"Takes and needs: {takes['takes']}.")
    return {
        "kind": kind,
        "name": name,
        "summary": f"{_alias(name)}. {summary}" if name in by_name.ALIASES else summary,
        **takes,
        "about": "\n".join(about),
        "set": f"`run --set {key}.SETTING=VALUE` changes one.",
        "settings": rows,
    }


def _kinds(name: str) -> list[str]:
    """The kinds that have a name."""
    if ":" in name:
        from embedbench.streams.protocol import Protocol

        thing = plugins.outside(name)
        is_protocol = inspect.isclass(thing) and issubclass(thing, Protocol)
        return ["protocols" if is_protocol else "learners"]
    plain = {name, name.replace("_", "-")}
    kinds = [kind for kind, names in NAMES.items() if plain & {*names()}]
    if kinds:
        return kinds
    every = [*KINDS]
    for names in NAMES.values():
        every += names()
    meant = by_name.FIELD_NAMES.get(name)
    near = [meant] if meant else get_close_matches(name.lower(), every, n=1, cutoff=0.6)
    raise unknown("listing", name, KINDS, near)
