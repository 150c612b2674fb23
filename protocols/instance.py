"""Instance: one pass over the samples as they come, in the four orders of streaming learning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST
from embedbench.streams import make_sessions as tools
from embedbench.streams.load_table import load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream

Ordering = Literal["iid", "class-iid", "instance", "class-instance"]
SESSIONS = 10


@dataclass(kw_only=True)
class Instance(Protocol):
    """Streaming learning: one pass, sample by sample, in one of four orders.

    "iid": all samples shuffled. "class-iid": class by class, the samples of a class shuffled.
    "instance": group by group (an object, a video), the groups shuffled, the samples of a group by
    time. "class-instance": class by class, and the groups of a class as in "instance". The classes
    are shuffled too. Groups and times are the columns `group` and `time`; without `time`, the
    samples of a group come in the order of the file.

    A session is a stretch between two evaluations. Online learners get the samples in order, in
    batches. Learners of sessions get each stretch whole, and may pass over it more than once.

    **Source**: Hayes et al. (2019), ExStream; the orders as in the code of Stream-51 (Roady et al.
    2020): under "iid" and "instance" all classes are known and tested from the start, under the
    other two the classes so far. Ω_all of these papers is `omega_streaming` here; its α_offline is
    measured after every session.

    **Departs**: evaluations are evenly spaced; their spacing is a number of samples ("iid",
    "instance") or of classes. Classes without test samples come last under "class-iid" and
    "class-instance". Validation samples, which the papers do not have, come with the session that
    teaches their class.

    Parameters
    ----------
    ordering : str
        "iid", "class-iid", "instance" or "class-instance".
    sessions : int
        T, the number of evaluations; 0: 10, or one a class if there are fewer classes and they come
        one by one.
    observe_batch : int
        Samples in a batch; 1 in the papers.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "instance", ordering="class-iid", sessions=3)
    >>> [len(session.y) for session in stream.sessions]
    [126, 117, 117]
    """

    ordering: Ordering = "class-instance"
    sessions: Annotated[int, at_least(0, 10_000)] = 0
    observe_batch: Annotated[int, at_least(1)] = 1

    name: ClassVar[str] = "instance"
    reveals_no_future: ClassVar[bool] = False  # iid and instance know all classes from the start
    checked: ClassVar[tuple[dict[str, Any], ...]] = tuple(
        {"ordering": o} for o in get_args(Ordering)
    )

    @property
    def _by_class(self) -> bool:
        return self.ordering.startswith("class")

    @property
    def _by_group(self) -> bool:
        return self.ordering.endswith("instance")

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        file = self.take_file(files)
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        parts = self._parts(file, split.train, seed)
        first = float(len(parts[0]))
        if self._by_class:
            sizes = np.unique(file.labels[split.train], return_counts=True)[1]
            first = tools.mean_rows(sizes, len(np.unique(file.labels[parts[0]])))
        table, features, fitted = load_table(
            file, self.scale, np.sort(parts[0]), few=first < self.scale_least
        )
        pairs = tools.teach_parts(
            table, file, split, parts, split.val, all_known=not self._by_class
        )
        columns = (file.digests["columns"],) if self._by_group else ()
        untimed = self._by_group and "time" not in file.columns
        return self.make_stream(
            tools.flat_spec(table, file),
            pairs,
            [file],
            features,
            samples=(file.digests["samples"], *columns),
            fitted=fitted,
            notes=("no column time: a group comes in the order of the file",) if untimed else (),
            ordered=True,
            so_far=True,
        )

    def _parts(self, file: EmbeddingFile, train: Ints, seed: int) -> list[Ints]:
        """The training rows of each session, in the order of the stream."""
        rng = np.random.default_rng(seed)
        what = "training samples"
        units = train
        number = self.sessions or SESSIONS
        if self._by_class:
            classes = rng.permutation(np.unique(file.labels[train]))
            what = "classes"
            tested = tools.class_mask(file, file.labels[file.split == TEST])[classes]
            units = np.concatenate([classes[tested], classes[~tested]])
            number = self.sessions or min(SESSIONS, len(units))
        if number > len(units):
            raise UserError(
                "protocol.sessions", expected=f"at most {len(units)}, the {what}", got=number
            )
        if not self._by_class:
            return np.array_split(self._ordered(file, train, rng), number)
        return [
            np.concatenate(
                [self._ordered(file, train[file.labels[train] == c], rng) for c in share]
            )
            for share in np.array_split(units, number)
        ]

    def _ordered(self, file: EmbeddingFile, rows: Ints, rng: np.random.Generator) -> Ints:
        """Rows shuffled, or in shuffled groups, each by time."""
        if not self._by_group:
            return rng.permutation(rows)
        group = file.column("group")[rows]
        time = file.columns["time"][rows] if "time" in file.columns else np.zeros(len(rows))
        by_time = np.lexsort((time, group))  # stable: equal times stay in the order of the file
        _, sizes = np.unique(group, return_counts=True)
        groups = np.split(rows[by_time], np.cumsum(sizes)[:-1])
        return np.concatenate([groups[k] for k in rng.permutation(len(groups))])
