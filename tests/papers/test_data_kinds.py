"""What a file is to a paper: its own data, a part, another backbone; labels, tables and claims."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from reproduce_files import blob_file, by_labels

from embedbench.errors import UserError
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.papers import paper_folders
from embedbench.papers.claims import load_claims
from embedbench.papers.claims_page import JudgedPaper
from embedbench.papers.data_kinds import (
    BACKBONE,
    OTHER,
    PART,
    PART_BACKBONE,
    THEIRS,
    PaperSet,
    label_data,
    read_label,
)
from embedbench.papers.judge_claims import _kind_of, find_kinds
from embedbench.papers.kemker2018 import paper as kemker
from embedbench.papers.paper_table import PaperTable, TableRow, Value
from embedbench.papers.result_files import DataFile, PaperResults
from embedbench.papers.tables_of_results import tables_of_results
from embedbench.scores.mean_intervals import Stat

ORDERS = Path(paper_folders.__file__).parents[1] / "assets" / "cifar100_orders.json"
CIFAR = json.loads(ORDERS.read_text("utf-8"))


def cifar_samples(of_class: tuple[int, int] = (1, 1)) -> Samples:
    """CIFAR-100's classes, with so many training and test samples of each."""
    train, test = of_class
    labels = np.tile(np.arange(100), train + test)
    return Samples(
        ids=np.array([f"{i:06d}" for i in range(len(labels))]),
        labels=labels,
        split=np.repeat([0, 2], [100 * train, 100 * test]).astype(np.uint8),
        classes=tuple(CIFAR["classes"]),
        parents=np.full(100, -1),
    )


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedding file of CIFAR-100's size and names: 600 samples of each class."""
    samples = cifar_samples((500, 100))
    x = np.random.default_rng(0).normal(size=(60_000, 2)).astype(np.float32)
    return write_file(tmp_path_factory.mktemp("cifar") / "c100-net.h5", samples, x, {}).path


def runs_of(paper: str, place: Path, *data: str, **more: Any) -> Any:
    runs = paper_folders.paper(paper).runs(place, [0, 1], **more)
    runs.data = runs.find_data(data)
    return runs


# --- the kind of a file ---


def kind_of(
    place: Path, name: str, width: int, backbones: Sequence[str] | None, of: dict[str, int]
) -> str:
    """The kind of a file of 4 classes with 2 training and 2 test samples each."""
    made = blob_file(place / "a.h5", 4, 4)
    provenance = {"backbone": {"name": name}} if name else {}
    file = write_file(place / "b.h5", made.samples, made.read()[:, :2], provenance)
    sizes = {"classes": 4, "needed": 4, "train": 8, "test": 8} | of
    own = None if backbones is None else tuple(backbones)
    return PaperSet("", backbones=own, width=width, **sizes).kind(file)


@pytest.mark.parametrize(
    ("name", "width", "backbones", "of", "kind"),
    [
        ("resnet50.tv_in1k", 2, ["resnet50"], {}, THEIRS),
        ("", 2, ["resnet50"], {}, THEIRS),  # as wide, and nothing is said of it
        ("unknown", 2, ["resnet50"], {}, THEIRS),
        ("resnet50_clip.openai", 2, ["resnet50"], {}, BACKBONE),
        ("resnet50", 3, ["resnet50"], {}, BACKBONE),
        ("resnet50", 2, [], {}, BACKBONE),  # the paper's cannot be had
        ("", 0, ["vit"], {}, BACKBONE),
        ("resnet50", 0, None, {}, BACKBONE),  # the paper trains on images
        ("resnet50", 2, ["resnet50"], {"classes": 5, "needed": 5}, PART),
        ("resnet50", 2, ["resnet50"], {"train": 9}, PART),
        ("resnet50", 2, ["resnet50"], {"test": 9}, PART),
        ("resnet50", 2, ["resnet50"], {"train": 0, "test": 0}, THEIRS),  # not published
        ("resnet18", 2, ["resnet50"], {"classes": 5, "needed": 5}, PART_BACKBONE),
        ("resnet50", 2, ["resnet50"], {"classes": 5}, THEIRS),  # all that the paper teaches
    ],
)
def test_the_kind_of_a_file(
    tmp_path: Path,
    name: str,
    width: int,
    backbones: Sequence[str] | None,
    of: dict[str, int],
    kind: str,
) -> None:
    assert kind_of(tmp_path, name, width, backbones, of) == kind


def test_images_are_the_papers_where_it_trains_on_them(tmp_path: Path) -> None:
    pixels = np.zeros((200, 4, 4, 3), np.uint8)
    file = write_file(tmp_path / "images.h5", cifar_samples(), pixels, {})
    assert PaperSet("", 100, 100, 100, 100, None, 0).kind(file) == THEIRS


@pytest.mark.parametrize("of", [{"classes": 3, "needed": 3}, {"train": 4, "test": 4}])
def test_more_than_the_data_set_has_is_refused(tmp_path: Path, of: dict[str, int]) -> None:
    with pytest.raises(UserError, match="has 4 classes and 16 samples, more than the paper's"):
        kind_of(tmp_path, "", 2, [], of)


@pytest.mark.parametrize("kind", [BACKBONE, PART, PART_BACKBONE])
def test_a_label_says_the_kind(kind: str) -> None:
    label = label_data("CUB-200", kind, Path("birds (50).h5"))
    assert read_label(label) == ("CUB-200", kind)


@pytest.mark.parametrize("label", ["CUB-200", "emoji for CUB-200", "emoji", "S (b)", ""])
def test_no_other_label_says_a_kind(label: str) -> None:
    assert read_label(label) == ("", "")


# --- five papers, one way ---


@pytest.mark.parametrize(
    ("paper", "name", "label"),
    [
        ("masana2020", "cifar100", "CIFAR-100"),
        ("michel2023", "cifar100", "CIFAR-100"),
        ("abdelsalam2021", "cifar", "IIRC-CIFAR"),
        ("tang2024", "cifar100", "CIFAR-100"),
    ],
)
def test_embeddings_of_the_papers_data_are_another_backbones(
    cifar: Path, tmp_path: Path, paper: str, name: str, label: str
) -> None:
    said = list[str]()
    runs = runs_of(paper, tmp_path, f"{name}={cifar}", notify=said.append)
    (data,) = runs.data.values()
    assert (data.kind, data.is_own, data.stands_in) == (BACKBONE, False, False)
    assert runs.label(name) == runs.tag(name) == f"{label}, another backbone (c100-net)"
    assert said == [
        f"{name}: c100-net.h5 is {BACKBONE}; no difference to it is computed",
    ]


@pytest.mark.parametrize(
    ("paper", "name", "label"),
    [
        ("masana2020", "cifar100", "CIFAR-100"),
        ("michel2023", "tiny-imagenet", "Tiny ImageNet"),
        ("abdelsalam2021", "imagenet-lite", "IIRC-ImageNet-lite"),
        ("tang2024", "cub200", "CUB-200"),
        ("kemker2018", "cub", "CUB-200"),
        ("kemker2018", "mnist", "MNIST"),
    ],
)
def test_fewer_classes_are_a_part(tmp_path: Path, paper: str, name: str, label: str) -> None:
    few = blob_file(tmp_path / "few.h5", 5, 4, groups=2).path
    runs = runs_of(paper, tmp_path, f"{name}={few}")
    assert runs.data[name].kind == PART_BACKBONE
    assert runs.label(name) == f"a part of {label}, another backbone (few)"


def test_all_classes_by_other_names_are_refused(tmp_path: Path) -> None:
    other = blob_file(tmp_path / "other.h5", 100, 2).path
    for paper, name in (("michel2023", "cifar100"), ("abdelsalam2021", "cifar")):
        with pytest.raises(UserError, match=f"{name}= takes CIFAR-100's 100 classes"):
            runs_of(paper, tmp_path, f"{name}={other}")


def test_too_many_classes_may_stand_in(tmp_path: Path) -> None:
    other = blob_file(tmp_path / "other.h5", 101, 2).path
    with pytest.raises(UserError, match=f"--data cifar100-stand-in={other}"):
        runs_of("tang2024", tmp_path, f"cifar100={other}")


def test_masana_takes_embeddings_of_cifar_with_the_published_orders(
    cifar: Path, tmp_path: Path
) -> None:
    runs = runs_of("masana2020", tmp_path, f"cifar100={cifar}")
    path = Path(runs.orders["cifar100", "max-confusion"])
    order = json.loads(path.read_text("utf-8"))["order"]
    assert order == [CIFAR["classes"][k] for k in CIFAR["cifar100-max-confusion"]]
    (cell, _) = runs.specs("cifar100", "coarse", "icarl")
    settings = cell.learner.settings
    assert (settings.trunk, settings.optimiser, settings.memory.per_class) == ("mlp", "nadam", 20)


def test_masana_prints_no_difference_to_another_backbone(
    cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = paper_folders.paper("masana2020").runs
    monkeypatch.setattr(module, "of", lambda *_: [])
    runs = runs_of("masana2020", tmp_path, f"cifar100={cifar}")
    (table,) = paper_folders.paper("masana2020").tables["1"](runs)
    assert table.name == "1 · CIFAR-100, another backbone (c100-net)"
    values = by_labels(table)["iCaRL", "Random"]
    assert {value.stands_in for value in values.values()} == {True}


def test_michel_takes_the_papers_streams_and_memory_for_its_data(
    cifar: Path, tmp_path: Path
) -> None:
    runs = runs_of("michel2023", tmp_path, f"cifar100={cifar}")
    assert (runs.sessions("cifar100"), runs.memory("cifar100")) == ([10], 2000)


def test_a_part_of_iirc_is_arranged_by_the_files_own_hierarchy(tmp_path: Path) -> None:
    few = blob_file(tmp_path / "few.h5", 6, 4, groups=2).path
    runs = runs_of("abdelsalam2021", tmp_path, f"cifar={few}")
    (spec, _) = runs.specs("cifar", 0, "er")
    assert (spec.protocol.settings.hierarchy, len(runs.configurations("cifar"))) == ("file", 5)


def test_a_table_of_a_stand_in_is_named_by_its_file(tmp_path: Path) -> None:
    """Under the name of IIRC-CIFAR it would be taken for IIRC-CIFAR."""
    toy = blob_file(tmp_path / "toy.h5", 6, 4, groups=2).path
    runs = runs_of("abdelsalam2021", tmp_path, f"cifar-stand-in={toy}")
    (table,) = paper_folders.paper("abdelsalam2021").tables["measures"](runs)
    assert table.name == "Measures · toy"


@pytest.mark.parametrize(
    ("given", "name"),
    [("mnist", "a part of MNIST, another backbone (few)"), ("mnist-stand-in", "few")],
)
def test_tables_of_mnist_alone_are_of_mnist_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, name: str
) -> None:
    """Tables S1, S6, S7 have no column of the data."""
    few = blob_file(tmp_path / "few.h5", 4, 4).path
    runs = runs_of("kemker2018", tmp_path, f"{given}={few}")
    monkeypatch.setattr(kemker.KemkerRuns, "ask", lambda *_: [])
    monkeypatch.setattr(kemker, "make_stats", lambda *_: [Stat.of([1.0])] * 4)
    monkeypatch.setattr(kemker, "_drifting_accuracy", lambda *_: Stat.of([1.0]))
    tables = [make(runs) for make in (kemker.figure_s1, kemker.table_s6, kemker.table_s7)]
    assert [t.name.partition(" · ")[2] for t in tables] == [name] * 3
    values = [v for table in tables for row in table.rows for v in row.values.values()]
    assert {value.difference for value in values} == {None}


# --- results and claims ---


def test_results_have_the_kind_of_each_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blob_file(Path("few.h5"), 5, 4)
    command = "reproduce kemker2018 --table 1 --data cub=few.h5 --data mnist-stand-in=few.h5"
    assert embedbench(*command.split(), "--out", "out").exit_code == 0
    written = PaperResults.read(tmp_path / "out" / "kemker2018.json")
    # one file under two names: what it is to the paper as either
    assert {file.kind for file in written.files} <= {PART_BACKBONE, OTHER}
    rows = [row.labels for row in written.tables[0].rows]
    assert ("a part of CUB-200, another backbone (few)",) in rows


def test_older_results_have_no_kind() -> None:
    assert DataFile.from_json({"name": "a.h5", "digests": {}}) == DataFile("a.h5", {})
    assert "kind" not in DataFile("a.h5", {}).to_json()


def judged(tmp_path: Path, cifar: Path, monkeypatch: pytest.MonkeyPatch) -> JudgedPaper:
    """Masana's claims on made-up answers, all alike but for those of the orders."""
    module = paper_folders.paper("masana2020")
    monkeypatch.setattr(module.runs, "of", lambda *_: [])
    runs = runs_of("masana2020", tmp_path, f"cifar100={cifar}")
    (table,) = module.tables["1"](runs)
    for row in table.rows:
        best = 10.0 * (row.labels[1] == "minConf")
        values = Stat.of([30.0 + best, 30.5 + best, 31.0 + best])
        for value in row.values.values():
            object.__setattr__(value, "ours", values)
    of = [(BACKBONE, runs.label("cifar100"))]
    made = PaperResults.now("masana2020", ["masana2020"], [0, 1, 2], [cifar], [table], [], of)
    made.write(tmp_path / "class-orderings.json")
    return JudgedPaper.of_results("masana2020", [tmp_path / "class-orderings.json"])


def test_claims_count_another_backbone_apart(
    tmp_path: Path, cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = judged(tmp_path, cifar, monkeypatch)
    assert {answer.kind for answer in one.every} == {BACKBONE}
    assert {answer.file for answer in one.every} == {"CIFAR-100, another backbone (c100-net)"}
    assert {kind for kind, _ in one.count()} == {BACKBONE}


def test_claims_of_another_backbone_are_as_likely_as_the_papers(
    tmp_path: Path, cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O4: three runs would say that it holds with a chance of .001 at most (docs/judging)."""
    answers = judged(tmp_path, cifar, monkeypatch).answers["O4"]
    assert [answer.status for answer in answers] == ["cannot be decided"]


def test_two_backbones_are_two_files() -> None:
    """Under one name they would be joined by seed, or refused."""
    kinds = ("CIFAR-100", "CIFAR-100, another backbone (a)", "CIFAR-100, another backbone (b)")
    sources = {}
    for k, label in enumerate(kinds):
        name = "1" if k == 0 else f"1 · {label}"
        rows = (TableRow(("LwF", "Random"), {"after 2": Value(ours=Stat.of([float(k)]))}),)
        of = PaperTable(name, "t", ("learner", "order"), ("after 2",), rows)
        file = DataFile(f"{k}.h5", {}, None, THEIRS if k == 0 else BACKBONE)
        sources[str(k)] = PaperResults("masana2020", "", "", {}, (0,), (file,), (), (of,))
    official = load_claims("masana2020").official
    tables = tables_of_results(sources, official)
    assert [(t.file, t.stands_for) for t in tables] == [(label, "CIFAR-100") for label in kinds]


@pytest.mark.parametrize(
    ("kind", "label", "file"),
    [
        (BACKBONE, "CIFAR-100, another backbone (net)", "CIFAR-100, another backbone (net)"),
        (THEIRS, "CIFAR-100", "CIFAR-100"),
        (OTHER, "net for CIFAR-100", "net"),
        (None, None, "net"),  # an older file
    ],
)
def test_a_table_without_data_is_of_the_only_file(
    kind: str | None, label: str | None, file: str
) -> None:
    rows = (TableRow(("20",), {"γ_1": Value(ours=Stat.of([0.05]))}),)
    table = PaperTable("Figure 2", "t", ("sessions K",), ("γ_1",), rows)
    of = (DataFile("net.h5", {}, None, kind, label),)
    results = PaperResults("michel2023", "", "", {}, (0,), of, (), (table,))
    assert [t.file for t in tables_of_results({"a": results}, {})] == [file]


def test_two_modalities_are_of_the_kind_further_from_the_papers() -> None:
    part = "a part of CUB-200, another backbone (x)"
    kinds = dict.fromkeys(("CUB-200", "AudioSet", "CUB-200 / AudioSet"), THEIRS)
    cases = {
        "CUB-200 / AudioSet": THEIRS,
        f"{part} / AudioSet": PART_BACKBONE,
        "AudioSet / words": OTHER,
        part: PART_BACKBONE,
    }
    assert {file: _kind_of(file, kinds) for file in cases} == cases


def test_a_file_without_a_name_is_known_by_its_samples() -> None:
    """As before, though its kind says other data."""
    digest = "2473e71d333dd933407a4fcb33f987d5d0db757a4af6cdcdff150667f91110fe"
    file = DataFile("mine.h5", {"samples": digest}, None, OTHER)
    results = PaperResults("masana2020", "", "", {}, (0,), (file,), (), ())
    assert find_kinds(load_claims("masana2020"), {"a": results})["mine"] == BACKBONE
