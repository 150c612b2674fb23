"""Streams: views of resident tables, cut into sessions, with digests that say what may be compared.

Nothing here copies features: a session is a table, row numbers and maybe a column permutation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bools, Ints, Labels
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.storage.value_digest import digest

from .feature_tables import Scaling
from .view import View, rows_of, table_of


@dataclass(frozen=True)
class Session:
    """The training data of one session. A learner gets each session once, in order.

    Parameters
    ----------
    x, y : View, array
        View (n, D), or (n, C, H, W) of images, and labels (n,) int, or (n, C) bool in a multi-label
        stream.
    val_x, val_y : View, array
        In-session validation data, the same shapes; may be empty.
    ids : array of int
        (n,) opaque integer ids.
    classes : array of int
        Classes introduced here, (k,) int.
    loss_classes : array of bool or None
        (C,) bool mask the protocol sets for training, or None.
    session_id : int or None
        Number of the session, or None where the protocol hides it.
    together : array of int or None
        (n,) number of the group of each training sample, of a session of all data: who holds some
        of them out holds out whole groups. None: each sample is by itself.
    """

    x: View
    y: Labels
    val_x: View
    val_y: Labels
    ids: Ints
    classes: Ints
    loss_classes: Bools | None = None
    session_id: int | None = None
    together: Ints | None = None

    @property
    def val_ids(self) -> Ints:
        """(n_val,) opaque integer ids of the validation samples."""
        return rows_of(self.val_x)


@dataclass(frozen=True)
class EvalSet:
    """Test samples of one session; in a multi-label stream, one set per split, of all sessions.

    Parameters
    ----------
    x, y, ids : View, array, array of int
        As in `Session`.
    classes : array of bool
        (C,) bool, the classes of the set's own session: candidates of the within-session answer.
    split : str
        "test"; in a multi-label stream also "val", the post-task validation data.
    candidates : array of bool or None
        (C,) bool mask for every answer, independent of session ids, or None.
    """

    x: View
    y: Labels
    ids: Ints
    classes: Bools
    split: str = "test"
    candidates: Bools | None = None


@dataclass(frozen=True)
class StreamSpec:
    """The facts about a stream that a learner knows before it starts.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one sample, (D,), or (C, H, W) of images.
    n_classes : int
        C, all classes of the stream; labels lie in [0, C).
    multilabel : bool
        Whether labels are (n, C) bool.
    layers : dict
        Column slices of intermediate embeddings; the final embedding is columns [0, D).
    reveals_session_id : bool
        Whether the session id is given in training and at test.
    loss_over_seen : bool
        Whether the loss may use only the classes seen so far. Sessions say which these are, in
        `loss_classes`. An online learner, which gets no session, uses the classes whose labels
        have come.
    loss_over_session : bool
        Whether the loss of a sample may use only the classes of the sample's own session, a head a
        session: `loss_classes` of the session says which.
    scaling : Scaling or None
        Per-channel (factor, offset) that turned bytes into the values a learner receives; None for
        embeddings.
    """

    input_shape: tuple[int, ...]
    n_classes: int
    multilabel: bool = False
    layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    reveals_session_id: bool = False
    loss_over_seen: bool = False
    loss_over_session: bool = False
    scaling: Scaling | None = None


@dataclass(frozen=True, repr=False)
class Stream:
    """A stream is a value: sessions, eval sets, and four digests.

    Averaging over seeds needs equal `recipe` and `features`; pairing learners needs equal `train`,
    `eval` and `features`; a joint reference equal `eval` and `features`.

    Parameters
    ----------
    recipe : str
        The protocol and its parameters, without seed, as text.
    features : str
        Digest of the features: file contents and scaling.
    samples : tuple of str
        Digests of the files' sample lists.
    normalise_new : bool
        Whether Ω_new is divided by α_ideal on this protocol (`kemker_table` preset).
    validation : str
        "train" where validation data comes from training data, "test" where it is the test set,
        "none" where there is none.
    observe_batch : int
        Samples in the batches that the runner cuts for online learners; 0: it gives them whole
        sessions.
    evaluate_every : int
        Samples between two evaluations of an online learner; 0: after sessions only.
    fitted : str
        Digest of the rows that the features' scaling was fitted to; empty where none were.
    can_reveal : bool
        Whether a learner that cannot answer without the session id may get it.
    notes : tuple of str
        Decisions of the protocol about this file, in words.
    alone : tuple of Stream
        If every session has its own α_ideal: one stream per session, with only its data (session k
        holds file k). Empty if all sessions share the α_ideal of the merged stream.
    whole : sequence of Session
        One session that holds every taught sample once, with complete labels; empty in a
        single-label stream.
    classes : tuple of str
        Names of the C classes; empty in a stream of several files.
    parents : array of int or None
        The class above each one, -1 at the top; None in a single-label stream.
    origin : tuple or None
        The one file behind the stream and the name of its embedding, for the runner; None: several
        files, or the protocol names none.
    ordered : bool
        Whether the samples of a session come in the order of its rows. If not, the runner shuffles
        them before it cuts batches.
    task_free : bool
        Whether learners are not to know where a session ends. Those that learn whole sessions are
        refused.
    so_far : bool
        Whether α_ideal is also measured after every session, by a learner of the data so far.
    far : View or None
        Samples of classes that no session has, see `far_samples`; for the runner alone.
    groups : array of int or None
        (N,) number of the group of each row of the table, see `whole_groups`. None: each row is by
        itself, or the stream has several tables.
    """

    spec: StreamSpec
    sessions: Sequence[Session]
    eval_sets: tuple[EvalSet, ...]
    recipe: str
    features: str
    samples: tuple[str, ...]
    normalise_new: bool = False
    validation: str = "train"
    observe_batch: int = 10
    evaluate_every: int = 0
    fitted: str = ""
    can_reveal: bool = False
    notes: tuple[str, ...] = ()
    alone: "tuple[Stream, ...]" = ()
    whole: Sequence[Session] = ()
    classes: tuple[str, ...] = ()
    parents: Ints | None = None
    origin: tuple[EmbeddingFile, str] | None = None
    ordered: bool = False
    task_free: bool = False
    so_far: bool = False
    far: View | None = None
    groups: Ints | None = None

    def __repr__(self) -> str:
        return f"<Stream: {len(self.sessions)} sessions, {self.spec.n_classes} classes>"

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digests `recipe`, `train`, `eval` and `features`."""
        train: list[Any] = [*self.samples]
        for s in self.sessions:
            train += [
                s.ids,
                pack_labels(s.y),
                s.val_ids,
                pack_labels(s.val_y),
                s.classes,
                view_columns(s.x),
            ]
            train.append(mask(s.loss_classes))
        tests: list[Any] = [*self.samples]
        for e in self.eval_sets:
            columns = view_columns(e.x)
            tests += eval_parts(e.split, e.ids, e.y, e.classes, columns, e.candidates)
        return {
            "recipe": digest(self.recipe),
            "train": digest("train", *train),
            "eval": digest("eval", *tests),
            "features": self.features,
        }

    @cached_property
    def scale(self) -> str:
        """The scaling of the features, see `Protocol`; empty for tables made in memory."""
        return ", ".join(dict.fromkeys(table_of(s.x).scale for s in self.sessions))

    @cached_property
    def class_sizes(self) -> tuple[int, ...] | None:
        """(C,) training samples of each class in all sessions; None in a multi-label stream."""
        if self.spec.multilabel:
            return None
        each = [np.bincount(s.y, minlength=self.spec.n_classes) for s in self.sessions]
        return tuple(np.sum(each, axis=0).tolist())

    @cached_property
    def references(self) -> "tuple[Stream, ...]":
        """The streams on which the offline learner measures α_ideal.

        They are `alone`, or all sessions merged; with `so_far`, the sessions up to each one merged.
        """
        if self.so_far:
            parts = [
                (self.sessions[:n], self.eval_sets[:n]) for n in range(1, len(self.sessions) + 1)
            ]
            streams = [replace(self, sessions=s, eval_sets=e, so_far=False) for s, e in parts]
            return tuple(stream.merged() for stream in streams)
        return tuple(stream.merged() for stream in self.alone) or (self.merged(),)

    def revealed(self) -> "Stream":
        """The same stream with the same digests; session ids are given in training and at test."""
        sessions = tuple(replace(s, session_id=i) for i, s in enumerate(self.sessions))
        return replace(self, spec=replace(self.spec, reveals_session_id=True), sessions=sessions)

    def without_layers(self) -> "Stream":
        """The same stream with the same digests and table, cut to the final embedding.

        A table with layers holds the final embedding in columns [0, D) and the layers behind it.
        """
        if not self.spec.layers:
            return self
        width = min(first for first, _ in self.spec.layers.values())

        def cut(view: View) -> View:
            return replace(view, width=width)

        def session(s: Session) -> Session:
            return replace(s, x=cut(s.x), val_x=cut(s.val_x))

        return replace(
            self,
            spec=replace(self.spec, input_shape=(width,), layers={}),
            sessions=tuple(session(s) for s in self.sessions),
            eval_sets=tuple(replace(e, x=cut(e.x)) for e in self.eval_sets),
            far=None if self.far is None else cut(self.far),
            alone=tuple(s.without_layers() for s in self.alone),
            whole=tuple(session(s) for s in self.whole),
        )

    def merged(self) -> "Stream":
        """All sessions as one: every sample once, as it first occurs in the stream.

        For an incremental-class stream these are all samples of all classes, and the loss may use
        all classes; for a permutation stream the unpermuted data. Rows are sorted, so that the
        result (and a reference run kept under its digest) does not depend on the order of the
        sessions.
        """
        if self.whole:
            spec = replace(self.spec, reveals_session_id=False)
            recipe = f"merged {self.fitted}"
            return replace(self, spec=spec, sessions=self.whole, recipe=recipe, whole=())
        if len(self.sessions) == 1:
            stream = self if self.far is None else replace(self, far=None)
            return stream._with_groups()
        train = merge([(s.x, s.ids, s.y) for s in self.sessions])
        val = merge([(s.val_x, s.val_ids, s.val_y) for s in self.sessions])
        test = merge([(e.x, e.ids, e.y) for e in self.eval_sets])
        classes = np.unique(np.concatenate([s.classes for s in self.sessions]))
        seen = np.zeros(self.spec.n_classes, dtype=np.bool_)
        seen[classes] = True
        session = Session(
            x=train[0], y=train[2], val_x=val[0], val_y=val[2], ids=train[1], classes=classes
        )
        stream = Stream(
            spec=replace(
                self.spec, reveals_session_id=False, loss_over_seen=False, loss_over_session=False
            ),
            sessions=(session,),
            eval_sets=(EvalSet(x=test[0], y=test[2], ids=test[1], classes=seen),),
            recipe=f"merged {self.fitted}",
            features=self.features,
            samples=self.samples,
            validation=self.validation,
            observe_batch=self.observe_batch,
            evaluate_every=self.evaluate_every,
            fitted=self.fitted,
            classes=self.classes,
            groups=self.groups,
        )
        return stream._with_groups()

    def _with_groups(self) -> "Stream":
        """The stream, whose sessions say the groups of their samples."""
        if self.groups is None:
            return self
        known = self.groups
        sessions = tuple(replace(s, together=known[rows_of(s.x)]) for s in self.sessions)
        return replace(self, sessions=sessions, groups=None)


# --- views of one table, joined; digests ---


def view_columns(view: View) -> Ints:
    """The column permutation of a view; empty if it has none."""
    return np.zeros(0, dtype=np.int64) if view.columns is None else view.columns


def merge(parts: Sequence[tuple[View, Ints, Labels]]) -> tuple[View, Ints, Labels]:
    """Join views of one table; each sample id once, at its first appearance; sorted by id."""
    first = parts[0][0]
    if any(table_of(v) is not table_of(first) for v, _, _ in parts):
        raise ValueError("merged() joins views of one table only; take `references` one by one")
    taken = np.zeros(0, dtype=np.int64)
    kept_rows = []
    kept_ids = []
    kept_labels = []
    for view, ids, y in parts:
        new = ~np.isin(ids, taken)
        taken = np.concatenate([taken, ids[new]])
        if new.any() and not np.array_equal(view_columns(view), view_columns(first)):
            raise ValueError("merged() cannot join new samples seen through different permutations")
        kept_rows.append(rows_of(view)[new])
        kept_ids.append(ids[new])
        kept_labels.append(y[new])
    ids = np.concatenate(kept_ids)
    order = np.argsort(ids, kind="stable")
    view = View(table_of(first), np.concatenate(kept_rows)[order], first.width, first.columns)
    return view, ids[order], np.concatenate(kept_labels)[order]


def eval_parts(
    split: str, ids: Ints, y: Labels, classes: Bools, columns: Ints, candidates: Bools | None
) -> list[Any]:
    """What the digest `eval` covers of an eval set; `columns` is empty without a permutation."""
    return [split, ids, pack_labels(y), classes, columns, mask(candidates)]


def pack_labels(y: Labels) -> Array | bytes:
    """Labels for a digest; those of a multi-label stream are packed, eight to a byte."""
    return y if y.ndim == 1 else np.packbits(y, axis=1).tobytes()


def mask(classes: Bools | None) -> Bools:
    """A mask for a digest; empty where there is none."""
    return np.zeros(0, dtype=np.bool_) if classes is None else classes
