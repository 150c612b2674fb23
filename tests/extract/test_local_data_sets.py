"""Data sets in folders and files of this machine: paths of any letters, parts of any spelling."""

import os
from collections.abc import Iterable
from pathlib import Path

import datasets
import pytest
from hostile_sources import image, split_of

from embedbench.errors import UserError
from embedbench.extract.open_source import open_source
from embedbench.extract.source import Source
from embedbench.files.sample_metadata import TEST, TRAIN, VAL


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to a folder of the test's own, and so are the copies of `datasets`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "copies")


def rows(numbers: Iterable[int]) -> dict[str, list[str]]:
    """Return texts t0, t1, … with their classes x or y."""
    numbers = list(numbers)
    return {"text": [f"t{i}" for i in numbers], "label": ["xy"[i % 2] for i in numbers]}


def write(path: str, *numbers: int) -> None:
    """Write a table of the rows of these numbers, by its suffix."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    data = datasets.Dataset.from_dict(rows(numbers))
    if file.suffix == ".parquet":
        data.to_parquet(str(file.absolute()))
        return
    lines = zip(*rows(numbers).values(), strict=True)
    if file.suffix == ".csv":
        file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in lines))
    else:
        made = (f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in lines)
        file.write_text("".join(made))


def texts(source: Source) -> str:
    read = [source.read(i) for i in range(len(source.ids))]
    return " ".join(content.decode() for content in read if isinstance(content, bytes))


def parts(source: Source) -> str:
    """Return each text with its part, in the order of the rows."""
    names = {TRAIN: "train", VAL: "val", TEST: "test"}
    by = [""] * len(source.ids) if source.split is None else [names[i] for i in split_of(source)]
    pairs = zip(texts(source).split(), by, strict=True)
    return " ".join(f"{text}:{part}" if part else text for text, part in pairs)


# --- a path that exists is a path ---

PATHS = [
    "texts.csv",
    "./texts.csv",
    "a folder/my texts.csv",
    "ann@lab/t.csv",
    "what?/t.csv",
    "run[1]/t.csv",
    "run[1]/t.parquet",
    "star*/t.csv",
    "a::b/t.csv",
    "50%/t.csv",
    "#1/t.csv",
    "a=b&c/t.csv",
    "csv/t.csv",
    "json/t.jsonl",
    "parquet/t.parquet",
    "hfds/t.csv",
    "torch/t.csv",
    "demo/t.csv",
    "~/t.csv",
    "hf:/t.csv",
    "zoo:x.csv",
    "été/t.csv",
    "t.csv@main.csv",
    "t.csv?label=text.csv",
    "a@b?c[d].parquet",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_exists_is_read(path: str) -> None:
    """Beside it lie files that its letters would mean, read as patterns or as words."""
    for other in ("t.csv", "t.jsonl", "run1/t.csv", "starx/t.csv", "whats/t.csv", "t.parquet"):
        write(other, 8, 9)
    write(path, 0, 1)
    assert texts(open_source(path)) == "t0 t1"


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_read_behind_hfds_too(path: str) -> None:
    write(path, 0, 1)
    assert texts(open_source(f"hfds/./{path}")) == "t0 t1"


FOLDERS = ["set", "run[1]", "ann@lab", "what?", "star*", "csv", "parquet", "a b", "hfds/x", "a.csv"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_any_letters_is_read(folder: str, suffix: str) -> None:
    write(f"run1/t.{suffix}", 8, 9)
    write(f"{folder}/t.{suffix}", 0, 1)
    assert texts(open_source(f"hfds/./{folder}")) == "t0 t1"


def test_options_stand_behind_a_path_of_any_letters() -> None:
    write("what?/ann@lab.csv", 0, 1)
    source = open_source("hfds/what?/ann@lab.csv?text=label&label=text")
    assert texts(source) == "x y"
    assert source.classes == ("t0", "t1")


def test_the_longest_path_counts() -> None:
    write("t.csv", 8, 9)
    write("t.csv?label=x.csv", 0, 1)
    assert texts(open_source("hfds/t.csv?label=x.csv")) == "t0 t1"


def test_a_path_has_no_revision() -> None:
    write("set/t.csv", 0)
    with pytest.raises(UserError, match="is a path, which has no revision; drop @v1"):
        open_source("hfds/set@v1")


def test_a_folder_of_images_of_any_letters() -> None:
    for i, folder in enumerate(("cat", "dog")):
        Path(f"ann@[lab]?/{folder}").mkdir(parents=True)
        Path(f"ann@[lab]?/{folder}/1.png").write_bytes(image(value=i))
    for name in ("ann@[lab]?", "ann@[lab]?/", "./ann@[lab]?", os.path.abspath("ann@[lab]?")):
        assert open_source(name).ids == ("cat/1.png", "dog/1.png")


def test_a_folder_called_demo_is_no_demo() -> None:
    for i, folder in enumerate(("cat", "dog")):
        Path(f"demo/{folder}").mkdir(parents=True)
        Path(f"demo/{folder}/1.png").write_bytes(image(value=i))
    assert open_source("demo").classes == ("cat", "dog")


def test_a_link_to_a_table_is_read() -> None:
    write("data/t.csv", 0, 1)
    Path("link.csv").symlink_to("data/t.csv")
    assert texts(open_source("link.csv")) == "t0 t1"


def test_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write("home/t.csv", 0, 1)
    assert texts(open_source("~/t.csv")) == "t0 t1"


ABSENT = ["nothing.csv", "./nothing", "hfds/./nothing", "hfds//nothing", "nothing@here", ""]


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_not_there_is_called_so(name: str) -> None:
    with pytest.raises(UserError, match="there is no file or folder"):
        open_source(name)


# --- files that are parts ---

# The files of a folder with the numbers of their rows, and rows and parts that come of it.
NAMED: dict[str, tuple[dict[str, tuple[int, ...]], str]] = {
    "small letters": ({"test.#": (2,), "train.#": (0, 1)}, "t0:train t1:train t2:test"),
    "capitals": ({"Test.#": (2,), "Train.#": (0, 1)}, "t0:train t1:train t2:test"),
    "all capitals": ({"TEST.#": (2,), "TRAIN.#": (0,)}, "t0:train t2:test"),
    "shards": (
        {
            "Test-00000-of-00001.#": (2,),
            "Train-00000-of-00002.#": (0,),
            "Train-00001-of-00002.#": (1,),
        },
        "t0:train t1:train t2:test",
    ),
    "shards of the hub": (
        {"data/test-00000-of-00001.#": (2,), "data/train-00000-of-00001.#": (0,)},
        "t0:train t2:test",
    ),
    "folders": ({"TEST/a.#": (2,), "Train/a.#": (0, 1)}, "t0:train t1:train t2:test"),
    "folders below": ({"data/Testing/a.#": (2,), "data/Training/a.#": (0,)}, "t0:train t2:test"),
    "three parts": (
        {"Dev.#": (1,), "Test.#": (2,), "Train.#": (0,)},
        "t0:train t1:val t2:test",
    ),
    "a word before": ({"my-test.#": (2,), "my-train.#": (0,)}, "t0:train t2:test"),
    "no parts": ({"a.#": (0,), "b.#": (1,)}, "t0 t1"),
    "one more": ({"Test.#": (2,), "Train.#": (0,), "more.#": (7,)}, "t0:train t2:test"),
}


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("what", NAMED)
def test_files_are_the_parts_that_they_are_called(what: str, suffix: str) -> None:
    files, expected = NAMED[what]
    for name, numbers in files.items():
        write(f"set/{name.replace('#', suffix)}", *numbers)
    assert parts(open_source("hfds/./set")) == expected


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_is_no_part_is_named(suffix: str) -> None:
    for name, number in (("train", 0), ("test", 1), ("extra", 2)):
        write(f"set/{name}.{suffix}", number)
    assert open_source("hfds/set").left_out == (f"files beside train and test: extra.{suffix}",)


def test_another_file_in_a_folder_of_tables_is_named() -> None:
    write("set/train.csv", 0, 1)
    Path("set/notes.xlsx").write_bytes(b"x")
    assert open_source("hfds/set").left_out == ("files beside train: notes.xlsx",)


def test_a_part_without_labels_is_said() -> None:
    write("set/train.csv", 0, 1)
    Path("set/test.csv").write_text("text\nt2\n")
    with pytest.raises(UserError, match=r"no column 'label', .*\?split=train"):
        open_source("hfds/set")
    assert texts(open_source("hfds/set?split=train")) == "t0 t1"


IMAGES = {
    "capitals": ("Testing/a/1 Testing/b/2 Training/a/3 Training/b/4", [TRAIN] * 2 + [TEST] * 2),
    "beside": ("extra/a/5 test/a/1 test/b/2 train/a/3 train/b/4", [TRAIN] * 2 + [TEST] * 2),
    "names of images": ("a/test_1 b/train_2", None),
}


@pytest.mark.parametrize("what", IMAGES)
def test_folders_of_images_are_parts(what: str) -> None:
    paths, expected = IMAGES[what]
    for i, path in enumerate(paths.split()):
        Path(f"set/{path}.png").parent.mkdir(parents=True, exist_ok=True)
        Path(f"set/{path}.png").write_bytes(image(value=i))
    source = open_source("hfds/set")
    assert source.classes == ("a", "b")
    assert (None if source.split is None else split_of(source)) == expected


def test_texts_of_a_card_stay_texts() -> None:
    """A card that names CSV files is read by `datasets`, which guesses unless it is told not to."""
    Path("set").mkdir()
    Path("set/train.csv").write_text("text,label\nNA,None\nb,01\nc,1\n")
    card = "---\nconfigs:\n- config_name: default\n  data_files: train.csv\n---\n"
    Path("set/README.md").write_text(card)
    source = open_source("hfds/set")
    assert texts(source) == "NA b c"
    assert [source.classes[label] for label in source.labels] == ["None", "01", "1"]


def test_numbers_of_a_card_are_numbers_though_its_texts_stay() -> None:
    Path("set").mkdir()
    Path("set/train.csv").write_text("text,label,time\na,x,1\nb,y,2.5\n")
    card = "---\nconfigs:\n- config_name: default\n  data_files: train.csv\n---\n"
    Path("set/README.md").write_text(card)
    assert open_source("hfds/set").columns["time"].tolist() == [1, 2.5]


def test_a_card_in_a_folder_that_reads_as_a_pattern_is_refused() -> None:
    write("run[1]/train.csv", 0)
    Path("run[1]/README.md").write_text("---\nconfigs:\n- data_files: train.csv\n---\n")
    with pytest.raises(UserError, match=r"has a card .* rename the folder"):
        open_source("hfds/run[1]")


def test_a_saved_data_set_of_any_letters() -> None:
    datasets.Dataset.from_dict(rows(range(2))).save_to_disk("run[1]@x")
    assert texts(open_source("hfds/run[1]@x")) == "t0 t1"


# --- files of one data set ---


def labelled(path: str, names: list[str], labels: list[int]) -> None:
    """Write a Parquet file of texts whose metadata has the names of the classes."""
    kinds = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    )
    table = {"text": [f"t{i}" for i in range(len(labels))], "label": labels}
    Path(path).parent.mkdir(exist_ok=True)
    datasets.Dataset.from_dict(table, features=kinds).to_parquet(str(Path(path).absolute()))


def test_one_number_is_one_class_in_all_files() -> None:
    labelled("d/train.parquet", ["cat", "dog"], [0, 1])
    labelled("d/test.parquet", ["dog", "cat"], [0, 1])
    with pytest.raises(UserError, match="names the classes of label otherwise than"):
        open_source("hfds/./d?text=text")


def test_a_shard_that_the_others_count_is_named() -> None:
    write("d/train-00000-of-00003.parquet", 0, 1)
    write("d/train-00002-of-00003.parquet", 2, 3)
    left_out = open_source("hfds/./d?text=text").left_out
    assert left_out == ("train-00001-of-00003.parquet (not there)",)
