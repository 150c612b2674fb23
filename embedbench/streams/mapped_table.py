"""Embeddings that are mapped from copies in the cache, shared by the processes of a machine.

Rows are converted and scaled when they are read, with the same bits as those of a `Table` in
memory. NumPy only, as in `resident_table`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedbench.arrays import Array, Float32s, Ints
from embedbench.files.mmap_cache import expect, read

from .resident_table import Table, on_device
from .scaling import Scale

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class MappedPart:
    """One embedding of a table, the final one or a layer: (N, D) as stored, and its scaling."""

    values: Array
    scale: Scale

    def raw(self, rows: Ints) -> Float32s:
        """Rows as stored, (n, D) float32."""
        return read(self.values, rows).astype(np.float32, copy=False)

    def scaled(self, rows: Ints) -> Float32s:
        """Rows scaled, (n, D)."""
        x = self.raw(rows)
        self.scale.apply(x)
        return x


class MappedTable(Table):
    """A table whose rows stay on disk; they come to memory, or to a GPU, when they are read.

    Parameters
    ----------
    parts : sequence of MappedPart
        The embedding, and the layers behind it.
    """

    def __init__(self, parts: Sequence[MappedPart]) -> None:
        super().__init__(parts[0].values)
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return len(self.parts[0].values)

    @property
    def width(self) -> int:
        """Number of columns of all parts."""
        return sum(part.values.shape[1] for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the values as float32."""
        return len(self) * self.width * 4

    def whole(self) -> Float32s:
        """All values in memory, (N, D)."""
        return self.part(np.arange(len(self)), self.width).values

    def expect(self, rows: Ints) -> None:
        """Say that these rows are read soon, in whatever order."""
        for part in self.parts:
            expect(part.values, rows)

    def unfit_row(self) -> int | None:
        """None: the rows were finite when they were copied, and scaling leaves them so."""
        return None

    def stored(self, rows: Ints) -> Float32s:
        """Rows as a GPU that has the table holds them: all columns, scaled."""
        return self.numpy(rows, self.width, None)

    def numpy(self, rows: Ints, width: int, columns: Ints | None) -> Float32s:
        """Copy rows out as a `View` defines them."""
        wanted = width if columns is None else self.width
        ends = np.cumsum([part.values.shape[1] for part in self.parts]).tolist()
        used = [
            part.scaled(rows)
            for part, end in zip(self.parts, [0, *ends], strict=False)
            if end < wanted
        ]
        x = used[0] if len(used) == 1 else np.concatenate(used, axis=1)
        x = x[:, :wanted] if columns is None else x[:, columns]
        return np.pad(x, ((0, 0), (0, width - x.shape[1]))) if x.shape[1] < width else x

    def take(
        self, rows: "torch.Tensor", width: int, columns: "torch.Tensor | None", device: str
    ) -> "torch.Tensor":
        """Copy rows out as a `View` defines them, as a tensor; indices lie on `device`.

        A GPU that has room for the table gets it once, any other only these rows.
        """
        if self.moves(device):
            return super().take(rows, width, columns, device)
        order = None if columns is None else columns.cpu().numpy()
        return on_device(self.numpy(rows.cpu().numpy(), width, order), device)

    def part(self, rows: Ints, width: int) -> Table:
        """A table of these rows alone, (n, width), in memory."""
        return Table(self.numpy(rows, min(width, self.width), None))
