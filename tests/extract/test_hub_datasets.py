"""Data sets in the form of Hugging Face's hub: small replicas of real cards, read from folders.

Columns, types and splits are those of the cards, as they were stored when the tests were written;
the values are ours.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import datasets
import hostile_sources
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from embedbench.errors import UserError
from embedbench.extract.domain_group_time import choose_split
from embedbench.extract.hub_datasets import _revision
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.extract.source import Source
from embedbench.files.sample_metadata import TEST, TRAIN, VAL

Makers = dict[str, Callable[[int], Any]]
Layout = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def _copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the copies that `datasets` makes out of the home directory."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "copies")


def png(value: int) -> bytes:
    return hostile_sources.image(value=value)


def image(i: int) -> dict[str, Any]:
    return {"bytes": png(i), "path": None}


def parts_of(make: Makers, features: Features, sizes: dict[str, int]) -> dict[str, Dataset]:
    """Parts of these sizes; sample i of them all is made of i."""
    parts, first = {}, 0
    for part, n in sizes.items():
        columns = {name: [of(i) for i in range(first, first + n)] for name, of in make.items()}
        parts[part], first = Dataset.from_dict(columns, features=features), first + n
    return parts


def parquet(root: Path, parts: dict[str, Dataset], card: str = "", configs: bool = True) -> Path:
    """Write a repository as the hub has it: a card, and a Parquet file for each CONFIG/PART."""
    seen: list[str] = []
    card = f"---\n{card}configs:\n" if configs else f"---\n{card}"
    for place, data in parts.items():
        config, part = place.split("/")
        (root / config).mkdir(parents=True, exist_ok=True)
        data.to_parquet(str(root / f"{place}-00000-of-00001.parquet"))
        if configs and config not in seen:
            seen.append(config)
            first = "" if len(seen) > 1 else "  default: true\n"
            card += f"- config_name: {config}\n{first}  data_files:\n"
        card += f"  - split: {part}\n    path: {place}-*\n" if configs else ""
    (root / "README.md").write_text(f"{card}---\n")
    return root


def numbered(stem: str, n: int) -> ClassLabel:
    return ClassLabel(names=[f"{stem}{i}" for i in range(n)])


def cifar100(root: Path) -> Path:
    """uoft-cs/cifar100: `img`, `fine_label` (100 names) and `coarse_label` (20); train and test."""
    labels = {"fine_label": numbered("fine", 100), "coarse_label": numbered("coarse", 20)}
    features = Features(img=datasets.Image(), **labels)
    make = {"img": image, "fine_label": lambda i: 7 * i % 100, "coarse_label": lambda i: i % 20}
    return parquet(root, parts_of(make, features, {"cifar100/train": 6, "cifar100/test": 3}))


def imagenet_r(root: Path) -> Path:
    """axiong/imagenet-r: `image`, `wnid` and `class_name` as texts; test alone, config `test`."""
    features = Features(image=datasets.Image(), wnid=Value("string"), class_name=Value("string"))
    make: Makers = {
        "image": image,
        "wnid": lambda i: ("n02088094", "n01443537")[i % 2],
        "class_name": lambda i: ("afghan_hound", "goldfish")[i % 2],
    }
    return parquet(root, parts_of(make, features, {"test/test": 5}), "license: mit\n")


DOMAINS = ["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]


def domainnet(root: Path) -> Path:
    """wltjr1007/DomainNet: `image`, `label` (345), `domain` (6) and a path; train and test.

    Here as `save_to_disk` writes it.
    """
    labels = {"label": numbered("class", 345), "domain": ClassLabel(names=DOMAINS)}
    features = Features(image=datasets.Image(), **labels, image_path=Value("string"))
    make: Makers = {
        "image": image,
        "label": lambda i: i % 3,
        "domain": lambda i: i % 6,
        "image_path": lambda i: f"{DOMAINS[i % 6]}/{i}.png",
    }
    DatasetDict(parts_of(make, features, {"train": 7, "test": 5})).save_to_disk(str(root))
    return root


def tiny_imagenet(root: Path) -> Path:
    """zh-plus/tiny-imagenet: `image`, `label` (200 wnids); train and a split called `valid`."""
    features = Features(image=datasets.Image(), label=numbered("n0000000", 200))
    make = {"image": image, "label": lambda i: i % 4}
    parts = parts_of(make, features, {"data/train": 8, "data/valid": 4})
    return parquet(root, parts, configs=False)


def emotion(root: Path) -> Path:
    """dair-ai/emotion: `text`, `label` (6 names); configs `split` (three parts) and `unsplit`."""
    names = ["sadness", "joy", "love", "anger", "fear", "surprise"]
    features = Features(text=Value("string"), label=ClassLabel(names=names))
    make: Makers = {"text": lambda i: f"i feel {i} é", "label": lambda i: i % 6}
    sizes = {"split/train": 6, "split/validation": 2, "split/test": 3, "unsplit/train": 12}
    return parquet(root, parts_of(make, features, sizes))


CARDS = [
    (cifar100, "", "image=img, label=fine_label; left out: column coarse", "train 6, test 3."),
    (imagenet_r, "", "image=image, label=wnid; left out: column class", "no part for training"),
    (domainnet, "", "image=image, label=label, domain=domain; left out", "train 7, test 5."),
    (tiny_imagenet, "", "image=image, label=label; 200", "valid is the test part"),
    (emotion, "", "text=text, label=label; 6", "test 3."),
    (imagenet_r, "?label=class_name&domain=wnid", "image=image, label=class_name, dom", "test 5"),
    (domainnet, "?domain=&split=train", "image=image, label=label", "column image_path, split"),
    (tiny_imagenet, "?split=train,valid:val", "image=image", "train 8, test (valid) 4"),
    (emotion, "?config=unsplit", "text=text", "no official split"),
]


def opened(root: Path, make: Layout, options: str = "") -> Source:
    return open_source(f"hfds/{make(root / make.__name__)}{options}")


@pytest.mark.parametrize(("make", "options", "begins", "holds"), CARDS)
def test_a_card_says(tmp_path: Path, make: Layout, options: str, begins: str, holds: str) -> None:
    line = opened(tmp_path, make, options).remark
    assert line.startswith(f"hfds/{make.__name__}{options}: {begins}")
    assert holds in line


def test_rows_are_those_of_the_parts(tmp_path: Path) -> None:
    """Labels, contents and the split, sample by sample; and those of texts."""
    source = opened(tmp_path, cifar100)
    assert source.ids[5:8] == ("train/00005", "test/00000", "test/00001")
    assert hostile_sources.split_of(source) == [TRAIN] * 6 + [TEST] * 3
    assert source.labels.tolist() == [7 * i % 100 for i in range(9)]
    assert [source.read(i) for i in range(9)] == [png(i) for i in range(9)]
    source = opened(tmp_path, emotion)
    assert hostile_sources.split_of(source) == [TRAIN] * 6 + [VAL] * 2 + [TEST] * 3
    found = (source.holds, source.ids[6], source.read(7))
    assert found == ("texts", "val/00000", "i feel 7 é".encode())


def test_the_domain_reaches_the_file(tmp_path: Path) -> None:
    lines: list[str] = []
    source = f"hfds/{domainnet(tmp_path / 'set')}"
    file = extract(source, tmp_path / "a.h5", backbone="pixels", size=2, notify=lines.append)
    assert file.column("domain").tolist() == [DOMAINS[i % 6] for i in range(12)]
    assert file.provenance["split"] == {"rule": "official"}
    assert lines[0].startswith("hfds/set: image=image")


def test_images_in_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read from their files; `datasets` itself calls a folder `valid` validation."""
    for i, path in enumerate(("train/a/0", "train/b/1", "train/a/2", "valid/b/3")):
        (tmp_path / f"set/{path}.png").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"set/{path}.png").write_bytes(png(i))
    monkeypatch.setenv("HOME", str(tmp_path))
    source = open_source("hfds/~/set")
    assert source.classes == ("a", "b")
    assert [source.read(i) for i in range(4)] == [png(v) for v in (0, 2, 1, 3)]  # folder by folder
    assert "train 3, test (validation) 1;" in source.remark


def written(root: Path, features: dict[str, Any], columns: dict[str, list[Any]]) -> str:
    data = Dataset.from_dict(columns, features=Features(features))
    return f"hfds/{parquet(root / 'set', {'data/train': data}, configs=False)}"


def test_a_row_reads_no_file_outside_of_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png(1))
    features = {"image": datasets.Image(), "label": Value("string")}
    images = [{"bytes": None, "path": str(tmp_path / "secret.png")}, None]
    source = open_source(written(tmp_path, features, {"image": images, "label": ["b", "10"]}))
    assert source.classes == ("b", "10")
    for i, words in enumerate(("a file outside", "it is empty")):
        with pytest.raises(UserError, match=words):
            source.read(i)


def test_samples_without_a_label_are_left_out_aloud(tmp_path: Path) -> None:
    features = {"image": datasets.Image(), "label": ClassLabel(names=["a", "b"])}
    columns = {"image": [image(i) for i in range(3)], "label": [1, -1, 0]}
    source = open_source(written(tmp_path, features, columns))
    assert (
        "2 samples; left out 1 samples without a label (first row 1); no official split"
        in source.remark
    )
    assert source.labels.tolist() == [1, 0]
    assert source.read(0) == png(0)
    assert source.read(1) == png(2)
    with pytest.raises(UserError, match="no sample"):
        open_source(written(tmp_path / "none", features, {**columns, "label": [-1] * 3}))


def test_numbers_are_labels_and_times(tmp_path: Path) -> None:
    features = {"text": Value("string"), "label": Value("int64")}
    features |= {"time": Value("timestamp[s]"), "group": Value("int8")}
    columns = {"text": ["a", "b"], "label": [10, 9], "time": [5, 7], "group": [1, 2]}
    source = open_source(written(tmp_path, features, columns))
    assert source.classes == ("9", "10")
    assert source.columns["group"].tolist() == ["1", "2"]
    assert np.diff(source.columns["time"]).tolist() == [2.0]


NAIVE = [datetime(2026, 3, 29, 1, 0) + timedelta(minutes=20 * i) for i in range(6)]
BEGIN = 1774746000.0  # 2026-03-29 01:00 UTC, in seconds; in Berlin the next hour does not exist


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Lima"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_without_a_zone_is_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, unit: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    features = {"text": Value("string"), "label": Value("string")}
    features["time"] = Value(f"timestamp[{unit}]")
    columns = {"text": list("abcdef"), "label": list("xyxyxy"), "time": NAIVE}
    source = open_source(written(tmp_path, features, columns))
    monkeypatch.undo()
    time.tzset()
    assert source.columns["time"].tolist() == [BEGIN + 1200 * i for i in range(6)]
    assert "time names no zone and is read as UTC" in source.remark


def test_a_time_with_a_zone_is_its_moment(tmp_path: Path) -> None:
    features = {"text": Value("string"), "label": Value("string")}
    features["time"] = Value("timestamp[s, tz=Europe/Berlin]")
    times = [datetime(2026, 7, 1, 2, 0, tzinfo=UTC), datetime(2026, 7, 1, 3, 0, tzinfo=UTC)]
    columns = {"text": ["a", "b"], "label": ["x", "y"], "time": times}
    source = open_source(written(tmp_path, features, columns))
    assert source.columns["time"].tolist() == [1782871200.0, 1782874800.0]
    assert "zone" not in source.remark


def test_a_table_is_read_as_a_data_set(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label,domain,time,stars\n"a, b",10,x,1,5\n"c\nd",9,y,2.5,4\n')
    source = open_source(str(path))
    assert source.remark.startswith("hfds/a.csv: text=text, label=label, domain=domain, time=time")
    assert source.ids == ("train/00000", "train/00001")
    assert source.classes == ("9", "10")
    assert source.holds == "texts"
    assert source.split is None
    assert source.labels.tolist() == [1, 0]
    assert [source.read(0), source.read(1)] == [b"a, b", b"c\nd"]
    columns = [source.columns[name].tolist() for name in ("domain", "time")]
    assert columns == [["x", "y"], [1, 2.5]]
    rows = "".join(f'{{"text": "e", "label": "{label}"}}\n' for label in ("f", "10", "9"))
    (tmp_path / "a.jsonl").write_text(rows)
    assert open_source(str(tmp_path / "a.jsonl")).classes == ("f", "9", "10")
    path.write_text('text,label\n"a,b\n')
    with pytest.raises(UserError, match=r"/a\.csv cannot be"):
        open_source(str(path))


def test_every_sample_has_a_value_in_the_other_columns(tmp_path: Path) -> None:
    features = {"text": Value("string"), "label": Value("int64"), "group": Value("string")}
    for missing in (None, ""):
        columns = {"text": ["a", "b"], "label": [1, 2], "group": ["a", missing]}
        with pytest.raises(UserError, match=r"'group' .* rows without"):
            open_source(written(tmp_path / str(missing), features, columns))


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    root = cifar100(tmp_path / "set")
    for options, sentence in (
        ("?lable=x", "hfds/.*'lable'.* 'label'"),
        ("?label=fine", r"'fine' of .* not there, .*fine_label \(label\)"),
        ("?image=fine_label", "'fine_label' of .* not there, .* image"),
        ("?image=img&text=img", "'img' of .* not there, .* text"),
        ("?split=dev", "split of .*'dev'.*: test, train"),
        ("?split=train:tarin", "part 'tarin'.* 'train'"),
        ("?label", "expected KEY=VALUE"),
        ("?label=x&label=x", "expected KEY=VALUE"),
        ("?config=none", "cannot be opened"),
    ):
        with pytest.raises(UserError, match=sentence):
            open_source(f"hfds/{root}{options}")


def test_what_cannot_be_guessed_is_asked(tmp_path: Path) -> None:
    two: dict[str, list[Any]] = {"one": [image(0)], "two": [image(1)], "label": ["a"]}
    columns: dict[str, list[Any]]
    for columns, sentence in (
        ({"image": [image(0)], "kind": ["a"]}, r"the label\?.*image \(image\), kind \(text\)"),
        ({"label": ["a"]}, r"the image or .*are label \(text\)\."),
        ({**two, "text": ["b"]}, r"Say it: 'hfds/.*set\?image=COLUMN'"),
    ):
        features = {
            name: datasets.Image() if isinstance(values[0], dict) else Value("string")
            for name, values in columns.items()
        }
        name = written(tmp_path / str(len(columns)), features, columns)
        with pytest.raises(UserError, match=sentence):
            open_source(name)
    with pytest.raises(UserError, match="two of image, audio"):
        open_source(f"{name}?image=one&text=text")


def test_splits_of_unusual_names_are_named(tmp_path: Path) -> None:
    features = Features(text=Value("string"), label=Value("string"))
    part = {"text": ["a", "b"], "label": ["x", "y"]}
    data = {name: Dataset.from_dict(part, features=features) for name in ("old", "new")}
    DatasetDict(data).save_to_disk(str(tmp_path / "set"))
    for options in ("", "?split=old,new", "?split=old,new:test"):
        with pytest.raises(UserError, match=r"splits old, new; .*\?split="):
            open_source(f"hfds/{tmp_path / 'set'}{options}")
    alone = open_source(f"hfds/{tmp_path / 'set'}?split=new")
    assert alone.ids == ("train/00000", "train/00001")
    assert alone.split is None
    data["old"].save_to_disk(str(tmp_path / "one"))
    assert "; all 2;" in open_source(f"hfds/{tmp_path / 'one'}").remark
    source = open_source(f"hfds/{tmp_path / 'set'}?split=old:train,new:test")
    assert hostile_sources.split_of(source) == [TRAIN, TRAIN, TEST, TEST]


def test_the_revision_is_the_commit_that_was_read() -> None:
    commit = "0123456789" * 4
    info = datasets.DatasetInfo(download_checksums={f"hf://datasets/o/n@{commit}/a.parquet": {}})
    assert _revision(info, "main") == commit
    assert _revision(datasets.DatasetInfo(), "main") == "main"
    assert _revision(datasets.DatasetInfo(version="1.2.0"), "") == "1.2.0"
    for info in (datasets.DatasetInfo(), datasets.DatasetInfo(version="0.0.0"), None):
        assert _revision(info, "") == ""


def test_no_name_on_the_hub_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, revision: str | None, **__: Any) -> None:
        raise ConnectionError(f"no network at {revision}")

    monkeypatch.setattr(datasets, "load_dataset_builder", refuse)
    for at, said in (("", "None"), ("@v1", "v1")):
        with pytest.raises(UserError, match=rf"hfds/org/none .* at {said}\).*hfds/\./FOLDER"):
            open_source(f"hfds/org/none{at}")


def text_table(path: Path, head: str, rows: list[str]) -> str:
    """A CSV file of texts, and its address."""
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return f"hfds/{path}"


def test_a_split_column_is_the_split(tmp_path: Path) -> None:
    rows = [f"word {i},{'xy'[i % 2]},{['train', 'Test'][i % 3 == 2]}" for i in range(12)]
    source = open_source(text_table(tmp_path / "a.csv", "text,label,split", rows))
    assert source.split is not None
    texts = [bytes(source.read(i)).decode() for i in range(12)]  # type: ignore[arg-type]
    test = [text for text, part in zip(texts, source.split.tolist(), strict=True) if part == 2]
    assert test == ["word 2", "word 5", "word 8", "word 11"]


def test_a_split_column_with_other_values_is_refused(tmp_path: Path) -> None:
    rows = [f"word {i},{'xy'[i % 2]},{['train', 'elsewhere'][i % 2]}" for i in range(12)]
    address = text_table(tmp_path / "a.csv", "text,label,split", rows)
    with pytest.raises(UserError, match=r"split column .* holds 'elsewhere'"):
        open_source(address)


def test_groups_of_a_column_are_kept_whole(tmp_path: Path) -> None:
    rows = [f"word {i},{'xy'[i % 2]},g{i // 4}" for i in range(40)]
    source = open_source(text_table(tmp_path / "a.csv", "text,label,group", rows))
    split, rule = choose_split(source, "0.3", None, stratify=False)
    parts = {group: {*split[source.group == group].tolist()} for group in set(source.group)}
    assert [group for group, where in parts.items() if len(where) > 1] == []
    assert rule["group"] == "groups"
