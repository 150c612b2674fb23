"""Placeholder until the scores of label sets land."""

from __future__ import annotations

from embedbench.label_sets import LabelSets
from embedbench.scoring import Floats, ScoreMatrix

SCORES = ("pw_js", "js", "exact_match")


def matrices(p: LabelSets) -> dict[str, ScoreMatrix]:
    """Base scores by name."""
    raise NotImplementedError


def curves(p: LabelSets) -> dict[str, Floats]:
    """Curves by name."""
    raise NotImplementedError
