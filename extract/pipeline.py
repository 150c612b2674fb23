"""The pipeline of an extraction: source, backbone, blocks, file.

The unit of work is a block of 1024 samples: it is decoded, computed and stored as a whole. Batches
are cut from the first sample of a block, so that resumed work gives the same bits as uninterrupted
work.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Bytes, Ints
from embedbench.engines.engine import Engine
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.output_path import Target, check_target
from embedbench.files.resumable_file import Partial
from embedbench.files.sample_metadata import Samples
from embedbench.files.train_test_split import describe_lopsided, split_again
from embedbench.files.user_metadata import NOTHING, UserMetadata
from embedbench.networks.paper_networks import known_weights
from embedbench.system.callback_types import Notify, Progress

from .domain_group_time import NO_COLUMNS, ColumnRules, Columns, across, choose_split, pairs_text
from .engine_shards import Shards, ranges
from .extraction_work import ExtractionWork, Facts, Job, MissingBlocks, arithmetic_settings
from .source import Source
from .torchvision_decoder import PILLOW


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


@dataclass(frozen=True)
class SampleMetadata:
    """The columns of a file beside the rows of its backbone, (N,) of all samples of the source.

    `rule` says how the split into TRAIN, VAL and TEST was made, `stated` what the user says.
    """

    split: Bytes
    rule: dict[str, Any]
    columns: Columns
    stated: UserMetadata


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
    opened = job.open_source()
    opened, values = columns.applied(opened)  # a folder taken as the domain changes its classes
    if opened.remark:
        notify(opened.remark)
    rows, rule = choose_split(opened, split, group, stratify=stratify)
    if opened.split is not None and rule["rule"] != "official":
        notify(f"{opened.name}: its official split is replaced, as --split or --group asks.")
    beside = SampleMetadata(rows, rule, values, stated)
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
    beside: SampleMetadata,
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
                MissingBlocks(partial, len(work.source.ids), progress).fill(work.fill, notify)
                return finish(work, facts, partial, beside, notify)
        except (OSError, UserError):
            if not partial.is_gone():
                raise


# --- from blocks to the file ---


COMPARED = 32  # rows on which half precision is compared with float32


def finish(
    work: ExtractionWork | Shards,
    facts: Facts,
    partial: Partial,
    beside: SampleMetadata,
    notify: Notify,
) -> EmbeddingFile:
    """Assemble the file from the blocks, and tell the user what is notable."""
    source = work.source
    blocks = range(-(-len(source.ids) // Partial.BLOCK))
    notes = [partial.note(block) for block in blocks]
    undecoded = [pair for note in notes for pair in note["skipped"]]
    left_out = {name for name, _ in undecoded}
    skipped = [*(list(pair) for pair in source.refused), *undecoded]
    kept = np.array([i for i, name in enumerate(source.ids) if name not in left_out], np.int64)
    ids = [source.ids[i] for i in kept]
    samples = Samples(
        np.array(ids), source.labels[kept], beside.split[kept], source.classes, source.parents
    )
    digests = np.frombuffer(bytes.fromhex("".join(note["hashes"] for note in notes)), np.uint8)
    pairs = across(digests.reshape(-1, 16), ids, samples.split)
    for remark in _remarks(source, samples, beside.rule, pairs, skipped, partial.path):
        notify(remark)
    provenance = {
        "backbone": facts.backbone,
        "preprocessing": facts.preprocessing,
        "arithmetic": facts.arithmetic | _devices(notes) | _compared(work, facts, kept, notify),
        "source": {
            **{key: getattr(source, key) for key in ("name", "revision", "licence")},
            **({"package": " ".join(source.package)} if source.package else {}),
        },
        "split": beside.rule,
        "same_content_in_two_splits": {"count": len(pairs), "first": pairs[:100]},
        **known_weights(facts.backbone),
    }
    return partial.finish(
        samples,
        beside.stated.added_to(provenance, samples.classes[: samples.n_leaves]),
        skipped=skipped,
        columns={name: values[kept] for name, values in beside.columns.items()},
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


def _devices(notes: Sequence[Any]) -> dict[str, Any]:
    """Return the names of the devices, where there are several."""
    names = sorted({note["device"] for note in notes})
    return {"device_names": names} if len(names) > 1 else {}


def _compared(
    work: ExtractionWork | Shards, facts: Facts, kept: Ints, notify: Notify
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
