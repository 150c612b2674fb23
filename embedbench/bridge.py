"""From frozen to full: one stream, run on embeddings and on the images that they are of."""

from __future__ import annotations

from collections.abc import Mapping

from embedbench.errors import UserError

# Digests that two runs of one stream share whatever shows it: how the stream is made, which samples
# are taught when, and which are asked.
SHARED = {"recipe": "protocol or its parameters", "train": "training data", "eval": "test data"}


def check_pair(frozen: Mapping[str, str], full: Mapping[str, str]) -> None:
    """Refuse two runs, by their streams' digests, unless they are of one stream.

    Raises
    ------
    UserError
        Recipe, training data or test data differ, or the features do not.
    """
    differ = [what for key, what in SHARED.items() if frozen[key] != full[key]]
    if differ:
        raise UserError(
            f"these two runs are not of one stream: {', '.join(differ)} differ; run the same "
            "protocol, parameters and seed on an embedding file and a pixel file of one source and "
            "split"
        )
    if frozen["features"] == full["features"]:
        raise UserError(
            "these two runs are on the same features; one must be on embeddings, one on images"
        )
