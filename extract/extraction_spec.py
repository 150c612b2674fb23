"""The specification of an extraction, as a value that any process can open."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import torch

from embedbench.errors import UserError
from embedbench.files.resumable_file import Partial
from embedbench.system.cpu import cores, limit_threads

from .backbone import DTYPES, OURS, arithmetic_of
from .decode_batches import first_image, quiet_readers
from .extraction_worker import ExtractionWork
from .open_backbone import (
    absolute_backbone,
    absolute_weights,
    check_kind,
    choose_backbone,
    choose_device,
    open_backbone,
)
from .open_source import absolute, open_source
from .source import Source
from .torchvision_decoder import DECODERS

CPU_BATCH, CUDA_BATCH = 4, 128  # on a CPU the activations of 4 images still fit the caches
CPU_LANES, CUDA_LANES = 8, 16  # most threads; more would wait for Python's lock


@dataclass(frozen=True)
class Job:
    """The request to `pipeline.extract`, but for the split; see there.

    Parameters
    ----------
    cpus : int or None
        Cores of a process at work; None: all that it may use.
    """

    source: str
    backbone: str | None
    weights: str | None
    layers: tuple[str, ...]
    dtype: str
    size: int | None
    device: str
    decoder: str
    skip_bad: bool
    workers: int | None
    threads: int | None
    batch_size: int | None
    any_device: bool
    cpus: int | None = None

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--dtype", self.dtype.removesuffix("!"), DTYPES),
            ("--decoder", self.decoder, DECODERS),
        ):
            if value not in known:
                raise UserError(f"{option} must be one of {', '.join(known)}, not {value!r}.")

    def elsewhere(self, cpus: int) -> Self:
        """Return the job as other processes can open it, each with so many cores.

        Paths become absolute. By default an operation has one thread, so that the rows do not
        depend on the cores.
        """
        return replace(
            self,
            source=absolute(self.source),
            backbone=self.backbone and absolute_backbone(self.backbone),
            weights=self.weights and absolute_weights(self.weights),
            threads=self.threads or 1,
            cpus=cpus,
        )

    def open_source(self) -> Source:
        """Return the opened source."""
        return open_source(self.source, skip_bad=self.skip_bad)

    def work(self, source: Source) -> ExtractionWork:
        """Return the work on an opened source: the model is loaded on this process's device."""
        name, file = choose_backbone(self.source, self.backbone, self.weights)
        check_kind(name, source)
        where = choose_device(self.device)
        dtype, remark = self.dtype.removesuffix("!"), ""
        if name not in OURS:
            dtype, remark = arithmetic_of(self.dtype, where)
        model = open_backbone(
            name,
            lambda: first_image(source),
            weights=file,
            layers=self.layers,
            dtype=dtype,
            size=self.size,
            device=where,
            decoder=self.decoder,
            holds=source.holds,
        )
        cuda = where.type == "cuda"
        batch = self.batch_size or (CUDA_BATCH if cuda else CPU_BATCH)
        if batch < 1 or Partial.BLOCK % batch:
            raise UserError(f"the batch size must divide {Partial.BLOCK}, not be {batch}.")
        mine = self.cpus or cores()
        each = 1 if cuda else self.threads or 1  # cores of a lane
        most = max(1, min(mine // each, CUDA_LANES if cuda else CPU_LANES))
        lanes = 1 if source.in_order else self.workers or most
        threads = self.threads or max(1, mine // lanes)
        return ExtractionWork(
            source, model, batch, lanes, threads, self.skip_bad, self.any_device, remark
        )


@contextmanager
def arithmetic_settings(threads: int) -> Iterator[None]:
    """Make the bits repeatable: no TF32, and no algorithm chosen by timing."""
    exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    flags = torch.backends.cudnn.flags(**exact)
    with limit_threads(threads), flags, quiet_readers():  # threads of an operation, in each thread
        yield
