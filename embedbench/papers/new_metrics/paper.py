"""`embedbench reproduce michel2023`: Michel et al. (2023) on any embedding file.

The tables of the random classifier, the coefficients, the curves.

**Departs**: the curves are from embeddings, not from the images of CIFAR-100 and Tiny ImageNet. The
paper's memory of 2,000 is 4 % and 2 % of these data; in a small file that would be less than one
sample per class. Ours is a tenth of the training samples, but of the paper's data its 2,000, on its
number of sessions. For a file of images (a pixel file) the settings are the preset `online-images`,
with the paper's memory.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from embedbench.files.sample_metadata import TRAIN
from embedbench.papers import paper
from embedbench.papers.data_kinds import paper_sets
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import EXACT, PaperTable
from embedbench.reports.results import column_stats
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.mean_intervals import Stat

FACTS = facts("michel2023")
LEARNERS = paper.read_variants(FACTS["learners"])
OFFICIAL: dict[str, dict[str, Any]] = FACTS["official"]
PROTOCOL = "incremental-class"
SEEN = (2, 4, 6, 8, 10)  # classes after each of the five tasks of Tables 1 and 2
SHORT, LONG = 10, 50  # sessions; the paper: 10 for CIFAR-100, 100 for Tiny ImageNet
COEFFICIENTS = (20, 100)  # sessions of Figure 2
MEMORY = 0.1  # share of the training samples
PAPERS_MEMORY = 2000  # samples, for the paper's data and for images
QUARTERS = (0.25, 0.5, 0.75, 1.0)  # of a stream


class MetricRuns(paper.PaperRuns):
    """Online runs on a short and a long stream of each file, or on the paper's of its data."""

    every, sets = LEARNERS, paper_sets(FACTS)
    official: ClassVar = {name: str(about["label"]) for name, about in OFFICIAL.items()}

    def sessions(self, name: str) -> list[int]:
        """Numbers of sessions: the user's, or one for a short and one for a long stream."""
        if asked := self.sessions_asked(PROTOCOL):
            return [asked]
        if official := self.data[name].all_classes:
            return [int(OFFICIAL[official]["sessions"])]
        n = self.data[name].opened.samples.n_leaves
        return list(dict.fromkeys(equal_sessions(n, asked) for asked in (SHORT, LONG)))

    def memory(self, name: str) -> int:
        """Number of samples that ER and GDumb keep, unless the user sets it."""
        data = self.data[name]
        if data.holds_images or data.all_classes:
            return PAPERS_MEMORY
        return max(1, round(MEMORY * int((data.opened.split == TRAIN).sum())))

    def specs(self, name: str, sessions: int, learner: str) -> list[RunSpec]:
        """Return one spec per seed. Each seed draws another class order."""
        variant = LEARNERS[learner]
        data = self.data[name]
        memory = {"memory": {"total": self.memory(name)}}
        settings = {"protocol": {"sessions": sessions}, variant.learner: memory}
        preset = "online-images" if data.holds_images else None
        return self.plan(variant, PROTOCOL, [data], FACTS["set"], settings, preset=preset)


def equal_sessions(n_classes: int, asked: int) -> int:
    """The number of sessions nearest to `asked` with equally many classes each, at least two.

    If none lies within a fifth of `asked`, the sizes of sessions differ by one class.

    >>> equal_sessions(100, 50), equal_sessions(88, 10), equal_sessions(88, 50)
    (50, 11, 44)
    >>> equal_sessions(10, 50), equal_sessions(101, 10)
    (5, 10)
    """
    most = max(2, n_classes // 2)
    asked = min(asked, most)
    even = [k for k in range(2, most + 1) if n_classes % k == 0 and abs(k - asked) <= asked / 5]
    return min(even, key=lambda k: abs(k - asked), default=asked)


# --- exact, without runs ---


def beta(k: int, sessions: int) -> Fraction:
    """β_k for K equal sessions, k ≥ 2: RAF_k = β_k AF_k (Prop. 4.4).

    β_k = (H_K - 1)(k - 1) / ((H_k - 1)(K - 1)), H_k = 1 + 1/2 + … + 1/k.
    """
    whole, part = (sum(Fraction(1, i) for i in range(2, n + 1)) for n in (sessions, k))
    return Fraction(whole * (k - 1)) / (part * (sessions - 1))


def random_tables(seen: Sequence[int]) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """a_{k,j}, j ≤ k, and f_{k,j}, j < k, of the random classifier, rows k = 1 … K (Tables 1, 2).

    The mean of a row is AA_k(Rand) or AF_k(Rand). `seen` is (K,) C_k.
    """
    chance = [Fraction(1, c) for c in seen]
    accuracy = [[a] * k for k, a in enumerate(chance, start=1)]
    return accuracy, [[earlier - a for earlier in chance[:k]] for k, a in enumerate(chance)]


def random_table(name: str) -> PaperTable:
    """Table 1 or 2: accuracy, forgetting of the random classifier after tasks of two classes.

    Printed values are beside the exact ones, with the printed number of digits.
    """
    exact = random_tables(SEEN)[int(name) - 1]
    table = PaperTable.of_facts(FACTS, name)
    for row in FACTS["printed"]["tables"][name]:
        numbers = [100 * float(v) for v in exact[row["after"] - 1]]
        blank = [None] * (len(table.columns) - 1 - len(numbers))
        printed = [*row["on"], *blank, row["mean"]]
        digits = [len(f"{v or 0:g}".partition(".")[2]) for v in printed]
        ours = [*numbers, *blank, float(np.mean(numbers))]
        table.add_numbers([f"T{row['after']}"], ours, printed, digits, made=EXACT)
    return table


def figure2() -> PaperTable:
    """Figure 2: γ_k and β_k for 20 and for 100 equal sessions."""
    table = PaperTable.of_facts(FACTS, "fig2")
    for sessions in COEFFICIENTS:
        half = sessions // 2
        numbers = [k / sessions for k in (1, half, sessions)]  # γ_k = C_k/C_K (Prop. 4.3)
        numbers += [float(beta(k, sessions)) for k in (2, half, sessions)]
        table.add_numbers([str(sessions)], numbers, decimals=4)
    return table


# --- the runs ---


def curves(key: str, names: tuple[str, str], runs: MetricRuns) -> PaperTable:
    """Two metrics at the quarters of every stream."""
    table = PaperTable.of_facts(FACTS, key)
    for name, metric in itertools.product(runs.data, names):
        every = itertools.product(runs.sessions(name), LEARNERS.items())
        for sessions, (learner, variant) in every:
            records = runs.of(name, sessions, learner)
            ours: list[Stat] = []
            if records:
                of_runs = np.array([r.curve(metric) for r in records], dtype=np.float64)  # (n, K)
                places = [max(1, round(share * of_runs.shape[1])) - 1 for share in QUARTERS]
                ours = column_stats(100 * of_runs[:, places])
            data = name if runs.data[name].stands_in else runs.label(name)
            labels = (data, str(sessions), variant.label, metric.upper())
            table.add_numbers(labels, ours, decimals=1, flags=paper.flags_of(records))
    return table


PAPER = paper.Paper(
    FACTS,
    runs=MetricRuns,
    exact={**{n: partial(random_table, n) for n in ("1", "2")}, "fig2": figure2},
    tables={
        "fig3": partial(curves, "fig3", ("aa", "raa")),
        "fig4": partial(curves, "fig4", ("af", "raf")),
    },
)
