"""How to load a file from where it is shared, as lines of its card."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedbench.files import layout
from embedbench.files.inspect import Card

from .markdown import block, code
from .place import HUB

quoted = json.dumps


def loading_lines(card: Card, place: str, parquet: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands and the lines of Python that load a file.

    Parameters
    ----------
    card : Card
        What is in the file.
    place : str
        URL of the folder or repository.
    parquet : mapping
        Split → path of its Parquet file.
    """
    name = Path(card.path).name
    on_hub = place.startswith(HUB)
    url = f"{place}@COMMIT/{name}" if on_hub else f"{place}/{name}"
    if on_hub:
        yield "`COMMIT` is a commit of this repository, so that everybody gets the same bytes."
    lines = [f"embedbench inspect {shlex.quote(url)}"]
    if card.kind == layout.EMBEDDING:
        lines += [
            f"embedbench run {shlex.quote(url)} \\",
            "    --protocol incremental-class --learner ncm,slda,joint --out runs",
        ]
    yield block("sh", lines)
    python = ["import embedbench", ""]
    opened = quoted(name)
    if on_hub:
        repository = place.removeprefix(HUB)
        python = ["from huggingface_hub import hf_hub_download", *python]
        python.append(
            f'path = hf_hub_download("{repository}", {quoted(name)}, repo_type="dataset", '
            'revision="COMMIT")'
        )
        opened = "path"
    read = "images" if card.kind == layout.PIXELS else "read"
    python += [
        f"file = embedbench.EmbeddingFile.open({opened})",
        f"x, y = file.{read}(), file.labels  # {tuple(card.shape)}, ({card.shape[0]},)",
        "test = file.split == 2",
    ]
    yield block("python", python)
    without = "Without embedbench it is plain HDF5: `h5py.File(path)['features']`, `['labels']`"
    if parquet:
        paths = ", ".join(code(path) for path in parquet.values())
        without += f"; the same rows as Parquet are in {paths}"
    yield without + "."
