"""The page that goes with a file: what the hub calls a dataset card, `README.md`.

It is written from the file's provenance, and from runs if there are any. Its bytes depend on these,
the licence and the place alone: no date of today, no host, no user.

**Source** the hub's metadata: huggingface/hub-docs, datasetcard.md; the order of the sections:
huggingface_hub's datasetcard_template.md; licences that fit data:
https://huggingface.co/docs/hub/repositories-licenses.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.files import hdf5_layout
from embedbench.files.classes_seen_in_pretraining import list_some
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.inspect import Card
from embedbench.files.provenance import read_weights_entry
from embedbench.reports.figure_kinds import MAP_CLASSES, SHEET_CLASSES
from embedbench.reports.result_rows import Row, split_tables
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_parts
from embedbench.text.markdown import block, code, escape_markdown, link, table
from embedbench.text.table_export import export_tables

from .uploads import DATASETS

HUB_SPLITS = {"train": "train", "val": "validation", "test": "test"}
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")
_LISTED = 20  # names that a card lists
_NOT_STATED = "not stated"


def card_page(
    card: Card,
    *,
    licence: str = "",
    rows: Sequence[Row] = (),
    place: str = f"{DATASETS}ORG/NAME",
    picture: str = "",
    parquet: Mapping[str, str] | None = None,
    sha256: str = "",
) -> str:
    """Return the page of a file as Markdown, with the hub's metadata before it.

    Parameters
    ----------
    licence : str
        Licence of the data, where the file states none.
    place : str
        The URL of the folder or repository that the file is in.
    picture : str
        Name of a picture beside the page; "" for none.
    parquet : mapping or None
        Split → path of its Parquet file beside the page.
    """
    licence = data_licence(card.provenance) or licence
    parts = [
        _front(card, licence, parquet or {}),
        f"# {escape_markdown(pretty_name(card))}",
        _summary(card),
    ]
    if picture:
        parts.append(f"![{_caption(card)}]({picture})\n\n*{_caption(card)}*")
    parts += ["## Load it", *loading_lines(card, place, parquet or {}, sha256)]
    parts += ["## What is in it", _facts(_contents(card))]
    parts += ["## What made it", _facts(_making(card))]
    parts += ["## Licences", _facts(_licences(card, licence))]
    parts += _citation(card)
    if rows:
        parts += ["## Baselines", *baseline_lines(rows)]
    parts += ["## Limits", "\n".join(_limits(card)), "## Digests", *_digests(card, sha256)]
    return "\n\n".join(parts) + "\n"


def data_licence(provenance: Mapping[str, Any]) -> str:
    """Return the licence of the data that a provenance states, or ""."""
    licence = str((provenance.get("source") or {}).get("licence", ""))
    return licence if is_stated(licence) else ""


def pretty_name(card: Card) -> str:
    """Return a title: the data set, and the backbone."""
    source = (card.provenance.get("source") or {}).get("name") or Path(card.path).stem
    if card.kind == hdf5_layout.PIXELS:
        return f"{source}: pixels"
    return f"{source}: {_backbone(card)} embeddings"


def _backbone(card: Card) -> str:
    made = card.provenance.get("backbone") or {}
    return read_weights_entry(card.provenance).backbone or str(
        made.get("name") or "unknown backbone"
    )


def _front(card: Card, licence: str, parquet: Mapping[str, str]) -> str:
    """The hub's metadata, YAML between two lines of dashes."""
    import yaml

    n = card.shape[0]
    pixels = card.kind == hdf5_layout.PIXELS
    data: dict[str, Any] = {
        **hub_licence(licence),
        "pretty_name": pretty_name(card),
        "size_categories": [_SIZES[min(max(len(str(n)) - 3, 0), len(_SIZES) - 1)]],
        "task_categories": ["image-classification" if pixels else "tabular-classification"],
        "tags": ["embedbench", "continual-learning", "pixels" if pixels else "embeddings"],
    }
    if parquet:
        files = [{"split": HUB_SPLITS[name], "path": path} for name, path in parquet.items()]
        data["configs"] = [{"config_name": "default", "data_files": files}]
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10**6)
    return f"---\n{text}---"


def _summary(card: Card) -> str:
    n, source = f"{card.shape[0]:,}", card.provenance.get("source") or {}
    name = escape_markdown(source.get("name") or "a data set without a name")
    what = (
        f"{n} images of {name}, {'×'.join(map(str, card.shape[1:]))} pixels"
        if card.kind == hdf5_layout.PIXELS
        else f"What {code(_backbone(card))} makes of {n} samples of {name}: one vector of "
        f"{card.shape[1]:,} numbers each"
    )
    return (
        f"{what}, with labels of {card.classes.leaves:,} classes. It is an embedding file: one "
        "HDF5 file that says what made it and checks itself. It is meant for continual learning on "
        "frozen features, and serves any classifier on them."
        if card.kind != hdf5_layout.PIXELS
        else f"{what}, with labels of {card.classes.leaves:,} classes. It is a pixel file: one "
        "HDF5 file that says what made it and checks itself, for networks that train on images."
    )


def _caption(card: Card) -> str:
    n = card.classes.leaves
    if card.kind == hdf5_layout.PIXELS:
        which = f"the {SHEET_CLASSES} largest classes" if n > SHEET_CLASSES else f"all {n} classes"
        return f"Some samples of {which}"
    which = "by class" if n <= MAP_CLASSES else f"by the {MAP_CLASSES} largest of {n} classes"
    if n > MAP_CLASSES and card.classes.inner:
        which = "by the classes at the top of the hierarchy"
    return f"First two principal components of samples, {which}"


def _facts(lines: Iterator[tuple[str, str]]) -> str:
    return "\n".join(f"- **{name}:** {text}" for name, text in lines if text)


def _contents(card: Card) -> Iterator[tuple[str, str]]:
    size = " × ".join(f"{size:,}" for size in card.shape)
    yield "file", f"{code(Path(card.path).name)}, {_size(card.bytes)}"
    yield "format", f"{hdf5_layout.FORMAT} {card.format_version}, {card.kind}"
    yield "features", f"{size} {card.dtype}"
    yield "layers", ", ".join(f"{code(name)} ({width:,})" for name, width in card.layers.items())
    yield "samples", ", ".join(f"{n:,} {name}" for name, n in card.samples.items() if n)
    names = escape_markdown(list_some(list(card.class_counts), _LISTED))
    yield "classes", f"{card.classes.leaves:,}: {names}"
    if card.classes.inner:
        nodes = "node" if card.classes.inner == 1 else "nodes"
        yield "hierarchy", f"{card.classes.inner:,} {nodes} above the classes"
    for name, counts in card.per_class.items():
        empty = f"; {counts.empty:,} classes have none" if counts.empty else ""
        text = f"{counts.min:,} to {counts.max:,}, median {counts.median:g}{empty}"
        equal = counts.min == counts.max
        yield f"{name} samples per class", f"{counts.min:,}" if equal else text
    for name, words in (card.columns or {}).items():
        yield f"column {name}", escape_markdown(words)


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 10**5 else f"{size / 1e3:,.1f} kB"


def _making(card: Card) -> Iterator[tuple[str, str]]:
    made = card.provenance
    backbone = made.get("backbone") or {}
    library = f"{backbone.get('library', '')} {backbone.get('library_version', '')}".strip()
    yield "data set", _joined(made.get("source"), ("name", "revision"))
    yield "from", link(str((made.get("source") or {}).get("url", "")))
    yield (
        "backbone",
        escape_markdown(_backbone(card)) + (f", {escape_markdown(library)}" if library else ""),
    )
    yield "weights", escape_markdown(backbone.get("weights_id") or "")
    sha = backbone.get("weights_sha256")
    yield "SHA-256 of the weights", code(sha) if sha else _NOT_STATED
    yield (
        "pretrained on",
        escape_markdown(", ".join(read_weights_entry(made).pretrained_on)) or _NOT_STATED,
    )
    yield "layer", escape_markdown(backbone.get("layer") or "")
    yield "pooling", escape_markdown(backbone.get("pooling") or "")
    yield "preprocessing", _joined(made.get("preprocessing"))
    yield "arithmetic", _joined(made.get("arithmetic"))
    yield "split", _joined(made.get("split"))
    if skipped := made.get("skipped"):
        yield "left out", f"{len(skipped):,} samples that could not be read"
    by = _joined(made.get("made_by"))
    yield "made", escape_markdown(made.get("date_utc", "")) + (f" by {by}" if by else "")


def _joined(part: Mapping[str, Any] | None, keys: Sequence[str] = ()) -> str:
    """The values of a part of the provenance, all or some, in a line."""
    values = {key: value for key, value in (part or {}).items() if value not in ("", None, {}, [])}
    if keys:
        return ", ".join(escape_markdown(values[key]) for key in keys if key in values)
    return ", ".join(
        escape_markdown(f"{key.replace('_', ' ')} {value}") for key, value in values.items()
    )


def _licences(card: Card, licence: str) -> Iterator[tuple[str, str]]:
    weights = read_weights_entry(card.provenance).licence
    yield "data", escape_markdown(licence) if is_stated(licence) else _NOT_STATED
    yield "weights of the backbone", escape_markdown(weights) if is_stated(weights) else _NOT_STATED


def _citation(card: Card) -> Iterator[str]:
    text = str((card.provenance.get("source") or {}).get("citation", ""))
    if text:
        yield "## Citation"
        yield block("bibtex" if text.lstrip().startswith("@") else "text", text.splitlines())


def _limits(card: Card) -> Iterator[str]:
    """Remarks that a user should read before believing a number."""
    seen = read_weights_entry(card.provenance)
    for data_set, names in seen.classes_seen.items():
        yield (
            f"- The backbone was pretrained on {escape_markdown(data_set)}, which has "
            f"{len(names):,} of the {card.classes.leaves:,} classes by name "
            f"({escape_markdown(list_some(names))}): these are not new to it."
        )
    if card.kind != hdf5_layout.PIXELS and not seen.pretrained_on:
        yield (
            "- What the backbone was pretrained on is not stated, so nobody can say which classes "
            "it has seen before."
        )
    if counts := card.per_class.get("test"):
        if counts.empty:
            yield f"- {counts.empty:,} classes have no test sample."
    else:
        yield "- There are no test samples."
    yield (
        "- The file holds the name of each sample as its source has it, and the names of the "
        "classes. Embeddings are not anonymous: who has the backbone can find out which known "
        "sample a row is from."
    )


def _digests(card: Card, sha256: str) -> Iterator[str]:
    digests = {**dict(sorted(card.digests.items())), **({"whole file": sha256} if sha256 else {})}
    yield table(["", "SHA-256"], [(name, code(value)) for name, value in digests.items()])
    yield (
        "`embedbench verify` checks every block of rows. Two files with the same `samples` have "
        "the same samples, labels and split; with the same `recipe`, the same backbone and "
        "preprocessing; with the same `content`, the same bits of the features."
    )


# --- lines of the card: how to load the file ---


quoted = json.dumps


def loading_lines(
    card: Card, place: str, parquet: Mapping[str, str], sha256: str = ""
) -> Iterator[str]:
    """Yield the commands and the lines of Python that load a file.

    Parameters
    ----------
    sha256 : str
        SHA-256 of the file's bytes; "" leaves it out of the name.
    """
    name = Path(card.path).name
    url = f"{place}/{name}"
    fixed = f"{url}#sha256={sha256}" if sha256 else url
    lines = [f"embedbench inspect {shlex.quote(url)}"]
    if card.kind == hdf5_layout.EMBEDDING:
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
    read = "images" if card.kind == hdf5_layout.PIXELS else "read"
    yield f"x, y = file.{read}(), file.labels  # {tuple(card.shape)}, ({card.shape[0]},)"
    yield "test = file.split == 2"


# --- tables of runs on the file ---


def rows_on_file(root: Path, file: EmbeddingFile, notify: Callable[[str], None]) -> list[Row]:
    """Return the rows of all runs under `root` that learned from this content.

    Raises
    ------
    UserError
        There is no such run.
    """
    content = file.digests["content"]
    rows = [
        row
        for row in collect(root, notify=notify)
        if any(used.digests.get("content") == content for used in row.group.first.files)
    ]
    if not rows:
        raise UserError(
            f"no run under {root} learned from {file.path}: their files have other content; make "
            f"some with `embedbench run {file.path} --learner ncm,slda,joint --out {root}`"
        )
    return rows


def baseline_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of the report for each stream."""
    for mine in split_tables(rows):
        group = mine[0].group
        settings = ", ".join(
            f"{name} {value}"
            for name, value in group.first.protocol_params.items()
            if value not in (None, "", 0, False)
        )
        words = f"{'; '.join(group.describe())}. Settings: {settings}."
        yield f"**{escape_markdown(group.first.protocol)}**: {escape_markdown(words)}"
        text, notes = export_tables(table_parts(mine), "markdown")
        yield text
    yield escape_markdown(notes[-1])
    yield "=n: all runs gave the same answers. Every number was recomputed from stored predictions."


# --- licences by the names that the hub knows ---


UNKNOWN = "unknown"
NOT_STATED = ("", "not stated", UNKNOWN)
_HUB = {
    *("apache-2.0", "mit", "openrail", "bigscience-openrail-m", "creativeml-openrail-m", "afl-3.0"),
    *("artistic-2.0", "bsl-1.0", "bsd", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear"),
    *("c-uda", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0"),
    *("cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0"),
    *("cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0"),
    *("cc-by-nc-sa-4.0", "cdla-sharing-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "wtfpl"),
    *("ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "agpl-3.0", "gfdl", "gpl"),
    *("gpl-2.0", "gpl-3.0", "lgpl", "lgpl-2.1", "lgpl-3.0", "isc", "mpl-2.0", "odc-by", "odbl"),
    *("osl-3.0", "postgresql", "ofl-1.1", "ncsa", "unlicense", "zlib", "pddl", "unknown"),
}
_ALIASES = {"cc0": "cc0-1.0", "public-domain": "pddl", "apache-2": "apache-2.0"}


def is_stated(licence: str) -> bool:
    """Whether a licence is one; "not stated" and "unknown" are none."""
    return licence.strip().lower() not in NOT_STATED


def hub_licence(licence: str) -> dict[str, str]:
    """Return the keys of the hub's metadata that say a licence.

    >>> hub_licence("CC BY 4.0")
    {'license': 'cc-by-4.0'}
    >>> hub_licence("research only, see https://example.org/terms")
    {'license': 'other', 'license_name': 'research-only', 'license_link': 'https://example.org/terms'}
    >>> hub_licence("")
    {'license': 'unknown'}
    """
    if not is_stated(licence):
        return {"license": UNKNOWN}
    link = re.search(r"https?://[^\s<>()\"']+", licence)
    words = re.sub(r",?\s*(see )?https?://\S+", "", licence, flags=re.IGNORECASE)
    name = re.sub(r"[^a-z0-9.+]+", "-", words.lower()).strip("-.")
    name = _ALIASES.get(name, name)
    if name in _HUB and link is None:
        return {"license": name}
    keys = {"license": "other", "license_name": name[:60] or "custom"}
    return {**keys, "license_link": link[0]} if link else keys
