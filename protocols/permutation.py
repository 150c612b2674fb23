"""Permutation: every session has the same data, with its columns permuted differently.

Images are permuted position by position, all channels of a pixel together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from embedbench.config.setting_ranges import at_least
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.streams import make_sessions as tools
from embedbench.streams.load_table import load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream


@dataclass(kw_only=True)
class Permutation(Protocol):
    """Data permutation experiment: domain-incremental, all classes in every session.

    **Source**: Kemker et al. (2018), "Data permutation experiment"; session 0 is the unpermuted
    data (its supplement, Fig. S2). T = 10 follows from PathNet's printed model sizes.

    **Departs**: the paper normalises Ω_new by α_ideal here, although its Eq. 3 does not (Table 2
    has values above the offline accuracy); so do we.

    Parameters
    ----------
    sessions : int
        T, the number of sessions, ≥ 2.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "permutation", sessions=3)
    >>> [len(session.y) for session in stream.sessions]
    [360, 360, 360]
    """

    sessions: Annotated[int, at_least(2, 10_000)] = 10

    name: ClassVar[str] = "permutation"
    normalise_new: ClassVar[bool] = True

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        file = self.take_file(files)
        split = tools.split_rows(file, self.validation, self.val_fraction)
        few = len(split.train) < self.scale_least
        table, features, fitted = load_table(file, self.scale, split.train, few=few)
        rng = np.random.default_rng(seed)
        everything = np.arange(file.samples.n_leaves)
        pairs = [
            tools.view_session(
                table,
                file,
                split,
                classes=everything,
                introduces=everything if t == 0 else everything[:0],
                columns=None if t == 0 else rng.permutation(table.width),
            )
            for t in range(self.sessions)
        ]
        return self.make_stream(
            tools.flat_spec(table, file),
            pairs,
            [file],
            features,
            can_reveal=True,
            fitted=fitted,
        )
