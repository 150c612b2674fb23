"""Mean and deviation of each channel of images, by which `--backbone pixels` normalises them."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from embedbench.array_types import Float32s, Ints
from embedbench.config.plain_numbers import plain_number
from embedbench.errors import UserError

LEVELS = 256
NONE, CHANNEL = "none", "channel"


@dataclass(frozen=True)
class ChannelScale:
    """Mean and deviation of each channel, of values from 0 to 1.

    Parameters
    ----------
    mean, std : tuple of float
        (C,) One number a channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def read(cls, text: str) -> Self:
        """The numbers in a text: means with commas, a slash, deviations with commas.

        >>> ChannelScale.read("0.5,0.4,0.3/0.2,0.2,0.1").std
        (0.2, 0.2, 0.1)
        """
        parts = [[plain_number(n.strip()) for n in part.split(",")] for part in text.split("/")]
        numbers = [[float(n) for n in part if n is not None] for part in parts]
        alike = len(parts) == 2 and [*map(len, parts)] == [*map(len, numbers)]
        if not alike or len(numbers[0]) != len(numbers[1]) or min(numbers[1]) <= 0:
            raise UserError(
                "--normalise",
                expected=f"{NONE}; {CHANNEL}; or the means of the channels, a slash, and their "
                "deviations above 0, such as 0.5,0.4,0.3/0.2,0.2,0.1",
                got=text,
            )
        return cls(tuple(numbers[0]), tuple(numbers[1]))

    @classmethod
    def measured(cls, counts: Ints) -> Self:
        """Those of the values that are counted in (C, 256), rounded to six decimals.

        A deviation below one level of grey counts as one level.
        """
        share = counts / counts.sum(axis=1, keepdims=True)
        values = np.arange(LEVELS) / 255
        mean = share @ values
        std = np.sqrt((share * (values - mean[:, None]) ** 2).sum(axis=1))
        std = np.maximum(std, 1 / 255)
        return cls(tuple(mean.round(6).tolist()), tuple(std.round(6).tolist()))

    def __str__(self) -> str:
        """The text that `read` reads."""
        return "/".join(",".join(map(repr, numbers)) for numbers in (self.mean, self.std))

    def apply(self, rows: Float32s) -> Float32s:
        """Normalise rows of pixels (n, H·W·C), in place."""
        values = rows.reshape(-1, len(self.mean))  # of the same memory
        values -= np.array(self.mean, np.float32)
        values /= np.array(self.std, np.float32)
        return rows
