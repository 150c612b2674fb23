"""Permutation: every session has the same data, with its columns permuted or its images turned.

Images are permuted position by position, all channels of a pixel together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.fields_added_later import later
from embedbench.config.make_from_settings import join_list
from embedbench.config.plain_numbers import number_text, plain_number
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.files.raw_pixels import flat_shape
from embedbench.streams import make_sessions as tools
from embedbench.streams.feature_tables import Table
from embedbench.streams.load_table import load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.rotation import spread_channels, turn_positions
from embedbench.streams.stream import Stream

HALF_TURN = 180.0  # degrees; angles are drawn below it


@dataclass(kw_only=True)
class Permutation(Protocol):
    """Data permutation experiment: domain-incremental, all classes in every session.

    **Source**: Kemker et al. (2018), "Data permutation experiment"; session 0 is the unpermuted
    data (its supplement, Fig. S2). T = 10 follows from PathNet's printed model sizes. With
    `transform="rotation"`: Lopez-Paz and Ranzato (2017), MNIST Rotations (`angles="rising"`), and
    Buzzega et al. (2020), R-MNIST (`angles="random"`, 20 sessions), and their codes: images are
    turned by Pillow, counter-clockwise about their centre, to the nearest pixel, with black
    corners.

    **Departs**: the paper normalises Ω_new by α_ideal here, although its Eq. 3 does not (Table 2
    has values above the offline accuracy); so do we. Lopez-Paz and Ranzato teach 1,000 images a
    session, and Buzzega et al. permute session 0, too. α_ideal is that of the data as session 0
    shows them.

    Parameters
    ----------
    sessions : int
        T, the number of sessions, ≥ 2.
    transform : str
        "permutation" of the columns; or "rotation" of images, for pixel files and for rows of
        pixels, which are taken for square images.
    angles : str
        Of a rotation, in degrees. "random": of every session, uniform in [0, 180); "rising": of
        session t uniform in the t-th of T equal parts of [0, 180); or the angle of each session,
        with commas, such as 0,45,90.
    loss : str
        "all": one head for all sessions. "session": a head a session, each of all classes, and the
        session of every sample is known, in training and at test: task-incremental training and
        answers. The learners with heads are those of `incremental-class`; closed forms then learn
        the classes of each session by themselves.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "permutation", sessions=3)
    >>> [len(session.y) for session in stream.sessions]
    [360, 360, 360]
    >>> turned = Permutation(transform="rotation", angles="rising", sessions=3)
    >>> [int(angle // 60) for angle in turned.draw_angles(seed=0)]
    [0, 1, 2]
    """

    sessions: Annotated[int, at_least(2, 10_000)] = 10
    transform: Literal["permutation", "rotation"] = later("permutation", earlier="permutation")
    angles: str = later("random", earlier="random")
    loss: Literal["all", "session"] = later("all", earlier="all")

    name: ClassVar[str] = "permutation"
    normalise_new: ClassVar[bool] = True
    checked: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"loss": "session"})

    def __post_init__(self) -> None:
        if isinstance(self.angles, list | tuple):
            self.angles = join_list(self.angles, "protocol.angles")
        super().__post_init__()
        if self.transform == "permutation" and self.angles != "random":
            raise UserError(
                f"protocol.angles={self.angles} is of a rotation",
                "add --set protocol.transform=rotation, or leave it out",
            )
        if self.angles in ("random", "rising"):
            return
        listed = self._listed_angles()
        if len(listed) != self.sessions:
            raise UserError(
                f"protocol.angles has {len(listed)} angles, and the stream {self.sessions} "
                "sessions",
                f"set protocol.sessions={len(listed)}",
            )
        self.angles = ",".join(map(number_text, listed))

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        file = self.take_file(files)
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        few = len(split.train) < self.scale_least
        table, features, fitted = load_table(file, self.scale, split.train, few=few)
        everything = np.arange(file.samples.n_leaves)
        if self.transform == "permutation":
            notes: list[str] = []
            columns = self._permutations(table, seed)
        else:
            columns, notes = self._rotations(table, file, seed)
        pairs = [
            tools.view_session(
                table,
                file,
                split,
                classes=everything,
                introduces=everything if t == 0 else everything[:0],
                columns=columns[t],
            )
            for t in range(self.sessions)
        ]
        if self.loss == "session":
            pairs = tools.own_losses(pairs)
        stream = self.make_stream(
            tools.flat_spec(table, file, loss=self.loss),
            pairs,
            [file],
            features,
            can_reveal=True,
            fitted=fitted,
            notes=tuple(notes),
        )
        return stream.revealed() if self.loss == "session" else stream

    def draw_angles(self, seed: int) -> list[float]:
        """The angle of each session of a rotation, in degrees."""
        if self.angles not in ("random", "rising"):
            return self._listed_angles()
        draw = np.random.default_rng(seed).random(self.sessions)
        if self.angles == "rising":
            draw = (np.arange(self.sessions) + draw) / self.sessions
        angles: list[float] = (HALF_TURN * draw).tolist()
        return angles

    def _listed_angles(self) -> list[float]:
        angles = []
        for text in self.angles.split(","):
            number = plain_number(text.strip())
            if number is None or not math.isfinite(number) or not -360 <= number <= 360:
                raise UserError(
                    "protocol.angles",
                    expected="random, rising, or the degrees of each session from -360 to 360, "
                    "such as 0,45,90",
                    got=self.angles,
                )
            angles.append(number + 0.0)  # a float, and no -0.0
        return angles

    def _permutations(self, table: Table, seed: int) -> list[Ints | None]:
        rng = np.random.default_rng(seed)
        return [None, *(rng.permutation(table.width) for _ in range(self.sessions - 1))]

    def _rotations(
        self, table: Table, file: EmbeddingFile, seed: int
    ) -> tuple[list[Ints | None], list[str]]:
        """The columns of each session, and what rows of pixels are taken for."""
        notes: list[str] = []
        if file.kind == PIXELS:
            _, high, wide = table.shape_of(table.width)
            channels = 1  # positions have all channels
        else:
            high, wide, channels = self._flat_shape(table, file)
            notes = [f"rows of {table.width:,} values are turned as images of {high}x{wide}"]
        angles = self.draw_angles(seed)
        turned = [turn_positions(high, wide, angle) for angle in angles]
        return [spread_channels(positions, channels) for positions in turned], notes

    def _flat_shape(self, table: Table, file: EmbeddingFile) -> tuple[int, int, int]:
        """Height, width and channels of the images whose pixels are the rows of a file."""
        shape = flat_shape(file.provenance, table.width)
        remedy = "take a pixel file (embedbench extract SOURCE --backbone none --out FILE)"
        if shape is None:
            raise UserError(
                f"a rotation takes images, and {file.path.name} does not say that its rows are "
                "the pixels of square ones, from 0 to 1",
                remedy,
            )
        if table.scale != "none":
            raise UserError(
                f"a rotation has black corners, and protocol.scale={table.scale} moves black",
                f"leave protocol.scale out, or {remedy}",
            )
        return shape
