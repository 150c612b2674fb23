"""The zoo's facts against what ships and what is installed, and each sentence of refusal."""

import gzip
import json
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from protocol_files import make_file
from timm.models import get_pretrained_cfg

from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.files.provenance import NOTHING, UserMetadata, classes_seen
from embedbench.runs.learner_and_protocol_names import learner_names, protocol_class
from embedbench.zoo import zoo_entries
from embedbench.zoo.beside_zoo import match_data
from embedbench.zoo.zoo_entries import UNKNOWN, class_list_digest, read_zoo, zoo_rows

ASSETS = resources.files("embedbench") / "assets"
SHA256 = re.compile(r"[0-9a-f]{64}")


def test_every_published_row_has_a_source_and_names_what_the_zoo_has() -> None:
    zoo = read_zoo()
    assert len(zoo.published) > 50
    for row in zoo.published:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{7} \S+", row.source), row
        assert min(len(getattr(row, k)) for k in ("paper", "table", "row", "column")) > 0
        assert row.data in zoo.data
        assert row.stream in zoo.streams
        assert row.stream.removesuffix("-natural") in zoo.data[row.data].streams
        assert row.backbone in (*zoo.backbones, UNKNOWN)
        assert row.learner in ("", *learner_names())
        for value in filter(None, (row.last, row.avg)):
            assert 1 < float(value) < 100, row
        assert not row.avg or float(row.avg) > float(row.last)
    places = [(r.source, r.table, r.row, r.column) for r in zoo.published]
    assert len({*places}) == len(places)


def test_facts_on_data_have_their_form() -> None:
    for data in read_zoo().data.values():
        assert SHA256.fullmatch(data.sha256)
        for digest in (data.samples, data.content):
            assert digest == UNKNOWN or SHA256.fullmatch(digest)
        for counts in data.splits.values():
            learn, test = map(int, counts.split())
            assert learn > test >= data.classes
        assert data.sources
        assert {*data.streams} <= {*read_zoo().streams}


def test_class_lists_are_those_that_ship() -> None:
    data = read_zoo().data
    cifar = json.loads((ASSETS / "cifar100_orders.json").read_text())["classes"]
    text = gzip.decompress((ASSETS / "fscil" / "cub200.txt.gz").read_bytes()).decode()
    cub = {line.split("/")[2] for line in text.splitlines() if "/images/" in line}
    synsets = (resources.files("timm") / "data/_info/imagenet_r_synsets.txt").read_text().split()
    for name, classes in (("cifar100", cifar), ("cub200", cub), ("imagenet-r", synsets)):
        assert (len(classes), class_list_digest(classes)) == (data[name].classes, data[name].sha256)
        seen = classes_seen(list(classes), name, data[name].overlap)
        for pretraining, said in data[name].overlap.items():
            assert said.startswith(f"{len(seen[pretraining])} of {len(classes)}"), name


def test_backbones_are_those_of_timm() -> None:
    for backbone in read_zoo().backbones.values():
        if "." in backbone.name:
            cfg = get_pretrained_cfg(backbone.name)
            assert cfg is not None
            assert backbone.licence == cfg.license
            for key, said in backbone.preprocessing.items():
                value = getattr(cfg, key)
                spaced = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                assert said == spaced, (backbone.name, key)


def test_every_stream_builds(tmp_path: Path) -> None:
    each = (1,) * 120  # one sample to learn from and one to test on, a class
    file = make_file(tmp_path, each, (0,) * 120, each, classes=[f"class {i}" for i in range(120)])
    with pytest.raises(UserError, match=f"{file.path.name} .* no data set"):
        match_data(file)
    for name, stream in read_zoo().streams.items():
        protocol = make(protocol_class(stream.protocol), stream.set, name="protocol")
        base, step = map(int, re.findall(r"\d+", name)[:2])
        sizes = [len(np.unique(e.y)) for e in protocol.build([file], seed=0).eval_sets]
        assert sizes[:2] == [base or step, min(step, 120 - (base or step))], name


def test_what_extract_reads_and_refuses() -> None:
    source, options, stated = zoo_entries.find_source("zoo:imagenet-r@/data/imagenet-r")
    assert source == "/data/imagenet-r"
    assert options == {}
    assert stated.licence == "mit"
    assert stated.url == "https://github.com/hendrycks/imagenet-r"
    assert zoo_entries.find_source("zoo:emoji@e")[1] == {"split": "0.3", "group": "stem"}
    assert zoo_entries.find_source("zoo:cifar100")[0] == "torch/cifar100"
    assert zoo_entries.find_source("zoo:cifar100@/data")[0] == "torch/cifar100@/data"
    for name, words in (
        ("cub200", "zoo:cub200 .* https"),
        ("spoken100", "zoo:spoken100 .* embedbench import"),
        ("cifer100", "'cifer100'.* 'cifar100'"),
    ):
        with pytest.raises(UserError, match=words):
            zoo_entries.find_source(f"zoo:{name}")
    assert zoo_entries.describe_backbone("zoo:none", stated) == ("none", None, stated)
    with pytest.raises(UserError, match=r"backbone .* 'resnet'"):
        zoo_entries.describe_backbone("zoo:resnet", NOTHING)
    with pytest.raises(UserError, match=r"zoo:frames .* --backbone"):
        zoo_entries.describe_backbone("zoo:frames", NOTHING)
    name, weights, said = zoo_entries.describe_backbone("zoo:efficientnet-lite0", stated)
    assert (name, weights) == ("tf_efficientnet_lite0", Path("shipped"))
    assert list(said.pretrained_on) == ["imagenet-1k"]
    assert said.licence == "mit"
    licence = read_zoo().backbones["efficientnet-lite0"].licence
    assert said.backbone == "efficientnet-lite0"
    assert said.weights_licence == licence
    mine = UserMetadata(backbone="b", weights_licence="w", pretrained_on=["p"])
    assert zoo_entries.describe_backbone("zoo:efficientnet-lite0", mine)[2] == mine


def test_the_list_has_every_entry_once() -> None:
    zoo, names = read_zoo(), [row["name"] for row in zoo_rows()]
    assert len(names) == len(set(names)) == len(zoo.data) + len(zoo.backbones) + len(zoo.streams)
    assert len(names) > 10
    summaries = {row["name"]: row["summary"] for row in zoo_rows()}
    for name in zoo.data:
        n = [row.data for row in zoo.published].count(name)
        said = re.findall(r"; published rows: (\d+)$", summaries[f"zoo:{name}"])
        assert said == [str(n)] * (n > 0)
