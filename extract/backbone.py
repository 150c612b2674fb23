"""The contract of a backbone: images, sounds or texts in, embeddings out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any

import torch

from embedbench.array_types import Array

from .source import Content

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# Backbones that are no models: they take no weights, layers or half precision.
OURS = ("pixels", "none", "log-mel")


class Backbone(ABC):
    """A function from images, sounds or texts to rows of tables.

    `prepare` takes one sample a call, `forward` one batch. Both may run in several threads at once,
    so they change nothing of the backbone. A row depends on its sample alone. docs/plugins.md shows
    one from outside.

    Attributes
    ----------
    backbone : dict
        What computes, for the provenance; part of the recipe. `name`, `weights_id`,
        `weights_sha256`, `layer`, `pooling`, and `library` and `library_version`, which are filled
        in for one from outside.
    preprocessing : dict
        What `prepare` does to a sample, for the provenance; part of the recipe.
    takes : str
        `images`, which `prepare` gets as the pixel policy makes them (`L` or `RGB`), or `sounds` or
        `texts`, of which it gets the bytes of a file.
    device : device
        Where `forward` computes.
    dtype : str
        Of the arithmetic: `float32`, `bfloat16` or `float16`; `uint8` for images themselves.
    also_decides : mapping
        What else decides a row and is not in the provenance, as plain JSON: interrupted work is
        resumed only where it is the same.
    """

    backbone: dict[str, Any]
    preprocessing: dict[str, Any]
    takes: str = "images"
    device = torch.device("cpu")
    dtype = "float32"
    also_decides: Mapping[str, Any] = MappingProxyType({})

    @abstractmethod
    def prepare(self, content: Content) -> Array:
        """Return one sample as `forward` takes it, such as an image as (H, W, C) bytes.

        The shape is the same for every sample. Damaged content raises an error of its reader.
        """

    @abstractmethod
    def forward(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return `features` and `layers/NAME`, each (n, D), of n prepared samples."""

    def preparer(self) -> Callable[[Content], Array] | None:
        """Return `prepare` as a value that can be pickled and holds no network, or None.

        With one, other processes prepare samples while a card waits; with None, threads do.
        """
        return None


class Network(Backbone):
    """A backbone that is a network of torch; half precision is by autocast."""

    _copies: torch.cuda.Stream | None = None  # where batches are copied to a card

    @abstractmethod
    def tables(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return the tables of a batch, computed in `arithmetic()`."""

    def forward(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return the embeddings of a batch, on the device, in their stored type."""
        stored = torch.float32 if self.dtype == "float32" else torch.float16
        return {name: rows.to(stored) for name, rows in self.tables(batch).items()}

    def on_device(self, batch: torch.Tensor) -> torch.Tensor:
        """Return a batch on the device; a card copies it beside its arithmetic, not after it."""
        if self.device.type != "cuda":
            return batch.to(self.device)
        current = torch.cuda.current_stream(self.device)
        if self._copies is None:
            make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream
            self._copies = make(self.device)
        with torch.cuda.stream(self._copies):
            there = batch.pin_memory().to(self.device, non_blocking=True)
        current.wait_stream(self._copies)
        there.record_stream(current)  # its memory is not given away before it is used
        return there

    def arithmetic(self) -> AbstractContextManager[object]:
        """The context in which its type of arithmetic is used."""
        if self.dtype == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.dtype])
