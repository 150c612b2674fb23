"""How to load a file from where it is shared, as lines of its card."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedbench.files import layout
from embedbench.files.inspect import Card
from embedbench.markdown import block, code

from .place import DATASETS

quoted = json.dumps


def loading_lines(
    card: Card, place: str, parquet: Mapping[str, str], sha256: str = ""
) -> Iterator[str]:
    """Yield the commands and the lines of Python that load a file.

    Parameters
    ----------
    card : Card
        What is in the file.
    place : str
        URL of the folder or repository.
    parquet : mapping
        Split → path of its Parquet file.
    sha256 : str
        SHA-256 of the file's bytes; "" leaves it out of the name.
    """
    name = Path(card.path).name
    url = f"{place}/{name}"
    fixed = f"{url}#sha256={sha256}" if sha256 else url
    lines = [f"embedbench inspect {shlex.quote(url)}"]
    if card.kind == layout.EMBEDDING:
        lines += [
            f"embedbench run {shlex.quote(fixed)} \\",
            "    --protocol incremental-class --learner ncm,slda,joint --out runs",
        ]
    yield block("sh", lines)
    if place.startswith(DATASETS):
        yield (
            f"{code('#sha256=')} fixes the bytes; {code(f'{place}@COMMIT/{name}')} fixes them by a "
            "commit of this repository. In Python:"
        )
    yield block("python", _python(card, place, name))
    without = "Without embedbench it is plain HDF5: `h5py.File(path)['features']`, `['labels']`"
    if parquet:
        paths = ", ".join(code(path) for path in parquet.values())
        without += f"; the same rows as Parquet are in {paths}"
    yield without + "."


def _python(card: Card, place: str, name: str) -> Iterator[str]:
    opened = quoted(name)
    if place.startswith(DATASETS):
        opened = "path"
        yield "from huggingface_hub import hf_hub_download"
    yield "from embedbench import EmbeddingFile"
    yield ""
    if place.startswith(DATASETS):
        repository = quoted(place.removeprefix(DATASETS))
        yield f'path = hf_hub_download({repository}, {quoted(name)}, repo_type="dataset")'
    yield f"file = EmbeddingFile.open({opened})"
    yield f'assert file.digests["content"] == {quoted(card.digests["content"])}'
    read = "images" if card.kind == layout.PIXELS else "read"
    yield f"x, y = file.{read}(), file.labels  # {tuple(card.shape)}, ({card.shape[0]},)"
    yield "test = file.split == 2"
