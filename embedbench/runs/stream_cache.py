"""Files and streams that are opened or built once for all runs of a command."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Ints
from embedbench.errors import UserError, keep_inside
from embedbench.files import embedding_file
from embedbench.files.remote import fetch
from embedbench.storage import value_digest
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.streams.unknown_samples import with_far_samples
from embedbench.system.cpu_threads import limit_threads

from . import run_spec


class Facts(NamedTuple):
    """Facts of a stream for planning; they are kept when the stream itself is not."""

    digests: dict[str, str]
    references: tuple[str, ...]  # the key of each, see `reference_key`
    reference_digests: tuple[dict[str, str], ...]
    normalise_new: bool
    so_far: bool


_Key = tuple[tuple[str, ...], run_spec.Spec[Protocol], int, str]  # identifies a stream


class StreamCache:
    """Files that are opened once, and streams that are built once for all runs on them.

    It lasts as long as the command that runs them. Only the last stream is kept, because a stream
    holds its features. A cache is never sent to another process: it arrives there as the cache of
    that process, which all its tasks share.
    """

    def __init__(self, *, renews: bool = False) -> None:
        self._renews = renews  # see `begin`
        self._files: dict[str, embedding_file.EmbeddingFile] = {}
        self._last: tuple[_Key, Stream] | None = None
        self._order: dict[str, Any] | None = None  # of the last stream
        self._facts: dict[_Key, Facts] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _worker_cache, ()

    def file(self, path: str) -> embedding_file.EmbeddingFile:
        """The file at a path, or of a name (`embedbench.files.remote`)."""
        if path not in self._files:
            self._files[path] = fetch.open_file(path)
        return self._files[path]

    def begin(self) -> None:
        """A task begins: in a worker, which may outlive a command, files may be others by now.

        Within a task they stay what they were when it began.
        """
        if self._renews and any(file.is_changed() for file in self._files.values()):
            self._files = {}
            self._last = None
            self._facts = {}

    def stream(self, spec: run_spec.RunSpec) -> Stream:
        """The stream of a run."""
        key = _key(spec)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        del last
        self._last = None  # frees the old stream before the new one is built
        files = [self.file(f) for f in spec.files]
        protocol = spec.protocol.settings
        order = protocol.order_record()
        recipe = protocol.recipe()
        with limit_threads(1):  # a stream is the same for all runs
            with keep_inside(f"the protocol {spec.protocol}"):
                stream = spec.protocol.settings.build(files, seed=spec.seeds.order)
            if spec.unknown:
                stream = with_far_samples(stream, files[0], self.file(spec.unknown))
        if (order, recipe) != (protocol.order_record(), protocol.recipe()):
            raise UserError("the order file changed while it was read", "run the command again")
        self._last = (key, stream)
        self._order = order
        self._facts[key] = Facts(
            stream.digests,
            tuple(map(reference_key, stream.references)),
            tuple(each.digests for each in stream.references),
            stream.normalise_new,
            stream.so_far,
        )
        return stream

    def order_record(self, spec: run_spec.RunSpec) -> dict[str, Any] | None:
        """The class order of a run as records keep it; an order file as it was when it was used."""
        self.stream(spec)
        return self._order

    def digests(self, spec: run_spec.RunSpec) -> dict[str, str]:
        """The digests of the stream that the learner gets."""
        facts = self.facts(spec)
        return facts.reference_digests[spec.part] if spec.is_offline else facts.digests

    def parts(self, spec: run_spec.RunSpec) -> list[run_spec.RunSpec]:
        """The run itself; for an offline learner, one run per reference of the stream."""
        n = len(self.facts(spec).references) if spec.is_offline else 1
        return [dataclasses.replace(spec, part=k) for k in range(n)]

    def offline_runs(self, spec: run_spec.RunSpec) -> list[list[run_spec.RunSpec]]:
        """The runs behind α_ideal on a run's stream: one list per reference, one run per seed."""
        return spec.offline_runs(len(self.facts(spec).references))

    def contents(self, spec: run_spec.RunSpec) -> list[str]:
        """The contents of the files of a run, which its place is named for."""
        contents = [self._contents(f) for f in spec.files]
        if spec.unknown:
            contents += ["unknown", self._contents(spec.unknown)]
        contents += spec.protocol.settings.later_readings([self.file(f) for f in spec.files])
        return contents

    def _contents(self, path: str) -> str:
        digests = self.file(path).digests
        return digests["content"] + digests["samples"]

    def facts(self, spec: run_spec.RunSpec) -> Facts:
        """What planning asks of the stream of a run."""
        key = _key(spec)
        if key not in self._facts:
            self.stream(spec)
        return self._facts[key]


def number_groups(files: Sequence[embedding_file.EmbeddingFile]) -> Ints | None:
    """(N,) number of the `group` of each row of files, one after another; None without groups.

    No two files have a group in common.
    """
    codes = list[Ints]()
    first = 0
    for file in files:
        if (column := file.columns.get("group")) is None:
            return None
        names, code = np.unique(column, return_inverse=True)
        codes.append(code + first)
        first += len(names)
    return np.concatenate(codes)


@functools.cache
def _worker_cache() -> StreamCache:
    """The cache of this process, for the tasks that are sent to it; it may outlive a command."""
    return StreamCache(renews=True)


def reference_key(stream: Stream) -> str:
    """Digest of a reference stream: its content, regardless of the order of the sessions.

    Groups belong to it, because the choice of the reference keeps them whole.
    """
    d = stream.digests
    groups = [s.together for s in stream.sessions if s.together is not None]
    return value_digest.digest(d["train"], d["eval"], d["features"], stream.fitted, *groups)


def _key(spec: run_spec.RunSpec) -> _Key:
    return spec.files, spec.protocol, spec.seeds.order, spec.unknown
