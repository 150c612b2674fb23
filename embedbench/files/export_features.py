"""Export an embedding file as npz, safetensors or Parquet, for readers without embedbench.

Every block is verified, and is in memory only while it is copied. Names are those of the embedding
file: `features`, `layer/NAME`, `labels`, `split` (0 train, 1 val, 2 test), `sample_ids`, `classes`,
`parents`, `provenance` (JSON text), and the optional columns `domain`, `group` and `time`.
"""

import json
import os
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, import_extra
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
    """Write a safetensors file: numbers as tensors, texts as JSON lists in its metadata."""
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
    has classes, parents, provenance and digests as JSON. With `split`, the samples of this split
    alone are written; the hub shows one file a split.
    """
    pa = import_extra("pyarrow", "parquet", "Parquet")
    parquet = import_extra("pyarrow.parquet", "parquet", "Parquet")
    if file.kind != hdf5_layout.EMBEDDING:
        raise UserError(
            f"{file.path} holds images, which Parquet has no type for; write .npz or .safetensors."
        )
    about = {
        "classes": list(file.classes),
        "parents": file.parents.tolist(),
        "provenance": file.provenance,
        "digests": file.digests,
    }
    leaves = list(file.classes[: file.samples.n_leaves])
    named = {"info": {"features": {"labels": {"names": leaves, "_type": "ClassLabel"}}}}
    metadata = {"embedbench": _json(about), "huggingface": _json(named)}
    columns = {
        "labels": file.labels.astype(np.int64),
        "class": np.array(file.classes)[file.labels],
        "split": np.array(SPLITS)[file.split],
        "sample_ids": file.sample_ids,
        **file.columns,
    }
    tables, writer = _tables(file), None
    with writing(out) as temporary, ExitStack() as stack:
        for parts in zip(*(file.blocks(table) for table in tables), strict=True):
            first, n = parts[0][0], len(parts[0][1])
            kept = np.full(n, split is None) | (file.split[first : first + n] == split)
            cells: dict[str, Any] = {
                _name(table): pa.FixedSizeListArray.from_arrays(
                    pa.array(rows[kept].reshape(-1)), rows.shape[1]
                )
                for table, (_, rows) in zip(tables, parts, strict=True)
            }
            cells |= {name: pa.array(v[first : first + n][kept]) for name, v in columns.items()}
            block = pa.table(cells).replace_schema_metadata(metadata)
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(temporary, block.schema))
            if kept.any():
                writer.write_table(block)
    return out


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
