"""The data sets, task configurations and runs for the tables and figures of IIRC."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.arrays import Floats
from embedbench.config.seeds import parse_seeds
from embedbench.papers import runs
from embedbench.papers.data import named_files
from embedbench.papers.runs import Variant
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.label_set_predictions import LabelSets
from embedbench.scores.run_record import RunRecord

PROTOCOL, PRESET = "iirc", "iirc"
CHOSEN = "protocol.configuration="  # the setting that selects a task configuration
STAND_IN_CONFIGURATIONS = 5  # the paper's number for ImageNet
LEARNERS = {
    "finetune": Variant("finetune", "finetune"),
    "er": Variant("ER", "er"),
    "agem": Variant("A-GEM", "agem"),
    "icarl-cnn": Variant("iCaRL-CNN", "icarl-cnn"),
    "icarl-norm": Variant("iCaRL-norm", "icarl-norm"),
    "lucir": Variant("LUCIR", "lucir"),
    "bic": Variant("BiC", "bic"),
    "er-infinite": Variant("ER-infinite", "er-infinite"),
    "incremental-joint": Variant(
        "incremental joint", "incremental-joint", ("protocol.information=cumulative",)
    ),
}
JOINT = Variant("joint", "offline")  # all classes at once, complete labels
# The text gives 20 (the default) and 100; the others are ours: Figures A.27 and A.28 give no
# numbers.
BUFFERS = {
    f"er-{n}": Variant(f"ER {n}", "er", ("er.memory.total=none", f"er.memory.per_class={n}"))
    for n in (5, 10, 20, 40, 100)
}
VARIANTS = {**LEARNERS, **BUFFERS, "joint": JOINT}


@dataclass(frozen=True)
class Official:
    """A data set of the paper.

    Parameters
    ----------
    label : str
        The paper's name.
    table : str
        Number of the table that prints its pw-JS.
    configurations : int
        Number of task configurations.
    """

    label: str
    table: str
    configurations: int


OFFICIAL = {
    "cifar": Official("IIRC-CIFAR", "5", 10),
    "imagenet-lite": Official("IIRC-ImageNet-lite", "6", 5),
    "imagenet-full": Official("IIRC-ImageNet-full", "7", 5),
}
STOOD_FOR = OFFICIAL["cifar"]  # any other file is compared with it


@dataclass(frozen=True)
class IIRCData:
    """One of the paper's data sets, or a file that replaces one.

    Parameters
    ----------
    file : Path
        Embedding file.
    official : str or None
        Name of the data set. None: the file replaces IIRC-CIFAR, with its own hierarchy.
    """

    file: Path
    official: str | None = None

    @property
    def stands_in(self) -> bool:
        return self.official is None

    @property
    def paper(self) -> Official:
        """The data set whose published values are shown beside ours."""
        return STOOD_FOR if self.official is None else OFFICIAL[self.official]

    @property
    def label(self) -> str:
        """The paper's name, or "emoji for IIRC-CIFAR"."""
        return f"{self.file.stem} for {self.paper.label}" if self.stands_in else self.paper.label

    @property
    def configurations(self) -> int:
        """Number of task configurations."""
        return STAND_IN_CONFIGURATIONS if self.stands_in else self.paper.configurations

    @property
    def preset(self) -> str:
        """The paper's settings: for its images and networks, or for embeddings."""
        if not runs.holds_images(self.file):
            return PRESET
        return "iirc-cifar-images" if self.paper is STOOD_FOR else "iirc-imagenet-images"

    def configured(self, k: int) -> list[str]:
        """Return settings of the protocol for task configuration k.

        It is an official one, or is drawn from the hierarchy in the file.
        """
        hierarchy = "file" if self.official is None else f"iirc-{self.official}"
        return [f"protocol.hierarchy={hierarchy}", f"{CHOSEN}{k}"]


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, IIRCData]:
    """The data sets of a reproduction by name; without any, the shipped emoji are used.

    Parameters
    ----------
    given : sequence of str
        "cifar=FILE", "imagenet-lite=FILE", "imagenet-full=FILE", or FILE for a stand-in.
    out : Path
        Directory for the files that are made.
    """
    files = named_files(given, OFFICIAL, out, notify)
    return {name: IIRCData(path, official) for name, (path, official) in files.items()}


@dataclass
class IIRCRuns(runs.PaperRuns):
    """The runs of every learner on every task configuration of each data set.

    Parameters
    ----------
    data : dict
        Data sets by name.
    """

    data: dict[str, IIRCData] = field(kw_only=True)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(dict.fromkeys(v.learner for v in VARIANTS.values()))
    _chosen: list[int] | None = field(default=None, init=False)
    _read: dict[tuple[str, str], list[list[RunRecord]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for item in self.items:
            if item.startswith(CHOSEN):
                self._chosen = parse_seeds(item.removeprefix(CHOSEN))
        self.items = [i for i in self.items if not i.startswith(CHOSEN)]

    def configurations(self, name: str) -> list[int]:
        """Indices of the task configurations: the user's, or all."""
        return self._chosen or list(range(self.data[name].configurations))

    def specs(self, name: str, variant: str, configuration: int) -> list[RunSpec]:
        """One spec per seed."""
        chosen, data = VARIANTS[variant], self.data[name]
        fixed = [*data.configured(configuration), *chosen.fixed]
        # no table shows Ω, so no offline references are needed
        return self.plan(
            chosen.learner, PROTOCOL, [data.file], ["references=0"], fixed=fixed, preset=data.preset
        )

    def of(self, name: str, variant: str) -> list[list[RunRecord]]:
        """The finished runs that means may include: one list per configuration with runs."""
        key = (name, variant)
        if key not in self._read:
            each = [self.records(self.specs(*key, k)) for k in self.configurations(name)]
            self._read[key] = [records for records in each if records]
        return self._read[key]

    def curve(self, name: str, variant: str, read: Callable[[RunRecord], Any]) -> Floats | None:
        """(n, T) a curve for each configuration, mean over its seeds; None without runs.

        Runs with fewer sessions than the others end in NaN.
        """
        means = [
            np.mean([np.array(read(r), dtype=np.float64) for r in records], axis=0)
            for records in self.of(name, variant)
        ]
        if not means:
            return None
        longest = max(map(len, means))
        return np.stack([np.append(m, np.full(longest - len(m), np.nan)) for m in means])

    def sessions(self, name: str) -> int:
        """Number of sessions of the longest finished run; 0 without runs."""
        curves = [self.curve(name, n, score("pw_js")) for n in LEARNERS]
        return max((c.shape[1] for c in curves if c is not None), default=0)

    def answers(self, name: str, variant: str) -> tuple[LabelSets, Sequence[str]] | None:
        """Label sets and class names of the first finished run; None without runs."""
        for k in self.configurations(name):
            for spec in self.specs(name, variant, k):
                task = self.streams.task(spec, self.out / "runs")
                if task.is_done():
                    return LabelSets.load(task.run_dir / "predictions.h5"), task.stream.classes
        return None


def score(name: str) -> Callable[[RunRecord], Any]:
    """A function that reads R_j of a base score, session by session."""
    return lambda r: r.by_score[name].pooled


def curve(name: str) -> Callable[[RunRecord], Any]:
    """A function that reads a curve of a record."""
    return lambda r: (r.curves or {})[name]


def matrix(record: RunRecord) -> Floats:
    """R_jk for pw-JS, (T, T)."""
    return np.array(record.by_score["pw_js"].R, dtype=np.float64)
