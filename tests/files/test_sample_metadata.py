"""Format 1.1: optional columns, and what people say of a file. The golden file is never remade."""

import json
from pathlib import Path

import numpy as np
import pytest
from file_helpers import (
    contents,
    damage,
    hashed,
    make_columns,
    make_features,
    refusal,
    says,
    written,
)

from embedbench.errors import UserError
from embedbench.files.diff import diff
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file
from embedbench.files.inspect import Card, card, card_text
from embedbench.files.provenance import UserMetadata, classes_seen, list_some
from embedbench.files.sample_metadata import read_list
from embedbench.files.write_file import write_file

N = 30
GOLDEN = Path(__file__).parents[1] / "golden"
COLUMNS = make_columns(N)


def test_columns_come_back_and_change_no_other_digest(tmp_path: Path) -> None:
    plain, file = written(tmp_path / "a.h5", N), written(tmp_path / "b.h5", N, columns=COLUMNS)
    assert (plain.version, file.version) == ("1.0", "1.1")
    assert list(file.columns) == ["domain", "group", "time"]
    assert plain.columns == {}
    for name, values in COLUMNS.items():
        assert file.column(name).tolist() == values.tolist()
    assert file.column("time").dtype == np.float64
    expected = hashed(
        domain="\0".join(COLUMNS["domain"]).encode(),
        group="\0".join(COLUMNS["group"]).encode(),
        time=COLUMNS["time"].astype("<f8").tobytes(),
    )  # as docs/specification/embedding_file.md says
    assert file.digests == {**plain.digests, "columns": expected}
    assert "--group-from`, or" in refusal(plain.column, "group")
    for name, near in (("groups", "group"), ("domian", "domain")):
        with pytest.raises(UserError, check=says(what="unknown column", got=name, expected=near)):
            file.column(name)


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
    assert file.sample_ids.tolist() == [f"été/{i:02d}" for i in n]
    assert (file.labels.tolist(), file.parents.tolist()) == ((n % 3).tolist(), [3, 3, -1, -1])
    assert {name: values.tolist() for name, values in file.columns.items()} == {
        "domain": ["photo"] * 12 + ["skizze ß"] * 18,
        "group": [f"v{i // 4}" for i in n],
        "time": (n % 4 / 2).tolist(),
    }
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
    assert contents(copy.path) == contents(file.path)


def test_numbers_of_groups_are_texts_and_there_is_one_zero(tmp_path: Path) -> None:
    columns = {"group": np.arange(N) // 10, "time": np.zeros(N)}
    a = written(tmp_path / "a.h5", N, columns=columns)
    assert a.column("group").tolist() == ["0"] * 10 + ["1"] * 10 + ["2"] * 10
    b = written(tmp_path / "b.h5", N, columns={**columns, "time": -np.zeros(N)})
    assert b.digests == a.digests


@pytest.mark.parametrize("name", COLUMNS)
def test_damage_of_a_column_is_named(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "a.h5", 1500, columns=make_columns(1500)).path
    damage(path, f"columns/{name}", 1100)
    said = refusal(EmbeddingFile.open, path)
    assert f"rows 1024-1499 of columns/{name}" in said
    first, lines = verify(path)
    assert first == said
    assert f"1024 to 1499 of columns/{name} " in lines


def test_a_list_is_in_any_order_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "meta.csv"
    path.write_text('sample_id,time,domain\nb,2.5,"a, b"\na,-1e3,ü\n')
    columns = {k: v.tolist() for k, v in read_list(path, ["a", "b"]).items()}
    assert columns == {"time": [-1000.0, 2.5], "domain": ["ü", "a, b"]}
    path.write_text("sample_id\tgroup\na\t7\nb\t7\n")
    assert read_list(path, ["a", "b"])["group"].tolist() == ["7", "7"]
    assert "no.csv cannot be" in refusal(read_list, tmp_path / "no.csv", ["a"])
    for text, message in (
        ("", "begins with '';"),
        ("a,1\nb,2\n", "begins with 'a,1';"),
        ("sample_id\na\nb\n", "begins with 'sample_id';"),
        ("sample_id,domian\na,1\n", "begins with 'sample_id,domian';"),
        ("sample_id,time,time\na,1,1\n", "each column once"),
        ("sample_id,time\na,1\n", "the first 'b'"),
        ("sample_id,time\na,1\nb,2\nz,3\n", "4: sample 'z' is not"),
        ("sample_id,time\na,1\na,2\nb,2\n", "3: sample 'a' is listed"),
        ("sample_id,time\na,1\nb,noon\n", "meta.csv, line 3: a time that"),
        ("sample_id,time\n\nb,nan\na,1\n", "meta.csv, line 3: a time that"),
        ("sample_id,time\nb,1_0\na,1\n", "meta.csv, line 2: a time that"),
        ('sample_id,time,group\na,1,"x\ny"\nb,1e999,z\n', "meta.csv, line 4: a time that"),
        ("sample_id,time,group\na,1\nb,1,1\n", "line 2: expected sample_id,time,group,"),
        ("sample_id,time\na,\nb,1\n", "line 2: expected sample_id,time,"),
    ):
        path.write_text(text)
        assert message in refusal(read_list, path, ["a", "b"])


def test_a_list_replaces_columns_of_the_source(tmp_path: Path) -> None:
    file = written(tmp_path / "a.h5", N, columns=COLUMNS)
    export_file(file.path, tmp_path / "a.npz")
    listed = tmp_path / "meta.csv"
    rows = [f"{name},x{i % 2}" for i, name in enumerate(file.sample_ids)]
    listed.write_text("sample_id,domain\n" + "\n".join(rows))
    other = import_file(tmp_path / "a.npz", tmp_path / "c.h5", columns=listed)
    assert other.column("domain").tolist() == ["x0", "x1"] * (N // 2)
    assert other.column("time").tolist() == file.column("time").tolist()


def test_keys_of_an_npz_are_columns(tmp_path: Path) -> None:
    speaker, family = np.array([3, 3, 1, 1]), np.array(["serif", "mono"] * 2)
    arrays = {"features": make_features(4), "labels": np.array([0, 1, 0, 1]), "domain": family}
    np.savez(tmp_path / "a.npz", **arrays, speaker=speaker, group=speaker, time=np.arange(4) / 2)
    file = import_file(tmp_path / "a.npz", tmp_path / "a.h5", group="speaker")
    assert {name: values.tolist() for name, values in file.columns.items()} == {
        "domain": family.tolist(),
        "group": ["3", "3", "1", "1"],
        "time": [0, 0.5, 1, 1.5],
    }


def test_what_people_say_enters_no_digest(tmp_path: Path) -> None:
    src, labels = tmp_path / "a.npz", np.array(["goldfish", "crane", "sofa"] * 2)
    np.savez(src, features=make_features(6), labels=labels)
    plain = import_file(src, tmp_path / "a.h5")
    licence = import_file(src, tmp_path / "b.h5", stated=UserMetadata(licence="CC0"))
    assert plain.version == licence.version == "1.0"
    said = UserMetadata(
        citation="A (2026)",
        url="https://example.org",
        backbone="ours",
        weights_licence="mit",
        pretrained_on=("imagenet-1k", "laion-2b"),
    )
    file = import_file(src, tmp_path / "c.h5", stated=said)
    assert file.version == "1.1"
    assert file.digests == plain.digests
    source = {"citation": "A (2026)", "url": "https://example.org"}
    assert file.provenance["source"] == plain.provenance["source"] | source
    assert file.provenance["weights"] == {
        "backbone": "ours",
        "licence": "mit",
        "pretrained_on": ["imagenet-1k", "laion-2b"],
        "classes_seen": {"imagenet-1k": ["crane", "goldfish"]},
    }
    text = card_text(card(file))
    assert "citation A (2026)" in text
    assert "backbone ours, licence mit, pretrained on imagenet-1k, laion-2b" in text
    assert "2 of 3 are in imagenet-1k by name: crane, goldfish" in text
    export_file(file.path, tmp_path / "c.npz")
    again = import_file(tmp_path / "c.npz", tmp_path / "d.h5", stated=UserMetadata(licence="CC0"))
    assert again.provenance["weights"] == file.provenance["weights"]
    assert again.provenance["source"]["licence"] == "CC0"


def test_classes_are_compared_by_name() -> None:
    """Line 2 of timm's list of ImageNet-1k is n01443537, goldfish, Carassius auratus."""
    names = ["n01443537", "Carassius_auratus", "fish/Great-White Shark", "007.Goldfish"]
    names.append("gold fish")
    assert classes_seen(names, "photos", ["ImageNet"]) == {"ImageNet": names[:4]}
    assert classes_seen(names, "torch/cifar100", ["CIFAR-100"]) == {"CIFAR-100": names}
    assert classes_seen(names, "", ["laion-2b", ""]) == {}
    assert classes_seen(["sofa"], "photos", ["imagenet-1k"]) == {}
    seen = classes_seen(["wandering albatross"], "photos", ["imagenet-1k", "imagenet-21k"])
    assert seen == {"imagenet-21k": ["wandering albatross"]}


def test_inspect_and_diff_say_what_columns_there_are(tmp_path: Path) -> None:
    file, plain = written(tmp_path / "a.h5", N, columns=COLUMNS), written(tmp_path / "p.h5", N)
    result = card(file)
    assert result.columns == {
        "domain": "2 values of 15 to 15 samples: art, photo",
        "group": "5 values of 2 to 7 samples: größe 0, größe 1, größe 2, …",
        "time": "0 to 7.25, 30 values",
    }
    assert all(words in card_text(result) for words in result.columns.values())
    assert list_some("abc") == "a, b, c"
    assert Card.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert "columns" not in card(plain).to_json()
    domain = COLUMNS["domain"].copy()
    domain[:4] = "sketch"
    less = {"domain": domain, "time": COLUMNS["time"]}
    changes = diff(file.path, written(tmp_path / "b.h5", N, columns=less).path)
    assert changes.digests == {"samples": True, "recipe": True, "content": True, "columns": False}
    assert changes.reasons == (
        "columns: 4 shared samples have another domain.",
        "columns: only a has group.",
    )
    assert "columns" not in diff(plain.path, plain.path).digests
    assert diff(plain.path, file.path).digests["columns"] is False
