"""Export an embedding file as npz, safetensors or Parquet, for readers without embedbench.

Every block is verified, and is in memory only while it is copied. Names are those of the embedding
file: `features`, `layer/NAME`, `labels`, `split` (0 train, 1 val, 2 test), `sample_ids`, `classes`,
`parents`, `provenance` (JSON text), and the optional columns `domain`, `group` and `time`.
"""

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.storage.atomic_write import writing

from . import hdf5_layout
from .embedding_file import EmbeddingFile
from .output_path import check_target
from .sample_metadata import SPLITS

_TENSORS = {"<f4": "F32", "<f2": "F16", "<f8": "F64", "|u1": "U8", "<i4": "I32"}
_MOST_HEADER = 100 * 10**6  # bytes, of which safetensors' readers refuse more


def write_npz(file: EmbeddingFile, out: Path) -> Path:
    """Write an npz file, which `import` reads back without loss."""
    samples = file.samples
    arrays: dict[str, Array] = {
        "labels": samples.labels,
        "split": samples.split,
        "sample_ids": samples.ids,
        "classes": np.array(samples.classes),
        "parents": samples.parents,
        "provenance": np.array(_json(file.provenance)),
        **file.columns,
    }
    with writing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for table in _tables(file):
            dtype, shape = file.form(table)
            head = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            with archive.open(f"{_name(table)}.npy", "w", force_zip64=True) as target:
                np.lib.format.write_array_header_1_0(target, head)
                for _, rows in file.blocks(table):
                    target.write(rows.tobytes())
        for key, value in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as target:
                np.lib.format.write_array(target, value, allow_pickle=False)
    return out


def write_safetensors(file: EmbeddingFile, out: Path) -> Path:
    """Write a safetensors file: numbers as tensors, texts as JSON lists in its metadata.

    Raises
    ------
    UserError
        The texts are longer than the format's header may be.
    """
    numbers: dict[str, Array] = {
        "labels": file.labels.astype("<i4"),
        "split": file.split,
        "parents": file.parents.astype("<i4"),
    }
    texts = {"sample_ids": file.sample_ids.tolist(), "classes": list(file.classes)}
    for name, values in file.columns.items():
        if values.dtype.kind == "U":
            texts[name] = values.tolist()
        else:
            numbers[name] = values.astype("<f8")
    forms = {table: file.form(table) for table in _tables(file)}
    forms |= {name: (values.dtype, values.shape) for name, values in numbers.items()}
    order = sorted(forms, key=lambda name: -forms[name][0].itemsize)  # keeps every tensor aligned
    forms = {_name(name): forms[name] for name in order}
    head = _header(
        forms, {"provenance": _json(file.provenance)} | {k: _json(v) for k, v in texts.items()}
    )
    if len(head) > _MOST_HEADER:
        raise UserError(
            f"the names of the samples take {len(head) / 1e6:,.0f} MB, and a safetensors file "
            "holds at most 100 MB of text; write .parquet or .npz."
        )
    with writing(out) as temporary, open(temporary, "wb") as target:
        target.write(len(head).to_bytes(8, "little") + head)
        for name in order:
            parts = [(0, numbers[name])] if name in numbers else file.blocks(name)
            for _, rows in parts:
                target.write(rows.tobytes())
    return out


def _header(
    forms: dict[str, tuple[np.dtype[Any], tuple[int, ...]]], texts: dict[str, str]
) -> bytes:
    """The header of a safetensors file: types, shapes and places of tensors, and texts.

    The library's writer takes whole tensors only.
    """
    head: dict[str, Any] = {"__metadata__": texts}
    end = 0
    for name, (dtype, shape) in forms.items():
        first, end = end, end + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        kind = _TENSORS[dtype.newbyteorder("<").str]
        head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [first, end]}
    text = _json(head).encode()
    return text + b" " * (-len(text) % 8)


def write_parquet(file: EmbeddingFile, out: Path, split: int | None = None) -> Path:
    """Write a Parquet file, one row a sample.

    Features and layers are lists of fixed length; `class` is the name of a sample's class. In the
    schema's metadata, the key `huggingface` names all labels as a `ClassLabel`, and `embedbench`
    has classes, parents, provenance and digests as JSON.

    Parameters
    ----------
    split : int or None
        Write the samples of this split alone; the hub shows one file a split.

    Raises
    ------
    UserError
        pyarrow is not installed, or the file holds images.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            "Parquet needs pyarrow; install it with pip install 'embedbench-cl[parquet]'."
        ) from error
    if file.kind != hdf5_layout.EMBEDDING:
        raise UserError(
            f"{file.path} holds images, which Parquet has no type for; write .npz or .safetensors."
        )
    schema = _schema(file)
    with writing(out) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for parts in zip(*(file.blocks(table) for table in _tables(file)), strict=True):
            first, blocks = parts[0][0], [block for _, block in parts]
            rows = np.arange(first, first + len(blocks[0]))
            kept = np.ones(len(rows), bool) if split is None else file.split[rows] == split
            if kept.any():
                lists = [
                    pa.FixedSizeListArray.from_arrays(pa.array(b[kept].reshape(-1)), b.shape[1])
                    for b in blocks
                ]
                arrays = [*lists, *map(pa.array, _cells(file, rows[kept]))]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return out


def _schema(file: EmbeddingFile) -> Any:
    """The columns of a Parquet file, and what goes with all of them."""
    import pyarrow as pa

    tables = [(table, *file.form(table)) for table in _tables(file)]
    fields = [(_name(t), pa.list_(pa.from_numpy_dtype(d), shape[1])) for t, d, shape in tables]
    fields += [("labels", pa.int64()), ("class", pa.string())]
    fields += [("split", pa.string()), ("sample_ids", pa.string())]
    fields += [
        (name, pa.string() if values.dtype.kind == "U" else pa.float64())
        for name, values in file.columns.items()
    ]
    about = {
        "classes": list(file.classes),
        "parents": file.parents.tolist(),
        "provenance": file.provenance,
        "digests": file.digests,
    }
    leaves = list(file.classes[: file.samples.n_leaves])
    named = {"info": {"features": {"labels": {"names": leaves, "_type": "ClassLabel"}}}}
    return pa.schema(fields, metadata={"embedbench": _json(about), "huggingface": _json(named)})


def _cells(file: EmbeddingFile, rows: Array) -> Iterator[Any]:
    """The values of some rows beside their features, column by column."""
    labels = file.labels[rows]
    yield labels.astype(np.int64)
    yield [file.classes[label] for label in labels]
    yield [SPLITS[number] for number in file.split[rows]]
    yield file.sample_ids[rows].tolist()
    for values in file.columns.values():
        yield values[rows].tolist()


def _tables(file: EmbeddingFile) -> list[str]:
    return file.tables(list(file.layers))


def _name(table: str) -> str:
    return table.replace("layers/", "layer/")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def export_file(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write everything that an embedding file holds to an npz, safetensors or Parquet file.

    Raises
    ------
    UserError
        `out` exists or has another ending, a package is missing, or the file is not valid.
    """
    file, out = EmbeddingFile.open(path), Path(out)
    if out.suffix not in _WRITERS:
        raise UserError(
            f"export writes npz files, .safetensors and .parquet; name it "
            f"{out.parent / (out.stem or 'features')}.npz."
        )
    check_target(out, overwrite=overwrite)
    return _WRITERS[out.suffix](file, out)


_WRITERS = {".npz": write_npz, ".safetensors": write_safetensors, ".parquet": write_parquet}
