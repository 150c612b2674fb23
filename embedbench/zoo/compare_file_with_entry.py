"""`embedbench check zoo:NAME FILE`: what a file has in common with an entry of the zoo."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST

from . import zoo_entries


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
    if not name.startswith(zoo_entries.ZOO):
        raise UserError(
            f"check takes a FILE for an entry of the zoo, {zoo_entries.ZOO}NAME, got {name}"
        )
    data, slash, backbone = name.removeprefix(zoo_entries.ZOO).partition("/")
    if not slash and data in zoo_entries.read_zoo().backbones:
        return [*compare_backbone(zoo_entries.get_backbone(data), file)]
    findings = [*compare_data(zoo_entries.get_data(data), file)]
    return (
        [*findings, *compare_backbone(zoo_entries.get_backbone(backbone), file)]
        if slash
        else findings
    )


def find_split(data: zoo_entries.ZooData, file: EmbeddingFile) -> str:
    """The name of the split that has the file's counts; "" if there is none."""
    here = _counts(file)
    return next((name for name, counts in data.splits.items() if counts == here), "")


def compare_data(data: zoo_entries.ZooData, file: EmbeddingFile) -> Iterator[Finding]:
    """Compare counts, split, class list, samples and content."""
    wanted = [int(n) for n in next(iter(data.splits.values())).split()]
    yield _compare("images", f"{sum(wanted):,}", f"{len(file.labels):,}")
    known = "; ".join(f"{name}: {counts}" for name, counts in data.splits.items())
    found = find_split(data, file)
    yield Finding(
        "to learn from, to test on", known, f"{found} {_counts(file)}".strip(), bool(found)
    )
    rule = str(file.provenance.get("split", {}).get("rule", zoo_entries.UNKNOWN))
    named = "official" in data.splits or "revisitingcil" in data.splits
    if named:
        yield Finding("split", "as its authors give it", rule, rule == "official")
    names = file.classes[: file.samples.n_leaves]
    yield _compare("classes", str(data.classes), str(len(names)))
    yield _compare("class list, SHA-256", data.sha256, zoo_entries.class_list_digest(names))
    yield _compare("samples, digest", data.samples, file.digests["samples"])
    yield _compare("content, digest", data.content, file.digests["content"])
    stated = str(file.provenance.get("source", {}).get("licence") or zoo_entries.UNKNOWN)
    licence = zoo_entries.UNKNOWN if stated == "not stated" else stated
    yield _compare("licence", data.licence, licence)


def compare_backbone(backbone: zoo_entries.ZooBackbone, file: EmbeddingFile) -> Iterator[Finding]:
    """Compare the backbone's exact name, its weights, their preprocessing and the width."""
    made = file.provenance.get("backbone", {})
    network, tag, _ = backbone.name.partition(".")
    yield _compare("backbone", network, str(made.get("name", zoo_entries.UNKNOWN)))
    if tag:
        published, weights = (
            f"timm/{backbone.name}",
            str(made.get("weights_id") or zoo_entries.UNKNOWN),
        )
        of_timm = weights.startswith("timm/")  # else a file, which may hold anything
        yield Finding("weights", published, weights, weights == published if of_timm else None)
    shown = {k: _spaced(v) for k, v in file.provenance.get("preprocessing", {}).items()}
    for key, value in backbone.preprocessing.items():
        yield _compare(f"preprocessing, {key}", value, shown.get(key, zoo_entries.UNKNOWN))
    if backbone.features is not None:
        yield _compare("features", str(backbone.features), str(file.shape[-1]))


def _compare(fact: str, zoo: str, file: str) -> Finding:
    return Finding(fact, zoo, file, None if zoo_entries.UNKNOWN in (zoo, file) else zoo == file)


def _counts(file: EmbeddingFile) -> str:
    test = int((file.split == TEST).sum())
    return f"{len(file.labels) - test} {test}"


def _spaced(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
