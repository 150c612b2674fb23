"""The end of an extraction: from its blocks to the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.callbacks import Notify
from embedbench.files.file import EmbeddingFile
from embedbench.files.partial import Partial
from embedbench.files.samples import Samples
from embedbench.files.stratify import describe_lopsided, split_again
from embedbench.networks.timm_models import known_weights

from .beside import Beside
from .source import Source
from .splits import across, pairs_text
from .work import Facts

COMPARED = 32  # rows on which half precision is compared with float32

Precision = Callable[[Sequence[int]], float | None]  # see `Work.precision`


def finish(
    source: Source,
    facts: Facts,
    precision: Precision,
    partial: Partial,
    beside: Beside,
    notify: Notify,
) -> EmbeddingFile:
    """Assemble the file from the blocks, and tell the user what is notable."""
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
        "arithmetic": facts.arithmetic
        | _devices(notes)
        | _compared(source, facts, precision, kept, notify),
        "source": _origin(source),
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


def _origin(source: Source) -> dict[str, Any]:
    """Return where the samples are from, and whose code opened them if it is not ours."""
    package = {"package": " ".join(source.package)} if source.package else {}
    return {
        "name": source.name,
        "revision": source.revision,
        "licence": source.licence,
        **package,
    }


def _devices(notes: Sequence[Any]) -> dict[str, Any]:
    """Return the names of the devices, where there are several."""
    names = sorted({note["device"] for note in notes})
    return {"device_names": names} if len(names) > 1 else {}


def _compared(
    source: Source,
    facts: Facts,
    precision: Precision,
    kept: NDArray[np.int64],
    notify: Notify,
) -> dict[str, Any]:
    """Return the error of half precision on some rows."""
    dtype = facts.arithmetic["dtype"]
    if dtype in ("float32", "uint8"):
        return {}
    places = np.linspace(0, len(kept) - 1, min(COMPARED, len(kept))).astype(np.int64)
    rows = kept[: len(places)] if source.in_order else kept[places]
    cosine = precision(rows.tolist())
    notify(f"{dtype}: smallest cosine to float32 over {len(rows)} rows is {cosine:.6f}.")
    return {"smallest_cosine_to_float32": cosine, "rows_compared": len(rows)}
