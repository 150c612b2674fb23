"""Incremental class: a base session of many classes, then K new classes per session."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.fields_added_later import later
from embedbench.config.make_from_settings import join_list
from embedbench.config.plain_numbers import plain_number
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.provenance import list_some
from embedbench.files.sample_metadata import TEST
from embedbench.streams import make_sessions as tools
from embedbench.streams.class_subset import order_chosen
from embedbench.streams.load_table import layer_names, load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Session, Stream

PLACED = 5  # places, and classes of each, that a note names
MOST_CLASSES = 10**9  # in a session of a list: the sum fits an integer of NumPy


@dataclass(kw_only=True)
class IncrementalClass(Protocol):
    """Incremental class learning: class-incremental, the session id hidden.

    **Source**: Kemker et al. (2018), "Incremental class experiment": base half, then one class a
    session (MNIST 5 + 5, CUB-200 100 + 100, AudioSet 50 + 50).

    **Departs**: the paper does not print its class order; ours is the file's, a random or a given
    one. Classes without test samples join the base session, so that no score is undefined.

    Parameters
    ----------
    base : int
        Classes of session 0; 0 means half of them, or an equal share with `sessions`.
    step : int
        K, new classes per session; the last session takes the rest.
    sessions : int or str
        Number of sessions; they share the classes (after `base`) evenly, and if that is not exact,
        the first ones get one more. 0: the number follows from `step`. Or the classes of each
        session, with commas, "10,5,5,20"; `base` and `step` are then left out.
    order : str
        "natural", "random" (drawn from the seed), "size" (largest classes first), or the path of an
        order file.
    loss : str
        The classes that the loss of a learner may use. "all": all classes of the stream, as
        Kemker's heads imply; "seen": those of the sessions so far, as FACIL and most libraries do.
        Online learners, which know no sessions, then use the classes whose labels have come. It
        concerns what trains a head on `session.loss_classes`, such as `mlp`, `ewc` or `er`;
        `icarl`, `bic`, `lucir`, `lwf`, `eeil`, `wa` and `er-ace` use the classes seen in any case.
        "session": for each sample those of its own session, a head a session: task-incremental
        training, whose scores are `within_accuracy` and the like. `mlp`, `joint`, `ewc`, `si`,
        `mas`, `lwf` and, on whole sessions, `er`, `derpp`, `er-ace`, `mir`, `gss`, `agem` and
        `remind` train heads; other learners with a network are refused. Answers among all classes
        mean little then, as no loss compares the heads.
    embedding : str
        "final", or an intermediate layer of the file that learners get instead.
    layers : str
        Intermediate layers beside the final embedding, for learners that need them, such as
        `layup`: "all" of the file, "none", or names with commas.
    labels : str
        "class"; or "place": the label of a sample is the place of its class in its session, so that
        all sessions have the same labels, and the stream is domain-incremental (van de Ven et al.
        2022, Split MNIST with two labels: even or odd). Every session then has the same number of
        classes. Not with `loss` "session": with labels of classes it is the same.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=4, base=22)
    >>> [len(session.y) for session in stream.sessions]
    [198, 54, 54, 54]
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions="10,5,5,20")
    >>> [len(session.classes) for session in stream.sessions]
    [10, 5, 5, 20]
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=20, labels="place")
    >>> stream.spec.n_classes
    2
    """

    base: Annotated[int, at_least(0)] = 0
    step: Annotated[int, at_least(1)] = 1
    sessions: Annotated[int, at_least(0)] | str = 0
    order: str = "natural"
    loss: Literal["all", "seen", "session"] = later("all", earlier="all")
    embedding: str = later(FINAL, earlier=FINAL)
    layers: str = later("none", earlier="none")
    labels: Literal["class", "place"] = later("class", earlier="class")

    name: ClassVar[str] = "incremental-class"
    checked: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"sessions": "3,1,2"},
        {"classes": 4},
        {"classes": "leaf 5,leaf 0,leaf 2", "sessions": 2},
    )

    def __post_init__(self) -> None:
        if isinstance(self.sessions, list | tuple):
            self.sessions = join_list(self.sessions, "protocol.sessions")
        super().__post_init__()
        if self.labels == "place" and self.loss == "session":
            raise UserError(
                "protocol.loss=session wants classes of its own for the head of each session, and "
                "protocol.labels=place gives all sessions the same labels",
                "leave protocol.labels out: each head then tells apart the classes of its session, "
                "and within_accuracy is how often it does",
            )
        if not isinstance(self.sessions, str):
            return
        self.sessions = join_list(self._sizes(), "protocol.sessions")
        given = [name for name, usual in (("base", 0), ("step", 1)) if getattr(self, name) != usual]
        if given:
            raise UserError(
                f"protocol.sessions={self.sessions} says the classes of every session",
                f"leave protocol.{given[0]} out; where it is a preset's, set protocol.base=0 and "
                "protocol.step=1",
            )

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        taken = tools.one_file(files, self.name, self.validation)
        chosen = order_chosen(taken, self.classes, self.order, seed)
        file = chosen.file
        order = chosen.order
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        tested = np.isin(order, file.labels[file.split == TEST])
        order, untested = np.concatenate([order[~tested], order[tested]]), order[~tested]
        cuts = self._cuts(len(order), len(untested))
        names = ", ".join(file.classes[c] for c in untested)
        notes = chosen.notes
        if names:
            notes = (*notes, f"classes without test samples, in the base session: {names}")
        base_rows = split.train[np.isin(file.labels[split.train], order[: cuts[0]])]
        sizes = np.bincount(file.labels[split.train], minlength=len(order))
        few = tools.mean_rows(sizes, cuts[0]) < self.scale_least
        layers = layer_names(file, self.layers)
        table, features, fitted = load_table(
            file, self.scale, base_rows, layers, self.embedding, few=few
        )
        parts = np.split(order, cuts)
        pairs = [tools.view_session(table, file, split, classes=classes) for classes in parts]
        spec = tools.flat_spec(table, file, layers, self.embedding, loss=self.loss)
        more: dict[str, Any] = {}
        if self.labels == "place":
            self._check_equal(parts)
            spec = replace(spec, n_classes=len(parts[0]))
            pairs = [label_by_place(*taught) for taught in zip(pairs, parts, strict=True)]
            pairs[1:] = [(introduce_nothing(session), test) for session, test in pairs[1:]]
            places = tuple(f"place {k + 1}" for k in range(spec.n_classes))
            if self.order != "random":  # the same for every seed
                notes = (*notes, describe_places(file, parts))
            # as every domain-incremental stream
            more = {"can_reveal": True, "normalise_new": True, "classes": places}
        pairs = tools.limit_losses(pairs, self.loss)
        if self.embedding != FINAL:
            notes = (*notes, f"the layer {self.embedding} stands in the place of the embedding")
        return self.make_stream(spec, pairs, [file], features, fitted=fitted, notes=notes, **more)

    def _check_equal(self, parts: Sequence[Ints]) -> None:
        """Refuse sessions of different numbers of classes, whose places are not the same labels."""
        sizes = [len(part) for part in parts]
        if len({*sizes}) == 1 and sizes[0] > 1:
            return
        n = sum(sizes)
        fitting = [k for k in range(2, n // 2 + 1) if n % k == 0]
        remedy = "take another number of classes with protocol.classes=N"
        if fitting:
            remedy = f"set protocol.sessions to one of {list_some([*map(str, fitting)], 8)}"
        raise UserError(
            "protocol.labels=place",
            f"{remedy}, and protocol.base=0 and protocol.step=1 where a preset has others",
            expected="sessions of equally many classes, two or more",
            got=list_some([*map(str, sizes)], 8),
        )

    def _sizes(self) -> list[int]:
        """The classes of each session, where `sessions` lists them."""
        numbers = [plain_number(text.strip()) for text in str(self.sessions).split(",")]
        sizes = [n for n in numbers if isinstance(n, int) and 1 <= n <= MOST_CLASSES]
        if len(sizes) < len(numbers) or len(sizes) < 2:
            raise UserError(
                "protocol.sessions",
                expected="a number of sessions, or the classes of each of two or more sessions, "
                "1 at least, such as 10,5,5,20",
                got=self.sessions,
            )
        return sizes

    def _listed_cuts(self, n: int, untested: int) -> list[int]:
        """As `_cuts`, where `sessions` lists the classes of each session."""
        sizes = self._sizes()
        if sum(sizes) != n:
            remedy = "make the list shorter"
            if sum(sizes) < n:
                remedy = f"make the list longer, or take fewer with protocol.classes={sum(sizes)}"
            raise UserError(
                f"protocol.sessions={self.sessions} has {sum(sizes)} classes, and the stream has "
                f"{n}",
                remedy,
            )
        if sizes[0] <= untested:
            raise UserError(
                "the first session of protocol.sessions",
                expected=f"at least {untested + 1} classes, because the {untested} without test "
                "samples come first",
                got=sizes[0],
            )
        return [sum(sizes[:k]) for k in range(1, len(sizes))]

    def _cuts(self, n: int, untested: int) -> list[int]:
        """Positions in the order at which sessions 1, 2, … begin."""
        if isinstance(self.sessions, str):
            return self._listed_cuts(n, untested)
        if self.sessions and self.step != 1:
            raise UserError(f"give step or sessions, not both; got {self.step} and {self.sessions}")
        if self.sessions and not 2 <= self.sessions <= n - max(self.base, 1) + 1:
            most = f"{n - max(self.base, 1) + 1} for {n} classes and a base of {self.base}"
            raise UserError("sessions", expected=f"2 to {most}", got=self.sessions)
        base = self.base or (-(-n // self.sessions) if self.sessions else n // 2)
        if not untested < base < n:
            raise UserError(
                "base",
                expected=f"{untested + 1} to {n - 1} of the {n} classes, of which {untested} have "
                "no test samples and come first",
                got=base,
            )
        if self.sessions:
            later = np.array_split(np.arange(base, n), self.sessions - 1)
            return [int(part[0]) for part in later]
        return list(range(base, n, self.step))


# --- labels that are places of classes in their sessions ---


def label_by_place(pair: tools.Taught, classes: Ints) -> tools.Taught:
    """A session and its eval set, whose labels are positions in `classes`, (k,)."""
    session, test = pair
    place = np.full(int(classes.max()) + 1, -1)
    place[classes] = np.arange(len(classes))
    session = replace(
        session,
        y=place[session.y],
        val_y=place[session.val_y],
        classes=np.arange(len(classes)),
    )
    everything = np.ones(len(classes), dtype=np.bool_)
    return session, replace(test, y=place[test.y], classes=everything)


def introduce_nothing(session: Session) -> Session:
    """The session, after one that had all its labels."""
    return replace(session, classes=session.classes[:0])


def describe_places(file: EmbeddingFile, parts: Sequence[Ints]) -> str:
    """The classes of each place, session by session."""
    places = np.transpose(parts).tolist()
    listed = [list_some([file.classes[c] for c in place], PLACED) for place in places]
    texts = [f"place {number}: {names}" for number, names in enumerate(listed[:PLACED], 1)]
    if len(listed) > PLACED:
        texts.append("…")
    return "; ".join(texts)
