"""The embedding file: one data set through one backbone, with what is needed to trust it.

Needs NumPy and h5py only. `embedbench.files.write_file` makes these files;
docs/specification/embedding_file.md describes them.
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from embedbench.array_types import Array, Bytes, Float32s, Ints, Strings
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import DamagedFileError, UserError, unknown
from embedbench.storage import user_cache
from embedbench.storage.safe_hdf5 import attribute

from . import file_digests, hdf5_layout, integrity_checks
from .provenance import read_provenance
from .remote.names_here import find_here
from .remote.uri import is_name
from .sample_metadata import Samples, read_columns

FINAL = "final"  # name of the final embedding, which is no intermediate layer


@dataclass(frozen=True, repr=False)
class EmbeddingFile:
    """The metadata of one embedding file; `read` gives its features.

    Parameters
    ----------
    provenance : dict
        What made it: backbone, preprocessing, arithmetic, source, date, skipped samples.
    digests : dict
        SHA-256 of `samples`, of the `recipe`, of the `content`, and of `columns` if there are any.
    kind : str
        `embedding`, or `pixels`: the features are images.
    shape : tuple of int
        (N, D) of the features, or (N, H, W, C) of images.
    dtype : dtype
        Stored type of the features: float32 or float16; uint8 for images.
    layers : dict
        Width of each intermediate embedding, by name.
    columns : dict
        Optional values of the samples, (N,) each: `domain` and `group`, texts; `time`, float64.
    """

    path: Path
    samples: Samples
    provenance: dict[str, Any]
    digests: dict[str, str]
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layers: dict[str, int]
    columns: dict[str, Array]
    version: str
    identity: str = ""  # of the file as it was opened, see `user_cache`

    @classmethod
    @check_arguments
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check the metadata of a file; the features stay on disk.

        A text may also be a name of a file on this machine: `known:emoji-vit`, `file:///…`.
        Nothing is fetched here; `embedbench.api.local` does that.

        Raises
        ------
        UserError
            There is no such file, it is not an embedding file, or its version is unknown.
        DamagedFileError
            It is incomplete, or its metadata, labels, splits or ids fail their checksums.
        """
        path = _find_path(path)
        with integrity_checks.open_embedding_file(path) as file:
            integrity_checks.check_format(path, file)
            integrity_checks.check_tables(path, file)
            integrity_checks.check_metadata(path, file)
            samples = Samples(
                ids=hdf5_layout.unpack_strings(file["sample_ids"][()]),
                labels=file["labels"][()],
                split=file["split"][()],
                classes=tuple(hdf5_layout.unpack_strings(file["classes"][()]).tolist()),
                parents=file["parents"][()],
            )
            features = file["features"]
            digests = {
                key: attribute(file["digests"], key) for key in hdf5_layout.digest_keys(file)
            }
            result = cls(
                path=path,
                samples=samples,
                provenance=read_provenance(bytes(file["provenance"][()]), f"{path}: provenance"),
                digests=digests,
                kind=attribute(file, "kind"),
                shape=features.shape,
                dtype=features.dtype,
                layers={name: int(table.shape[1]) for name, table in file["layers"].items()},
                columns=read_columns(path, file, len(samples.ids)),
                version=attribute(file, "format_version"),
                identity=user_cache.identity(file.id.get_vfd_handle()),
            )
        samples.check()
        if samples.digest() != digests["samples"]:
            raise DamagedFileError(
                f"{path}: the samples do not match their digest", "make it again"
            )
        if result.columns and file_digests.columns_digest(result.columns) != digests["columns"]:
            raise DamagedFileError(
                f"{path}: the columns do not match their digest", "make it again"
            )
        return result

    def __repr__(self) -> str:
        samples = self.shape[0]
        classes = self.samples.n_leaves
        return f"<{self.path.name}: {samples:,} samples of {classes} classes, {self.kind}>"

    @property
    def labels(self) -> Ints:
        """(N,) index of the leaf class."""
        return self.samples.labels

    @property
    def split(self) -> Bytes:
        """(N,) TRAIN, VAL or TEST of each sample."""
        return self.samples.split

    @property
    def sample_ids(self) -> Strings:
        """(N,) names of the samples."""
        return self.samples.ids

    @property
    def classes(self) -> tuple[str, ...]:
        """(C,) names; leaves first."""
        return self.samples.classes

    @property
    def parents(self) -> Ints:
        """(C,) index of each class's parent, -1 where there is none."""
        return self.samples.parents

    def is_changed(self) -> bool:
        """Whether the path leads to another file, or to other bytes, than when it was opened."""
        return user_cache.is_changed(self.path, self.identity)

    def check_unchanged(self) -> None:
        """Refuse a file whose bytes may have changed since it was opened.

        `read` and `blocks` compare the content themselves. This is for what takes the bytes as they
        are: their SHA-256, their number, a copy of them.
        """
        user_cache.check_unchanged(self.path, self.identity)

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes of the file that was opened."""
        value = user_cache.sha256(self.path)
        self.check_unchanged()
        return value

    @check_arguments
    def column(self, name: str) -> Array:
        """Return an optional column, (N,): `domain`, `group` or `time`.

        Raises
        ------
        UserError
            The file has no such column.
        """
        if name not in hdf5_layout.COLUMNS:
            raise unknown("column", name, hdf5_layout.COLUMNS)
        if name not in self.columns:
            raise UserError(
                f"{self.path} has no column {name!r}",
                f"make it again with `embedbench extract --{name}-from`, or with --columns FILE, "
                f"a CSV file that begins sample_id,{name}",
            )
        return self.columns[name]

    @check_arguments
    def width(self, embedding: str = FINAL) -> int:
        """Return the number of values per sample: D, D_l of a layer, H·W·C of an image."""
        self.tables(embedding=embedding)  # refuses unknown layers
        return math.prod(self.shape[1:]) if embedding == FINAL else self.layers[embedding]

    @check_arguments
    def tables(self, layers: Sequence[str] = (), embedding: str = FINAL) -> list[str]:
        """Return the names of the feature tables: `features`, then the named layers.

        A layer given as `embedding` takes the place of `features`.
        """
        replacing = () if embedding == FINAL else (embedding,)
        for name in (*replacing, *layers):
            if name not in self.layers:
                raise unknown(f"layer of {self.path}", name, self.layers)
        named = [f"layers/{name}" for name in (*replacing, *layers)]
        return named if replacing else ["features", *named]

    @check_arguments
    def form(self, table: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return the stored type and the shape, (N, …), of a feature table."""
        if table == "features":
            return self.dtype, self.shape
        content = self.digests["content"]
        with integrity_checks.reopen_embedding_file(self.path, content) as (file, _):
            return file[table].dtype, file[table].shape

    def blocks(self, table: str) -> Iterator[tuple[int, Array]]:
        """Yield (first row, rows as stored) of a feature table, each block verified first.

        Values that are not finite are refused, and so is a file that has taken the place of the one
        that was opened.
        """
        content = self.digests["content"]
        with integrity_checks.reopen_embedding_file(self.path, content) as (file, sums):
            for first, end, checksum in integrity_checks.block_sums(sums[table], self.shape[0]):
                rows = integrity_checks.read_sound(file, table, first, end, checksum)
                if rows is None:
                    raise integrity_checks.damaged_error(self.path, table, first, end)
                if rows.dtype.kind == "f" and not np.isfinite(rows).all():
                    row = first + int(np.argmin(np.isfinite(rows).all(axis=1)))
                    raise UserError(
                        f"{self.path}: {table} row {row} holds NaN or infinite values",
                        "extract the file again",
                    )
                yield first, rows

    @check_arguments
    def read(self, layers: Sequence[str] = (), embedding: str = FINAL) -> Float32s:
        """Read and verify the features, or the layer `embedding`, followed by the named layers.

        Returns
        -------
        array
            (N, D + D_1 + ...) float32, filled in one pass.

        Raises
        ------
        DamagedFileError
            Blocks do not match their checksums; the message names the rows.
        UserError
            The file holds images, a layer is unknown, a value is NaN or infinite, or another file
            has its path by now.
        """
        if self.kind != hdf5_layout.EMBEDDING:
            raise UserError(
                f"{self.path} holds images, and this takes embeddings: make a file of them with "
                "`embedbench extract SOURCE --backbone NAME --out FILE`."
            )
        tables = self.tables(layers, embedding)
        widths = [self.width(embedding), *(self.layers[name] for name in layers)]
        out = np.empty((self.shape[0], sum(widths)), dtype=np.float32)
        parts = np.split(out, np.cumsum(widths)[:-1], axis=1)  # views
        for table, part in zip(tables, parts, strict=True):
            for first, rows in self.blocks(table):
                part[first : first + len(rows)] = rows
        return out

    def images(self) -> Bytes:
        """Read and verify the images of a pixel file, (N, H, W, C).

        Raises
        ------
        DamagedFileError
            See `read`.
        UserError
            The file holds embeddings.
        """
        if self.kind != hdf5_layout.PIXELS:
            raise UserError(
                f"{self.path} holds embeddings, and this takes images: make a file of them with "
                "`embedbench extract SOURCE --backbone none --out FILE`."
            )
        return np.concatenate([rows for _, rows in self.blocks("features")])


def _find_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file; what exists is a path, though it reads as a name."""
    if not isinstance(path, str) or not is_name(path) or os.path.lexists(path):
        return Path(path)
    here = find_here(path)
    if here is None:
        raise UserError(
            f"{path} lies elsewhere", f"fetch it first: open(embedbench.api.local({path!r}))"
        )
    return here


# --- verification of everything ---


def verify(path: str | Path) -> list[str]:
    """Check everything in a file.

    Returns
    -------
    list of str
        One sentence for each damaged block of rows and each other fault; empty if there is none.

    Raises
    ------
    UserError
        There is no such file, or it is not an embedding file.
    """
    path = Path(path)
    sentences = []
    try:
        file = EmbeddingFile.open(path)
    except DamagedFileError as error:
        sentences.append(str(error))
    try:
        damage = integrity_checks.damaged_rows(path)
    except UserError:  # the checksums cannot be read either
        damage = []
    sentences += [
        f"rows {first} to {end - 1} of {table} do not match their checksums."
        for table, first, end in damage
    ]
    if sentences:
        return sentences
    for table in file.tables(list(file.layers)):
        try:
            for _ in file.blocks(table):
                pass
        except UserError as error:
            sentences.append(str(error))
    return sentences
