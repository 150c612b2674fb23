"""`embedbench reproduce masana2020`: Masana et al. (2020) on any embedding file.

**Departs**: the paper trains a network on CIFAR-100's images. So do we with a pixel file of them
(the preset `class-orderings-images`, the published orders). Otherwise we use embeddings of other
data, with settings chosen for them. Random is drawn anew for each run here, as the spread of the
paper's runs suggests. Accuracy is the mean over the classes seen; it equals the accuracy per sample
if classes are equally large, as in CIFAR-100.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers import paper_runs
from embedbench.papers.paper import Paper, ReproduceRequest, per_file
from embedbench.papers.paper_folders import read_paper
from embedbench.papers.paper_table import PaperTable, Value
from embedbench.papers.reproduction_data import named_files
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.streams import make_class_order
from embedbench.streams.class_order import cifar100_labels

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
LEARNERS = paper_runs.read_variants(FACTS["learners"])
ORDERS: dict[str, str] = FACTS["orders"]
OFFICIAL, DATA = "cifar100", "CIFAR-100"  # our name and the paper's of its own data: images
PROTOCOL = "incremental-class"
SESSIONS = 10
AFTER = {"after 1": 1, "after 2": 2, "after 5": 5, "after the last": SESSIONS}  # tasks learned


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """Files by their names in tables; without any, the shipped emoji are used.

    Parameters
    ----------
    given : sequence of str
        "cifar100=FILE" for the paper's images, or FILE for a stand-in.

    Raises
    ------
    UserError
        A file is missing, or is not what its name says.
    """
    files = {name: path for name, (path, _) in named_files(given, [OFFICIAL], out, notify).items()}
    if (path := files.get(OFFICIAL)) is not None and not (
        paper_runs.holds_images(path) and cifar100_labels(EmbeddingFile.open(path)) is not None
    ):
        raise UserError(
            f"{OFFICIAL}= takes a pixel file of CIFAR-100's 100 classes, and {path} is none; make "
            "it with embedbench extract 'torch/cifar100?download=yes' --backbone none --size 32, "
            "or give the file without a name, as a stand-in"
        )
    return files


@dataclass
class OrderingRuns(paper_runs.PaperRuns):
    """The runs on CIFAR-100's images, or on files that replace them.

    Parameters
    ----------
    orders : dict
        (file, kind) → "random" or the path of the order file.
    """

    data: dict[str, Path] = field(kw_only=True)
    orders: dict[tuple[str, str], str] = field(default_factory=dict)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(dict.fromkeys(v.learner for v in LEARNERS.values()))

    @cached_property
    def sessions(self) -> int:
        """Number of sessions."""
        return self.sessions_asked(PROTOCOL) or SESSIONS

    def make_orders(self) -> None:
        """Make the orders of every file, or use those that were made before.

        The name of an order file contains the content of the file and the number of sessions. A
        file without a class hierarchy has no coarse order. Random orders are drawn by the runs.
        CIFAR-100's are the published ones.
        """
        directory = self.out / "orders"
        directory.mkdir(parents=True, exist_ok=True)
        for name, path in self.data.items():
            file = EmbeddingFile.open(path)
            stem = f"{name}-{file.digests['content'][:8]}-{self.sessions}"
            self.orders[name, "random"] = "random"
            for kind in (k for k in ORDERS if k != "random"):
                prefix = (
                    "cifar100-" if name == OFFICIAL and kind in make_class_order.CONFUSION else ""
                )
                made = directory / f"{stem}-{kind}.json"
                if not made.is_file():
                    try:
                        order = make_class_order.make_order(
                            file, prefix + kind, sessions=self.sessions
                        )
                    except UserError as e:
                        if kind != "coarse":
                            raise
                        self.notify(f"no coarse order: {e}")
                        continue
                    make_class_order.write_order(order, made)
                self.orders[name, kind] = str(made)

    def specs(self, name: str, kind: str, learner: str) -> list[RunSpec]:
        """One spec per seed; none if the file has no such order."""
        if (name, kind) not in self.orders:
            return []
        variant, order = LEARNERS[learner], self.orders[name, kind]
        file, settings = self.data[name], paper_runs.read_settings(FACTS["set"])
        preset = "class-orderings-images" if paper_runs.holds_images(file) else None
        if preset is None:
            settings |= paper_runs.read_settings(FACTS["set_embeddings"])
        fixed = paper_runs.read_settings({"protocol": {"order": order}}) | variant.fixed
        return self.plan(variant.learner, PROTOCOL, [file], settings, fixed=fixed, preset=preset)

    def of(self, name: str, kind: str, learner: str) -> list[RunRecord]:
        """The finished runs of a learner on an order, one per seed."""
        return self.records(self.specs(name, kind, learner))


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> OrderingRuns:
    """Return the runs on the requested files, with their class orders."""
    runs = asked.runs(OrderingRuns, data=find_data(asked.data, asked.out, asked.notify))
    asked.notify("ordering the classes; orders that are there are kept")
    runs.make_orders()
    return runs


def plan_runs(runs: OrderingRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once."""
    specs = []
    for name, kind in itertools.product(runs.data, ORDERS):
        by_learner = [runs.specs(name, kind, learner) for learner in runs.learners]
        specs += [spec for seed in zip(*by_learner, strict=True) for spec in seed]
    return specs


# --- Table 1 ---


def accuracy(record: RunRecord, head: str) -> float:
    """Accuracy in percent over all classes learned, at a column of Table 1; NaN in a short run."""
    pooled = record.pooled
    at = len(pooled) if head == "after the last" else AFTER[head]
    return 100 * pooled[at - 1] if at <= len(pooled) else float("nan")


def _table(runs: OrderingRuns, name: str) -> PaperTable:
    """Table 1: accuracy after sessions 1, 2, 5 and the last, for every learner and order."""
    table = _beside(lambda kind, learner: runs.of(name, kind, learner))
    if name != OFFICIAL:
        table.stand_in(name, f"{name} for {DATA}")
        table.title = (
            f"accuracy in percent, {runs.sessions} sessions of {name} for {SESSIONS} of {DATA}"
        )
        table.notes.append(f"{name} stands in for CIFAR-100's images: no difference is formed")
    if (name, "coarse") not in runs.orders:
        table.notes.append(f"{name} has no class hierarchy, so no coarse order")
    return table


def _beside(records: Callable[[str, str], Sequence[RunRecord]]) -> PaperTable:
    """Table 1; `records` returns our runs of an order and a learner."""
    paper = {
        (r["learner"], r["task"], kind): (r["accuracy"][kind], r["sd"][kind])
        for r in FACTS["printed"]["tables"]["1"]
        for kind in ORDERS
    }
    table = PaperTable.of_facts(FACTS, "1", label=DATA)
    for learner, kind in itertools.product(LEARNERS, ORDERS):
        values, found = {}, records(kind, learner)
        for head, task in AFTER.items():
            mean, sd = paper.get((learner, task, kind), (None, None))
            each = [accuracy(r, head) for r in found]
            ours = Stat.of(each) if each and not np.isnan(each).any() else None
            values[head] = Value(mean, ours, 1, sd=sd)
        table.rows.append(((LEARNERS[learner].label, ORDERS[kind]), values))
    return table


PAPER = Paper(
    FACTS,
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=lambda: [_beside(lambda *_: ())],
    tables={
        "1": per_file(_table),
    },
)
