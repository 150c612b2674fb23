"""The classifier that lies with a pretrained trunk, matched to the base session of a stream.

A learner sees numbers of classes. So the names are matched here, before it starts.
"""

from typing import Any

import numpy as np

from embedbench.array_types import Float32s
from embedbench.errors import UserError
from embedbench.files.embedding_file import FINAL
from embedbench.learning.base_session_prototypes import Classifier, KnownFile
from embedbench.learning.learner import Learner
from embedbench.learning.pretraining import taught_digest
from embedbench.networks.weights import load_head
from embedbench.streams.stream import Stream

MEANS = "leave classifier.base out"


def pretrained_head(learner: Learner, stream: Stream) -> Float32s | None:
    """The rows of a learner's `classifier.base`, in the order of the base session's classes.

    None if the learner has no such setting, or it names no file.
    """
    classifier = getattr(learner, "classifier", None)
    if not isinstance(classifier, Classifier) or not isinstance(classifier.base, KnownFile):
        return None
    base = classifier.base
    path = base.checked()
    weight, about = load_head(path)
    if stream.origin is None:
        raise UserError(
            f"classifier.base={path.name} needs a stream of one file that says which, as those of "
            f"fscil do; {MEANS}"
        )
    file, first = stream.origin.file, stream.sessions[0]
    if stream.origin.embedding != FINAL:
        raise UserError(
            f"{path.name} classifies the final embedding, and protocol.embedding is "
            f"{stream.origin.embedding!r}; drop that, or {MEANS}"
        )
    _check_weights(base, file.provenance.get("backbone", {}), file.path.name, path.name)
    if stream.fitted:
        raise UserError(
            f"{path.name} classifies features as they are, and this stream scales each column; "
            "add --set protocol.scale=none"
        )
    if weight.shape[1] != file.width():
        raise UserError(
            f"{path.name} classifies embeddings of width {weight.shape[1]}, and those of "
            f"{file.path.name} have {file.width()}; extract them again, or {MEANS}"
        )
    names = [file.classes[c] for c in np.unique(first.y)]
    if sorted(names) != sorted(about.classes):
        other = sorted(set(names) ^ set(about.classes))
        raise UserError(
            f"{path.name} classifies {len(about.classes)} classes that are not the {len(names)} of "
            f"the base session (of one alone: {', '.join(other[:3])}); give the protocol the "
            f"settings of its pretraining, or {MEANS}"
        )
    if taught_digest(file.samples, first) != about.samples:
        raise UserError(
            f"{path.name} was trained on other samples than the base session of this stream has; "
            f"give both the same split and val_fraction, or {MEANS}"
        )
    row_of = {name: row for row, name in enumerate(about.classes)}
    rows: Float32s = weight.numpy()[[row_of[name] for name in names]]
    return rows


def _check_weights(base: KnownFile, backbone: dict[str, Any], file: str, head: str) -> None:
    """Refuse embeddings that other weights made."""
    made = str(backbone.get("weights_sha256", ""))
    if made != base.sha256:
        by = f"weights with the SHA-256 {made[:12]}…" if made else "no weights that it names"
        raise UserError(
            f"{file} was made by {by}, and {head} has {base.sha256[:12]}…; extract it with "
            f"--weights {head}, or {MEANS}"
        )
