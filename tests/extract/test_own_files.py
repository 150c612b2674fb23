"""A data set of other people reads its own files alone: each way to name another is refused."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import h5py
import hostile_sources
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from embedbench.errors import UserError
from embedbench.extract.open_source import open_source

OUTSIDE = "names a file outside of itself"
FEATURES = Features(text=Value("string"), label=ClassLabel(names=["a", "b"]))


@pytest.fixture(autouse=True)
def _copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the copies that `datasets` makes out of the home directory; no network is asked."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "copies")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def rows(text: str) -> Dataset:
    return Dataset.from_dict({"text": [text] * 4, "label": [0, 1, 0, 1]}, features=FEATURES)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of other people, beside a private one."""
    for place, text in (("private/p", "SECRET"), ("theirs/data/train", "public")):
        path = tmp_path / f"{place}.parquet"
        path.parent.mkdir(parents=True)
        rows(text).to_parquet(str(path))
    return tmp_path / "theirs"


def texts(folder: Path) -> set[bytes]:
    source = open_source(f"hfds/{folder}?text=text")
    return {source.read(i) for i in range(len(source.ids))}  # type: ignore[misc]


def test_its_own_files_are_read(theirs: Path) -> None:
    card = "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/*\n"
    (theirs / "README.md").write_text(f"---\n{card}---\n")
    assert texts(theirs) == {b"public"}


NAMES = {
    "absolute": "{private}/p.parquet",
    "above": "../private/p.parquet",
    "above, deeper": "data/../../private/p.parquet",
    "pattern": "../priv*/*",
    "pattern of all": "../**",
    "home": "~/p.parquet",
    "address": "https://example.org/p.parquet",
    "file address": "file://{private}/p.parquet",
    "hub": "hf://datasets/someone/private/p.parquet",
    "chain": "zip://p.parquet::{private}/p.zip",
    "simple cache": "simplecache::file://{private}/p.parquet",
    "backslashes": "..\\\\private\\\\p.parquet",
}
CARDS = {
    "text": "  data_files: {name}\n",
    "list": "  data_files:\n  - data/train.parquet\n  - {name}\n",
    "splits": "  data_files:\n  - split: train\n    path: {name}\n",
    "lists of splits": "  data_files:\n  - split: train\n    path:\n    - data/*\n    - {name}\n",
    "folder": "  data_dir: {name}\n",
}


@pytest.mark.parametrize("how", NAMES)
def test_a_card_that_names_other_files(theirs: Path, how: str) -> None:
    name = json.dumps(NAMES[how].format(private=theirs.parent / "private"))
    card = "configs:\n- config_name: default\n" + CARDS["text"].format(name=name)
    (theirs / "README.md").write_text(f"---\n{card}---\n")
    with pytest.raises(UserError, match=OUTSIDE):
        texts(theirs)


@pytest.mark.parametrize("form", CARDS)
@pytest.mark.parametrize("place", ["README.md", ".huggingface.yaml"])
def test_a_card_of_every_form(theirs: Path, form: str, place: str) -> None:
    card = "configs:\n- config_name: default\n" + CARDS[form].format(name='"../private"')
    (theirs / place).write_text(f"---\n{card}---\n" if place.endswith(".md") else card)
    with pytest.raises(UserError, match=OUTSIDE):
        texts(theirs)


@pytest.mark.parametrize(("before", "after"), [("{a: ", "}"), ("[", "]")])
def test_a_card_is_read_twenty_levels_deep(theirs: Path, before: str, after: str) -> None:
    nested = 25 * before + "x" + 25 * after
    (theirs / ".huggingface.yaml").write_text(f"configs: {nested}\n")
    with pytest.raises(UserError, match="more than 20 levels deep"):
        texts(theirs)


def linked_file(theirs: Path) -> None:
    (theirs / "data/train.parquet").unlink()
    (theirs / "data/train.parquet").symlink_to(theirs.parent / "private/p.parquet")


def linked_folder(theirs: Path) -> None:
    shutil.rmtree(theirs / "data")
    (theirs / "data").symlink_to(theirs.parent / "private")
    card = "configs:\n- config_name: x\n  data_files: data/*\n"
    (theirs / "README.md").write_text(f"---\n{card}---\n")


def linked_card(theirs: Path) -> None:
    (theirs.parent / "private/notes").write_text("---\nconfigs: []\n---\n")
    (theirs / "README.md").symlink_to(theirs.parent / "private/notes")


def saved_elsewhere(theirs: Path, name: str) -> None:
    rows("SECRET").save_to_disk(str(theirs.parent / "private/saved"))
    rows("public").save_to_disk(str(theirs))
    state = json.loads((theirs / "state.json").read_text())
    state["_data_files"] = [{"filename": name.format(private=theirs.parent / "private/saved")}]
    (theirs / "state.json").write_text(json.dumps(state))


def saved_link(theirs: Path) -> None:
    rows("SECRET").save_to_disk(str(theirs.parent / "private/saved"))
    rows("public").save_to_disk(str(theirs))
    (arrow,) = theirs.glob("*.arrow")
    arrow.unlink()
    arrow.symlink_to(theirs.parent / f"private/saved/{arrow.name}")


def saved_parts(theirs: Path) -> None:
    rows("SECRET").save_to_disk(str(theirs.parent / "private/saved"))
    DatasetDict(train=rows("public")).save_to_disk(str(theirs))
    (theirs / "dataset_dict.json").write_text('{"splits": ["../private/saved"]}')


ARROW = "data-00000-of-00001.arrow"
WAYS: dict[str, Callable[[Path], None]] = {
    "a link to a file": linked_file,
    "a link to a folder": linked_folder,
    "a card that is a link": linked_card,
    "a state, absolute": lambda theirs: saved_elsewhere(theirs, f"{{private}}/{ARROW}"),
    "a state, above": lambda theirs: saved_elsewhere(theirs, f"../private/saved/{ARROW}"),
    "a state, an address": lambda theirs: saved_elsewhere(theirs, f"file://{{private}}/{ARROW}"),
    "a saved link": saved_link,
    "saved parts": saved_parts,
}


@pytest.mark.parametrize("way", WAYS)
def test_files_that_lie_elsewhere(theirs: Path, way: str) -> None:
    WAYS[way](theirs)
    with pytest.raises(UserError, match=OUTSIDE):
        texts(theirs)


def test_metadata_of_pictures_names_none_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "private.png").write_bytes(hostile_sources.image())
    hostile_sources.good(tmp_path / "set")
    line = {"file_name": "../private.png", "label": "a"}
    (tmp_path / "set/metadata.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(UserError, match="Invalid metadata file_name"):
        open_source(f"hfds/{tmp_path / 'set'}?label=label").read(0)


@pytest.mark.parametrize("path", ["{private}", "../private.png", "\0", ""])
def test_rows_name_none_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    private = tmp_path / "private.png"
    private.write_bytes(hostile_sources.image())
    features: Any = Features(image=datasets.Image(), label=Value("string"))
    image = {"bytes": None, "path": path.format(private=private)}
    data = Dataset.from_dict({"image": [image], "label": ["a"]}, features=features)
    (tmp_path / "set/data").mkdir(parents=True)
    data.to_parquet(str(tmp_path / "set/data/train.parquet"), batch_size=1)
    monkeypatch.chdir(tmp_path / "set")
    with pytest.raises(UserError, match=f"{OUTSIDE}|it is empty"):
        open_source(f"hfds/{tmp_path / 'set'}").read(0)


def test_rows_read_no_other_data_set_of_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    other = tmp_path / "hub/datasets--me--private/snapshots/main/1.png"
    other.parent.mkdir(parents=True)
    other.write_bytes(hostile_sources.image())
    features: Any = Features(image=datasets.Image(), label=Value("string"))
    image = {"bytes": None, "path": str(other)}
    data = Dataset.from_dict({"image": [image], "label": ["a"]}, features=features)
    (tmp_path / "set/data").mkdir(parents=True)
    data.to_parquet(str(tmp_path / "set/data/train.parquet"), batch_size=1)
    with pytest.raises(UserError, match=OUTSIDE):
        open_source(f"hfds/{tmp_path / 'set'}").read(0)


def test_files_that_lead_elsewhere_by_themselves_are_not_read(theirs: Path) -> None:
    """HDF5 has links to other files; its reader, and those that unpickle, are not used."""
    shutil.rmtree(theirs / "data")
    with h5py.File(theirs.parent / "private/p.h5", "w") as file:
        file["label"] = np.arange(4)
    with h5py.File(theirs / "train.h5", "w") as file:
        file["label"] = h5py.ExternalLink(str(theirs.parent / "private/p.h5"), "label")
    with pytest.raises(UserError, match="needs the reader 'hdf5'"):
        texts(theirs)


def test_a_snapshot_of_the_hub_is_a_data_set(tmp_path: Path, theirs: Path) -> None:
    """Its files are links to blobs beside it."""
    repository = tmp_path / "datasets--org--name"
    snapshot = repository / "snapshots/0123/data"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    shutil.move(theirs / "data/train.parquet", repository / "blobs/ab")
    os.symlink("../../../blobs/ab", snapshot / "train.parquet")
    assert texts(snapshot.parent) == {b"public"}


def test_a_file_that_the_user_names_may_be_a_link(tmp_path: Path, theirs: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/x.parquet").symlink_to(theirs / "data/train.parquet")
    assert texts(tmp_path / "mine/x.parquet") == {b"public"}


def test_a_number_of_a_class_without_a_name(theirs: Path) -> None:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(theirs / "data/train.parquet")
    beyond = table.set_column(1, "label", [[0, 1, 0, 5]])
    beyond = beyond.replace_schema_metadata(table.schema.metadata)
    pyarrow.parquet.write_table(beyond, theirs / "data/train.parquet")
    with pytest.raises(UserError, match=r"'label' of .* has class 5 in row 3, and names 2 classes"):
        texts(theirs)


def test_a_tar_of_samples_is_read(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with tarfile.open(tmp_path / "set/train.tar", "w") as tar:
        for i in range(2):
            for suffix, content in (("png", hostile_sources.image()), ("cls", b"%d" % i)):
                path = tmp_path / f"{i}.{suffix}"
                path.write_bytes(content)
                tar.add(path, path.name)
    assert open_source(f"hfds/{tmp_path / 'set'}?label=cls").classes == ("0", "1")
