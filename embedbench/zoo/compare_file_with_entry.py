"""`embedbench check zoo:NAME FILE`: what a file has in common with an entry of the zoo."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST

from .zoo_entries import UNKNOWN, ZOO, ZooBackbone, ZooData, class_list_digest, read_zoo


@dataclass(frozen=True)
class Finding(JsonRecord):
    """One fact as the zoo and a file say it, and whether they agree.

    `fits` is None where the zoo does not know the fact or the file does not state it.
    """

    fact: str
    zoo: str
    file: str
    fits: bool | None


def check_file(name: str, file: EmbeddingFile) -> list[Finding]:
    """Compare a file with `zoo:DATA`, `zoo:BACKBONE` or `zoo:DATA/BACKBONE`.

    Raises
    ------
    UserError
        The zoo has no entry of that name.
    """
    if not name.startswith(ZOO):
        raise UserError(f"check takes a FILE for an entry of the zoo, {ZOO}NAME, got {name}")
    data, slash, backbone = name.removeprefix(ZOO).partition("/")
    if not slash and data in read_zoo().backbones:
        return [*compare_backbone(read_zoo().backbones[data], file)]
    findings = [*compare_data(read_zoo().get_data(data), file)]
    if slash:
        findings += compare_backbone(read_zoo().get_backbone(backbone), file)
    return findings


def find_split(data: ZooData, file: EmbeddingFile) -> str:
    """The name of the split that has the file's counts; "" if there is none."""
    here = _counts(file)
    return next((name for name, counts in data.splits.items() if counts == here), "")


def compare_data(data: ZooData, file: EmbeddingFile) -> Iterator[Finding]:
    """Compare counts, split, class list, samples and content."""
    wanted = [int(n) for n in next(iter(data.splits.values())).split()]
    yield _compare("images", f"{sum(wanted):,}", f"{len(file.labels):,}")
    known = "; ".join(f"{name}: {counts}" for name, counts in data.splits.items())
    split = find_split(data, file)
    here = f"{split} {_counts(file)}".strip()
    yield Finding("to learn from, to test on", known, here, bool(split))
    if not data.splits.keys().isdisjoint(("official", "revisitingcil")):
        rule = str(file.provenance.get("split", {}).get("rule", UNKNOWN))
        yield Finding("split", "as its authors give it", rule, rule == "official")
    names = file.classes[: file.samples.n_leaves]
    yield _compare("classes", str(data.classes), str(len(names)))
    yield _compare("class list, SHA-256", data.sha256, class_list_digest(names))
    yield _compare("samples, digest", data.samples, file.digests["samples"])
    yield _compare("content, digest", data.content, file.digests["content"])
    licence = str(file.provenance.get("source", {}).get("licence") or UNKNOWN)
    yield _compare("licence", data.licence, UNKNOWN if licence == "not stated" else licence)


def compare_backbone(backbone: ZooBackbone, file: EmbeddingFile) -> Iterator[Finding]:
    """Compare the backbone's exact name, its weights, their preprocessing and the width."""
    made = file.provenance.get("backbone", {})
    network, tag, _ = backbone.name.partition(".")
    yield _compare("backbone", network, str(made.get("name", UNKNOWN)))
    if tag:
        published, weights = f"timm/{backbone.name}", str(made.get("weights_id") or UNKNOWN)
        of_timm = weights.startswith("timm/")  # else a file, which may hold anything
        yield Finding("weights", published, weights, weights == published if of_timm else None)
    stated: dict[str, Any] = file.provenance.get("preprocessing", {})
    for key, value in backbone.preprocessing.items():
        here = stated.get(key, UNKNOWN)
        text = " ".join(map(str, here)) if isinstance(here, list) else str(here)
        yield _compare(f"preprocessing, {key}", value, text)
    if backbone.features is not None:
        yield _compare("features", str(backbone.features), str(file.shape[-1]))


def _compare(fact: str, zoo: str, file: str) -> Finding:
    return Finding(fact, zoo, file, None if UNKNOWN in (zoo, file) else zoo == file)


def _counts(file: EmbeddingFile) -> str:
    test = int((file.split == TEST).sum())
    return f"{len(file.labels) - test} {test}"
