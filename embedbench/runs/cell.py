"""Cells: one learner, one stream, one seed; what decides a run, where it is kept, how it is run."""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.arrays import digest
from embedbench.fields import make
from embedbench.files.file import EmbeddingFile
from embedbench.learning.learner import Learner
from embedbench.seeds import Seeds
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream

from .registry import learner_class, protocol_class


@dataclass(frozen=True)
class Cell:
    """One run: everything that decides its result, and where it is kept.

    Parameters
    ----------
    files : embedding files
    protocol, learner : names
    protocol_params, learner_params : settings as JSON text (hashable), already complete
    seed : one seed, from which four are drawn; `fixed` overrides single ones
    offline_params : settings of the reference learner, as JSON text
    references : number of offline reference runs behind an α_ideal
    part : of an offline run, which of the stream's references it learns
    tuning : JSON text of the search that chose settings, see `tune`; decides nothing
    checkpoint : seconds between two checkpoints at least; decides nothing
    """

    files: tuple[str, ...]
    protocol: str
    protocol_params: str
    learner: str
    learner_params: str
    seed: int
    fixed: tuple[tuple[str, int], ...] = ()
    offline_params: str = "{}"
    references: int = 1
    preset: str = "kemker_table"
    device: str = "cpu"
    command: str = ""
    part: int = 0
    tuning: str = ""
    checkpoint: float = 60.0

    @property
    def seeds(self) -> Seeds:
        return Seeds.of(self.seed, **dict(self.fixed))

    def stream(self) -> Stream:
        """The cell's stream; the last one built is kept, since cells of one seed share it."""
        return _built(self.files, self.protocol, self.protocol_params, self.seeds.order)

    def shown(self) -> Stream:
        """What the learner is given: the stream, or one of its references if it is offline."""
        stream = self.stream()
        return stream.references[self.part] if self._offline else stream

    @property
    def shown_files(self) -> tuple[str, ...]:
        """The files behind what the learner is given."""
        alone = self._offline and self.stream().alone
        return (self.files[self.part],) if alone else self.files

    @property
    def _offline(self) -> bool:
        return learner_class(self.learner).tags.offline

    def parts(self) -> list[Cell]:
        """The cell itself; for an offline learner one a reference of the stream."""
        n = len(self.stream().references) if self._offline else 1
        return [dataclasses.replace(self, part=k) for k in range(n)]

    def make_protocol(self) -> Protocol:
        made: Protocol = make(
            protocol_class(self.protocol), json.loads(self.protocol_params), name="protocol"
        )
        return made

    def make_learner(self) -> Learner:
        made: Learner = make(
            learner_class(self.learner), json.loads(self.learner_params), name=self.learner
        )
        return made

    def place(self, root: Path) -> Path:
        """Where the cell is kept; the same cell, the same place."""
        learner = f"{_file_name(self.learner)}-{digest(self.learner_params)[:8]}"
        if self._offline:
            key = reference_key(self.shown())
            return root / "references" / f"{learner}-{key[:8]}" / f"seed-{self.seed}"
        seed = "-".join([f"seed-{self.seed}", *(f"{k}{v}" for k, v in self.fixed)])
        contents = [_open(f).digests["content"] + _open(f).digests["samples"] for f in self.files]
        stream = digest(self.make_protocol().recipe(), *contents)
        return root / f"{self.protocol}-{stream[:8]}" / learner / seed

    def offline(self) -> list[list[Cell]]:
        """The runs behind α_ideal on this cell's stream: one list a reference, one run a seed."""
        order = (("order", self.seeds.order),)
        return [
            [
                self._other("offline", self.offline_params, seed=seed, fixed=order, part=part)
                for seed in range(self.references)
            ]
            for part in range(len(self.stream().references))
        ]

    def chance(self) -> Cell:
        """The chance run on the same stream."""
        return self._other("chance", "{}")

    def _other(self, learner: str, params: str, **changes: Any) -> Cell:
        head, _, _ = self.command.partition(" --learner ")
        seed = changes.get("seed", self.seed)
        return dataclasses.replace(
            self,
            learner=learner,
            learner_params=params,
            tuning="",
            command=f"{head} --learner {learner} --seed {seed}",
            **changes,
        )

    def reference(self, root: Path) -> dict[str, Any]:
        """Where the runs lie that this cell's metrics refer to, and how Ω is computed."""
        offline: list[list[str]] = [[]]
        chance = None
        if not self._offline:
            offline = [
                [str(run.place(root).relative_to(root)) for run in part] for part in self.offline()
            ]
            chance = str(self.chance().place(root).relative_to(root))
        return {
            "preset": self.preset,
            "normalise_new": self.stream().normalise_new,
            "offline_runs": offline if len(offline) > 1 else offline[0],
            "chance_run": chance,
        }


def _file_name(learner: str) -> str:
    return learner.replace(":", ".").replace("/", ".")


def reference_key(stream: Stream) -> str:
    """Digest of a reference stream: data by content, without the order of the sessions."""
    d = stream.digests
    return digest(d["train"], d["eval"], d["features"], stream.fitted)


@functools.lru_cache(maxsize=8)
def _open(path: str) -> EmbeddingFile:
    return EmbeddingFile.open(Path(path))


@functools.lru_cache(maxsize=1)
def _built(files: tuple[str, ...], protocol: str, params: str, order: int) -> Stream:
    made: Protocol = make(protocol_class(protocol), json.loads(params), name="protocol")
    return made.build([_open(f) for f in files], seed=order)


def partial_of(place: Path) -> Path:
    """The directory of a cell's checkpoint, beside its place."""
    return place.with_name(f".{place.name}.partial")
