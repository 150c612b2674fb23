"""Export an embedding file as npz, safetensors or Parquet, for readers without embedbench.

Every block is verified. Names are those of the embedding file: `features`, `layer/NAME`, `labels`,
`split` (0 train, 1 val, 2 test), `sample_ids`, `classes`, `parents`, `provenance` (JSON text), and
the optional columns `domain`, `group` and `time`. The features must fit in memory.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, import_extra
from embedbench.storage.atomic_write import writing

from . import hdf5_layout
from .embedding_file import EmbeddingFile
from .sample_metadata import SPLITS
from .write_file import check_target

_MOST_TEXT = 95 * 10**6  # bytes; safetensors' readers refuse a header of 100 MB


def write_npz(file: EmbeddingFile, out: Path) -> Path:
    """Write an npz file, which `import` reads back without loss."""
    arrays: dict[str, Any] = {**_arrays(file), "provenance": np.array(_json(file.provenance))}
    with writing(out) as temporary, open(temporary, "wb") as target:
        np.savez(target, **arrays)
    return out


def write_safetensors(file: EmbeddingFile, out: Path) -> Path:
    """Write a safetensors file: numbers as tensors, texts as JSON lists in its metadata."""
    from safetensors.numpy import save_file

    arrays = _arrays(file)
    texts = {name: _json(v.tolist()) for name, v in arrays.items() if v.dtype.kind == "U"}
    texts["provenance"] = _json(file.provenance)
    if sum(len(text.encode()) for text in texts.values()) > _MOST_TEXT:
        raise UserError(
            "a safetensors file holds at most 100 MB of text, and the samples' names take more",
            "write .parquet or .npz",
        )
    numbers = {name: values for name, values in arrays.items() if name not in texts}
    with writing(out) as temporary:
        temporary.touch()  # with the rights of every new file; save_file leaves the owner's alone
        rights = temporary.stat().st_mode
        save_file(numbers, temporary, texts)
        temporary.chmod(rights)
    return out


def _arrays(file: EmbeddingFile) -> dict[str, Array]:
    """Everything in a file but its provenance."""
    return {
        **_feature_arrays(file),
        "labels": file.labels,
        "split": file.split,
        "sample_ids": file.sample_ids,
        "classes": np.array(file.classes),
        "parents": file.parents,
        **file.columns,
    }


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
            f"{file.path} holds images, which Parquet has no type for", "write .npz or .safetensors"
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
    rows = np.full(len(file.labels), True) if split is None else file.split == split
    columns = {
        "labels": file.labels.astype(np.int64),
        "class": np.array(file.classes)[file.labels],
        "split": np.array(SPLITS)[file.split],
        "sample_ids": file.sample_ids,
        **file.columns,
    }
    cells = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(x[rows].reshape(-1)), x.shape[1])
        for name, x in _feature_arrays(file).items()
    }
    cells |= {name: pa.array(values[rows]) for name, values in columns.items()}
    with writing(out) as temporary:
        made = pa.table(cells).replace_schema_metadata(metadata)
        parquet.write_table(made, temporary, row_group_size=hdf5_layout.BLOCK)
    return out


def _feature_arrays(file: EmbeddingFile) -> dict[str, Array]:
    """Read and verify all feature tables, as they are stored."""
    tables = file.tables(list(file.layers))
    return {
        table.replace("layers/", "layer/"): np.concatenate([x for _, x in file.blocks(table)])
        for table in tables
    }


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
    file = EmbeddingFile.open(path)
    out = Path(out)
    if out.suffix not in _WRITERS:
        raise UserError(
            "export writes npz files, .safetensors and .parquet",
            f"name it {out.parent / (out.stem or 'features')}.npz",
        )
    check_target(out, overwrite=overwrite)
    return _WRITERS[out.suffix](file, out)


_WRITERS = {".npz": write_npz, ".safetensors": write_safetensors, ".parquet": write_parquet}
