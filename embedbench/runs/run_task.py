"""A run as a task: its settings, its directory, its files and stream, and whether it is done."""

import platform
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.array_types import Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.scores.offline_references import References
from embedbench.storage import leases
from embedbench.streams.class_order import ORDERS
from embedbench.streams.stream import Stream

from . import run_dirs
from .run_spec import RunSpec
from .stream_cache import StreamCache, number_groups


@dataclass(frozen=True)
class Task:
    """A run that is to be made, and where its record belongs.

    It reads nothing until it is asked, and may be sent to another process. Its state lies on disk:
    a finished run, a lease or a checkpoint.

    Parameters
    ----------
    root : Path
        The directory of all runs.
    anew : bool
        Whether a checkpoint is dropped and a finished run replaced.
    replaces : str or None
        What `run_at` says of the finished run that it replaces.
    """

    spec: RunSpec
    run_dir: Path
    root: Path
    streams: StreamCache = field(repr=False, compare=False)
    anew: bool = False
    replaces: str | None = None

    @property
    def label(self) -> str:
        """The run as sentences name it."""
        return f"{self.spec.learner} seed {self.spec.seed}"

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

    def check_place(self) -> None:
        """Refuse files that are not those that the run was planned for.

        Its directory is named for their contents; another process, or this one later, may find
        others under their paths.
        """
        if self.streams.run_dir(self.spec, self.root) != self.run_dir:
            spec, host = self.spec, platform.node() or "a worker"
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
        return self.streams.stream_to_learn(self.spec)

    @property
    def reference(self) -> References:
        """Directories of the runs that the metrics refer to, and how Ω is computed."""
        return self.streams.reference(self.spec, self.root)


def make_task(spec: RunSpec, root: Path, streams: StreamCache) -> Task:
    """The task of a run that is saved under `root`."""
    return Task(spec, streams.run_dir(spec, root), root, streams)
