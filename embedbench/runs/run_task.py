"""A run as a task: its settings, its directory, its files and stream, and whether it is done."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.array_types import Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.scores.offline_references import References
from embedbench.storage import leases
from embedbench.streams.order_names import ORDERS
from embedbench.streams.stream import Stream

from . import run_dirs
from .run_spec import RunSpec
from .stream_cache import StreamCache, number_groups


@dataclass(frozen=True)
class Task:
    """A run that is to be made: its specification, where it belongs, and how it is made.

    It is all that an engine is given. It reads nothing until it is asked, and may be sent to
    another process. Its state lies on disk: a finished run, a lease or a checkpoint.

    Parameters
    ----------
    place : Path
        Its directory, relative to that of all runs; equal runs have the same one.
    root : Path
        The directory of all runs.
    threads : int
        Threads of its arithmetic.
    anew : bool
        Whether a checkpoint is dropped and a finished run replaced.
    replaces : str or None
        What `run_at` says of the finished run that it replaces.
    """

    spec: RunSpec
    place: Path
    root: Path
    streams: StreamCache = field(repr=False, compare=False)
    threads: int = 1
    anew: bool = False
    replaces: str | None = None

    @property
    def label(self) -> str:
        """The run as sentences name it."""
        return f"{self.spec.learner} seed {self.spec.seed}"

    @property
    def run_dir(self) -> Path:
        """Its directory."""
        return self.root / self.place

    @property
    def lease(self) -> Path:
        """The lease on `run_dir`."""
        return leases.lease_path(self.run_dir)

    @property
    def checkpoint(self) -> Path:
        """The directory of the checkpoint."""
        return run_dirs.checkpoint_path(self.run_dir)

    def is_done(self) -> bool:
        """Whether it is finished, and not by the run that it replaces."""
        return run_dirs.run_at(self.run_dir) not in (None, self.replaces)

    def progress(self) -> int:
        """A number that grows as it is saved, for engines that end what takes too long."""
        from .checkpoint import saved_at  # which needs torch

        return saved_at(self.checkpoint)

    def beside(self, spec: RunSpec) -> Task:
        """The task of another run in the same directory of runs."""
        return make_task(spec, self.root, self.streams, self.threads)

    def check_place(self) -> None:
        """Refuse files that are not those that the run was planned for.

        Its directory is named for their contents; another process, or this one later, may find
        others under their paths.
        """
        if self.beside(self.spec).place != self.place:
            spec = self.spec
            host = platform.node() or "a worker"
            order = str(getattr(spec.protocol.settings, "order", ""))
            names = [*spec.files, spec.unknown, "" if order in ORDERS else order]
            raise UserError(
                f"{', '.join(filter(None, names))}: the file on {host} is not the one that the run "
                "was planned for",
                "let files be as they are while a command runs, and run it again",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Paths or names of the files behind `stream`."""
        alone = self.spec.is_offline and self.streams.stream(self.spec).alone
        return (self.spec.files[self.spec.part],) if alone else self.spec.files

    @property
    def files(self) -> tuple[EmbeddingFile, ...]:
        """The files behind `stream`."""
        return tuple(map(self.streams.file, self.names))

    def group_samples(self, ids: Ints) -> Ints | None:
        """(n,) number of the `group` of each sample; None where a file has none.

        A protocol of someone else may have ids that are no rows of its files.
        """
        groups = number_groups(self.files)
        known = groups is not None and (not len(ids) or 0 <= ids.min() <= ids.max() < len(groups))
        return groups[ids] if groups is not None and known else None

    @property
    def stream(self) -> Stream:
        """The stream that the learner gets: that of the run, or one of its references."""
        stream = self.streams.stream(self.spec)
        return stream.references[self.spec.part] if self.spec.is_offline else stream

    @property
    def reference(self) -> References:
        """Directories of the runs that the metrics refer to, and how Ω is computed."""
        spec = self.spec
        facts = self.streams.facts(self.spec)
        if spec.is_offline:
            return References(spec.preset, facts.normalise_new, offline_runs=(), chance_run=None)
        offline = tuple(map(self._places, self.streams.offline_runs(spec)))
        (chance,) = self._places([spec.chance_run()])
        return References(
            preset=spec.preset,
            normalise_new=facts.normalise_new,
            offline_runs=offline if len(offline) > 1 else offline[0],
            chance_run=chance,
            so_far=facts.so_far or None,
            learner=spec.omega_reference,
        )

    def _places(self, specs: Iterable[RunSpec]) -> tuple[str, ...]:
        return tuple(str(self.beside(spec).place) for spec in specs)


def make_task(spec: RunSpec, root: Path, streams: StreamCache, threads: int = 1) -> Task:
    """The task of a run that is saved under `root`."""
    if spec.is_offline:
        key = streams.facts(spec).references[spec.part]
        place = run_dirs.reference_dir_name(spec, key)
    else:
        place = run_dirs.run_dir_name(spec, streams.contents(spec))
    return Task(spec, place, root, streams, threads)
