"""Files and streams that are opened or built once for all runs of a command, and runs as tasks."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Ints
from embedbench.files import embedding_file, provenance
from embedbench.files.remote import fetch, uri
from embedbench.plugins import find_package
from embedbench.scores import offline_references, run_record
from embedbench.storage import leases, value_digest
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.streams.unknown_samples import with_far_samples
from embedbench.system.cpu_threads import limit_threads

from . import run_dirs, run_spec


class _Facts(NamedTuple):
    """Facts of a stream for planning; they are kept when the stream itself is not."""

    references: int
    normalise_new: bool
    so_far: bool
    depends_on_order: bool


_Key = tuple[tuple[str, ...], run_spec.Spec[Protocol], int, str]  # identifies a stream


class StreamCache:
    """Files that are opened once, and streams that are built once for all runs on them.

    It lasts as long as the command that runs them. Only the last stream is kept, because a stream
    holds its features. A cache is never sent to another process: it arrives there as the cache of
    that process, which all its tasks share.
    """

    def __init__(self) -> None:
        self._files: dict[str, embedding_file.EmbeddingFile] = {}
        self._last: tuple[_Key, Stream] | None = None
        self._groups: dict[tuple[str, ...], Ints | None] = {}
        self._facts: dict[_Key, _Facts] = {}
        self._reference_keys: dict[tuple[_Key, int], str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _worker_cache, ()

    def file(self, path: str) -> embedding_file.EmbeddingFile:
        """The file at a path, or of a name (`embedbench.files.remote`)."""
        if path not in self._files:
            self._files[path] = embedding_file.EmbeddingFile.open(fetch.local(path))
        return self._files[path]

    def groups(self, paths: tuple[str, ...]) -> Ints | None:
        """(N,) number of the `group` of each row of files, one after another; None without groups.

        No two files have a group in common.
        """
        if paths not in self._groups:
            columns = [self.file(path).columns.get("group") for path in paths]
            codes, first = list[Ints](), 0
            for column in (c for c in columns if c is not None):
                names, code = np.unique(column, return_inverse=True)
                codes.append(code + first)
                first += len(names)
            every = len(codes) == len(paths)
            self._groups[paths] = np.concatenate(codes) if every else None
        return self._groups[paths]

    def stream(self, spec: run_spec.RunSpec) -> Stream:
        """The stream of a run."""
        key, last = _key(spec), self._last
        if last is not None and last[0] == key:
            return last[1]
        del last
        self._last = None  # frees the old stream before the new one is built
        files = [self.file(f) for f in spec.files]
        with limit_threads(1):  # a stream is the same for all runs
            stream = spec.protocol.settings.build(files, seed=spec.seeds.order)
            if spec.unknown:
                stream = with_far_samples(stream, files[0], self.file(spec.unknown))
        self._last = (key, stream)
        so_far = stream.so_far
        depends = so_far or bool(stream.fitted)
        self._facts[key] = _Facts(len(stream.references), stream.normalise_new, so_far, depends)
        return stream

    def stream_to_learn(self, spec: run_spec.RunSpec) -> Stream:
        """The stream that the learner gets: a reference of the stream if the learner is offline."""
        stream = self.stream(spec)
        return stream.references[spec.part] if spec.is_offline else stream

    def depends_on_order(self, spec: run_spec.RunSpec) -> bool:
        """Whether the offline reference depends on the order of the sessions."""
        return self._facts_of(spec).depends_on_order

    def parts(self, spec: run_spec.RunSpec) -> list[run_spec.RunSpec]:
        """The run itself; for an offline learner, one run per reference of the stream."""
        n = self._facts_of(spec).references if spec.is_offline else 1
        return [dataclasses.replace(spec, part=k) for k in range(n)]

    def offline_runs(self, spec: run_spec.RunSpec) -> list[list[run_spec.RunSpec]]:
        """The runs behind α_ideal on a run's stream: one list per reference, one run per seed."""
        return spec.offline_runs(self._facts_of(spec).references)

    def run_dir(self, spec: run_spec.RunSpec, root: Path) -> Path:
        """The directory of a run; equal runs have the same one."""
        if spec.is_offline:
            return root / run_dirs.reference_dir_name(spec, self._reference_key(spec))
        contents = [self._contents(f) for f in spec.files]
        contents += ["unknown", self._contents(spec.unknown)] if spec.unknown else []
        return root / run_dirs.run_dir_name(spec, contents)

    def _contents(self, path: str) -> str:
        digests = self.file(path).digests
        return digests["content"] + digests["samples"]

    def reference(self, spec: run_spec.RunSpec, root: Path) -> offline_references.References:
        """Directories of the runs that a run's metrics refer to, and how Ω is computed."""

        def directories(specs: Iterable[run_spec.RunSpec]) -> tuple[str, ...]:
            return tuple(str(self.run_dir(other, root).relative_to(root)) for other in specs)

        offline: tuple[tuple[str, ...], ...] = ((),)
        chance = None
        if not spec.is_offline:
            offline = tuple(map(directories, self.offline_runs(spec)))
            (chance,) = directories([spec.chance_run()])
        return offline_references.References(
            preset=spec.preset,
            normalise_new=self._facts_of(spec).normalise_new,
            offline_runs=offline if len(offline) > 1 else offline[0],
            chance_run=chance,
            so_far=(not spec.is_offline and self._facts_of(spec).so_far) or None,
            learner=None if spec.is_offline else spec.omega_reference,
        )

    def _facts_of(self, spec: run_spec.RunSpec) -> _Facts:
        key = _key(spec)
        if key not in self._facts:
            self.stream(spec)
        return self._facts[key]

    def _reference_key(self, spec: run_spec.RunSpec) -> str:
        key = (_key(spec), spec.part)
        if key not in self._reference_keys:
            self._reference_keys[key] = reference_key(self.stream_to_learn(spec))
        return self._reference_keys[key]


@functools.cache
def _worker_cache() -> StreamCache:
    """The cache of this process, for the tasks that are sent to it."""
    return StreamCache()


def reference_key(stream: Stream) -> str:
    """Digest of a reference stream: its content, regardless of the order of the sessions."""
    d = stream.digests
    return value_digest.digest(d["train"], d["eval"], d["features"], stream.fitted)


def _key(spec: run_spec.RunSpec) -> _Key:
    return spec.files, spec.protocol, spec.seeds.order, spec.unknown


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

    spec: run_spec.RunSpec
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

    @property
    def names(self) -> tuple[str, ...]:
        """Paths or names of the files behind `stream`."""
        alone = self.spec.is_offline and self.streams.stream(self.spec).alone
        return (self.spec.files[self.spec.part],) if alone else self.spec.files

    @property
    def files(self) -> tuple[embedding_file.EmbeddingFile, ...]:
        """The files behind `stream`."""
        return tuple(map(self.streams.file, self.names))

    def group_samples(self, ids: Ints) -> Ints | None:
        """(n,) number of the `group` of each sample; None where a file has none.

        A protocol of someone else may have ids that are no rows of its files.
        """
        groups = self.streams.groups(self.names)
        known = groups is not None and (not len(ids) or 0 <= ids.min() <= ids.max() < len(groups))
        return groups[ids] if groups is not None and known else None

    @property
    def stream(self) -> Stream:
        """The stream that the learner gets: that of the run, or one of its references."""
        return self.streams.stream_to_learn(self.spec)

    @property
    def reference(self) -> offline_references.References:
        """Directories of the runs that the metrics refer to, and how Ω is computed."""
        return self.streams.reference(self.spec, self.root)


def make_task(spec: run_spec.RunSpec, root: Path, streams: StreamCache) -> Task:
    """The task of a run that is saved under `root`."""
    return Task(spec, streams.run_dir(spec, root), root, streams)


# --- the description of a stream in a record ---


def described_stream(task: Task) -> dict[str, Any]:
    """The fields of a record that depend on the stream alone, as `RunRecord` has them."""
    spec, stream, files = task.spec, task.stream, task.files
    protocol = spec.protocol.settings
    order = protocol.order_record()
    classes = [stream.classes] if stream.classes else [_leaves(file) for file in files]
    return {
        "schema": run_record.SCHEMA,
        "protocol": spec.protocol.name,
        "protocol_params": dict(sorted(dataclasses.asdict(protocol).items())),
        "session_id_at_test": stream.spec.reveals_session_id,
        "seed": spec.seed,
        "seeds": spec.seeds,
        "files": tuple(map(_file_info, files, task.names)),
        "order": None if order is None else run_record.ClassOrder(**order),
        "digests": run_record.Digests(**stream.digests),
        "validation": stream.validation,
        "notes": (*stream.notes, *_seen(task, classes)),
        "scale": stream.scale or None,
        "n_train": tuple(len(s.x) for s in stream.sessions),
        "n_classes": tuple(len(s.classes) for s in stream.sessions),
        "n_candidates": tuple(
            None if e.candidates is None else int(e.candidates.sum()) for e in stream.eval_sets
        ),
        "n_train_by_class": stream.class_sizes,
        "classes": tuple(map(tuple, classes)),
        "reference": task.reference,
        "unknown": None
        if stream.far is None
        else _file_info(task.streams.file(spec.unknown), spec.unknown),
    }


def list_packages(**code: object) -> dict[str, run_record.Package] | None:
    """The packages of what is not ours; None where all is."""
    made = {kind: find_package(thing) for kind, thing in code.items()}
    return {kind: run_record.Package(*package) for kind, package in made.items() if package} or None


def _file_info(file: embedding_file.EmbeddingFile, name: str) -> run_record.FileInfo:
    made = run_record.FileInfo(name=file.path.name, kind=file.kind, digests=file.digests)
    if not uri.is_name(name):
        return made
    source = fetch.origin(name)
    if source is None:  # of the package
        return dataclasses.replace(made, url=name)
    return dataclasses.replace(made, url=source.url, commit=source.commit, sha256=source.sha256)


def _leaves(file: embedding_file.EmbeddingFile) -> Sequence[str]:
    return file.classes[: file.samples.n_leaves]


def _seen(task: Task, classes: Sequence[Sequence[str]]) -> list[str]:
    """Sentences on classes of the stream that the files' backbones were pretrained on."""
    names = [name for part in classes for name in part]
    introduced = {names[c] for s in task.stream.sessions for c in s.classes.tolist()}
    return [
        note
        for file in task.files
        for note in provenance.seen_note(
            file.path.name, provenance.read_weights_entry(file.provenance).classes_seen, introduced
        )
    ]
