"""The checks for backbones: small images or sounds, prepared, computed and made into a file."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.io import wavfile

from embedbench.array_types import Array
from embedbench.files.embedding_file import verify
from embedbench.storage.atomic_write import write_safely

from .check_building_blocks import Checks, demand

if TYPE_CHECKING:
    from PIL import Image

    from embedbench.extract.backbone import Backbone

TOLERANCE = 1e-3  # of the length of a row: batches of other sizes have other last bits
KINDS = ("RGB", "L", "RGBA", "P", "RGB", "1")  # Pillow's modes of the small images
SIZES = ((40, 30), (30, 40), (64, 48), (33, 33), (96, 96), (25, 64))  # width, height
SQUARE = 32  # pixels: the input size of our own, which take images of one size


@dataclass(frozen=True)
class BackboneSubject:
    """A backbone that is checked, by its name on the command line."""

    name: str

    def make(self) -> Backbone:
        """A new one, as `embedbench extract` opens it."""
        from embedbench.extract.open_backbone import open_backbone

        return open_backbone(self.name, lambda: images()[0], size=self.size)

    @property
    def size(self) -> int | None:
        """The input size that is given: only to our own backbone of images."""
        return SQUARE if self.name == "pixels" else None

    @cached_property
    def first(self) -> Backbone:
        """One that several checks share."""
        return self.make()

    @cached_property
    def batch(self) -> Array:
        """(n, …) small samples, prepared."""
        return np.stack([self.first.prepare(content) for content in self.contents()])

    def contents(self) -> list[Any]:
        """Opened images, or the bytes of WAV files."""
        return list(sounds()) if self.first.takes == "sounds" else images()


BACKBONE_CHECKS = Checks[BackboneSubject]()


def images() -> list[Image.Image]:
    """Make small images of noise, in several sizes and Pillow modes."""
    from PIL import Image

    draw = np.random.default_rng(0)
    made = [draw.integers(0, 256, (height, width, 3), np.uint8) for width, height in SIZES]
    return [Image.fromarray(a).convert(mode) for a, mode in zip(made, KINDS, strict=True)]


def sounds() -> list[bytes]:
    """Small WAV files: noise of several lengths, 16 bits at 16 kHz."""
    draw, result = np.random.default_rng(0), []
    for seconds in (0.5, 1.0, 1.5, 3.0):
        file = io.BytesIO()
        wavfile.write(file, 16_000, draw.integers(-9000, 9000, int(16_000 * seconds), np.int16))
        result.append(file.getvalue())
    return result


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def forward_as_arrays(backbone: Backbone, batch: Array) -> dict[str, Array]:
    """The result of `forward`, as arrays."""
    tables = backbone.forward(batch.copy())
    return {name: rows.detach().cpu().numpy() for name, rows in tables.items()}


@BACKBONE_CHECKS.add
def says_what_it_is(subject: BackboneSubject) -> None:
    """It states its name, weights, layer, pooling and preprocessing, as values of JSON."""
    made = subject.first
    for key in ("name", "weights_id", "weights_sha256", "layer", "pooling"):
        value = made.backbone.get(key)
        demand(isinstance(value, str), f"expected backbone[{key!r}] to be a text, got {value!r}")
    demand(made.preprocessing, "expected what `prepare` does in `preprocessing`, it is empty")
    json.dumps([made.backbone, made.preprocessing], allow_nan=False)
    demand(made.takes in ("images", "sounds"), f"takes must be images or sounds: {made.takes!r}")


@BACKBONE_CHECKS.add
def samples_have_one_shape(subject: BackboneSubject) -> None:
    """Samples of any size, and images of any mode, are prepared to one shape and type."""
    ready = [subject.first.prepare(content) for content in subject.contents()]
    kinds = {(a.shape, str(a.dtype)) for a in ready}
    demand(len(kinds) == 1, f"expected one shape and type of prepared samples, got {kinds}")


@BACKBONE_CHECKS.add
def rows_are_finite(subject: BackboneSubject) -> None:
    """It returns `features`, and maybe `layers/NAME`: one finite row of numbers a sample."""
    tables = forward_as_arrays(subject.first, subject.batch)
    demand("features" in tables, f"expected the table 'features', got {sorted(tables)}")
    for name, rows in tables.items():
        known = name == "features" or name.startswith("layers/")
        demand(known, f"expected 'features' and 'layers/NAME', got {name!r}")
        n = len(subject.batch)
        shaped = rows.ndim == 2 and len(rows) == n and rows.shape[1] > 0
        demand(shaped, f"expected {name} of shape ({n}, D), got {rows.shape}")
        demand(rows.dtype.kind == "f", f"expected numbers with a point in {name}: {rows.dtype}")
        demand(np.isfinite(rows).all(), f"expected finite numbers in {name}, got NaN or infinite")


@BACKBONE_CHECKS.add
def same_sample_same_row(subject: BackboneSubject) -> None:
    """The same samples give the same bits, also from a backbone that is made anew."""
    first = forward_as_arrays(subject.first, subject.batch)
    other = subject.make()
    batch = np.stack([other.prepare(content) for content in subject.contents()])
    demand(np.array_equal(batch, subject.batch), "expected the same prepared samples, got others")
    for name, again in (("again", subject.first), ("made anew", other)):
        rows = forward_as_arrays(again, subject.batch)
        same = all(np.array_equal(rows[table], first[table]) for table in first)
        demand(same, f"expected the same rows {name}, got others")


@BACKBONE_CHECKS.add
def batches_do_not_matter(subject: BackboneSubject) -> None:
    """A row depends on its sample alone, however the batches are cut."""
    whole, n = forward_as_arrays(subject.first, subject.batch), len(subject.batch)
    reverse = [*range(n)][::-1]
    for name, parts in (("one by one", [[i] for i in range(n)]), ("in reverse", [reverse])):
        for part in parts:
            rows = forward_as_arrays(subject.first, subject.batch[part])
            for table, expected in whole.items():
                with np.errstate(invalid="ignore"):
                    difference = (rows[table] - expected[part]).astype(np.float64)
                apart = np.linalg.norm(difference, axis=1)
                length = np.linalg.norm(expected[part].astype(np.float64), axis=1)
                close = (apart <= TOLERANCE * np.maximum(length, 1)).all()
                demand(close, f"expected the same {table} {name}, they are {apart.max():.3g} apart")


@BACKBONE_CHECKS.add
def samples_stay_untouched(subject: BackboneSubject) -> None:
    """It changes neither a sample nor a batch."""
    for content in subject.contents():
        before = content if isinstance(content, bytes) else content.copy()
        subject.first.prepare(content)
        demand(content == before, "expected the sample as it was, `prepare` changed it")
    kept = subject.batch.copy()
    subject.first.forward(subject.batch)
    demand(np.array_equal(kept, subject.batch), "expected the batch as it was, it was changed")


@BACKBONE_CHECKS.add
def threads_agree(subject: BackboneSubject) -> None:
    """Several threads at once prepare and compute the same."""
    expected = forward_as_arrays(subject.first, subject.batch)["features"]

    def work(_: int) -> Array:
        batch = np.stack([subject.first.prepare(content) for content in subject.contents()])
        return forward_as_arrays(subject.first, batch)["features"]

    with ThreadPoolExecutor(4) as pool:
        for rows in pool.map(work, range(8)):
            demand(np.array_equal(rows, expected), "expected the same rows in every thread")


@BACKBONE_CHECKS.add
def it_makes_a_file(subject: BackboneSubject) -> None:
    """`embedbench extract` makes a file of it, twice the same, whose checksums are right."""
    from embedbench.extract.pipeline import extract

    with TemporaryDirectory() as folder:
        root = Path(folder) / "source"
        for i, content in enumerate([*subject.contents()] * 3):
            class_folder = root / f"class {i % 2}"
            class_folder.mkdir(parents=True, exist_ok=True)
            sound = isinstance(content, bytes)
            path = class_folder / (f"{i}.wav" if sound else f"{i}.png")
            write_safely(path, content if sound else _png(content))
        digests = []
        for out in (Path(folder) / "a.h5", Path(folder) / "b.h5"):
            file = extract(
                str(root),
                out,
                backbone=subject.name,
                size=subject.size,
                split="0.5",
                device="cpu",
                notify=lambda _: None,
            )
            damaged = verify(out)
            demand(not damaged, f"expected a file without damage: {damaged}")
            digests.append(file.digests)
        demand(digests[0] == digests[1], f"expected the same digests of two files: {digests}")
