"""Format 1.1: optional columns, and what people say of a file.

The golden file tests/golden/v1.1.h5 was made once and is never made again:

    n = np.arange(30)
    samples = Samples(
        ids=np.array([f"été/{i:02d}" for i in n]),
        labels=n % 3,
        split=np.where(n % 5 == 4, 2, 0),
        classes=("a", "b", "ç", "top"),
        parents=np.array([3, 3, -1, -1]),
    )
    features = np.stack([n, n / 2, -n], axis=1).astype(np.float32)
    columns = {
        "domain": np.where(n < 12, "photo", "skizze ß"),
        "group": np.array([f"v{i // 4}" for i in n]),
        "time": n % 4 / 2,
    }
    provenance = {
        **PROVENANCE,
        "source": {**PROVENANCE["source"], "citation": "Ä (2026)", "url": "https://example.org"},
        "weights": {
            "backbone": "ours",
            "licence": "mit",
            "pretrained_on": ["imagenet-1k"],
            "classes_seen": {"imagenet-1k": ["a"]},
        },
    }
    write_file("tests/golden/v1.1.h5", samples, features, provenance, columns=columns)

with PROVENANCE from tests/file_helpers.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from file_helpers import (
    JOB,
    PROVENANCE,
    begin,
    blocks,
    contents,
    flip,
    hashed,
    make_features,
    make_samples,
    span,
)

from embedbench.errors import DamagedFileError, UserError
from embedbench.files import file_digests, hdf5_layout
from embedbench.files.diff import diff
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file
from embedbench.files.inspect import Card, card, card_text
from embedbench.files.provenance import UserMetadata, classes_seen
from embedbench.files.sample_metadata import read_list
from embedbench.files.write_file import write_file

N = 30
GOLDEN = Path(__file__).parents[1] / "golden"
COLUMNS = {
    "time": np.arange(N) / 4,
    "group": np.array([f"größe {i // 7}" for i in range(N)]),
    "domain": np.array(["art", "photo"] * (N // 2)),
}


def written(path: Path, columns: dict[str, Any], n: int = N, **more: Any) -> EmbeddingFile:
    return write_file(path, make_samples(n), make_features(n), PROVENANCE, columns=columns, **more)


def test_columns_come_back_and_change_no_other_digest(tmp_path: Path) -> None:
    plain, file = written(tmp_path / "a.h5", {}), written(tmp_path / "b.h5", COLUMNS)
    assert (plain.version, file.version) == ("1.0", "1.1")
    assert list(file.columns) == ["domain", "group", "time"]
    for name, values in COLUMNS.items():
        assert file.column(name).tolist() == values.tolist()
    assert file.column("time").dtype == np.float64
    expected = hashed(
        domain="\0".join(COLUMNS["domain"]).encode(),
        group="\0".join(COLUMNS["group"]).encode(),
        time=COLUMNS["time"].astype("<f8").tobytes(),
    )  # as docs/format.md says
    assert file.digests == {**plain.digests, "columns": expected}
    assert plain.columns == {}
    with pytest.raises(UserError, match=r"no column .group.; .*--group-from, or --columns"):
        plain.column("group")
    with pytest.raises(UserError, match=r"unknown column 'domian'\. Did you mean 'domain'"):
        file.column("domian")


def test_a_file_without_any_is_the_file_of_before(tmp_path: Path) -> None:
    golden = EmbeddingFile.open(GOLDEN / "v1.0.h5")
    layers = {"block-1": golden.read(embedding="block-1").astype(np.float16)}
    said = {**golden.provenance, "source": {**golden.provenance["source"], "licence": "CC0"}}
    copy = write_file(
        tmp_path / "a.h5", golden.samples, golden.read(), said, layers=layers, columns={}
    )
    assert copy.version == "1.0"
    assert contents(copy.path) == contents(golden.path)


def test_the_golden_file_loads_for_ever_and_is_written_again_alike(tmp_path: Path) -> None:
    file, n = EmbeddingFile.open(GOLDEN / "v1.1.h5"), np.arange(30)
    assert file.version == "1.1"
    assert file.column("domain").tolist() == ["photo"] * 12 + ["skizze ß"] * 18
    assert file.column("group").tolist() == [f"v{i // 4}" for i in n]
    np.testing.assert_array_equal(file.column("time"), n % 4 / 2)
    np.testing.assert_array_equal(file.read(), np.stack([n, n / 2, -n], axis=1))
    assert file.provenance["weights"]["pretrained_on"] == ["imagenet-1k"]
    assert file.provenance["source"]["citation"] == "Ä (2026)"
    assert file.digests == {
        "samples": "25298efd91c02f0f81f5ebfac47f179e66ca7140f43e1c7f08d70a966f92ee47",
        "recipe": "ac5eb1f52350853aa0e9e1973fcdad4b7e1faa304e64c1906a6fdecd4c622fca",
        "content": "8a749bb207e60d3e49cb3c8de5093d924ebc8070c4ce0f4ce415a55cecbb8905",
        "columns": "9707f4d61f1bf9cbfdcddb7cc3a6ca4f74a5072f15abe5b83a049ae95e03b23a",
    }
    assert verify(file.path) == []
    args = file.samples, file.read(), file.provenance
    copy = write_file(tmp_path / "a.h5", *args, columns=file.columns)
    assert copy.digests == file.digests
    assert contents(copy.path) == contents(file.path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"domian": COLUMNS["domain"]}, "unknown column 'domian'. Did you mean 'domain'"),
        ({"time": np.arange(N + 1)}, r"'time' is int64 of shape \(31,\); expected one number"),
        ({"domain": np.full((N, 1), "a")}, r"'domain' is <U1 of shape \(30, 1\); expected one t"),
        ({"domain": np.ones(N)}, "'domain' is float64 .* expected one text .*; convert"),
        ({"time": np.full(N, "1")}, "'time' is <U1 .* expected one number"),
        ({"group": np.array(["a"] * 7 + [""] * 23)}, "'group' has no text in row 7"),
        ({"time": np.array([0.0] * 9 + [np.nan] * 21)}, "'time' has NaN .* in row 9"),
        ({"group": np.array(["a\0b"] * N)}, "holds a zero byte"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        written(tmp_path / "a.h5", columns)
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_groups_are_texts_and_there_is_one_zero(tmp_path: Path) -> None:
    columns = {"group": np.arange(N) // 10, "time": np.zeros(N)}
    a = written(tmp_path / "a.h5", columns)
    assert a.column("group").tolist() == ["0"] * 10 + ["1"] * 10 + ["2"] * 10
    assert written(tmp_path / "b.h5", {**columns, "time": -np.zeros(N)}).digests == a.digests


def put(name: str, value: Any) -> Callable[[h5py.File], None]:
    def change(f: h5py.File) -> None:
        f.pop(name, None)
        f[name] = value

    return change


def long_texts(f: h5py.File) -> None:
    del f["columns/domain"]
    packed = {"chunks": (1,), "compression": "gzip"}
    f.create_dataset("columns/domain", data=np.zeros(N, "S300000"), **packed)


TEXTS = np.full(N, b"a")
CASES: dict[str, tuple[Callable[[h5py.File], None], str]] = {
    "too long": (put("columns/domain", np.full(N + 1, b"a")), r"columns/domain is .S1 of shape"),
    "a number for a text": (put("columns/domain", np.zeros(N)), "columns/domain is float64 of"),
    "a text for a number": (put("columns/time", TEXTS), "columns/time is .S1 .*expected <f8"),
    "half precision": (put("columns/time", np.zeros(N, "<f4")), "columns/time is float32"),
    "two axes": (put("columns/time", np.zeros((N, 1))), "columns/time is float64 of shape"),
    "an unknown name": (put("columns/times", np.zeros(N)), "unknown column of .*Did you mean 'ti"),
    "a group in it": (lambda f: f.pop("columns/time") and f.create_group("columns/time"), "no tab"),
    "a table for the group": (put("columns", np.zeros(3)), "no table in 'columns'"),
    "an empty group": (
        lambda f: f.pop("columns") and f.create_group("columns"),
        "no table in 'columns'",
    ),
    "no checksums": (lambda f: f.pop("checksums/columns/time"), "no table 'checksums/columns/ti"),
    "checksums of none": (lambda f: f.pop("columns/time"), "'checksums/columns/time', which is n"),
    "no digest": (lambda f: f["digests"].attrs.pop("columns"), "damaged"),
    "version 1.0": (
        lambda f: hdf5_layout.set_attribute(f, "format_version", "1.0"),
        "of format 1.0, which has no columns",
    ),
    "many bytes": (long_texts, "columns/domain has 9,000,000 bytes; expected at most 8,388,608"),
    "NaN": (put("columns/time", np.full(N, np.nan)), "'time' has NaN or an infinite value in row"),
    "no text": (put("columns/domain", np.full(N, b"")), "'domain' has no text in row 0"),
    "other values": (put("columns/domain", TEXTS), "columns do not match their digest"),
    "other texts that pass for rows": (put("columns/group", TEXTS), "do not match their checksums"),
    "weights that are a text": (put("provenance", np.bytes_(b'{"weights": "x"}')), "weights must"),
    "a list for names": (
        put("provenance", np.bytes_(json.dumps({"weights": {"pretrained_on": 3}}).encode())),
        "weights.pretrained_on must be a list",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_breaks_the_format_is_refused(tmp_path: Path, case: str) -> None:
    change, sentence = CASES[case]
    path = written(tmp_path / "a.h5", COLUMNS, n=N).path
    with h5py.File(path, "r+") as f:
        change(f)
        for name in ("time", "domain"):  # whoever forges the values forges the checksums
            if isinstance(table := f.get(f"columns/{name}"), h5py.Dataset) and len(table) == N:
                sums = np.frombuffer(file_digests.block_digest(table[()]), np.uint8).reshape(1, 32)
                if f"checksums/columns/{name}" in f:
                    f[f"checksums/columns/{name}"][()] = sums
        if "columns" in f["digests"].attrs:
            hdf5_layout.set_attribute(f["checksums"], "metadata", file_digests.metadata_digest(f))
    with pytest.raises(UserError, match=sentence):
        EmbeddingFile.open(path)


@pytest.mark.parametrize("name", COLUMNS)
def test_damage_of_a_column_is_named(tmp_path: Path, name: str) -> None:
    n = 1500
    columns = {key: np.resize(values, n) for key, values in COLUMNS.items()}
    path = written(tmp_path / "a.h5", columns, n=n).path
    start, size = span(path, f"columns/{name}")
    flip(path, start + 1100 * size)
    with pytest.raises(DamagedFileError, match=rf"rows 1024-1499 of columns/{name}"):
        EmbeddingFile.open(path)
    assert verify(path)[-1] == (
        f"rows 1024 to 1499 of columns/{name} do not match their checksums."
    )


def test_blocks_carry_columns(tmp_path: Path) -> None:
    columns = {key: np.resize(values, 2500) for key, values in COLUMNS.items()}
    whole = written(tmp_path / "a.h5", columns, n=2500)
    partial = begin(tmp_path / "b.h5", JOB)
    for number, arrays in enumerate(blocks()):
        partial.write(number, arrays)
    file = partial.finish(make_samples(), PROVENANCE, columns=columns)
    assert file.digests["columns"] == whole.digests["columns"]


# --- lists, export and import ---


def test_a_list_may_be_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "meta.csv"
    path.write_text('sample_id,time,domain\nb,2.5,"a, b"\na,-1e3,ü\n')
    columns = read_list(path, ["a", "b"])
    assert {k: v.tolist() for k, v in columns.items()} == {
        "time": [-1000.0, 2.5],
        "domain": ["ü", "a, b"],
    }
    path.write_text("sample_id\tgroup\na\t7\nb\t7\n")
    assert read_list(path, ["a", "b"])["group"].tolist() == ["7", "7"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"begins with ''; expected a first line such as sample_id,domain,group,time"),
        ("a,1\nb,2\n", "begins with 'a,1'; expected a first line"),
        ("sample_id\na\nb\n", "begins with 'sample_id'; expected"),
        ("sample_id,domian\na,1\n", "unknown column in the first line .*Did you mean 'domain'"),
        ("sample_id,time,time\na,1,1\n", "names a column twice"),
        ("sample_id,time\na,1\n", "no line for 1 of 2 samples, the first 'b'; add them"),
        ("sample_id,time\na,1\nb,2\nz,3\n", "line 4: no sample 'z'"),
        ("sample_id,time\na,1\na,2\nb,2\n", "line 3: sample 'a' is listed twice"),
        ("sample_id,time\na,1\nb,noon\n", "line 3: time 'noon' is not a finite number"),
        ("sample_id,time\na,inf\nb,1\n", "line 2: time 'inf' is not a finite number"),
        ("sample_id,time,group\na,1\nb,1,1\n", "line 2: expected a value for each of sample_id,t"),
        ("sample_id,time\na,\nb,1\n", "line 2: expected a value for each"),
    ],
)
def test_lists_that_do_not_fit_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "meta.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_list(path, ["a", "b"])


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .* for --columns"):
        read_list(tmp_path / "no.csv", ["a"])


def test_export_and_import_keep_columns(tmp_path: Path) -> None:
    file = written(tmp_path / "a.h5", COLUMNS)
    export_file(file.path, tmp_path / "a.npz")
    back = import_file(tmp_path / "a.npz", tmp_path / "b.h5")
    assert back.digests == file.digests
    listed = tmp_path / "meta.csv"
    rows = [f"{name},x{i % 2}" for i, name in enumerate(file.sample_ids)]
    listed.write_text("sample_id,domain\n" + "\n".join(rows))
    other = import_file(tmp_path / "a.npz", tmp_path / "c.h5", columns=listed)
    assert other.column("domain").tolist() == ["x0", "x1"] * (N // 2)
    assert other.column("time").tolist() == file.column("time").tolist()


def test_keys_of_an_npz_are_columns(tmp_path: Path) -> None:
    speaker, family = np.array([3, 3, 1, 1]), np.array(["serif", "mono"] * 2)
    arrays = {"features": make_features(4), "labels": np.array([0, 1, 0, 1]), "domain": family}
    np.savez(tmp_path / "a.npz", **arrays, speaker=speaker, seconds=np.arange(4) / 2)
    keys = {"group": "speaker", "time": "seconds"}
    file = import_file(tmp_path / "a.npz", tmp_path / "a.h5", column_keys=keys, group="speaker")
    assert file.column("group").tolist() == ["3", "3", "1", "1"]
    assert file.column("time").tolist() == [0, 0.5, 1, 1.5]
    assert file.column("domain").tolist() == family.tolist()
    with pytest.raises(UserError, match=r"unknown key of .* 'speakr'\. Did you mean 'speaker'"):
        import_file(tmp_path / "a.npz", tmp_path / "b.h5", column_keys={"group": "speakr"})
    with pytest.raises(UserError, match="column 'time' is <U"):
        import_file(tmp_path / "a.npz", tmp_path / "b.h5", column_keys={"time": "domain"})


def test_import_refuses_columns_that_are_no_columns(tmp_path: Path) -> None:
    arrays = {"features": make_features(4), "labels": np.array([0, 1, 0, 1])}
    np.savez(tmp_path / "a.npz", **arrays, time=np.zeros((4, 2)))
    with pytest.raises(UserError, match=r"time is float32 of shape \(4, 2\); expected one value"):
        import_file(tmp_path / "a.npz", tmp_path / "a.h5")
    np.savez(tmp_path / "a.npz", **arrays, time=np.zeros(5))
    with pytest.raises(UserError, match="column 'time' is float64 of shape"):
        import_file(tmp_path / "a.npz", tmp_path / "a.h5")


# --- what people say ---


def test_what_people_say_enters_no_digest(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        features=make_features(6),
        labels=np.array(["goldfish", "crane", "sofa"] * 2),
    )
    plain = import_file(tmp_path / "a.npz", tmp_path / "a.h5")
    assert plain.version == "1.0"
    licence = import_file(tmp_path / "a.npz", tmp_path / "b.h5", stated=UserMetadata(licence="CC0"))
    assert (licence.version, licence.provenance["source"]["licence"]) == ("1.0", "CC0")
    said = UserMetadata(
        citation="A (2026)",
        url="https://example.org",
        backbone="ours",
        weights_licence="mit",
        pretrained_on=("imagenet-1k", "laion-2b"),
    )
    file = import_file(tmp_path / "a.npz", tmp_path / "c.h5", stated=said)
    assert file.version == "1.1"
    assert file.digests == plain.digests
    assert file.provenance["weights"] == {
        "backbone": "ours",
        "licence": "mit",
        "pretrained_on": ["imagenet-1k", "laion-2b"],
        "classes_seen": {"imagenet-1k": ["crane", "goldfish"]},
    }
    text = card_text(card(file))
    for part in (
        "citation A (2026)",
        "backbone ours, licence mit, pretrained on imagenet-1k, laion-2b",
        "2 of 3 are in imagenet-1k by name: crane, goldfish",
    ):
        assert part in text
    export_file(file.path, tmp_path / "c.npz")
    again = import_file(tmp_path / "c.npz", tmp_path / "d.h5", stated=UserMetadata(licence="CC0"))
    assert again.provenance["weights"] == file.provenance["weights"]


def test_classes_are_compared_by_name() -> None:
    """Line 2 of timm's list of ImageNet-1k is n01443537, goldfish, Carassius auratus."""
    names = [
        "n01443537",
        "Carassius_auratus",
        "fish/Great-White Shark",
        "007.Goldfish",
        "gold fish",
    ]
    assert classes_seen(names, "photos", ["ImageNet"]) == {"ImageNet": names[:4]}
    assert classes_seen(names, "torch/cifar100", ["CIFAR-100"]) == {"CIFAR-100": names}
    assert classes_seen(names, "", ["laion-2b", ""]) == {}
    assert classes_seen(["sofa"], "photos", ["imagenet-1k"]) == {}
    seen = classes_seen(["wandering albatross"], "photos", ["imagenet-1k", "imagenet-21k"])
    assert seen == {"imagenet-21k": ["wandering albatross"]}


def test_inspect_and_diff_say_what_columns_there_are(tmp_path: Path) -> None:
    file, plain = written(tmp_path / "a.h5", COLUMNS), written(tmp_path / "p.h5", {})
    result = card(file)
    assert result.columns == {
        "domain": "2 values of 15 to 15 samples: art, photo",
        "group": "5 values of 2 to 7 samples: größe 0, größe 1, größe 2, …",
        "time": "0 to 7.25, 30 values",
    }
    assert Card.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert "columns" not in card(plain).to_json()
    domain = COLUMNS["domain"].copy()
    domain[:4] = "sketch"
    other = written(tmp_path / "b.h5", {"domain": domain, "time": COLUMNS["time"]})
    changes = diff(file.path, other.path)
    assert changes.digests == {"samples": True, "recipe": True, "content": True, "columns": False}
    assert changes.reasons == (
        "columns: 4 shared samples have another domain.",
        "columns: only a has group.",
    )
    assert "columns" not in diff(plain.path, plain.path).digests
    assert diff(plain.path, file.path).digests["columns"] is False
