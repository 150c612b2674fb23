"""Streams rebuilt from the files that records name, and predictions beside them.

Nothing that a record names is imported or opened: files are those that the user gives, or that lie
in the working directory under the name in the record, and have its digests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench import cache
from embedbench.disk import open_regular, unreadable
from embedbench.errors import UserError, short
from embedbench.fields import make
from embedbench.files.file import EmbeddingFile
from embedbench.machine import threads_of
from embedbench.plugins import offered
from embedbench.runs.evaluators import truth_of
from embedbench.runs.registry import protocol_class, protocol_names
from embedbench.scores.label_sets import AnyPredictions
from embedbench.scores.run_record import Digests, FileInfo, RunRecord
from embedbench.streams.stream import Stream

MOST = 10_000  # of an integer among the parameters: sessions, classes of a session, …
WORDS = {
    "ids": "sample ids",
    "y": "true labels",
    "eval_set": "eval sets",
    "set_classes": "classes of the sessions",
    "split": "splits",
    "introduces": "classes of the sessions",
    "parents": "hierarchy",
}
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class NotHereError(UserError):
    """Why a stream cannot be rebuilt here; nothing speaks against the run."""


class Rebuilder:
    """Rebuilds the streams of runs, from files that are here.

    Parameters
    ----------
    data : sequence of Path
        Embedding files, and order files.

    Raises
    ------
    UserError
        One of them cannot be read.
    """

    def __init__(self, data: Sequence[Path] = ()) -> None:
        self._files: dict[str, EmbeddingFile | None] = {}
        self._orders: dict[str, Path] = {}
        self._last: tuple[str, Stream] | None = None
        for path in data:
            try:
                with open_regular(path) as file:
                    is_hdf5 = file.read(len(_SIGNATURE)) == _SIGNATURE
            except OSError as e:
                raise unreadable(path, e) from e
            if is_hdf5:
                opened = EmbeddingFile.open(path)
                self._files[_key(opened.digests)] = opened
            else:
                self._orders[cache.sha256(path)] = path

    def fault(self, made: RunRecord, predictions: AnyPredictions) -> str:
        """What in the predictions of a run is not that of its stream; empty if all is.

        Raises
        ------
        NotHereError
            The stream cannot be rebuilt here.
        """
        stream = self._taught(made)
        names = ", ".join(f.name for f in made.files)
        if isinstance(stream, str):
            return f"its {stream} is not that of the stream rebuilt from {names}"
        if what := _difference(stream, predictions, made):
            return f"its {what} are not those of the stream rebuilt from {names}"
        return ""

    def _taught(self, made: RunRecord) -> Stream | str:
        """The stream, or the one of its references, that has the record's digests.

        A digest of the record that no such stream has is named instead.
        """
        stream = self._stream(made)
        for one in (stream, *(stream.references if len(made.n_train) == 1 else ())):
            if Digests(**one.digests) == made.digests:
                return one
        wrong = [key for key, value in vars(made.digests).items() if stream.digests[key] != value]
        return f"digest {short(wrong[0])}"

    def _stream(self, made: RunRecord) -> Stream:
        if made.protocol not in {*protocol_names()} - {*offered("protocols")}:
            raise NotHereError(f"the protocol {made.protocol} is code of others, which is not run")
        files = [self._file(info) for info in made.files]
        params = self._params(made)
        key = json.dumps([made.protocol, params, [f.digests for f in files], made.seeds.order])
        if self._last is None or self._last[0] != key:
            self._last = None
            try:
                protocol = make(protocol_class(made.protocol), params, name="protocol")
                with threads_of(1):
                    self._last = key, protocol.build(files, seed=made.seeds.order)
            except (UserError, ArithmeticError, LookupError, TypeError, ValueError) as e:
                raise NotHereError(f"its stream could not be rebuilt: {e}") from e
        return self._last[1]

    def _file(self, info: FileInfo) -> EmbeddingFile:
        key = _key(info.digests)
        if key not in self._files:
            self._files[key] = None
            here = Path(os.path.basename(info.name) or ".")
            if here.is_file():
                try:
                    opened = EmbeddingFile.open(here)
                    self._files.setdefault(_key(opened.digests), opened)
                    if _key(opened.digests) == key:
                        self._files[key] = opened
                except UserError:  # another file, which nobody gave
                    pass
        file = self._files[key]
        if file is None:
            raise NotHereError(f"{info.name} with its digests is not here; --data FILE gives it")
        return file

    def _params(self, made: RunRecord) -> dict[str, Any]:
        """The parameters of a run's protocol; none of them names a file but the one given."""
        params = dict(made.protocol_params)
        order = made.order
        if order is not None and order.digest is not None:
            if order.digest not in self._orders:
                raise NotHereError(f"its class order is in {order.name}; --data FILE gives it")
            params["order"] = str(self._orders[order.digest])
        for name, value in params.items():
            given = name == "order" and order is not None and order.digest is not None
            if isinstance(value, str) and not given and _may_be_file(value):
                raise NotHereError(f"its protocol reads a file, {name}={short(value)}")
            if isinstance(value, int) and value > MOST:
                raise NotHereError(f"its protocol has {name}={value}, and {MOST:,} is the most")
        return params


def _key(digests: dict[str, str]) -> str:
    return json.dumps(digests, sort_keys=True)


def _may_be_file(value: str) -> bool:
    return bool({"/", "\\", "\0"} & {*value}) or os.path.lexists(value)


def _difference(stream: Stream, predictions: AnyPredictions, made: RunRecord) -> str:
    """The first part of some predictions that is not that of the stream, in words; or empty."""
    truth = truth_of(stream)
    if {*truth} - {*vars(predictions)} or ("split" in vars(predictions)) != ("split" in truth):
        return "kinds of labels"
    for name, values in truth.items():
        if not np.array_equal(getattr(predictions, name), values):
            return WORDS[name]
    sizes = [len(s.x) for s in stream.sessions]
    if list(made.n_train) != sizes:
        return "numbers of training samples"
    session = predictions.session
    ends = np.flatnonzero(np.append(np.diff(session) > 0, True))
    if predictions.samples_seen[ends].tolist() != np.cumsum(sizes).tolist():
        return "numbers of samples seen"
    seen = np.zeros((len(sizes), stream.spec.n_classes), dtype=np.bool_)
    for i, one in enumerate(stream.sessions):
        seen[i:, one.classes] = True
    return "" if np.array_equal(predictions.seen, seen[session]) else "classes seen"
