"""`embedbench reproduce masana2020`: Masana et al. (2020) on any embedding file.

**Departs**: the paper trains a network on CIFAR-100's images. So do we with a pixel file of them
(the preset `class-orderings-images`). Embeddings, of CIFAR-100 or of other data, have settings
chosen for them. The published orders are for all of CIFAR-100. Random is drawn anew for each run
here, as the spread of the paper's runs suggests. Accuracy is the mean over the classes seen; it
equals the accuracy per sample if classes are equally large, as in CIFAR-100.
"""

import itertools
from functools import cached_property

import numpy as np

from embedbench.errors import UserError
from embedbench.papers import paper
from embedbench.papers.data_kinds import paper_sets
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import PaperTable, Value
from embedbench.reports.results import column_stats
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.run_record import RunRecord
from embedbench.streams import make_class_order
from embedbench.studies.study import Key, split_names

FACTS = facts("masana2020")
LEARNERS = paper.read_variants(FACTS["learners"])
ORDERS: dict[str, str] = FACTS["orders"]
OFFICIAL = "cifar100"  # our name of the paper's data
PROTOCOL = "incremental-class"
ORDER = Key("protocol", "order")  # the setting that selects kinds of order
SESSIONS = 10
AFTER = {"after 1": 1, "after 2": 2, "after 5": 5, "after the last": SESSIONS}  # tasks learned


class OrderingRuns(paper.PaperRuns):
    """The runs on CIFAR-100, or on files that replace it."""

    every, official, replaces = LEARNERS, {OFFICIAL: "CIFAR-100"}, OFFICIAL
    sets = paper_sets(FACTS)

    @cached_property
    def sessions(self) -> int:
        """Number of sessions."""
        return self.sessions_asked(PROTOCOL) or SESSIONS

    @property
    def kinds(self) -> list[str]:
        """The kinds of order to run: the user's, by `protocol.order`, or all."""
        asked = split_names(self.given.get(ORDER, ""))
        return paper.select_names(asked, ORDERS, "order of the paper")

    @cached_property
    def orders(self) -> dict[tuple[str, str], str]:
        """(file, kind) → "random", which the runs draw, or the path of the order file.

        An order is made once: its file is named for the content of the data and the number of
        sessions. A file without a class hierarchy has no coarse order. The orders of all of
        CIFAR-100 are the published ones.
        """
        self.notify("ordering the classes; orders that are there are kept")
        directory, result = self.out / "orders", {}
        directory.mkdir(parents=True, exist_ok=True)
        for (name, data), kind in itertools.product(self.data.items(), self.kinds):
            content = data.opened.digests["content"][:8]
            made = directory / f"{name}-{content}-{self.sessions}-{kind}.json"
            published = data.all_classes and kind in make_class_order.CONFUSION
            if kind != "random" and not made.is_file():
                try:
                    order = make_class_order.make_order(
                        data.opened,
                        f"{OFFICIAL}-{kind}" if published else kind,
                        sessions=self.sessions,
                    )
                except UserError as e:
                    if kind != "coarse":
                        raise
                    self.notify(f"no coarse order: {e}")
                    continue
                make_class_order.write_order(order, made)
            result[name, kind] = kind if kind == "random" else str(made)
        return result

    def specs(self, name: str, kind: str, learner: str) -> list[RunSpec]:
        """One spec per seed; none if the file has no such order, or it was not asked for."""
        if (name, kind) not in self.orders:
            return []
        data, fixed = self.data[name], {"protocol": {"order": self.orders[name, kind]}}
        images = data.holds_images
        settings = [FACTS["set"]] if images else [FACTS["set"], FACTS["set_embeddings"]]
        preset = "class-orderings-images" if images else None
        return self.plan(LEARNERS[learner], PROTOCOL, [data], *settings, fixed=fixed, preset=preset)


def accuracy(record: RunRecord, head: str) -> float:
    """Accuracy in percent over all classes learned, at a column of Table 1; NaN in a short run."""
    pooled = record.pooled
    at = len(pooled) if head == "after the last" else AFTER[head]
    return 100 * pooled[at - 1] if at <= len(pooled) else float("nan")


@paper.per_file
def table1(runs: OrderingRuns, name: str) -> PaperTable:
    """Table 1: accuracy after sessions 1, 2, 5 and the last, for every learner and order."""
    rows = {(r["learner"], r["task"]): r for r in FACTS["printed"]["tables"]["1"]}
    other = not runs.is_own(name)
    file = runs.tag(name) if other else ""
    table = PaperTable.of_facts(FACTS, "1", file=file, label=runs.label(name))
    for (learner, variant), (kind, order) in itertools.product(LEARNERS.items(), ORDERS.items()):
        values, found = {}, runs.of(name, kind, learner)
        for head, task in AFTER.items():
            row = rows.get((learner, task), {"accuracy": {}, "sd": {}})
            mean, sd = (row[what].get(kind) for what in ("accuracy", "sd"))
            each = [accuracy(r, head) for r in found]
            known = bool(each) and not np.isnan(each).any()
            ours = column_stats([value] for value in each)[0] if known else None
            flags = paper.flags_of(found) if known else None
            values[head] = Value(mean, ours, 1, other, sd=sd, flags=flags)
        table.add((variant.label, order), values)
    return table


PAPER = paper.Paper(FACTS, runs=OrderingRuns, tables={"1": table1})
