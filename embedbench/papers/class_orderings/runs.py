"""The class orders and runs behind the tables and figures of Masana et al. (2020)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers import runs
from embedbench.papers.data import named_files
from embedbench.papers.runs import Variant
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.run_record import RunRecord
from embedbench.streams.class_order import cifar100_labels
from embedbench.streams.make_class_order import CONFUSION, make_order, write_order

OFFICIAL = "cifar100"  # the name of the paper's own data: CIFAR-100's images
PROTOCOL = "incremental-class"
SESSIONS = 10
# Our kinds of order, and the paper's names for them.
ORDERS = {
    "random": "Random",
    "icarl1993": "iCaRL seed",
    "coarse": "coarse",
    "max-confusion": "maxConf",
    "min-confusion": "minConf",
    "decreasing-task-confusion": "decTaskConf",
    "equal-task-confusion": "eqTaskConf",
    "increasing-task-confusion": "incTaskConf",
}
# Figure 4 shows the first two, without exemplars; Table 1 shows the others, with 20 exemplars a
# class by herding.
LEARNERS = {
    "finetune": Variant("FT", "finetune"),
    "lwf": Variant("LwF, no exemplars", "lwf", ("lwf.memory.per_class=0",)),
    "lwf-exemplars": Variant("LwF", "lwf", ("lwf.memory.per_class=20",)),
    "icarl": Variant("iCaRL", "icarl"),
    "bic": Variant("BiC", "bic"),
    "lucir": Variant("LUCIR", "lucir"),
    "il2m": Variant("IL2M", "il2m"),
}


# icarl's defaults when embeddings were first run
ICARL = ["batch_size=256", "lr=8e-4", "optimiser=nadam", "stop.rule=patience", "stop.epochs=200"]


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """Files by their names in tables; without any, the shipped emoji are used.

    Parameters
    ----------
    given : sequence of str
        "cifar100=FILE" for the paper's images, or FILE for a stand-in.
    out : Path
        Directory for the files that are made.

    Raises
    ------
    UserError
        A file is missing, or is not what its name says.
    """
    files = {name: path for name, (path, _) in named_files(given, [OFFICIAL], out, notify).items()}
    if (path := files.get(OFFICIAL)) is not None and not (
        runs.holds_images(path) and cifar100_labels(EmbeddingFile.open(path)) is not None
    ):
        raise UserError(
            f"{OFFICIAL}= takes a pixel file of CIFAR-100's 100 classes, and {path} is none; make "
            "it with embedbench extract torch/cifar100 --backbone none --size 32, or give the file "
            "without a name, as a stand-in"
        )
    return files


@dataclass
class OrderingRuns(runs.PaperRuns):
    """The runs on CIFAR-100's images, or on files that replace them.

    Parameters
    ----------
    files : dict
        Files by their names in tables; `OFFICIAL` is the paper's own data.
    orders : dict
        (file, kind) → "random" or the path of the order file.
    """

    files: dict[str, Path] = field(kw_only=True)
    orders: dict[tuple[str, str], str] = field(default_factory=dict)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(dict.fromkeys(v.learner for v in LEARNERS.values()))
    _read: dict[tuple[str, str, str], list[RunRecord]] = field(default_factory=dict, init=False)

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
        for name, path in self.files.items():
            file = EmbeddingFile.open(path)
            stem = f"{name}-{file.digests['content'][:8]}-{self.sessions}"
            self.orders[name, "random"] = "random"
            for kind in (k for k in ORDERS if k != "random"):
                prefix = "cifar100-" if name == OFFICIAL and kind in CONFUSION else ""
                made = directory / f"{stem}-{kind}.json"
                if not made.is_file():
                    try:
                        order = make_order(file, prefix + kind, sessions=self.sessions)
                    except UserError as e:
                        if kind != "coarse":
                            raise
                        self.notify(f"no coarse order: {e}")
                        continue
                    write_order(order, made)
                self.orders[name, kind] = str(made)

    def order(self, name: str, kind: str) -> dict[str, Any] | None:
        """Return the content of the order file of a kind; None if there is none."""
        if (name, kind) not in self.orders:
            return None
        result: dict[str, Any] = json.loads(Path(self.orders[name, kind]).read_text("utf-8"))
        return result

    def specs(self, name: str, kind: str, learner: str) -> list[RunSpec]:
        """One spec per seed; none if the file has no such order."""
        if (name, kind) not in self.orders:
            return []
        variant = LEARNERS[learner]
        fixed = [f"protocol.order={self.orders[name, kind]}", *variant.fixed]
        return self._plan(name, variant.learner, fixed)

    def joint(self, name: str) -> list[RunSpec]:
        """One joint training on all classes at once, for the first seed."""
        return self._plan(name, "offline", ["protocol.order=natural"])[:1]

    def _plan(self, name: str, learner: str, fixed: Sequence[str]) -> list[RunSpec]:
        # The loss includes the classes seen, as in the paper's code; that decides for FT and IL2M,
        # the others never include more. The tables need no Ω, so no offline references.
        items = [f"protocol.sessions={SESSIONS}", "protocol.loss=seen", "references=0"]
        file = self.files[name]
        preset = "class-orderings-images" if runs.holds_images(file) else None
        if preset is None:
            items += [f"icarl.{item}" for item in ICARL]
        return self.plan(learner, PROTOCOL, [file], items, fixed=fixed, preset=preset)

    def of(self, name: str, kind: str, learner: str) -> list[RunRecord]:
        """The finished runs of a learner on an order, one per seed; call it only after all runs."""
        key = (name, kind, learner)
        if key not in self._read:
            self._read[key] = self.records(self.specs(*key))
        return self._read[key]
