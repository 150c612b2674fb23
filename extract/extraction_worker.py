"""The work of an extraction: its rows, block by block."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from embedbench.errors import UserError
from embedbench.files.resumable_file import Partial
from embedbench.storage import leases
from embedbench.system.callback_types import Notify, Progress

from .backbone import Backbone
from .decode_batches import Batch, compute_batches, decode
from .source import Source, unusable


@dataclass(frozen=True)
class Facts:
    """The facts of an extraction that one process finds: a file is made from them and the blocks.

    Parameters
    ----------
    job : dict
        What must agree for two pieces of work to belong to one file.
    backbone, preprocessing, arithmetic : dict
        Parts of the provenance.
    remark : str
        What the user is told; usually empty.
    """

    job: dict[str, Any]
    backbone: dict[str, Any]
    preprocessing: dict[str, Any]
    arithmetic: dict[str, Any]
    remark: str = ""


@dataclass(frozen=True)
class ExtractionWork:
    """The facts that determine the rows: source, backbone, batch size, threads of an operation.

    Parameters
    ----------
    workers : int
        Threads that decode and, on a CPU, run the backbone; they decide no bits.
    threads : int
        Threads of an operation.
    any_device : bool
        Whether blocks of other models of GPU, or of other vector units, belong to the same file.
    remark : str
        What the user is told; usually empty.
    """

    source: Source
    backbone: Backbone
    batch: int
    workers: int
    threads: int
    skip_bad: bool
    any_device: bool = False
    remark: str = ""

    def facts(self) -> Facts:
        """Return what the file says of this work."""
        backbone, kind = self.backbone, self.backbone.device.type
        job = {
            "samples": samples_digest(self.source),
            "source": self.source.name,
            "backbone": backbone.backbone,
            "preprocessing": backbone.preprocessing,
            "dtype": backbone.dtype,
            "device": kind if self.any_device else _device(backbone.device),
            "batch size": self.batch,
            "threads": self.threads,
            "torch": torch.__version__,
            "skip-bad": self.skip_bad,
        }
        made_on = {"dtype": backbone.dtype, "device_kind": kind}
        if kind == "cuda":
            made_on["device_name"] = _device(backbone.device)
        return Facts(job, backbone.backbone, backbone.preprocessing, made_on, self.remark)

    def fill(self, partial: Partial, progress: Progress | None, notify: Notify) -> None:
        """Compute the blocks that are not there yet; wait for those that other processes are at."""
        n = len(self.source.ids)
        with Share(partial, n, range(-(-n // partial.BLOCK))) as share:
            while share.left:
                self._compute(share, partial, progress)
                share.wait(notify)
        if progress is not None:
            progress(n, n)

    def fill_some(self, partial: Partial, blocks: Sequence[int]) -> None:
        """Compute those blocks that are not there yet and that no other process is at."""
        with Share(partial, len(self.source.ids), blocks) as share:
            self._compute(share, partial, None)

    def precision(self, rows: Sequence[int]) -> float | None:
        """Return the smallest cosine of half precision to float32 over some samples."""
        ready = [decode(self.source, i, self.backbone).ready for i in rows]
        return self.backbone.precision(np.stack([sample for sample in ready if sample is not None]))

    def _compute(self, share: Share, partial: Partial, progress: Progress | None) -> None:
        """Go once through the blocks that are left."""
        block: list[Batch] = []
        batches = share.batches(self.batch)
        for batch in compute_batches(self.source, batches, self.backbone, self.workers):
            if progress is not None:
                progress(share.finished, share.n)
            self._refuse(batch)
            block.append(batch)
            share.finished += len(batch.rows)
            if share.ends(batch.rows):
                share.keep(self._store(partial, block))
                block = []

    def _refuse(self, batch: Batch) -> None:
        """Raise UserError for a sample that cannot be decoded, unless these are skipped."""
        for i, sample in zip(batch.rows, batch.decoded, strict=True):
            if sample.problem and not self.skip_bad:
                raise unusable(self.source.ids[i], self.source.name, sample.problem)

    def _store(self, partial: Partial, block: Sequence[Batch]) -> int:
        """Write a block; return its number."""
        first = block[0].rows.start
        decoded = [sample for batch in block for sample in batch.decoded]
        tables = [batch.tables for batch in block if batch.tables]
        if not tables:
            raise UserError(
                f"none of the {len(decoded)} {self.source.holds} from {self.source.ids[first]} on "
                f"can be decoded ({decoded[0].problem}); is {self.source.name} damaged?"
            )
        arrays = {
            name: torch.cat([table[name] for table in tables]).cpu().numpy() for name in tables[0]
        }
        note = {
            "hashes": "".join(sample.digest.hex() for sample in decoded if not sample.problem),
            "skipped": [
                [self.source.ids[first + i], sample.problem]
                for i, sample in enumerate(decoded)
                if sample.problem
            ],
            "device": _device(self.backbone.device),
        }
        partial.write(first // Partial.BLOCK, arrays, note=note)
        return first // Partial.BLOCK


def samples_digest(source: Source) -> str:
    """Return the SHA-256 of a source's list of samples."""
    return hashlib.sha256("\0".join(source.ids).encode()).hexdigest()


def _device(device: torch.device) -> str:
    """Return what decides the bits of a device: the model of a card, a CPU's vector unit."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu {torch.backends.cpu.get_cpu_capability()}" if device.type == "cpu" else device.type


# --- blocks, shared with other processes that extract the same ---


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
