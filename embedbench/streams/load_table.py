"""A file's embeddings, layers or images as a table, scaled, in memory or mapped."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from embedbench.array_types import Array, Ints
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.files.mmap_cache import mapped_table
from embedbench.storage.value_digest import digest

from .feature_tables import (
    MappedPart,
    MappedTable,
    PixelTable,
    Table,
    check_numbers,
    read_float32,
    standardise_images,
)
from .scaling import fit_scaling

SCALES = ("auto", "none", "l2", "rms", "standard")
RESIDENT = 2**28  # bytes; below it, scaling every batch costs more than sharing saves


def layer_names(file: EmbeddingFile, layers: str) -> tuple[str, ...]:
    """Resolve "all" (every layer of the file, by number), "none", or names with commas between."""
    if layers == "all":
        return tuple(sorted(file.layers, key=lambda name: (len(name), name)))
    names = () if layers == "none" else tuple(dict.fromkeys(layers.replace(" ", "").split(",")))
    file.tables(names)  # refuses unknown layers
    return names


@check_arguments
def load_table(
    file: EmbeddingFile,
    scale: str,
    base_rows: Ints,
    layers: Sequence[str] = (),
    embedding: str = FINAL,
    *,
    few: bool = False,
) -> tuple[Table, str, str]:
    """Read a file's embeddings and the named layers behind them, scaled; or its images.

    The embedding and each layer are scaled in place, each by itself. Images stay bytes, and are
    scaled when they are read from the table. A table of more than RESIDENT bytes is mapped from a
    copy that the processes of the machine share, and scaled when its rows are read, with the same
    bits. Returns the table, its features digest, and the digest of the rows that the scaling was
    fitted to.

    Parameters
    ----------
    scale : str
        See `Protocol`.
    base_rows : array of int
        (n,) training rows of session 0, the only data that "standard" is fitted to.
    layers, embedding : sequence of str, str
        Layers to read, and one that replaces the final embedding, in the digest too.
    few : bool
        Whether session 0 may have too few rows for statistics, so that "auto" takes none; see
        `scale_least`. It must follow from the file and the parameters, never from the drawn order.
    """
    names = file.tables(layers, embedding)  # refuses unknown layers
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    check_numbers(base_rows, len(file.labels), "base_rows")
    if scale == "auto":
        flat = file.provenance.get("backbone", {}).get("name") == "pixels"
        plain = "none" if flat or file.kind == PIXELS else "rms"
        scale = plain if flat or few else "standard"
    fitted = digest("fitted", base_rows) if scale == "standard" else ""
    chosen = [*([] if embedding == FINAL else [f"{embedding} is the embedding"]), *layers]
    features = digest("features", file.digests["content"], scale, *chosen)
    table: Table
    if file.kind == PIXELS:
        table = _load_images(file, scale, base_rows)
    else:
        values = _read_tables(file, layers, embedding)
        scales = [fit_scaling(scale, partial(read_float32, x), base_rows) for x in values]
        table = _join(names, list(map(MappedPart, values, scales)))
    table.scale = scale
    return table, features, fitted


def _read_tables(file: EmbeddingFile, layers: Sequence[str], embedding: str) -> list[Array]:
    """The values of an embedding and of layers: mapped as stored, or in memory as float32."""
    if is_mapped(file, layers, embedding):
        return [mapped_table(file, name) for name in file.tables(layers, embedding)]
    return [file.read(embedding=name) for name in (embedding, *layers)]


def _join(names: Sequence[str], parts: Sequence[MappedPart]) -> Table:
    """Parts as one table, which is mapped if they are."""
    table: Table = MappedTable(parts)
    if not isinstance(table.values, np.memmap):
        table = table.part(np.arange(len(table.values)), table.width)
    table.scales = {name: part.scale for name, part in zip(names, parts, strict=True)}
    return table


def load_like(table: Table, other: EmbeddingFile) -> Table:
    """Read another file's embeddings or images, scaled by what `load_table` fitted for `table`."""
    if isinstance(table, PixelTable):
        images = mapped_table(other, "features") if is_mapped(other) else other.images()
        return PixelTable(images, *table.scaling)
    embedding, *layers = (
        FINAL if name == "features" else name.removeprefix("layers/") for name in table.scales
    )
    values = _read_tables(other, layers, embedding)
    return _join([*table.scales], list(map(MappedPart, values, table.scales.values())))


def is_mapped(file: EmbeddingFile, layers: Sequence[str] = (), embedding: str = FINAL) -> bool:
    """Whether a table is mapped and shared: it follows from its size alone, and changes no bit."""
    width = file.width(embedding) + sum(file.layers[name] for name in layers)
    return len(file.labels) * width * (1 if file.kind == PIXELS else 4) > RESIDENT


def _load_images(file: EmbeddingFile, scale: str, base_rows: Ints) -> PixelTable:
    if scale not in ("none", "standard"):
        raise UserError(
            f"scale {scale!r} is for vectors, and {file.path.name} holds images",
            "use --set protocol.scale=standard or none",
        )
    images = mapped_table(file, "features") if is_mapped(file) else file.images()
    return standardise_images(images, base_rows) if scale == "standard" else PixelTable(images)
