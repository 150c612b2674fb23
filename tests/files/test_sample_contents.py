"""Contents of samples in a provenance: what changed under the same names."""

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import PROVENANCE, make_features, make_samples
from numpy.typing import NDArray

from embedbench.files.diff import Diff, diff, diff_text
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file
from embedbench.files.inspect import card, card_text
from embedbench.files.sample_contents import (
    compare_contents,
    describe_contents,
    recorded_contents,
)
from embedbench.files.write_file import write_file

N = 60


def hashes(n: int = N) -> NDArray[np.uint8]:
    """Return (n, 16) bytes: the hash of sample i begins with the bytes of i."""
    start = np.arange(n, dtype="<u2").view(np.uint8).reshape(n, 2)
    return np.concatenate([start, np.zeros((n, 14), np.uint8)], axis=1)


def changed(*rows: int) -> NDArray[np.uint8]:
    result = hashes()
    result[list(rows), 0] += 100
    return result


def made(
    path: Path, taken: NDArray[np.uint8] | None, seed: int = 0, *, decoded: bool = False
) -> EmbeddingFile:
    """Write a file of contents with these hashes; None: it records none."""
    samples, provenance = make_samples(N), dict(PROVENANCE)
    if taken is not None:
        entry = describe_contents(samples.ids.tolist(), taken, decoded=decoded)
        provenance["contents"] = entry
    return write_file(path, samples, make_features(N, seed=seed), provenance)


def between(
    tmp_path: Path, a: NDArray[np.uint8] | None, b: NDArray[np.uint8] | None, **more: Any
) -> Diff:
    files = made(tmp_path / "a.h5", a), made(tmp_path / "b.h5", b, seed=1, **more)
    return diff(*(file.path for file in files))


def test_the_entry_is_the_one_of_the_specification() -> None:
    entry = describe_contents(["b", "a"], hashes(2), decoded=False)
    assert entry == {
        "of": "encoded",
        "sha256": hashlib.sha256(hashes(2)[[1, 0]].tobytes()).hexdigest(),
        "ids_sha256": hashlib.sha256(b"a\0b").hexdigest(),
        "each": base64.b64encode(b"\1\0\0\0\0\0").decode(),
    }


def test_changed_pictures_are_counted_and_named(tmp_path: Path) -> None:
    result = between(tmp_path, hashes(), changed(3, 7))
    ids = make_samples(N).ids
    assert result.contents == {"compared": N, "changed": 2, "first": [ids[3], ids[7]]}
    assert result.reasons == (
        f"contents: 2 of 60 shared samples have other contents under the same names (first: "
        f"{ids[3]}, {ids[7]}).",
    )
    assert "their contents  2 of 60 changed" in diff_text(result)


def test_of_changed_pictures_ten_are_named(tmp_path: Path) -> None:
    result = between(tmp_path, hashes(), changed(*range(12)))
    assert result.contents is not None
    assert result.contents["first"] == make_samples(N).ids[:10].tolist()


def test_the_machine_is_named_where_contents_agree(tmp_path: Path) -> None:
    result = between(tmp_path, hashes(), hashes())
    assert result.contents == {"compared": N, "changed": 0, "first": []}
    (why,) = result.reasons
    assert "although samples, contents and recipe agree; `inspect` shows the machine" in why


@pytest.mark.parametrize(
    ("a", "b", "where"), [(None, None, "a and b"), (hashes(), None, "b"), (None, hashes(), "a")]
)
def test_contents_that_are_not_recorded_may_be_others(
    tmp_path: Path, a: Any, b: Any, where: str
) -> None:
    result = between(tmp_path, a, b)
    assert result.contents is None
    (why,) = result.reasons
    assert f"The contents of the samples are not recorded in {where}, so they may be others" in why


def test_hashes_of_files_and_of_decoded_images_are_not_compared(tmp_path: Path) -> None:
    (why,) = between(tmp_path, hashes(), hashes(), decoded=True).reasons
    assert "The contents of the samples cannot be compared, so they may be others" in why


def test_contents_of_the_same_samples_in_another_order(tmp_path: Path) -> None:
    a, order = made(tmp_path / "a.h5", hashes()), np.random.default_rng(0).permutation(N)
    samples = a.samples
    mixed = replace(
        samples,
        ids=samples.ids[order],
        labels=samples.labels[order],
        split=samples.split[order],
    )
    b = write_file(tmp_path / "b.h5", mixed, make_features(N), a.provenance)
    assert diff(a.path, b.path).contents == {"compared": N, "changed": 0, "first": []}


def test_contents_of_other_samples_are_not_believed(tmp_path: Path) -> None:
    a = made(tmp_path / "a.h5", hashes())
    few = replace(a.samples, ids=a.sample_ids[:9], labels=a.labels[:9], split=a.split[:9])
    b = write_file(tmp_path / "b.h5", few, make_features(9), a.provenance)
    assert recorded_contents(b.provenance, b.sample_ids) is None


@pytest.mark.parametrize(
    "entry",
    [
        "text",
        {"of": "dreams"},
        {"of": "encoded", "ids_sha256": 3},
        {"each": "AAAA"},
        {"each": "no base 64"},
        {"each": 5},
    ],
)
def test_an_entry_that_makes_no_sense_is_none(entry: Any) -> None:
    ids = make_samples(N).ids
    sound = describe_contents(ids.tolist(), hashes(), decoded=False)
    given = {**sound, **entry} if isinstance(entry, dict) else entry
    assert recorded_contents({"contents": given}, ids) is None


def test_of_very_many_samples_only_the_whole_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedbench.files.sample_contents.MOST", N - 1)
    ids, rows = make_samples(N).ids, (np.arange(N), np.arange(N))
    a, b, c = (
        recorded_contents({"contents": describe_contents(ids.tolist(), taken, decoded=False)}, ids)
        for taken in (hashes(), hashes(), changed(3))
    )
    assert compare_contents(a, b, rows, ids) == {"compared": N, "changed": 0, "first": []}
    assert compare_contents(a, c, rows, ids) is None


def test_contents_are_in_no_digest_and_need_no_other_format(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a.h5", hashes()), made(tmp_path / "b.h5", None)
    assert a.digests == b.digests
    assert a.version == "1.0"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_contents_survive_export_and_import(tmp_path: Path, suffix: str) -> None:
    a = made(tmp_path / "a.h5", hashes())
    exported = export_file(a.path, tmp_path / f"a{suffix}")
    b = import_file(exported, tmp_path / "b.h5")
    assert diff(a.path, b.path).contents == {"compared": N, "changed": 0, "first": []}


def test_a_card_has_the_digest_and_not_each_hash(tmp_path: Path) -> None:
    file = made(tmp_path / "a.h5", hashes())
    result = card(file)
    assert "each" not in result.provenance["contents"]
    assert f"SHA-256 {file.provenance['contents']['sha256']}" in card_text(result)


def test_a_diff_of_earlier_versions_is_read() -> None:
    kept = {"a": "a.h5", "b": "b.h5", "digests": {}, "samples": {}, "cosine": None}
    kept |= {"neighbours": None, "scores": {}, "reasons": []}
    assert Diff.from_json(kept).contents is None
