"""The blocks of a file, shared with other processes that extract the same."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from embedbench import leases
from embedbench.callbacks import Notify
from embedbench.files.partial import Partial


class Share:
    """The blocks that this process computes: each that no other living process is at.

    A block is claimed when its first batch is scheduled, so that reading and computing overlap
    across blocks. As a context manager it gives back what it has claimed.

    Parameters
    ----------
    partial : Partial
        The unfinished work.
    n : int
        Number of samples.
    blocks : iterable of int
        Numbers of the blocks that are shared.
    """

    def __init__(self, partial: Partial, n: int, blocks: Iterable[int]) -> None:
        self.partial, self.n = partial, n
        self.left = [block for block in blocks if not partial.is_whole(block)]
        self.finished = n - sum(len(self._rows(block)) for block in self.left)  # samples
        self._claimed: dict[int, leases.Lease] = {}
        self._waits = False

    def batches(self, size: int) -> Iterator[range]:
        """Claim the blocks that are left one after another; yield the batches of each."""
        for block in list(self.left):
            lease = leases.take(self.partial.lease(block))
            if lease is None:
                continue
            self._claimed[block] = lease
            if self.partial.is_whole(block):
                self._is_finished(block)
                continue
            rows = self._rows(block)
            yield from (range(at, min(at + size, rows.stop)) for at in rows[::size])

    def ends(self, rows: range) -> bool:
        """Whether a batch is the last of its block."""
        return rows.stop == self.n or rows.stop % self.partial.BLOCK == 0

    def keep(self, block: int) -> None:
        """Give back the lease on a block that was written."""
        self.left.remove(block)
        self._claimed.pop(block).release()

    def wait(self, notify: Notify) -> None:
        """Wait for a block that another process is at: until it is there, or left to others.

        `notify` is called once with a message.
        """
        while self.left:
            for block in list(self.left):
                if self.partial.is_whole(block):
                    self._is_finished(block)
                elif leases.is_free(self.partial.lease(block)):
                    return
                elif not self._waits:
                    what = f"a part of {self.partial.path}"
                    notify(leases.waiting(what, self.partial.lease(block)))
                    self._waits = True
            time.sleep(leases.POLL if self.left else 0)

    def _is_finished(self, block: int) -> None:
        """Count a block that another process has computed."""
        self.left.remove(block)
        self.finished += len(self._rows(block))
        if lease := self._claimed.pop(block, None):
            lease.release()

    def _rows(self, block: int) -> range:
        first = block * self.partial.BLOCK
        return range(first, min(first + self.partial.BLOCK, self.n))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for lease in self._claimed.values():
            lease.release()
