"""The pipeline of an extraction: source, backbone, blocks, file.

The unit of work is a block of 1024 samples: it is decoded, computed and stored as a whole. Batches
are cut from the first sample of a block, so that resumed work gives the same bits as uninterrupted
work.
"""

import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedbench.array_types import Ints
from embedbench.engines.engine import Engine
from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.output_path import Target, check_target
from embedbench.files.provenance import NOTHING, UserMetadata
from embedbench.files.resumable_file import Partial
from embedbench.files.sample_metadata import Samples
from embedbench.files.train_test_split import describe_lopsided, split_again
from embedbench.networks.paper_networks import known_weights
from embedbench.system.callback_types import Notify, Progress

from .backbone import PILLOW
from .domain_group_time import NO_COLUMNS, ColumnRules, across, choose_split, pairs_text
from .extraction_work import ExtractionWork, Facts, Job, MissingBlocks, arithmetic_settings
from .source import Source


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
    stated : UserMetadata
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
    opened = columns.applied(job.open_source())
    if opened.remark:
        notify(opened.remark)
    rows, rule = choose_split(opened, split, group, stratify=stratify)
    if opened.split is not None and rule["rule"] != "official":
        notify(f"{opened.name}: its official split is replaced, as --split or --group asks.")
    with _at_work(job, replace(opened, split=rows), engine, notify) as work:
        facts = work.facts()
        if facts.remark:
            notify(facts.remark)
        return _shared(work, facts, target, rule, stated, progress, notify)


@contextmanager
def _at_work(
    job: Job, source: Source, engine: Engine | None, notify: Notify
) -> Iterator["ExtractionWork | Shards"]:
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
    work: "ExtractionWork | Shards",
    facts: Facts,
    target: Target,
    rule: dict[str, Any],
    stated: UserMetadata,
    progress: Progress | None,
    notify: Notify,
) -> EmbeddingFile:
    """Make the file, together with other processes that make the same."""
    while True:
        partial = Partial(target, facts.job)
        if partial.is_published():
            notify(f"another process that extracts the same has made {target.path}.")
            return EmbeddingFile.open(target.path)
        try:
            with partial.at_work():
                MissingBlocks(partial, len(work.source.ids), progress).fill(work.fill, notify)
                return finish(work, facts, partial, rule, stated, notify)
        except (OSError, UserError):
            if not partial.is_gone():
                raise


# --- from blocks to the file ---


COMPARED = 32  # rows on which half precision is compared with float32


def finish(
    work: "ExtractionWork | Shards",
    facts: Facts,
    partial: Partial,
    rule: dict[str, Any],
    stated: UserMetadata,
    notify: Notify,
) -> EmbeddingFile:
    """Assemble the file from the blocks, and tell the user what is notable."""
    source = work.source
    assert source.split is not None
    blocks = range(-(-len(source.ids) // Partial.BLOCK))
    notes = [partial.note(block) for block in blocks]
    undecoded = [pair for note in notes for pair in note["skipped"]]
    left_out = {name for name, _ in undecoded}
    skipped = [*(list(pair) for pair in source.refused), *undecoded]
    kept = np.array([i for i, name in enumerate(source.ids) if name not in left_out], np.int64)
    ids = [source.ids[i] for i in kept]
    samples = Samples(
        np.array(ids), source.labels[kept], source.split[kept], source.classes, source.parents
    )
    digests = np.frombuffer(bytes.fromhex("".join(note["hashes"] for note in notes)), np.uint8)
    pairs = across(digests.reshape(-1, 16), ids, samples.split)
    for remark in _remarks(source, samples, rule, pairs, skipped, partial.path):
        notify(remark)
    names = sorted({note["device"] for note in notes})
    devices = {"device_names": names} if len(names) > 1 else {}
    provenance = {
        "backbone": facts.job["backbone"],
        "preprocessing": facts.job["preprocessing"],
        "arithmetic": facts.arithmetic | devices | _compared(work, facts, kept, notify),
        "source": {
            **{key: getattr(source, key) for key in ("name", "revision", "licence")},
            **({"package": " ".join(source.package)} if source.package else {}),
        },
        "split": rule,
        "same_content_in_two_splits": {"count": len(pairs), "first": pairs[:100]},
        **known_weights(facts.job["backbone"]),
    }
    return partial.finish(
        samples,
        stated.added_to(provenance, samples.classes[: samples.n_leaves]),
        skipped=skipped,
        columns={name: values[kept] for name, values in source.columns.items()},
        notify=notify,
    )


def _remarks(
    source: Source,
    samples: Samples,
    rule: Mapping[str, Any],
    pairs: Sequence[tuple[str, str]],
    skipped: Sequence[Sequence[str]],
    path: Path,
) -> Iterator[str]:
    """Yield sentences on samples with the same content, samples left out, and a lopsided split."""
    if pairs:
        yield pairs_text(pairs, samples.ids.tolist(), samples.split, source.holds) + "."
    if skipped:
        yield (
            f"left out {len(skipped)} {source.holds} that cannot be used, first {skipped[0][0]}."
        )
    remedy = split_again(path, rule) if "group" in rule else ""
    if remark := describe_lopsided(samples.split, samples.labels, samples.classes, rule, remedy):
        yield remark


def _compared(
    work: "ExtractionWork | Shards", facts: Facts, kept: Ints, notify: Notify
) -> dict[str, Any]:
    """Return the error of half precision on some rows."""
    dtype = facts.arithmetic["dtype"]
    if dtype in ("float32", "uint8"):
        return {}
    places = np.linspace(0, len(kept) - 1, min(COMPARED, len(kept))).astype(np.int64)
    rows = kept[: len(places)] if work.source.in_order else kept[places]
    cosine = work.precision(rows.tolist())
    notify(f"{dtype}: smallest cosine to float32 over {len(rows)} rows is {cosine:.6f}.")
    return {"smallest_cosine_to_float32": cosine, "rows_compared": len(rows)}


# --- shards: ranges of blocks are the tasks of an engine ---


BLOCKS = 16  # most blocks of a task
TASKS = 64  # tasks that are made where there are blocks enough
LOOK = 1.0  # seconds between two looks at the blocks

_opened: dict[Job, ExtractionWork] = {}  # the work of this process: its model stays loaded


def work_for(job: Job, host: str, function: Callable[..., Any], *args: Any) -> Any:
    """In a worker: call a function with the work of a job, which computer `host` asks for.

    A sentence of another computer begins with its name.
    """
    try:
        work = _work(job)
        with arithmetic_settings(work.threads):
            return function(work, *args)
    except UserError as error:
        if platform.node() == host:
            raise
        raise UserError(f"on host {platform.node()}: {error}") from error


def fill_range(
    work: ExtractionWork, target: Target, first: dict[str, Any], origin: str, blocks: Sequence[int]
) -> None:
    """In a worker: compute the blocks of a range that no other process has made or is at.

    `first` is the job of the command; a process whose rows would have other bits, or be of other
    samples, is refused. `origin` is the `Partial.origin` of the directory of blocks.
    """
    here = work.facts().job
    if keys := sorted(key for key in first if here.get(key) != first[key]):
        remedy = (
            "take machines of one kind, or add --allow-mixed-devices"
            if keys == ["device"]
            else "give all machines the same data and versions"
        )
        raise UserError(
            f"a worker differs in {', '.join(keys)} ({keys[0]}: {here.get(keys[0])!r}, not "
            f"{first[keys[0]]!r}); {remedy}."
        )
    partial = Partial.joined(target, first, origin)
    with partial.at_work():
        work.fill_some(partial, blocks)


def _work(job: Job) -> ExtractionWork:
    """Open source and backbone, or return them as they were opened by this process."""
    if job not in _opened:
        _opened.clear()
        with suppress(OSError):  # a machine without it may still have what is asked for
            os.chdir(job.directory)
        here = job
        if job.device in ("auto", "cuda") and torch.cuda.is_available():
            use_card("cuda")
            here = replace(job, device=f"cuda:{torch.cuda.current_device()}")
        _opened[job] = here.work(here.open_source())
    return _opened[job]


class Shards:
    """The work of an engine's workers, in the place of `ExtractionWork`.

    Every task opens source and backbone once in its process, and writes its blocks beside the file.
    So all machines must see the file's directory. Leases and the blocks themselves say what is left
    to do: what a lost machine was at is computed again.
    """

    def __init__(self, job: Job, source: Source, executor: Executor) -> None:
        self.job, self.source, self._executor = job, source, executor
        self._first: dict[str, Any] = {}

    def facts(self) -> Facts:
        """Return what a worker knows of the work: the model is loaded there, not here."""
        facts: Facts = self._ask(ExtractionWork.facts)
        if facts.job["samples"] != self.source.digest:
            raise UserError(
                f"the workers read other samples from {self.job.source} than this process; "
                "give all machines the same data."
            )
        self._first = facts.job
        return facts

    def precision(self, rows: Sequence[int]) -> Any:
        """See `ExtractionWork.precision`."""
        return self._ask(ExtractionWork.precision, list(rows))

    def fill(self, blocks: MissingBlocks, free: Sequence[int]) -> None:
        """Have free blocks computed. A task that fails twice ends the work with its sentence."""
        partial = blocks.partial
        target = replace(partial.target, path=partial.path.absolute())
        shard = fill_range, target, self._first, partial.origin
        failed: set[tuple[int, ...]] = set()
        waiting = {self._submit(*shard, part): part for part in ranges(free)}
        try:
            while waiting:
                done, _ = wait(waiting, timeout=LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    part = waiting.pop(future)
                    error = future.exception()
                    if error is not None and part in failed:
                        raise _sentence(error) from error
                    if error is not None:
                        failed.add(part)
                        waiting[self._submit(*shard, part)] = part
                blocks.look()
        finally:
            for future in waiting:
                future.cancel()

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a worker answers."""
        try:
            return self._submit(function, *args).result()
        except Exception as error:
            raise _sentence(error) from error

    def _submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        try:
            return self._executor.submit(work_for, self.job, platform.node(), function, *args)
        except BrokenExecutor as error:
            raise _sentence(error) from error


def ranges(blocks: Sequence[int]) -> list[tuple[int, ...]]:
    """Cut blocks into tasks.

    >>> ranges([0, 1, 5])
    [(0,), (1,), (5,)]
    >>> len(ranges(range(100))), len(ranges(range(2000)))
    (50, 125)
    """
    size = min(BLOCKS, -(-len(blocks) // TASKS))
    return [tuple(blocks[at : at + size]) for at in range(0, len(blocks), size)]


def _sentence(error: BaseException) -> UserError:
    """Return what ends the command, for an error of a task."""
    if isinstance(error, UserError):
        return error
    reason = str(error).strip().rpartition("\n")[2]
    return UserError(
        f"a part of the extraction failed ({type(error).__name__}: {reason}); the parts that are "
        "done are kept: run the command again to go on."
    )
