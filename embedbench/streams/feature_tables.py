"""Tables of embeddings or images, in memory, or mapped from a file.

NumPy only; torch is imported when a tensor is asked for. Learners never get a table: see `View`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from embedbench.array_types import Array, Bytes, Float32s, Ints
from embedbench.errors import UserError
from embedbench.files.mmap_cache import read

if TYPE_CHECKING:
    import torch

    from .scaling import Scale


AnyArray = TypeVar("AnyArray", Float32s, "torch.Tensor")
Scaling = tuple[tuple[float, ...], tuple[float, ...]]  # factor and offset of each channel
BLOCK = 1024  # images whose values are counted at a time
MOVED = 2**26  # bytes of a mapped table that are moved to a GPU at a time


class Table:
    """One embedding table, (N, D) float32, read once, moved to a device once, and indexed there."""

    scale = ""  # the name of the scaling, where the table was read from a file
    scaling: Scaling | None = None  # of stored bytes; None: values are used as they are stored

    def __init__(self, values: Array) -> None:
        self.values = values
        self.scales: dict[str, Scale] = {}  # of each embedding that was read from a file
        self._tensors: dict[str, torch.Tensor] = {}
        self._moves: dict[str, bool] = {}

    @property
    def width(self) -> int:
        """Number of columns, D, or of image positions, H·W, that a permutation permutes."""
        return int(self.values.shape[1])

    def shape_of(self, width: int) -> tuple[int, ...]:
        """Shape of a sample with `width` columns, (width,)."""
        return (width,)

    @property
    def nbytes(self) -> int:
        """Bytes that the whole table takes on a device."""
        return int(self.values.nbytes)

    def unfit_row(self) -> int | None:
        """The first row that holds NaN or an infinite value; None if all values are finite."""
        x = self.values
        mapped = isinstance(x, np.memmap)  # its rows were finite when they were copied
        if mapped or x.dtype.kind != "f" or not x.size or np.isfinite([x.min(), x.max()]).all():
            return None
        return int(np.argmin(np.isfinite(x).all(axis=1)))

    def moves(self, device: str) -> bool:
        """Whether a device gets the whole table: it is in memory, or fits a GPU."""
        if device not in self._moves:
            resident = not isinstance(self.values, np.memmap)
            self._moves[device] = resident or 3 * self.nbytes <= free_bytes(device)
        return self._moves[device]

    def tensor(self, device: str) -> torch.Tensor:
        """The whole table on `device`, as it is stored; on the CPU it shares memory with NumPy."""
        if device not in self._tensors:
            import torch

            if not isinstance(self.values, np.memmap):
                self._tensors[device] = torch.from_numpy(self.values).to(device)
                return self._tensors[device]
            blocks = np.array_split(np.arange(len(self.values)), 1 + self.nbytes // MOVED)
            self._tensors[device] = torch.cat(
                [on_device(self.part(b, self.width).values, device) for b in blocks]
            )
        return self._tensors[device]

    def numpy(self, rows: Ints, width: int, columns: Ints | None) -> Float32s:
        """Copy rows out as a `View` defines them."""
        x = self.values[rows, :width] if columns is None else self.values[rows][:, columns]
        return np.pad(x, ((0, 0), (0, width - x.shape[1])))

    def take(
        self, rows: torch.Tensor, width: int, columns: torch.Tensor | None, device: str
    ) -> torch.Tensor:
        """Copy rows out as a `View` defines them, as a tensor; indices lie on `device`."""
        table = self.tensor(device)
        if columns is None:
            table = table[:, :width]
        x = table.index_select(0, rows)
        if columns is not None:
            x = x.index_select(1, columns)
        if x.shape[1] < width:
            import torch

            x = torch.nn.functional.pad(x, (0, width - x.shape[1]))
        return x

    def blacken(self, x: AnyArray, columns: Any) -> AnyArray:
        """Samples of this table (n, width), as they are taken, with these columns black: 0."""
        x[:, columns] = 0
        return x

    def part(self, rows: Ints, width: int) -> Table:
        """A table of these rows alone, (n, width)."""
        return Table(self.values[rows, :width])

    def state_dict(self) -> dict[str, Any]:
        """The table as data for a checkpoint; `table_from` reads it."""
        return {"values": self.values}


class PixelTable(Table):
    """Images (N, H, W, C) stored as bytes; a sample is (C, H, W) float32, byte · factor + offset.

    `factor` and `offset` have one number per channel; the defaults give values between 0 and 1.
    """

    scaling: Scaling

    def __init__(
        self,
        values: Bytes,
        factor: tuple[float, ...] = (),
        offset: tuple[float, ...] = (),
    ) -> None:
        super().__init__(values)
        channels = values.shape[3]
        self.scaling = factor or (1 / 255,) * channels, offset or (0.0,) * channels

    @property
    def width(self) -> int:
        """Positions of an image, H·W, row by row."""
        return int(self.values.shape[1] * self.values.shape[2])

    def shape_of(self, width: int) -> tuple[int, ...]:
        """(C, H, W); (C, width) if `width` is not the H·W of the images."""
        _, high, wide, channels = self.values.shape
        return (channels, high, wide) if width == high * wide else (channels, width)

    def numpy(self, rows: Ints, width: int, columns: Ints | None) -> Float32s:
        """Copy rows out as a `View` defines them, (n, C, H, W)."""
        import torch

        order = None if columns is None else torch.from_numpy(columns)
        out: Float32s = self.take(torch.from_numpy(rows), width, order, "cpu").numpy()
        return out

    def take(
        self, rows: torch.Tensor, width: int, columns: torch.Tensor | None, device: str
    ) -> torch.Tensor:
        """Copy rows out as a `View` defines them, (n, C, H, W), as a tensor."""
        import torch

        if self.moves(device):
            x = self.tensor(device).index_select(0, rows)  # (n, H, W, C)
        else:
            x = on_device(read(self.values, rows.cpu().numpy()), device)
        if columns is not None:
            x = x.flatten(1, 2).index_select(1, columns).view_as(x)
        factor, offset = on_device(np.array(self.scaling, np.float32)[..., None, None], device)
        out = x.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return out.mul_(factor).add_(offset)

    def blacken(self, x: AnyArray, columns: Any) -> AnyArray:
        """Images (n, C, H, W) of this table with these positions black, as a byte of 0 is."""
        flat = x.reshape(*x.shape[:2], -1)  # of the same memory
        for channel, black in enumerate(self.scaling[1]):
            flat[:, channel, columns] = black
        return x

    def part(self, rows: Ints, width: int) -> PixelTable:
        """A table of these images alone."""
        return PixelTable(read(self.values, rows), *self.scaling)

    def state_dict(self) -> dict[str, Any]:
        """The images as data for a checkpoint, with factor and offset."""
        factor, offset = self.scaling
        return {"values": self.values, "factor": [*factor], "offset": [*offset]}


def check_numbers(values: Ints, n: int, name: str, least: int = 0) -> None:
    """Refuse what is no list (k,) of numbers of n things: rows, columns or classes."""
    if values.ndim != 1 or (values.size and not least <= values.min() <= values.max() < n):
        raise UserError(name, expected=f"numbers (k,) from {least} to {n - 1}", got=values)


def on_device(x: Array, device: str) -> torch.Tensor:
    """An array as a tensor on a device; a GPU takes it from pinned memory."""
    import torch

    there = torch.from_numpy(x)
    if device.startswith("cuda"):
        return there.pin_memory().to(device, non_blocking=True)
    return there.to(device)


def free_bytes(device: str) -> int:
    """Bytes that are free on a GPU; 0 for any other device, which gets no mapped table whole."""
    import torch

    return torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else 0


def table_from(state: dict[str, Any]) -> Table:
    """The table of a `state_dict`."""
    if "factor" in state:
        return PixelTable(state["values"], tuple(state["factor"]), tuple(state["offset"]))
    return Table(state["values"])


def standardise_images(values: Bytes, base_rows: Ints) -> PixelTable:
    """Images scaled to mean 0 and deviation 1 in every channel.

    Mean and deviation are taken over all values of a channel in `base_rows`, (n,). A deviation
    below one level of grey, as in a constant channel, counts as one level.
    """
    channels = values.shape[3]
    counts = np.zeros((channels, 256), dtype=np.int64)
    for first in range(0, len(base_rows), BLOCK):
        block = read(values, base_rows[first : first + BLOCK])
        for c in range(channels):
            counts[c] += np.bincount(block[..., c].ravel(), minlength=256)
    share = counts / counts.sum(axis=1, keepdims=True)  # (C, 256)
    levels = np.arange(256) / 255
    mean = share @ levels
    deviation = np.sqrt((share * (levels - mean[:, None]) ** 2).sum(axis=1))
    deviation = np.maximum(deviation, 1 / 255)
    factor = 1 / (255 * deviation)
    offset = -mean / deviation
    return PixelTable(values, tuple(factor.tolist()), tuple(offset.tolist()))


# --- mapped from copies in the cache, which the processes of a machine share; rows are converted
# and scaled when they are read, with the same bits as those of a `Table` in memory ---


@dataclass(frozen=True)
class MappedPart:
    """One embedding of a table, the final one or a layer: (N, D) as stored, and its scaling."""

    values: Array
    scale: Scale

    def scaled(self, rows: Ints) -> Float32s:
        """Rows scaled, (n, D)."""
        x = read_float32(self.values, rows)
        self.scale.apply(x)
        return x


def read_float32(values: Array, rows: Ints) -> Float32s:
    """Rows of stored values, (n, D) float32; a copy."""
    return read(values, rows).astype(np.float32, copy=False)


class MappedTable(Table):
    """A table whose rows stay on disk; they come to memory, or to a GPU, when they are read.

    Its parts are the embedding, and the layers behind it.
    """

    def __init__(self, parts: Sequence[MappedPart]) -> None:
        super().__init__(parts[0].values)
        self.parts = tuple(parts)

    @property
    def width(self) -> int:
        """Number of columns of all parts."""
        return sum(part.values.shape[1] for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the values as float32."""
        return len(self.values) * self.width * 4

    def numpy(self, rows: Ints, width: int, columns: Ints | None) -> Float32s:
        """Copy rows out as a `View` defines them."""
        wanted = width if columns is None else self.width
        ends = np.cumsum([part.values.shape[1] for part in self.parts]).tolist()
        used = []
        for part, begin in zip(self.parts, [0, *ends], strict=False):
            if begin < wanted:
                used.append(part.scaled(rows))
        x = used[0] if len(used) == 1 else np.concatenate(used, axis=1)
        x = x[:, :wanted] if columns is None else x[:, columns]
        if x.shape[1] >= width:
            return x
        return np.pad(x, ((0, 0), (0, width - x.shape[1])))

    def take(
        self, rows: torch.Tensor, width: int, columns: torch.Tensor | None, device: str
    ) -> torch.Tensor:
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
