"""The objects of a cell, and a workshop that shares files and streams among cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.arrays import digest
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.fetch import local
from embedbench.scores.omega_reference import References
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.system.cpu import limit_threads

from .run_dirs import checkpoint_path
from .run_spec import RunSpec, Spec


@dataclass(frozen=True)
class PreparedRun:
    """The objects that a cell needs to run.

    Parameters
    ----------
    cell : Cell
        The cell that is run.
    root : Path
        The directory of all runs.
    place : Path
        The directory where this cell is saved.
    files : tuple of EmbeddingFile
        The files behind `stream`.
    names : tuple of str
        Their paths or names, as the cell has them.
    stream : Stream
        The stream that the learner gets: the cell's stream, or one of its references.
    reference : References
        Directories of the runs that the metrics refer to, and how Ω is computed.
    """

    cell: RunSpec
    root: Path
    place: Path
    files: tuple[EmbeddingFile, ...]
    names: tuple[str, ...]
    stream: Stream
    reference: References

    @property
    def partial(self) -> Path:
        """The directory of the checkpoint."""
        return checkpoint_path(self.place)


@dataclass(frozen=True)
class _Facts:
    """Facts of a stream for planning; they are kept when the stream itself is not."""

    references: int
    normalise_new: bool
    fitted: str
    so_far: bool


_Key = tuple[tuple[str, ...], Spec[Protocol], int]  # identifies a stream


class StreamCache:
    """Makes the objects of cells: a file is opened once, a stream is built once for all its cells.

    A workshop lasts as long as the call that runs the cells. Only the last stream is kept, because
    a stream holds its features.
    """

    def __init__(self) -> None:
        self._files: dict[str, EmbeddingFile] = {}
        self._last: tuple[_Key, Stream] | None = None
        self._facts: dict[_Key, _Facts] = {}
        self._references: dict[tuple[_Key, int], str] = {}

    def file(self, path: str) -> EmbeddingFile:
        """The file at a path, or of a name (`embedbench.fetching`)."""
        if path not in self._files:
            self._files[path] = EmbeddingFile.open(local(path))
        return self._files[path]

    def stream(self, cell: RunSpec) -> Stream:
        """The stream of a cell."""
        key = _key(cell)
        if self._last is None or self._last[0] != key:
            self._last = None  # frees the old stream before the new one is built
            files = [self.file(f) for f in cell.files]
            with limit_threads(1):  # a stream is the same for all cells
                stream = cell.protocol.settings.build(files, seed=cell.seeds.order)
            self._last = (key, stream)
            facts = _Facts(
                len(stream.references), stream.normalise_new, stream.fitted, stream.so_far
            )
            self._facts[key] = facts
        return self._last[1]

    def taught(self, cell: RunSpec) -> Stream:
        """The stream that the learner gets: a reference of the stream if the learner is offline."""
        stream = self.stream(cell)
        return stream.references[cell.part] if cell.is_offline else stream

    def depends_on_order(self, cell: RunSpec) -> bool:
        """Whether the offline reference depends on the order of the sessions."""
        facts = self._facts_of(cell)
        return facts.so_far or bool(facts.fitted)

    def parts(self, cell: RunSpec) -> list[RunSpec]:
        """The cell itself; for an offline learner, one cell per reference of the stream."""
        n = self._facts_of(cell).references if cell.is_offline else 1
        return [dataclasses.replace(cell, part=k) for k in range(n)]

    def offline_runs(self, cell: RunSpec) -> list[list[RunSpec]]:
        """The runs behind α_ideal on a cell's stream: one list per reference, one run per seed."""
        return cell.offline_runs(self._facts_of(cell).references)

    def place(self, cell: RunSpec, root: Path) -> Path:
        """The directory of a cell; equal cells have the same one."""
        learner = f"{_folder(cell.learner)}-{digest(cell.learner.identity)[:8]}"
        if cell.is_offline:
            key = self._reference_key(cell)
            return root / "references" / f"{learner}-{key[:8]}" / f"seed-{cell.seed}"
        seed = "-".join([f"seed-{cell.seed}", *(f"{k}{v}" for k, v in cell.fixed)])
        digests = [self.file(f).digests for f in cell.files]
        contents = [d["content"] + d["samples"] for d in digests]
        stream = digest(cell.protocol.settings.recipe(), *contents)
        return root / f"{_folder(cell.protocol)}-{stream[:8]}" / learner / seed

    def reference(self, cell: RunSpec, root: Path) -> References:
        """Directories of the runs that the cell's metrics refer to, and how Ω is computed."""
        offline: tuple[tuple[str, ...], ...] = ((),)
        chance = None
        if not cell.is_offline:
            runs = self.offline_runs(cell)
            offline = tuple(tuple(self._relative(run, root) for run in part) for part in runs)
            chance = self._relative(cell.chance_run(), root)
        return References(
            preset=cell.preset,
            normalise_new=self._facts_of(cell).normalise_new,
            offline_runs=offline if len(offline) > 1 else offline[0],
            chance_run=chance,
            so_far=(not cell.is_offline and self._facts_of(cell).so_far) or None,
        )

    def prepare(self, cell: RunSpec, root: Path) -> PreparedRun:
        """The objects of a cell whose run is saved under `root`."""
        alone = cell.is_offline and bool(self.stream(cell).alone)
        paths = (cell.files[cell.part],) if alone else cell.files
        return PreparedRun(
            cell=cell,
            root=root,
            place=self.place(cell, root),
            files=tuple(self.file(f) for f in paths),
            names=paths,
            stream=self.taught(cell),
            reference=self.reference(cell, root),
        )

    def _facts_of(self, cell: RunSpec) -> _Facts:
        key = _key(cell)
        if key not in self._facts:
            self.stream(cell)
        return self._facts[key]

    def _reference_key(self, cell: RunSpec) -> str:
        key = (_key(cell), cell.part)
        if key not in self._references:
            self._references[key] = reference_key(self.taught(cell))
        return self._references[key]

    def _relative(self, cell: RunSpec, root: Path) -> str:
        return str(self.place(cell, root).relative_to(root))


def _folder(spec: Spec[Any]) -> str:
    """The name of a learner or protocol in a path."""
    return spec.name.replace(":", ".").replace("/", ".")


def prepare(cell: RunSpec, root: Path) -> PreparedRun:
    """The objects of one cell alone, whose run is saved under `root`."""
    return StreamCache().prepare(cell, root)


def reference_key(stream: Stream) -> str:
    """Digest of a reference stream: its content, regardless of the order of the sessions."""
    d = stream.digests
    return digest(d["train"], d["eval"], d["features"], stream.fitted)


def _key(cell: RunSpec) -> _Key:
    return cell.files, cell.protocol, cell.seeds.order


# In a worker process: each has one workshop, which its tasks share.


_WORKSHOP = StreamCache()  # of this worker; the main process passes its workshop as an argument


def in_worker(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with the workshop of this worker; submit this to an executor."""
    return function(*args, workshop=_WORKSHOP)
