"""The page that goes with a file: what the hub calls a dataset card, `README.md`.

It is written from the file's provenance. Its bytes depend on this, the licence and the place alone:
no date of today, no host, no user.

**Source** the hub's metadata: huggingface/hub-docs, datasetcard.md; the order of the sections:
huggingface_hub's datasetcard_template.md; licences that fit data:
https://huggingface.co/docs/hub/repositories-licenses.
"""

import json
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.files import hdf5_layout, inspect, provenance
from embedbench.files.remote.uri import HUB
from embedbench.reports import figure_kinds
from embedbench.text import printable_text
from embedbench.text.markdown import block, code, escape_markdown, link

if TYPE_CHECKING:
    from jinja2 import Template

DATASETS = f"{HUB}://datasets/"
TEMPLATE = "dataset_card.md.j2"
HUB_SPLITS = {"train": "train", "val": "validation", "test": "test"}
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")


def card_page(
    card: inspect.Card,
    *,
    licence: str = "",
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
    sha256 : str
        SHA-256 of the file's bytes; "" leaves it out.
    """
    path = Path(card.path)
    pixels = card.kind == hdf5_layout.PIXELS
    weights = provenance.read_weights_entry(card.provenance)
    licence = data_licence(card.provenance) or licence
    source = _entry(card.provenance, "source").get("name")
    made = _entry(card.provenance, "backbone").get("name")
    backbone = weights.backbone or str(made or "unknown backbone")
    what = "pixels" if pixels else f"{backbone} embeddings"
    title = f"{source or path.stem}: {what}"
    return _template().render(
        card=card,
        pixels=pixels,
        metadata=_metadata(card, title, licence, parquet or {}),
        title=title,
        source_name=source or "a data set without a name",
        backbone=backbone,
        map_classes=figure_kinds.MAP_CLASSES,
        picture=picture,
        place=place,
        repository=place.removeprefix(DATASETS) if place.startswith(DATASETS) else "",
        url=f"{place}/{path.name}",
        name=path.name,
        sha256=sha256,
        parquet=parquet,
        format=hdf5_layout.FORMAT,
        size=f"{card.bytes / 1e6:,.1f} MB" if card.bytes >= 1e5 else f"{card.bytes / 1e3:,.1f} kB",
        made=card.provenance,
        weights=weights,
        licence=licence,
    )


def _template() -> "Template":
    """The page's template; every value is escaped, unless it is `Markup`."""
    from jinja2 import ChainableUndefined, Environment
    from markupsafe import Markup

    def escape(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape_markdown(value))

    def in_code(text: str) -> Markup:
        """A text on a line of a block of code."""
        return Markup(printable_text.printable(text).replace("```", "'''"))

    def citation(text: str) -> Markup:
        language = "bibtex" if text.lstrip().startswith("@") else "text"
        return Markup(block(language, text.splitlines()))

    def values(part: Mapping[str, Any] | None) -> str:
        """The values of a part of the provenance in a line."""
        if not part:  # null, or no part of that name
            return ""
        known = {k: v for k, v in part.items() if v not in ("", None, {}, [])}
        return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in known.items())

    environment = Environment(
        autoescape=True,
        finalize=escape,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "markdown": Markup,
        "code": lambda text: Markup(code(text)),
        "link": lambda text: Markup(link(str(text))),
        "shell": lambda text: in_code(shlex.quote(text)),
        "text": lambda text: in_code(json.dumps(text)),
        "some": provenance.list_some,
        "values": values,
        "is_stated": is_stated,
        "citation": citation,
    }
    text = (resources.files("embedbench") / "assets" / TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text)


def _entry(provenance: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of a provenance; empty where it is missing or null."""
    table: Mapping[str, Any] | None = provenance.get(name)
    return table or {}


def data_licence(provenance: Mapping[str, Any]) -> str:
    """Return the licence of the data that a provenance states, or ""."""
    licence = str(_entry(provenance, "source").get("licence", ""))
    return licence if is_stated(licence) else ""


def _metadata(card: inspect.Card, title: str, licence: str, parquet: Mapping[str, str]) -> Any:
    """The hub's metadata as YAML."""
    import yaml
    from markupsafe import Markup

    n = card.shape[0]
    pixels = card.kind == hdf5_layout.PIXELS
    data: dict[str, Any] = {
        **hub_licence(licence),
        "pretty_name": title,
        "size_categories": [_SIZES[min(max(len(str(n)) - 3, 0), len(_SIZES) - 1)]],
        "task_categories": ["image-classification" if pixels else "tabular-classification"],
        "tags": ["embedbench", "continual-learning", "pixels" if pixels else "embeddings"],
    }
    if parquet:
        files = [{"split": HUB_SPLITS[name], "path": path} for name, path in parquet.items()]
        data["configs"] = [{"config_name": "default", "data_files": files}]
    return Markup(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10**6))


# --- licences by the names that the hub knows ---


UNKNOWN = "unknown"
NOT_STATED = ("", "not stated", UNKNOWN)
_HUB = {  # those that data have; the hub shows any other by its name
    *("apache-2.0", "mit", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0"),
    *("cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "odc-by"),
    *("cc-by-nc-nd-4.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cdla-permissive-2.0", "odbl"),
    *("cdla-sharing-1.0", "cdla-permissive-1.0", "c-uda", "gfdl", "pddl"),
}


def is_stated(licence: str) -> bool:
    """Whether a licence is one; "not stated" and "unknown" are none."""
    return licence.strip().lower() not in NOT_STATED


def hub_licence(licence: str) -> dict[str, str]:
    """Return the keys of the hub's metadata that say a licence.

    >>> hub_licence("CC BY 4.0")
    {'license': 'cc-by-4.0'}
    >>> hub_licence("research only")
    {'license': 'other', 'license_name': 'research-only'}
    >>> hub_licence("")
    {'license': 'unknown'}
    """
    if not is_stated(licence):
        return {"license": UNKNOWN}
    name = re.sub(r"[^a-z0-9.+]+", "-", licence.lower()).strip("-.")
    name = "cc0-1.0" if name == "cc0" else name
    return (
        {"license": name}
        if name in _HUB
        else {"license": "other", "license_name": name[:60] or "custom"}
    )
