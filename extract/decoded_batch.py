"""Samples on their way through an extraction: decoded one by one, computed in batches."""

from dataclasses import dataclass

import torch

from embedbench.array_types import Array

from .content_hashes import NOTHING


@dataclass(frozen=True)
class DecodedSample:
    """One image or sound: as the backbone takes it, its content hash, or what is wrong.

    `touched` has the rules of the pixel policy that an image met; `decoded` says whether the source
    had it decoded already, which its hash is of then.
    """

    ready: Array | None
    digest: bytes = NOTHING
    problem: str = ""
    touched: tuple[str, ...] = ()
    decoded: bool = False


@dataclass(frozen=True)
class DecodedUnit:
    """Consecutive samples: what was found of each, without arrays, and the arrays as one.

    `ready` is (n, …) of those that could be decoded; None if none could.
    """

    samples: tuple[DecodedSample, ...]
    ready: Array | None


@dataclass(frozen=True)
class Batch:
    """Consecutive samples, `rows` of the source, and the backbone's output for them.

    `decoded` has the hash or problem of each sample, without the arrays; the tables are of the
    samples that could be decoded, and empty if none could.
    """

    rows: range
    decoded: tuple[DecodedSample, ...]
    tables: dict[str, torch.Tensor]
