"""`embedbench extract`: source, backbone, blocks, file.

The unit of work is a block of 1024 samples: it is decoded, computed and stored as a whole. Batches
are cut from the first sample of a block, so that resumed work gives the same bits as uninterrupted
work.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from embedbench.callbacks import Notify, Progress
from embedbench.errors import UserError
from embedbench.files.file import EmbeddingFile
from embedbench.files.samples import Samples
from embedbench.files.writer import Partial, check_target
from embedbench.machine import cores

from .backbone import Backbone
from .backbones import check_kind, choose_device, open_backbone
from .decode import Batch, computed, decode, first_image
from .shipped import choose_backbone
from .source import Source
from .sources import open_source
from .splits import across, choose_split, pairs_text
from .timm_backbone import DTYPES

CPU_BATCH, CUDA_BATCH = 4, 128  # on a CPU the activations of 4 images still fit the caches
CPU_LANES, CUDA_LANES = 8, 16  # most threads; more would wait for Python's lock
COMPARED = 32  # rows on which half precision is compared with float32


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def extract(
    source: str,
    out: str | os.PathLike[str],
    *,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    layers: Sequence[str] = (),
    dtype: str = "float32",
    size: int | None = None,
    split: str | None = None,
    group: str | None = None,
    device: str = "auto",
    skip_bad: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify = _warn,
    workers: int | None = None,
    batch_size: int | None = None,
) -> EmbeddingFile:
    """Write an embedding file, or a pixel file, from the images or sounds of a source.

    Interrupted work resumes after its last complete block.

    Parameters
    ----------
    source : str
        See `open_source`.
    out : str or PathLike
        The file to write.
    backbone : str or None
        `pixels` (flat values), `none` (a pixel file), `log-mel` (for sounds) or a model of
        timm. None: the shipped backbone, for the source `demo` only.
    weights : str or PathLike or None
        File of weights, `shipped` for those in the package, or None for timm's own.
    layers : sequence of str
        Intermediate embeddings, such as `block-8`, `8`, `last4` or `all`.
    dtype : str
        Arithmetic: `float32`, `bfloat16` or `float16`; the last two are stored as float16.
    size : int or None
        Input height and width instead of the model's own; for log-mel, seconds (default 10).
    split, group : str or None
        See `choose_split`.
    device : str
        `auto`, `cpu`, `cuda`, `cuda:1`, …
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
    batch_size : int or None
        Samples per forward pass; by default 4 on a CPU and 128 on a card.

    Raises
    ------
    UserError
        An argument is wrong, or a sample cannot be read; the first one is named.
    """
    check_target(Path(out), overwrite=overwrite)
    if dtype not in DTYPES:
        raise UserError(f"--dtype must be one of {', '.join(DTYPES)}, not {dtype!r}.")
    opened = open_source(source)
    parts, rule = choose_split(opened, split, group)
    name, file = choose_backbone(source, backbone, weights)
    check_kind(name, opened)
    where = choose_device(device)
    model = open_backbone(
        name,
        lambda: first_image(opened),
        weights=file,
        layers=layers,
        dtype=dtype,
        size=size,
        device=where,
    )
    batch = batch_size or (CUDA_BATCH if where.type == "cuda" else CPU_BATCH)
    if batch < 1 or Partial.BLOCK % batch:
        raise UserError(f"the batch size must divide {Partial.BLOCK}, not be {batch}.")
    most = min(cores(), CUDA_LANES if where.type == "cuda" else CPU_LANES)
    lanes = 1 if opened.in_order else workers or most
    work = _Work(opened, model, batch, lanes, max(1, cores() // lanes), skip_bad)
    partial = Partial(out, work.job(), overwrite=overwrite)
    with _arithmetic_settings(work.threads):
        work.fill(partial, progress)
        return _finish(work, partial, parts, rule, notify)


@contextmanager
def _arithmetic_settings(threads: int) -> Iterator[None]:
    """Make the bits repeatable: no TF32, and no algorithm chosen by timing."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)  # threads of one operation, in each worker thread
    exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    try:
        with torch.backends.cudnn.flags(**exact), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Palette images with Transparency")
            warnings.filterwarnings("ignore", r"Chunk \(non-data\) not understood")  # of WAV files
            yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Work:
    """What determines the rows: source, backbone, batch size, threads of an operation."""

    source: Source
    backbone: Backbone
    batch: int
    workers: int
    threads: int
    skip_bad: bool

    def job(self) -> dict[str, Any]:
        """Return what must agree for two pieces of work to belong to one file."""
        ids = hashlib.sha256("\0".join(self.source.ids).encode()).hexdigest()
        return {
            "samples": ids,
            "source": self.source.name,
            "backbone": self.backbone.backbone,
            "preprocessing": self.backbone.preprocessing,
            "dtype": self.backbone.dtype,
            "device": str(self.backbone.device),
            "batch size": self.batch,
            "threads": self.threads,
            "torch": torch.__version__,
            "skip-bad": self.skip_bad,
        }

    def fill(self, partial: Partial, progress: Progress | None) -> None:
        """Compute the blocks that are not there yet."""
        n, done = len(self.source.ids), partial.done()
        starts = [i for i in range(0, n, Partial.BLOCK) if i // Partial.BLOCK not in done]
        batches = [
            range(at, min(at + self.batch, n))
            for start in starts
            for at in range(start, min(start + Partial.BLOCK, n), self.batch)
        ]
        finished = n - sum(len(batch) for batch in batches)
        block: list[Batch] = []
        for batch in computed(self.source, batches, self.backbone, self.workers):
            if progress is not None:
                progress(finished, n)
            self._refuse(batch)
            block.append(batch)
            finished += len(batch.rows)
            if batch.rows.stop == n or batch.rows.stop % Partial.BLOCK == 0:
                self._store(partial, block)
                block = []
        if progress is not None:
            progress(n, n)

    def _refuse(self, batch: Batch) -> None:
        """Raise UserError for a sample that cannot be decoded, unless these are skipped."""
        for i, sample in zip(batch.rows, batch.decoded, strict=True):
            if sample.problem and not self.skip_bad:
                raise UserError(
                    f"{self.source.ids[i]} of {self.source.name} cannot be used "
                    f"({sample.problem}); repair or remove it, or leave it out with --skip-bad."
                )

    def _store(self, partial: Partial, block: Sequence[Batch]) -> None:
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
        }
        partial.write(first // Partial.BLOCK, arrays, note=note)


def _finish(
    work: _Work,
    partial: Partial,
    split: NDArray[np.uint8],
    rule: dict[str, Any],
    notify: Notify,
) -> EmbeddingFile:
    """Assemble the file from the blocks, and tell the user what is notable."""
    source = work.source
    blocks = range(-(-len(source.ids) // Partial.BLOCK))
    notes = [partial.note(block) for block in blocks]
    skipped = [pair for note in notes for pair in note["skipped"]]
    left_out = {name for name, _ in skipped}
    kept = np.array([i for i, name in enumerate(source.ids) if name not in left_out], np.int64)
    ids = [source.ids[i] for i in kept]
    samples = Samples(
        np.array(ids), source.labels[kept], split[kept], source.classes, source.parents
    )
    digests = np.frombuffer(bytes.fromhex("".join(note["hashes"] for note in notes)), np.uint8)
    pairs = across(digests.reshape(-1, 16), ids, samples.split)
    if pairs:
        notify(pairs_text(pairs, ids, samples.split, source.holds) + ".")
    if skipped:
        notify(
            f"left out {len(skipped)} {source.holds} that cannot be decoded, first {skipped[0][0]}."
        )
    provenance = {
        "backbone": work.backbone.backbone,
        "preprocessing": work.backbone.preprocessing,
        "arithmetic": _arithmetic(work, kept, notify),
        "source": {
            "name": source.name,
            "revision": source.revision,
            "licence": source.licence,
        },
        "split": rule,
        "same_content_in_two_splits": {"count": len(pairs), "first": pairs[:100]},
    }
    return partial.finish(samples, provenance, skipped=skipped)


def _arithmetic(work: _Work, kept: NDArray[np.int64], notify: Notify) -> dict[str, Any]:
    """Return dtype and device; for half precision also its error on some rows."""
    backbone = work.backbone
    device = backbone.device
    made_on: dict[str, Any] = {"dtype": backbone.dtype, "device_kind": device.type}
    if device.type == "cuda":
        made_on["device_name"] = torch.cuda.get_device_name(device)
    if backbone.dtype in ("float32", "uint8"):
        return made_on
    places = np.linspace(0, len(kept) - 1, min(COMPARED, len(kept))).astype(np.int64)
    rows = kept[: len(places)] if work.source.in_order else kept[places]
    ready = [decode(work.source, int(i), backbone).ready for i in rows]
    cosine = backbone.precision(np.stack([sample for sample in ready if sample is not None]))
    notify(f"{backbone.dtype}: smallest cosine to float32 over {len(rows)} rows is {cosine:.6f}.")
    return {**made_on, "smallest_cosine_to_float32": cosine, "rows_compared": len(rows)}
