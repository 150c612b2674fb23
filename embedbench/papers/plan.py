"""Plans for teams that have a paper's data and a GPU: `embedbench reproduce --plan`.

A paper's plan is `PLAN` in the `plan.py` of its folder: data, not code that runs. It is printed
without network, without reading any file of the user, and without torch.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedbench.text.terminal import line, new_table, render_text

UNKNOWN = "not computed here; compare what inspect prints with other teams"
WIDTH = 100
# Samples a second that one data-centre GPU of 2022 or later is assumed to train on, or to pass
# forward, in float32 with TF32. Nobody has measured them here: put your own in their place.
RATES = {
    "ResNet-32, 32 px, training": 10_000,
    "ResNet-18, 32 px, training in batches of 74": 4_000,
    "ResNet-18, 64 px, training in batches of 74": 2_500,
    "ResNet-50, 224 px, training": 700,
    "ResNet-50, 224 px, forward": 2_000,
    "ViT of 12 blocks and 145 tokens, training": 3_000,
    "ViT of 12 blocks and 145 tokens, forward": 9_000,
    "ViT-S/16, 224 px, forward": 3_000,
    "small network on embeddings, training": 200_000,
    "PathNet on embeddings, batches of 16": 20_000,
    "self-organising map on embeddings, one sample a step": 2_000,
}


@dataclass(frozen=True)
class PreparedFile:
    """A file that `extract` or `import` makes of a data set.

    Parameters
    ----------
    path : str
        Its name in the commands.
    commands : tuple of str
        Commands that make it.
    values : int
        Numbers per sample, with the layers.
    width : int
        Bytes of a number.
    """

    path: str
    commands: tuple[str, ...]
    values: int
    width: int = 4


@dataclass(frozen=True)
class DataSet:
    """A data set: where it is published, and what is known about its samples.

    Parameters
    ----------
    name : str
        The paper's name.
    home : str
        Where it is published.
    terms : str
        Licence or terms of use, as far as the papers or the files state them.
    layout : str
        What `extract` or `import` expects, in a sentence.
    arrange : tuple of str
        Shell lines that make this layout from what is published.
    classes : int
        Number of leaf classes.
    samples : mapping of str to int
        Number of samples of each split.
    digest : str
        The samples digest that `inspect` prints; empty if it is not known.
    made : tuple of Made
        The files, which all have these samples.
    """

    name: str
    home: str
    terms: str
    layout: str
    classes: int
    samples: Mapping[str, int]
    made: tuple[PreparedFile, ...]
    arrange: tuple[str, ...] = ()
    digest: str = ""

    def bytes_of(self, made: PreparedFile) -> int:
        """Bytes of a file's features: samples x numbers x bytes of a number."""
        return sum(self.samples.values()) * made.values * made.width

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "name": self.name,
            "home": self.home,
            "terms": self.terms,
            "layout": self.layout,
            "arrange": list(self.arrange),
            "classes": self.classes,
            "samples": dict(self.samples),
            "samples_digest": self.digest or None,
            "files": [{"path": m.path, "bytes": self.bytes_of(m)} for m in self.made],
        }


@dataclass(frozen=True)
class PlannedWork:
    """Runs of one kind, or a preparation; hours = runs x samples x epochs / rate / 3600.

    Parameters
    ----------
    what : str
        For the reader.
    rate : str
        A name in `RATES`.
    samples : int
        Samples of one epoch, over all sessions of a run.
    epochs : float
        Passes over them: the most that the stopping rule allows, unless `what` says otherwise.
    runs : int
        Number of runs; of every seed, if `seeded`.
    seeded : bool
        Whether there are so many runs of every seed.
    is_counted : bool
        Whether these are runs that `reproduce` counts; else they prepare, or choose a setting.
    """

    what: str
    rate: str
    samples: int
    epochs: float
    runs: int = 1
    seeded: bool = True
    is_counted: bool = True

    def of(self, seeds: int) -> int:
        """Number of runs for so many seeds."""
        return self.runs * (seeds if self.seeded else 1)

    def hours(self, seeds: int) -> float:
        """The estimate."""
        return self.of(seeds) * self.samples * self.epochs / RATES[self.rate] / 3600

    def to_json(self, seeds: int) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "what": self.what,
            "runs": self.of(seeds),
            "samples": self.samples,
            "epochs": self.epochs,
            "samples_a_second_assumed": RATES[self.rate],
            "network": self.rate,
            "gpu_hours_estimated": self.hours(seeds),
        }


@dataclass(frozen=True)
class Plan:
    """A paper's reproduction by others.

    Parameters
    ----------
    paper : str
        Its name on the command line.
    data : tuple of DataSet
        In the order of the commands.
    work : tuple of PlannedWork
        What takes the time.
    commands : tuple of str
        Commands after the files are made; "{seeds}" is replaced.
    back : str
        The files that are sent back.
    remarks : tuple of str
        What else one must know, a sentence or two each.
    """

    paper: str
    data: tuple[DataSet, ...]
    work: tuple[PlannedWork, ...]
    commands: tuple[str, ...]
    back: tuple[str, ...]
    remarks: tuple[str, ...] = field(default=())

    def runs(self, seeds: int) -> int:
        """Number of runs that `reproduce` plans for so many seeds."""
        return sum(w.of(seeds) for w in self.work if w.is_counted)

    def steps(self, seeds: str) -> list[tuple[str, list[str]]]:
        """Headings and shell lines, in order."""
        result = [
            (f"{n}. {data.name}", [*data.arrange, *_make(data)])
            for n, data in enumerate(self.data, 1)
        ]
        commands = [command.replace("{seeds}", seeds) for command in self.commands]
        return [*result, (f"{len(result) + 1}. The runs and the tables", commands)]

    def to_json(self, seeds: str, count: int) -> dict[str, Any]:
        """Plain JSON data, for `count` seeds, as `seeds` names them."""
        return {
            "paper": self.paper,
            "seeds": seeds,
            "data": [data.to_json() for data in self.data],
            "steps": [{"step": head, "commands": lines} for head, lines in self.steps(seeds)],
            "runs": self.runs(count),
            "bytes": sum(d.bytes_of(m) for d in self.data for m in d.made),
            "estimate": [work.to_json(count) for work in self.work],
            "gpu_hours_estimated": sum(work.hours(count) for work in self.work),
            "send_back": list(self.back),
            "remarks": list(self.remarks),
        }


def _make(data: DataSet) -> Iterator[str]:
    """The commands that make a data set's files, and check each."""
    for made in data.made:
        yield from made.commands
        yield f"embedbench verify {made.path}"
        yield f"embedbench inspect {made.path}"


def plan_text(plan: Plan, seeds: str, count: int) -> str:
    """Return a plan as text; commands are never folded, so that they can be copied."""
    parts = [f"Plan to reproduce {plan.paper}, seeds {seeds}: {plan.runs(count):,} runs", ""]
    parts += ["WHAT TO FETCH AND TO EXPECT", *_data_text(plan.data), "COMMANDS"]
    for head, lines in plan.steps(seeds):
        parts += [head, *(f"    {command}" for command in lines), ""]
    parts += ["COST", *_cost_text(plan, count), ""]
    parts += ["SEND BACK", *(f"    {path}" for path in plan.back), ""]
    parts += ["REMARKS", *(text for remark in plan.remarks for text in _folded(f"- {remark}"))]
    return "\n".join(parts)


def _data_text(data: Sequence[DataSet]) -> Iterator[str]:
    for n, each in enumerate(data, 1):
        counts = ", ".join(f"{count:,} {split}" for split, count in each.samples.items())
        yield f"{n}. {each.name}: {each.home}"
        yield from _folded(f"   terms: {each.terms}")
        yield from _folded(f"   layout: {each.layout}")
        yield f"   expected samples: {counts}; classes: {each.classes}"
        yield f"   expected samples digest: {each.digest or UNKNOWN}"
        for made in each.made:
            yield f"   file: {made.path}, {_size(each.bytes_of(made))}"
        yield ""


def _cost_text(plan: Plan, count: int) -> list[str]:
    heads = ("what", "runs", "samples", "epochs", "samples/s assumed", "GPU hours")
    table = new_table(heads)
    for work in plan.work:
        row = (f"{work.of(count):,}", f"{work.samples:,}", f"{work.epochs:g}")
        rate, hours = f"{RATES[work.rate]:,}", _hours(work.hours(count))
        table.add_row(*map(line, (f"{work.what} ({work.rate})", *row, rate, hours)))
    disk = sum(d.bytes_of(m) for d in plan.data for m in d.made)
    total = sum(work.hours(count) for work in plan.work)
    explained = (
        f"Disk: {_size(disk)} for the files (samples x numbers x bytes), without the published "
        f"archives and the runs. GPU hours: {_hours(total)} one after another, an estimate: runs x "
        "samples x epochs / rate. The rates are assumed for one data-centre GPU (of a core where "
        "it says CPU), not measured: the first run tells you yours."
    )
    return [*render_text([table]).split("\n"), *_folded(explained)]


def _folded(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.1 else "< 0.1"


def _size(n: int) -> str:
    """Bytes as MB or GB, powers of ten.

    >>> _size(219_520_000), _size(200_382_000_000)
    ('220 MB', '200.4 GB')
    """
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{math.ceil(n / 1e6)} MB"
