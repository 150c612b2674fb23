"""How two embedding files differ: their samples, bits, directions, neighbours and scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.terminal import align_pairs
from embedbench.typed import JsonRecord

from . import layout
from .differences import (
    Cosines,
    Neighbours,
    SampleDifferences,
    column_reasons,
    neighbour_changes,
    probe_accuracy,
    row_cosines,
    sample_differences,
    shared_rows,
)
from .file import EmbeddingFile

PROBE = "nearest class mean, test accuracy"


@dataclass(frozen=True)
class ProbeScores(JsonRecord):
    """What a quick probe scores on two files.

    Parameters
    ----------
    what : str
        The probe, in words.
    a, b : float or None
        Its score on each file; None if the file has no train or no test samples.
    moved : float or None
        `b` minus `a`.
    """

    what: str
    a: float | None
    b: float | None
    moved: float | None


@dataclass(frozen=True)
class Diff(JsonRecord):
    """How two embedding files differ.

    Parameters
    ----------
    a, b : str
        The files.
    digests : dict
        For each digest, whether it is the same in both files.
    samples : SampleDifferences
        How the samples differ.
    cosine : Cosines or None
        Cosines of the shared samples; None if there are none, or if the widths differ.
    neighbours : Neighbours or None
        Nearest neighbours that changed; None if fewer than three samples are shared.
    scores : ProbeScores
        Scores of a quick probe.
    reasons : tuple of str
        Why digests differ, in words.
    """

    a: str
    b: str
    digests: dict[str, bool]
    samples: SampleDifferences
    cosine: Cosines | None
    neighbours: Neighbours | None
    scores: ProbeScores
    reasons: tuple[str, ...]


def diff(a: str | Path, b: str | Path) -> Diff:
    """Compare two files; memory does not grow with the number of rows.

    Raises
    ------
    UserError
        A file cannot be opened or is damaged.
    """
    one, two = EmbeddingFile.open(a), EmbeddingFile.open(b)
    keys = [*layout.DIGESTS, *(["columns"] if one.columns or two.columns else [])]
    agree = {key: one.digests.get(key) == two.digests.get(key) for key in keys}
    score_a, score_b = probe_accuracy(one), probe_accuracy(two)
    rows = shared_rows(one.samples, two.samples)
    samples = sample_differences(one.samples, two.samples, *rows)
    moved = None if score_a is None or score_b is None else score_b - score_a
    return Diff(
        a=str(one.path),
        b=str(two.path),
        digests=agree,
        samples=samples,
        cosine=row_cosines(one, two, *rows),
        neighbours=neighbour_changes(one, two, *rows),
        scores=ProbeScores(PROBE, score_a, score_b, moved),
        reasons=(*_reasons(one, two, agree, samples), *column_reasons(one, two, *rows)),
    )


def _reasons(
    a: EmbeddingFile, b: EmbeddingFile, agree: dict[str, bool], samples: SampleDifferences
) -> list[str]:
    """Return in words why digests differ."""
    why: list[str] = []
    if not agree["samples"]:
        why += _sample_reasons(samples)
    if not agree["recipe"]:
        changes = list(_changes(_recipe_parts(a), _recipe_parts(b)))
        why += [f"recipe: {key} is {x!r} in a and {y!r} in b." for key, x, y in changes]
    if not agree["content"] and a.layers != b.layers:
        why.append(f"content: a has layers {a.layers or 'none'}, b has {b.layers or 'none'}.")
    if not agree["content"] and agree["samples"] and agree["recipe"]:
        where = list(_changes(_made_on(a), _made_on(b)))
        text = "; ".join(f"{key}: {x} in a, {y} in b" for key, x, y in where)
        why.append(
            "content: the bits differ although samples and recipe agree "
            f"({text or 'nothing recorded explains it: another machine, or changed features'})."
        )
    if agree["content"] and not agree["samples"]:
        why.append("content: the features agree bit for bit, in the same row order.")
    return why


def _sample_reasons(samples: SampleDifferences) -> Iterator[str]:
    texts = {
        "only_a": "{} samples are only in a",
        "only_b": "{} samples are only in b",
        "class_differs": "{} shared samples have another class",
        "split_differs": "{} shared samples have another split",
    }
    for key, text in texts.items():
        if count := getattr(samples, key):
            yield f"samples: {text.format(count)}."
    if not samples.same_order:
        yield "samples: the shared samples are in another order."
    if not samples.same_classes:
        yield "samples: the lists of classes or their hierarchy differ."


def _recipe_parts(file: EmbeddingFile) -> dict[str, Any]:
    made = file.provenance
    return {
        "backbone": layout.recipe_backbone(made),
        "preprocessing": made.get("preprocessing") or {},
        "dtype": (made.get("arithmetic") or {}).get("dtype"),
    }


def _made_on(file: EmbeddingFile) -> dict[str, Any]:
    made = file.provenance
    return {
        "library version": (made.get("backbone") or {}).get("library_version"),
        "arithmetic": made.get("arithmetic"),
        "made by": made.get("made_by"),
    }


def _changes(a: Any, b: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, value in a, value in b) wherever two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            yield from _changes(a.get(name), b.get(name), f"{key}.{name}" if key else name)
    elif a != b:
        yield key, a, b


def diff_text(diff: Diff) -> str:
    """Return a difference as text."""
    cosine, near, scores = diff.cosine, diff.neighbours, diff.scores
    lines = [("a", diff.a), ("b", diff.b)]
    lines += [(key, "agree" if same else "differ") for key, same in diff.digests.items()]
    lines.append(("shared samples", f"{diff.samples.shared:,}"))
    if cosine is None:
        lines.append(("cosine per row", "not defined: no shared samples of equal width"))
    else:
        names = ("min", "p1", "p5", "median", "mean")
        values = ", ".join(f"{name} {getattr(cosine, name):.7f}" for name in names)
        lines.append(("cosine per row", f"{values}; lowest: {cosine.lowest}"))
    if near is not None:
        lines.append(
            (
                "neighbours",
                f"{near.changed} of {near.queries} nearest neighbours changed "
                f"(by cosine, among {near.among:,} rows)",
            )
        )
    if scores.moved is None:
        lines.append(("scores", "a file has no train or no test samples"))
    else:
        values = f"a {scores.a:.4f}, b {scores.b:.4f}, moved {scores.moved:+.4f}"
        lines.append(("scores", f"{scores.what}: {values}"))
    lines += [("why" if number == 0 else "", text) for number, text in enumerate(diff.reasons)]
    return align_pairs(lines)
