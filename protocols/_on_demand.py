"""Sessions that are made at each access, so that one label matrix is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from embedbench.streams.stream import Session


class OnDemand(Sequence[Session]):
    """A sequence of sessions; each is made anew at every access.

    A session of ImageNet has (35,000, 1083) bool labels; those of all sessions take up to 20 GB.

    Parameters
    ----------
    makers : sequence of callable
        One function per session.
    """

    def __init__(self, makers: Sequence[Callable[[], Session]]) -> None:
        self._makers = tuple(makers)

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Session: ...

    @overload
    def __getitem__(self, index: slice) -> OnDemand: ...

    def __getitem__(self, index: int | slice) -> Session | OnDemand:
        if isinstance(index, slice):
            return OnDemand(self._makers[index])
        return self._makers[index]()
