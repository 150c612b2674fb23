"""The heads of a net whose loss tells apart the classes of one session only."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from embedbench.streams.stream import Session, StreamSpec

from .footprint import Stateful


class SessionHeads(Stateful):
    """A head a session: units of one output layer, which the loss compares with each other alone.

    A stream whose `protocol.loss` is "session" has them. Otherwise there is none, and all that this
    class returns is empty or None.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> from embedbench.learning.session_heads import SessionHeads
    >>> stream = build_stream("known:emoji-vit", "incremental-class", classes=4, loss="session")
    >>> heads = SessionHeads(stream.spec)
    >>> for session in stream.sessions:
    ...     heads.add(session)
    >>> heads.classes()
    [[0, 1], [2], [3]]
    """

    state: ClassVar[dict[str, str]] = {"number": "transient"}

    def __init__(self, spec: StreamSpec) -> None:
        self.exist = spec.loss_over_session
        self.n_classes = spec.n_classes
        self.number: dict[int, int] = {}  # class → number of its head

    def add(self, session: Session) -> None:
        """Note the classes of a session that begins, if no earlier session had them."""
        if not self.exist or session.loss_classes is None:
            return
        number = 1 + max(self.number.values(), default=-1)
        for c in session.loss_classes.nonzero()[0].tolist():
            self.number.setdefault(c, number)

    def classes(self) -> list[list[int]]:
        """The classes of each head so far, in the order of their sessions."""
        heads: dict[int, list[int]] = {}
        for c, number in sorted(self.number.items()):
            heads.setdefault(number, []).append(c)
        return [heads[number] for number in sorted(heads)]

    def beside(self, device: str) -> Tensor | None:
        """(C, C) bool: row c has the classes in the head of class c, none for a later class."""
        if not self.exist:
            return None
        beside = torch.zeros(self.n_classes, self.n_classes, dtype=torch.bool)
        for head in self.classes():
            beside[torch.tensor(head)[:, None], torch.tensor(head)] = True
        return beside.to(device)

    def state_dict(self) -> dict[str, Any]:
        return {"number": dict(self.number)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number = dict(state["number"])
