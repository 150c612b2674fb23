"""Columns out of paths and lists, domains that are no classes, what timm knows of its weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_images import images

from embedbench.errors import UserError
from embedbench.extract.domain_group_time import add_columns, by_domain
from embedbench.extract.pipeline import extract
from embedbench.extract.source import Source
from embedbench.files.provenance import UserMetadata
from embedbench.networks.paper_networks import known_weights, pretrained_on

IDS = ("art/cat/v1_3.png", "art/dog/v2_1.png", "photo/cat/v1_9.png", "photo/dog/v2_2.png")


def source(ids: tuple[str, ...] = IDS, split: Any = None) -> Source:
    n = len(ids)
    classes = tuple(f"c{i}" for i in range(n))
    return Source("x", ids, np.arange(n), classes, np.full(n, -1), lambda i: b"", split)


def test_rules_by_hand() -> None:
    changed = add_columns(source(), None, "folder", "(v[0-9])_")
    columns = changed.columns
    assert columns["domain"].tolist() == ["art", "art", "photo", "photo"]
    assert columns["group"].tolist() == ["v1", "v2", "v1", "v2"]
    assert changed.classes == ("cat", "dog")
    assert changed.ids == IDS
    assert changed.labels.tolist() == [0, 1, 0, 1]
    own = replace(source(), domain=np.array(["x"] * 4), time=np.arange(4.0))
    assert add_columns(own).columns["domain"].tolist() == ["x"] * 4
    same = add_columns(own, domain="^([a-z]+)/", group="parent")
    assert same.classes == ("c0", "c1", "c2", "c3")
    assert {name: values.tolist() for name, values in same.columns.items()} == {
        "domain": ["art", "art", "photo", "photo"],
        "group": ["art/cat", "art/dog", "photo/cat", "photo/dog"],
        "time": [0, 1, 2, 3],
    }


def test_classes_below_domains_keep_their_hierarchy() -> None:
    """Domains may lie below the folders of a split."""
    ids = tuple(f"{part}/{name}" for part in ("train", "test") for name in IDS)
    changed = by_domain(source(ids, np.zeros(8, np.uint8)))
    assert changed.columns["domain"].tolist() == ["art", "art", "photo", "photo"] * 2
    assert changed.classes == ("cat", "dog")
    ids = ("art/pet/cat/1.png", "art/pet/dog/1.png", "photo/pet/cat/2.png", "photo/wild/fox/1.png")
    changed = by_domain(source(ids, np.zeros(4, np.uint8)))  # whose folders are no splits
    assert changed.classes == ("cat", "dog", "fox", "pet", "wild")
    assert (changed.parents.tolist(), changed.labels.tolist()) == ([3, 3, 4, -1, -1], [0, 1, 0, 2])


def test_a_domain_in_two_normal_forms_is_one_and_that_is_said() -> None:
    ids = ("caf\u00e9/cat/1.png", "cafe\u0301/cat/2.png", "art/dog/1.png", "art/cat/1.png")
    changed = by_domain(source(ids))
    assert changed.columns["domain"].tolist() == ["caf\u00e9"] * 2 + ["art"] * 2
    assert changed.remark.startswith("x: ")
    assert by_domain(source()).remark == ""


def test_rules_that_do_not_fit(tmp_path: Path) -> None:
    """And a column is given once."""
    listed = tmp_path / "meta.csv"
    listed.write_text("sample_id,domain,time\n" + "".join(f"{i},a,1\n" for i in IDS))
    assert list(add_columns(source(), listed, group="stem").columns) == ["domain", "group", "time"]
    rules: dict[str, Any]
    for rules, message in (
        ({"group": "("}, r"--group-from '\(' is no"),
        ({"group": "v1"}, r"--group-from 'v1' .*'art/dog/v2_1\.png'"),
        ({"listed": listed, "domain": "folder"}, "'domain' .*meta.csv, .*--domain-from"),
    ):
        with pytest.raises(UserError, match=message):
            add_columns(source(), **rules)
    with pytest.raises(UserError, match=r"--domain-from folder .*'cat/1\.png' of x"):
        by_domain(source(("cat/1.png", "art/cat/2.png")))


def test_a_file_with_columns_has_the_rows_of_one_without(tmp_path: Path) -> None:
    """Folders s0 and s1 are the domains; one image is damaged and left out of the columns, too."""
    folder = images(tmp_path / "in", 20)
    (folder / "s0/c1/0010.png").write_bytes(b"<html>")
    options: dict[str, Any] = {"backbone": "pixels", "size": 8, "skip_bad": True}
    options["notify"] = lambda _: None
    plain = extract(str(folder), tmp_path / "a.h5", **options)
    said = UserMetadata(licence="CC0", citation="A (2026)", pretrained_on=["imagenet-1k"])
    rules: dict[str, Any] = {"domain_from": "folder", "group_from": "stem"}
    file = extract(str(folder), tmp_path / "b.h5", stratify=True, stated=said, **rules, **options)
    assert (plain.version, file.version) == ("1.0", "1.1")
    for digest in ("content", "recipe"):
        assert file.digests[digest] == plain.digests[digest]
    assert file.sample_ids.tolist() == plain.sample_ids.tolist()
    assert file.column("domain").tolist() == [id_[:2] for id_ in file.sample_ids]
    assert file.column("group").tolist() == [id_[:-4] for id_ in file.sample_ids]
    assert file.classes == ("c0", "c1", "c2")
    for c in range(3):
        test = file.split[file.labels == c] == 2
        assert test.sum() == int(0.3 * len(test) + 0.5)
    assert file.provenance["split"]["stratified"] is True
    assert file.provenance["source"]["citation"] == "A (2026)"


def test_what_timm_knows_of_its_weights() -> None:
    for name, expected in (
        ("vit_b.laion2b_ft_in12k_in1k", ["laion-2b", "imagenet-12k", "imagenet-1k"]),
        ("vit_base_patch16_clip_224.openai", ["openai-wit-400m"]),
        ("convnextv2_base.fcmae_ft_in22k_in1k", ["imagenet-1k", "imagenet-22k"]),
        ("resnet50.untrained", []),
        ("resnet50", []),
    ):
        assert pretrained_on(name) == expected
    backbone = {"library": "timm", "weights_id": "timm/vit_base_patch16_224.augreg_in21k_ft_in1k"}
    assert known_weights(backbone)["weights"]["pretrained_on"] == ["imagenet-21k", "imagenet-1k"]
    for other in ("my_in1k.safetensors", "timm/", "timm/resnet50.no", "timm/unknown"):
        assert known_weights({**backbone, "weights_id": other}) == {}
    assert known_weights({**backbone, "library": "torch"}) == {}


def test_one_group_in_two_normal_forms_is_one(tmp_path: Path) -> None:
    ids = ["a/0.png", "a/1.png", "b/2.png"]
    listed = tmp_path / "meta.csv"
    named = zip(ids, ["caf\u00e9", "cafe\u0301", "bar"], strict=True)
    lines = [f"{id_},{group}\n" for id_, group in named]
    listed.write_text("sample_id,group\n" + "".join(lines), encoding="utf-8")
    source = Source("p", tuple(ids), np.array([0, 0, 1]), ("a", "b"), np.full(2, -1), lambda _: b"")
    made = add_columns(source, listed)
    np.testing.assert_array_equal(made.group, ["caf\u00e9", "caf\u00e9", "bar"])
    assert made.remark == "p: group 'cafe\\u0301' and 'caf\\xe9' look alike and are one."


def test_a_column_that_a_list_replaces_is_named(tmp_path: Path) -> None:
    listed = tmp_path / "meta.csv"
    listed.write_text("sample_id,domain\n" + "".join(f"{id_},d\n" for id_ in IDS))
    given = replace(source(), domain=np.array(["x"] * 4), time=np.arange(4.0))
    said = add_columns(given, listed).remark
    assert said == "x: its column domain is replaced, as --columns asks."
