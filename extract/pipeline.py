"""`embedbench extract`: source, backbone, blocks, file.

The unit of work is a block of 1024 samples: it is decoded, computed and stored as a whole. Batches
are cut from the first sample of a block, so that resumed work gives the same bits as uninterrupted
work.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from embedbench.callbacks import Notify, Progress
from embedbench.engines.engine import Engine
from embedbench.errors import UserError
from embedbench.files.file import EmbeddingFile
from embedbench.files.partial import Partial
from embedbench.files.stated import NOTHING, UserMetadata
from embedbench.files.target import Target, check_target

from .beside import Beside, choose_beside
from .columns import NO_COLUMNS, ColumnRules
from .decoders import PILLOW
from .finish import finish
from .job import Job, arithmetic_settings
from .shards import Shards, ranges
from .source import Source
from .work import ExtractionWork


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def extract(
    source: str,
    out: str | os.PathLike[str] | Target,
    *,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    layers: Sequence[str] = (),
    dtype: str = "float32",
    size: int | None = None,
    split: str | None = None,
    group: str | None = None,
    stratify: bool | None = None,
    columns: ColumnRules = NO_COLUMNS,
    stated: UserMetadata = NOTHING,
    device: str = "auto",
    decoder: str = PILLOW,
    skip_bad: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify = _warn,
    workers: int | None = None,
    threads: int | None = None,
    batch_size: int | None = None,
    engine: Engine | None = None,
    any_device: bool = False,
) -> EmbeddingFile:
    """Write an embedding file, or a pixel file, from the images or sounds of a source.

    Interrupted work resumes with its complete blocks. Several processes that extract the same to
    the same file share the blocks.

    Parameters
    ----------
    source : str
        See `open_source`.
    out : str, PathLike or Target
        The file to write; a `Target` if it was checked before.
    backbone : str or None
        `pixels` (flat values), `none` (a pixel file), `log-mel` (for sounds), a model of timm, or
        `hf:NAME`, a model of transformers. None: the shipped backbone, for the source `demo` only.
    weights : str or PathLike or None
        File of weights, `shipped` for those in the package, or None for timm's own.
    layers : sequence of str
        Intermediate embeddings, such as `block-8`, `8`, `last4` or `all`.
    dtype : str
        Arithmetic: `float32`, `bfloat16` or `float16`; the last two are stored as float16. On a
        CPU without units for them float32 is taken, unless a `!` follows: `bfloat16!`.
    size : int or None
        Input height and width instead of the model's own; seconds of sounds (default 10); with
        `hf:`, tokens of texts.
    split, group, stratify : str or None, str or None, bool or None
        See `choose_split`.
    columns : ColumnRules
        Where optional columns come from.
    stated : Stated
        What the user says of the file.
    device : str
        `auto`, `cpu`, `cuda`, `cuda:1`, …
    decoder : str
        `pil`, or `torchvision` for JPEG and PNG (with nvJPEG on a card); part of the recipe.
    skip_bad : bool
        Leave out samples that cannot be decoded, and list them in the provenance.
    overwrite : bool
        Replace an existing file.
    progress : callable or None
        Called with (samples done, total) after every batch.
    notify : callable
        Called with each message for the user; by default it warns.
    workers : int or None
        Threads that decode and, on a CPU, run the backbone; by default as many as cores, at most 8
        (16 with a card).
    threads : int or None
        Threads of one operation, which decide the last bits; by default 1, or more where there are
        more cores than `workers`.
    batch_size : int or None
        Samples per forward pass; by default 4 on a CPU and 128 on a card.
    engine : Engine or None
        Who computes the blocks; None: this process.
    any_device : bool
        Let machines with other models of GPU, or other vector units, share the blocks. Their rows
        differ in the last bits; the provenance names the devices.

    Raises
    ------
    UserError
        An argument is wrong, or a sample cannot be read; the first one is named.
    """
    target = out if isinstance(out, Target) else check_target(Path(out), overwrite=overwrite)
    job = Job(
        source=source,
        backbone=backbone,
        weights=None if weights is None else os.fspath(weights),
        layers=tuple(layers),
        dtype=dtype,
        size=size,
        device=device,
        decoder=decoder,
        skip_bad=skip_bad,
        workers=workers,
        threads=threads,
        batch_size=batch_size,
        any_device=any_device,
    )
    opened = job.open_source()
    if opened.remark:
        notify(opened.remark)
    opened, beside = choose_beside(opened, split, group, stratify, columns, stated)
    with _at_work(job, opened, engine, notify) as work:
        return _shared(work, target, beside, progress, notify)


@contextmanager
def _at_work(
    job: Job, source: Source, engine: Engine | None, notify: Notify
) -> Iterator[ExtractionWork | Shards]:
    """Yield what computes the blocks: this process, or the workers of an engine."""
    with ExitStack() as stack:
        if engine is not None and source.in_order:
            raise UserError(
                f"{source.name} can only be read in order, by one process; leave out --engine."
            )
        if engine is not None:
            job = job.elsewhere(engine.resources.cpus)
            tasks = len(ranges(range(-(-len(source.ids) // Partial.BLOCK))))
            executor = stack.enter_context(engine.executor(tasks, notify))
            if executor is not None:
                yield Shards(job, source, executor)
                return
        work = job.work(source)
        stack.enter_context(arithmetic_settings(work.threads))
        yield work


def _shared(
    work: ExtractionWork | Shards,
    target: Target,
    beside: Beside,
    progress: Progress | None,
    notify: Notify,
) -> EmbeddingFile:
    """Make the file, together with other processes that make the same."""
    facts = work.facts()
    if facts.remark:
        notify(facts.remark)
    while True:
        partial = Partial(target, facts.job)
        if partial.is_published():
            notify(f"another process that extracts the same has made {target.path}.")
            return EmbeddingFile.open(target.path)
        try:
            with partial.at_work():
                work.fill(partial, progress, notify)
                return finish(work.source, facts, work.precision, partial, beside, notify)
        except (OSError, UserError):
            if not partial.is_gone():
                raise
