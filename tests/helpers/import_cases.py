"""A table of forty rows as other people store it, and what `import` makes of it."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from file_helpers import make_features

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.import_features import import_file

N = 40
X = make_features(N, 6)
Y = np.arange(N) % 4
ORDER = np.random.default_rng(0).permutation(N)
FIRST, SECOND, THIRD = ORDER[:24], ORDER[24:30], ORDER[30:]
FILES = np.array([f"img_{row:03d}.jpg" for row in range(N)])
VOICES = np.array([f"voice {row % 5}" for row in range(N)])
BASE = {"features": X, "labels": Y}
TRAIN, VAL, TEST = 0, 1, 2


def imported(folder: Path, arrays: Any, **options: Any) -> tuple[EmbeddingFile, Any, str]:
    """The file, its tables as h5py reads them, and all that was said."""
    np.savez(folder / "a.npz", **arrays)
    said: list[str] = []
    file = import_file(folder / "a.npz", folder / "a.h5", notify=said.append, **options)
    with h5py.File(folder / "a.h5") as stored:
        tables = {name: stored[name][()] for name in ("features", "labels", "split")}
        tables["ids"] = stored["sample_ids"].asstr()[()]
        tables["classes"] = stored["classes"].asstr()[()].tolist()
        if "columns/group" in stored:
            tables["group"] = stored["columns/group"].asstr()[()].tolist()
    return file, tables, " ".join(said)
