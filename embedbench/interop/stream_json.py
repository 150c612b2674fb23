"""An exported stream, as `stream.json` holds it; docs/answers.md describes that."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from embedbench.arrays import Bools, digest
from embedbench.config.json_types import ABSENT, JsonRecord
from embedbench.config.seeds import Seeds
from embedbench.errors import UserError, short
from embedbench.scores.omega_reference import References
from embedbench.scores.run_record import ClassOrder, Digests, FileInfo, Package

SCHEMA = "embedbench-stream/1.0"
MOST = 2**30  # sessions times classes
_DIRECTORY = re.compile(r"\w[\w.-]{0,190}-[0-9a-f]{8}", re.ASCII)
_RUN = re.compile(r"seed-\d{1,19}(-(order|init|batches|memory)\d{1,19})*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SessionEntry(JsonRecord):
    """One session: the classes that it introduces, its samples, and its column permutation."""

    introduces: tuple[int, ...]
    train: int
    val: int
    columns: tuple[int, ...] | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class EvalEntry(JsonRecord):
    """One eval set: its classes and samples; the classes that every answer is limited to, if so."""

    classes: tuple[int, ...]
    test: int
    candidates: tuple[int, ...] | None = field(default=None, metadata=ABSENT)
    columns: tuple[int, ...] | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class ExportedStream(JsonRecord):
    """The contents of `stream.json`.

    The names that docs/record.md has too mean the same there. In addition:

    Parameters
    ----------
    digest : str
        What answers name: of the four digests, the classes that sessions introduce, and their size.
    directory, run : str
        Where the runs of a learner on this stream lie: `RUNS/directory/LEARNER/run`.
    samples : tuple of str
        Digests of the sample lists of the files.
    input_shape : tuple of int
        Shape of a sample.
    sessions, eval_sets : tuple
        The sessions and the eval sets, in order.
    """

    schema: str
    digest: str
    directory: str
    run: str
    protocol: str
    protocol_params: dict[str, Any]
    seed: int
    seeds: Seeds
    files: tuple[FileInfo, ...]
    order: ClassOrder | None
    digests: Digests
    samples: tuple[str, ...]
    input_shape: tuple[int, ...]
    classes: tuple[tuple[str, ...], ...]
    sessions: tuple[SessionEntry, ...]
    eval_sets: tuple[EvalEntry, ...]
    validation: str
    session_id_at_test: bool
    notes: tuple[str, ...]
    n_train: tuple[int, ...]
    n_classes: tuple[int, ...]
    n_candidates: tuple[int | None, ...]
    n_train_by_class: tuple[int, ...]
    reference: References
    packages: dict[str, Package] | None = field(default=None, metadata=ABSENT)
    scale: str | None = field(default=None, metadata=ABSENT)

    @classmethod
    def from_json(cls, data: Any, name: str = "the stream") -> Self:
        """Read and check a stream; `name` is the path to show in errors.

        Raises
        ------
        UserError
            The schema differs, a key is missing or of another type, or the parts do not agree.
        """
        if isinstance(data, dict) and data.get("schema") != SCHEMA:
            raise UserError(
                f"{name} has schema {short(data.get('schema'))}, expected {SCHEMA!r}; embedbench "
                "show FILE --protocol NAME --export DIR writes it"
            )
        stream = super().from_json(data, name)
        if wrong := stream._wrong():
            raise UserError(f"{name}: {wrong}; export the stream again")
        return stream

    @property
    def n_labels(self) -> int:
        """C, the number of classes; labels are below it."""
        return sum(map(len, self.classes))

    @property
    def identity(self) -> str:
        """The value that `digest` must have."""
        sizes = np.array(self.n_train, dtype=np.int64)
        introduced = (np.array(s.introduces, dtype=np.int64) for s in self.sessions)
        return digest(*vars(self.digests).values(), sizes, *introduced)

    def mask(self, classes: Sequence[int]) -> Bools:
        """(C,) Whether a class is among `classes`."""
        result = np.zeros(self.n_labels, dtype=np.bool_)
        result[list(classes)] = True
        return result

    def seen(self) -> Bools:
        """(T, C) The classes seen after each session."""
        new = [self.mask(s.introduces) for s in self.sessions]
        return np.logical_or.accumulate(np.stack(new), axis=0)

    def _wrong(self) -> str:
        """The first disagreement, in words; empty if there is none."""
        named = [c for s in self.sessions for c in s.introduces]
        named += [c for e in self.eval_sets for c in (*e.classes, *(e.candidates or ()))]
        if not self.sessions or not self.eval_sets:
            return "it has no session or no eval set"
        if max(len(self.sessions), len(self.eval_sets)) * self.n_labels > MOST:
            return "it has more sessions and classes than any stream"
        if not all(0 <= c < self.n_labels for c in named):
            return (
                f"classes are numbered 0 to {self.n_labels - 1}, got {min(named)} to {max(named)}"
            )
        if tuple(s.train for s in self.sessions) != self.n_train:
            return "n_train and sessions disagree"
        if not _DIRECTORY.fullmatch(self.directory) or not _RUN.fullmatch(self.run):
            return f"{short(f'{self.directory}/{self.run}')} is no place of a run"
        if self.digest != self.identity:
            return "its digest is not that of its sessions, so it was changed"
        return ""
