"""The zoo: facts on data sets, backbones and streams, and published rows, read from `zoo.toml`."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path

from embedbench.config.json_records import JsonRecord, parse_toml
from embedbench.config.named_streams import NamedStream, named_streams
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.provenance import UserMetadata
from embedbench.files.sample_metadata import TEST

ZOO = "zoo:"
UNKNOWN = "unknown"
FOLDER = "FOLDER"  # in a source: the folder that comes behind @


@dataclass(frozen=True, kw_only=True)
class ZooBackbone(JsonRecord):
    """A backbone of the zoo; `zoo.toml` says what the fields mean."""

    name: str
    called: str
    pretrained_on: str
    licence: str
    weights: str = ""
    preprocessing: dict[str, str] = field(default_factory=dict)
    features: int | None = None
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ZooData(JsonRecord):
    """A data set of the zoo; `zoo.toml` says what the fields mean."""

    what: str
    source: str = UNKNOWN
    url: str
    licence: str
    classes: int
    sha256: str
    splits: dict[str, str]
    samples: str = UNKNOWN
    content: str = UNKNOWN
    extract: dict[str, str] = field(default_factory=dict)
    make: str = ""
    streams: tuple[str, ...]
    overlap: dict[str, str]
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PublishedRow(JsonRecord):
    """A row of a published table, in percent as printed; `zoo.toml` says what the fields mean."""

    method: str
    data: str
    backbone: str
    stream: str
    split: str
    paper: str
    table: str
    row: str
    column: str
    source: str
    last: str
    avg: str = ""
    sd: str = ""
    avg_sd: str = ""
    seeds: str = UNKNOWN
    apart: str = ""
    remark: str = ""
    learner: str = ""
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Zoo(JsonRecord):
    """All that `zoo.toml` holds, by name, and the named streams."""

    streams: dict[str, NamedStream]
    backbones: dict[str, ZooBackbone]
    data: dict[str, ZooData]
    published: tuple[PublishedRow, ...]

    def get_data(self, name: str) -> ZooData:
        """The data set of a name; an unknown one is a UserError."""
        if name not in self.data:
            raise unknown("data set of the zoo", name, self.data)
        return self.data[name]

    def get_backbone(self, name: str) -> ZooBackbone:
        """The backbone of a name; an unknown one is a UserError."""
        if name not in self.backbones:
            raise unknown("backbone of the zoo", name, self.backbones)
        return self.backbones[name]


@cache
def read_zoo() -> Zoo:
    """Read the zoo."""
    text = (resources.files("embedbench") / "zoo" / "zoo.toml").read_text(encoding="utf-8")
    tables = parse_toml(text, "zoo.toml")
    rows = []  # each with what its block says of all of them
    for block in tables["published"]:
        rows += [{**block, **row} for row in block["rows"]]
    zoo = Zoo.from_json({**tables, "streams": {}, "published": rows}, "zoo.toml")
    return replace(zoo, streams=named_streams())


def class_list_digest(names: Iterable[str]) -> str:
    """SHA-256 of class names in small letters, sorted, _ for spaces, one a line.

    >>> class_list_digest(["B b", "a"]) == class_list_digest(["a", "b_b"])
    True
    """
    lines = sorted(name.lower().replace(" ", "_") for name in names)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def zoo_rows() -> list[dict[str, str]]:
    """The entries for `embedbench list zoo`."""
    zoo = read_zoo()
    summaries = {}
    for name, data in zoo.data.items():
        n = sum(row.data == name for row in zoo.published)
        summaries[ZOO + name] = data.what + (f"; published rows: {n}" if n else "")
    for name, backbone in zoo.backbones.items():
        summaries[ZOO + name] = f"{backbone.name}: {backbone.called}"
    for name, stream in zoo.streams.items():
        summaries[name] = stream.summary()
    return [{"name": name, "summary": summary} for name, summary in summaries.items()]


# --- extract zoo:NAME[@FOLDER] --backbone zoo:NAME ---


def find_source(text: str) -> tuple[str, dict[str, str], UserMetadata]:
    """What `extract` reads for `zoo:NAME[@FOLDER]`, its options, and what is said of the data."""
    name, at, folder = text.removeprefix(ZOO).partition("@")
    data = read_zoo().get_data(name)
    if data.source == UNKNOWN:
        raise UserError(
            f"{ZOO}{name} is features already, not images", f"make the file by: {data.make}"
        )
    if data.source == FOLDER and not at:
        raise UserError(
            f"{ZOO}{name} is a folder of yours",
            f"fetch it from {data.url} and write {ZOO}{name}@FOLDER",
        )
    source = data.source.replace(FOLDER, folder) if at else data.source.removesuffix(f"@{FOLDER}")
    return source, data.extract, UserMetadata(licence=data.licence, url=data.url)


def describe_backbone(text: str, stated: UserMetadata) -> tuple[str, Path | None, UserMetadata]:
    """For `extract`, the name of the backbone `zoo:NAME`, its weights, and what is said of it.

    What `stated` says goes first.
    """
    name = text.removeprefix(ZOO)
    backbone = read_zoo().get_backbone(name)
    if backbone.name == UNKNOWN:
        raise UserError(f"{text} is no network: {backbone.called}", "leave --backbone out")
    if not backbone.preprocessing:  # no network
        return backbone.name, None, stated
    stated = replace(
        stated,
        backbone=stated.backbone or name,
        weights_licence=stated.weights_licence or backbone.licence,
        pretrained_on=stated.pretrained_on or backbone.pretrained_on.split(", "),
    )
    return backbone.name, Path(backbone.weights) if backbone.weights else None, stated


# --- what a file has in common with entries ---


def find_split(data: ZooData, file: EmbeddingFile) -> str:
    """The name of the split that has the file's counts; "" if there is none."""
    here = _counts(file)
    return next((name for name, counts in data.splits.items() if counts == here), "")


def has_images(data: ZooData, file: EmbeddingFile) -> bool:
    """Whether a file has the images of a data set, by their number and a digest that is known."""
    count = sum(map(int, next(iter(data.splits.values())).split()))
    return len(file.labels) == count and data.samples in (UNKNOWN, file.digests["samples"])


def backbone_misfit(backbone: ZooBackbone, file: EmbeddingFile) -> str:
    """Why a file is not, or may not be, of a backbone with its weights; "" if it is."""
    made = file.provenance.get("backbone", {})
    network, tag, _ = backbone.name.partition(".")
    weights = str(made.get("weights_id", ""))
    published = weights.startswith("timm/")  # else a file, which may hold anything
    if made.get("name", network) != network or (published and weights != f"timm/{backbone.name}"):
        return f"other checkpoint, theirs is {backbone.name}"
    if not tag or not published:
        return "weights from a file: it is not known whether they are the same"
    return ""


def _counts(file: EmbeddingFile) -> str:
    test = int((file.split == TEST).sum())
    return f"{len(file.labels) - test} {test}"
