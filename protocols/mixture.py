"""Mixture: sessions that share classes, repeat them, or have classes of very different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from embedbench.arrays import Ints
from embedbench.errors import UserError, unknown
from embedbench.fields import at_least, require, within
from embedbench.files.file import EmbeddingFile
from embedbench.files.samples import TEST
from embedbench.streams.building import (
    Split,
    Taught,
    class_mask,
    dealt,
    flat_spec,
    load_table,
    make_session,
    one_file,
    split_rows,
)
from embedbench.streams.class_order import class_order
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.streams.table import Table

from . import _mixtures

SETTINGS: dict[str, tuple[str, ...]] = {  # each with the parameters that it alone reads
    "i-blurry": ("disjoint", "blurry"),
    "si-blurry": ("disjoint", "blurry"),
    "repetition": ("slots",),
    "long-tailed": ("imbalance",),
    "long-tailed-shuffled": ("imbalance",),
}


@dataclass(kw_only=True)
class Mixture(Protocol):
    """Class-incremental streams without clean borders: blurry, repeating, or long-tailed.

    A session introduces the classes that no earlier one taught, and tests them from then on. So all
    classes seen so far are tested together, as in CLIB, and average anytime accuracy is its A_AUC.
    A session that introduces nothing has no eval set of its own; metrics of single sessions leave
    it out.

    **Source**: by setting. "i-blurry": Koh et al. (2022), CLIB, i-Blurry-N-M. "si-blurry": Moon et
    al. (2023). "repetition": Hemati et al. (2023), slot-based. "long-tailed" (the largest classes
    first) and "long-tailed-shuffled": Liu et al. (2022), LT-CIL. `task_free`: Aljundi et al.
    (2019), task-free continual learning; CLIB is task-free, too.

    **Departs**: CLIB tests a class from its first sample on, here it is tested from the start of
    the session that has it. Classes without test samples come last. Validation samples, which the
    papers do not have, are dealt to the sessions that teach their class. LT-CIL also has a base
    session of half the classes; here the sessions are equal. See
    `embedbench.protocols._mixtures` for each rule.

    Parameters
    ----------
    setting : str
        "i-blurry", "si-blurry", "repetition", "long-tailed" or "long-tailed-shuffled".
    sessions : int
        T ≥ 2; 5 in CLIB and Si-Blurry.
    disjoint : float
        N, the share of classes that belong to one session, 0 to 1.
    blurry : float
        M, the share of the other classes' samples that move to any session, 0 to 1.
    slots : int
        K, the classes in each session of "repetition"; 0: half of the classes, or as many as are
        needed to teach each once.
    imbalance : float
        ρ, the size of the smallest class as a share of the largest, in (0, 1].
    order : str
        Order of the classes: "natural", "random" (drawn from the seed), "size", or an order file.
    task_free : bool
        Learners are not to know where a session ends. Only learners of batches are taken; the
        references are as usual. A batch never has samples of two sessions, and an evaluation
        follows every session; with `evaluate_every` there are others in between.
    """

    setting: str = "i-blurry"
    sessions: int = 5
    disjoint: float = 0.5
    blurry: float = 0.1
    slots: int = 0
    imbalance: float = 0.01
    order: str = "random"
    task_free: bool = False

    name: ClassVar[str] = "mixture"
    teaches_all: ClassVar[bool] = False  # long-tailed sessions leave samples out
    reveals_no_future: ClassVar[bool] = (
        False  # classes come back, and sessions may bring no new one
    )
    checked: ClassVar[tuple[dict[str, Any], ...]] = tuple({"setting": s} for s in SETTINGS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.setting not in SETTINGS:
            raise unknown("setting", self.setting, SETTINGS)
        require(
            self,
            "",
            sessions=at_least(2, 10_000),
            disjoint=within("[0, 1]"),
            blurry=within("[0, 1]"),
            slots=at_least(0),
            imbalance=within("(0, 1]"),
        )
        every = {name for names in SETTINGS.values() for name in names}
        for f in fields(self):
            foreign = f.name in every and f.name not in SETTINGS[self.setting]
            if foreign and getattr(self, f.name) != f.default:
                raise UserError(
                    f"protocol.{f.name} is no parameter of the setting {self.setting!r}; drop it, "
                    "or choose another protocol.setting"
                )
        if self.task_free and not self.observe_batch:
            raise UserError(
                "a task-free stream gives batches, and protocol.observe_batch is 0; use 10"
            )

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        file = one_file(files, self.name)
        split = split_rows(file, self.validation, self.val_fraction)
        parts = self._parts(file, split.train, seed)
        for k, part in enumerate(parts):
            if not len(part):
                raise UserError(
                    f"no training samples for session {k}; use fewer protocol.sessions than "
                    f"{self.sessions}"
                )
        table, features, fitted = load_table(file, self.scale, parts[0], least=self.scale_least)
        pairs = self._sessions(table, file, split, parts)
        return Stream(
            spec=flat_spec(table, file),
            sessions=tuple(s for s, _ in pairs),
            eval_sets=tuple(e for _, e in pairs),
            recipe=self.recipe(),
            features=features,
            samples=(file.digests["samples"],),
            fitted=fitted,
            observe_batch=self.observe_batch,
            evaluate_every=self.evaluate_every,
            validation=self.validation,
            notes=self._notes(file, split.train),
            task_free=self.task_free,
        )

    def _parts(self, file: EmbeddingFile, train: Ints, seed: int) -> list[Ints]:
        """The training rows of each session."""
        order = class_order(self.order, file, seed)
        taught = class_mask(file, file.labels[train])[order]
        tested = class_mask(file, file.labels[file.split == TEST])[order]
        classes = np.concatenate([order[taught & tested], order[taught & ~tested]])
        labels, rng = file.labels, np.random.default_rng([seed, 1])
        if self.setting == "repetition":
            least = -(-len(classes) // self.sessions)  # fewer leave a class without a slot
            slots = self.slots or max(least, len(classes) // 2)
            if not least <= slots <= len(classes):
                raise UserError(
                    f"protocol.slots must be {least} to {len(classes)} for {len(classes)} classes "
                    f"in {self.sessions} sessions, got {slots}"
                )
            return _mixtures.repetition(train, labels, classes, self.sessions, slots, rng)
        if self.setting in ("i-blurry", "si-blurry"):
            rule = _mixtures.i_blurry if self.setting == "i-blurry" else _mixtures.si_blurry
            shares = self.disjoint, self.blurry
            return rule(train, labels, classes, self.sessions, shares, rng)
        shuffled = self.setting == "long-tailed-shuffled"
        return _mixtures.long_tailed(
            train, labels, classes, self.sessions, self.imbalance, rng, shuffled=shuffled
        )

    def _sessions(
        self, table: Table, file: EmbeddingFile, split: Split, parts: list[Ints]
    ) -> list[Taught]:
        """The sessions, each with the eval set of the classes that it introduces."""
        label, pairs = file.labels, []
        held = dealt(label, parts, self._held(file, split, parts))
        seen = np.zeros(file.samples.n_leaves, dtype=np.bool_)
        for train, val in zip(parts, held, strict=True):
            here = class_mask(file, label[train])
            new, seen = np.flatnonzero(here & ~seen), seen | here
            test = split.test[np.isin(label[split.test], new)]
            classes = new if len(test) else new[:0]
            rows = Split(train, val, test)
            pairs.append(make_session(table, file, rows, classes=classes, introduces=new))
        return pairs

    def _held(self, file: EmbeddingFile, split: Split, parts: list[Ints]) -> Ints:
        """Validation rows; a class that lost training samples loses as large a share of them."""
        label, n = file.labels, file.samples.n_leaves
        taught = np.bincount(label[np.concatenate(parts)], minlength=n)
        there = np.maximum(np.bincount(label[split.train], minlength=n), 1)
        rows = [split.val[label[split.val] == c] for c in range(n)]
        kept = [mine[: len(mine) * taught[c] // there[c]] for c, mine in enumerate(rows)]
        return np.sort(np.concatenate(kept))

    def _notes(self, file: EmbeddingFile, train: Ints) -> tuple[str, ...]:
        """The classes that are never taught, and so not tested."""
        lacking = np.flatnonzero(~class_mask(file, file.labels[train]))
        names = ", ".join(file.classes[c] for c in lacking)
        return (f"classes without training samples, left out: {names}",) if names else ()
