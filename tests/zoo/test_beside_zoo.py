"""From a stand-in of CIFAR-100 to published rows beside; run by its name in a second clone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hub_server
import numpy as np
import pytest
from file_helpers import PROVENANCE
from toy import blobs
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, Samples
from embedbench.files.write_file import write_file
from embedbench.reports.tables_from_runs import collect
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.record_files import load
from embedbench.streams.class_order import published_orders
from embedbench.zoo import beside_zoo, zoo_entries
from embedbench.zoo.zoo_entries import Zoo, read_zoo

NAME = "cifar100.vit-b16-augreg-in21k"
RUN = ("--protocol", "b0-inc10", "--preset", "pilot", "--learner", "ncm", "--quiet")


def stand_in(path: Path) -> EmbeddingFile:
    """CIFAR-100's classes, two samples to learn from and one to test on, as `extract` writes it."""
    labels = np.repeat(np.arange(100), 3)
    ids = np.array([f"s{i}" for i in range(300)], dtype=object)
    split = np.where(np.arange(300) % 3 == 2, TEST, 0).astype(np.uint8)
    samples = Samples(ids, labels, split, tuple(published_orders()["classes"]), np.full(100, -1))
    network, url = "vit_base_patch16_224", read_zoo().data["cifar100"].url
    made = {
        "backbone": {"name": network, "weights_id": f"timm/{network}.augreg_in21k"},
        "source": {"name": "cifar100", "url": url, "licence": "unknown"},
        "split": {"rule": "official"},
    }
    return write_file(path, samples, blobs(labels, 16, 0), {**PROVENANCE, **made})


def command(*words: object) -> Any:
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=True)
    assert result.exit_code == 0, result.exception or result.output
    assert "no published rows" not in result.stderr
    return result.stdout


def beside(runs: Path) -> dict[str, dict[str, str]]:
    """The published rows of a report by method and place."""
    found = json.loads(command("report", runs, "--beside", "zoo", "--json"))["published"]
    return {f"{row['published']} | {row['where']}": row for row in found}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `NAME.h5` and `runs` of `ncm` on it."""
    folder = tmp_path_factory.mktemp("beside")
    command("run", stand_in(folder / f"{NAME}.h5").path, *RUN, "--out", folder / "runs")
    return folder / "runs"


def test_ours_is_by_the_metric_of_the_stream_whatever_the_table_shows(runs: Path) -> None:
    """Accuracy per sample, as papers print it on this stream."""
    words = ("report", runs, "--beside", "zoo", "--json", "--metric", "within_accuracy")
    found = json.loads(command(*words))["published"]
    assert {row["ours"] for row in found} == {row["ours"] for row in beside(runs).values()}


def test_ours_is_by_the_score_that_the_papers_of_the_stream_print(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, streams = collect(runs), read_zoo().streams
    classes = {name: replace(one, metric="within_accuracy") for name, one in streams.items()}
    monkeypatch.setattr(zoo_entries, "read_zoo", lambda: replace(read_zoo(), streams=classes))
    ours = {row["ours"] for row in beside_zoo.rows_beside(rows, print) if row["ours"]}
    within = rows[0].number("within_accuracy").mean
    assert ours == {f"{100 * within:.2f}"}


def test_a_stand_in_gets_rows_and_no_verdict(runs: Path) -> None:
    rows = beside(runs)
    theirs = [row for row in read_zoo().published if row.data == "cifar100"]
    for name, sd in (("last", "sd"), ("avg", "avg_sd")):
        printed = [(getattr(row, name), getattr(row, sd)) for row in theirs]
        printed_here = [" ± ".join(filter(None, pair)) for pair in printed]
        assert [row[name] for row in rows.values()] == printed_here
    assert {row["verdict"] for row in rows.values()} == {"other images: no verdict"}
    ours = [row["ours"] for key, row in rows.items() if key.startswith("NCM, frozen backbone")]
    assert len(ours) == 1
    assert float(ours[0]) > 0
    text = command("report", runs, "--beside", "zoo")
    assert "Published rows beside" in text
    places = dict.fromkeys(row["where"] for row in rows.values())
    listed = [f"[{n}] {where}" for n, where in enumerate(places, 1)]
    assert listed == text.splitlines()[-len(places) :]
    named = [{**row, "table": t} for row, t in zip(rows.values(), "aba", strict=False)]
    parts = beside_zoo.beside_parts(named)
    assert [table.row_count for table in parts[1:4:2]] == [2, 1]  # type: ignore[union-attr]


def test_a_verdict_or_a_reason(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").write_text("a word of the command that names no embedding file")
    zoo = read_zoo()
    data = {**zoo.data, "cifar100": replace(zoo.data["cifar100"], splits={"official": "200 100"})}
    same = next(r for r in zoo.published if r.learner == "ncm" and r.data == "cifar100")

    def verdict(**changes: Any) -> str:
        made = Zoo(zoo.streams, zoo.backbones, data, (replace(same, **changes),))
        monkeypatch.setattr(zoo_entries, "read_zoo", lambda: made)
        (row,) = beside(runs).values()
        return row["verdict"]

    assert verdict().startswith(("+", "−"))
    assert same.remark in verdict()
    for changes, why in (
        ({"stream": "b0-inc5"}, "other stream, theirs is b0-inc5"),
        ({"split": "revisitingcil"}, "other split, theirs is revisitingcil"),
        ({"backbone": "vit-b16-orig-in21k"}, "vit_base_patch16_224.orig_in21k"),
        ({"backbone": "unknown"}, "their checkpoint is not known"),
        ({"apart": "drawn by their own code"}, "drawn by their own code"),
        ({"settings": {"metric": "euclidean"}}, "no run of this method"),
        ({"learner": ""}, "no run of this method"),
    ):
        said = verdict(**changes)
        assert why in said
        assert said.endswith(": no verdict")


def test_images_and_weights_are_compared(tmp_path: Path) -> None:
    file, zoo = stand_in(tmp_path / "a.h5"), read_zoo()
    data = replace(zoo.data["cifar100"], splits={"official": "200 100"})
    assert zoo_entries.has_images(data, file)
    assert not zoo_entries.has_images(zoo.data["cifar100"], file)  # 60,000
    assert not zoo_entries.has_images(replace(data, samples="other"), file)
    vit = zoo.backbones["vit-b16-augreg-in21k"]
    assert zoo_entries.backbone_misfit(vit, file) == ""
    for changed, why in (
        ({"weights_id": "timm/vit_base_patch16_224.orig_in21k"}, "other checkpoint"),
        ({"name": "resnet18"}, "other checkpoint"),
        ({"weights_id": "a.pth"}, "weights from a file"),
    ):
        backbone = {**file.provenance["backbone"], **changed}
        other = replace(file, provenance={**file.provenance, "backbone": backbone})
        assert zoo_entries.backbone_misfit(vit, other).startswith(why)
    plain = {"name": "resnet18", "weights_id": "timm/resnet18"}  # which weights is not said
    other = replace(file, provenance={**file.provenance, "backbone": plain})
    said = zoo_entries.backbone_misfit(replace(vit, name="resnet18"), other)
    assert said.startswith("weights from a file")


def test_tables_that_nothing_stands_beside(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, zoo = runs.parent / f"{NAME}.h5", replace(read_zoo(), published=())
    monkeypatch.setattr(zoo_entries, "read_zoo", lambda: zoo)
    for name, why in (
        (file.name, "the zoo has no published rows for cifar100"),
        ("away", f"{file.name} is not here; run the report where the file lies"),
    ):
        there = file.rename(file.with_name(name))
        result = CliRunner().invoke(app, ["report", str(runs), "--beside", "zoo"])
        assert result.exit_code == 0
        assert why in result.stderr
        assert "Published rows" not in result.stdout
        there.rename(file)


def test_the_file_comes_from_the_record_and_not_from_the_command(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name and content, beside the runs or in the working directory, whatever the command."""
    (place,) = runs.glob("*/ncm-*")
    record = load(next(place.glob("seed-*")))
    file = stand_in(tmp_path / f"{NAME}.h5")
    for command in ("", "embedbench run 'unclosed", f"python mine.py --in={file.path}"):
        made = replace(record, command=command)
        assert beside_zoo.find_file(made, place).path.resolve() == runs.parent / f"{NAME}.h5"
    away = tmp_path / "runs" / "stream" / "ncm"
    assert beside_zoo.find_file(record, away).path == tmp_path / f"{NAME}.h5"
    monkeypatch.chdir(tmp_path)
    assert beside_zoo.find_file(record, None).path.resolve() == tmp_path / f"{NAME}.h5"


def test_another_file_of_the_name_is_not_that_of_the_run(runs: Path, tmp_path: Path) -> None:
    (place,) = runs.glob("*/ncm-*")
    record = load(next(place.glob("seed-*")))
    info = replace(record.files[0], digests={"content": "0" * 64})
    with pytest.raises(UserError, match="is not here"):
        beside_zoo.find_file(replace(record, files=(info,)), place)


def test_plausible_by_the_prediction_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(r for r in read_zoo().published if r.last == "83.4" and r.seeds == "1")
    assert beside_zoo.judge(row, Stat.of([0.84])) == "+0.60 points"  # one run: no interval
    # t(2) = 4.3027, sd = 1 point: 4.3027 · √(1 + 1/3) = 4.9683
    three = beside_zoo.judge(row, Stat.of([0.87, 0.88, 0.89]))
    assert three == "+4.60 points, plausible as one of ours (± 4.97)"
    away = beside_zoo.judge(row, Stat.of([0.88, 0.89, 0.90]))
    assert away == "+5.60 points, not plausible as one of ours (± 4.97)"
    # half a unit of their last digit, .05, counts for them
    for gain, word in ((5.016, ", plausible"), (5.02, ", not plausible")):
        near = Stat.of([0.834 + gain / 100 + d for d in (-0.01, 0, 0.01)])
        assert word in beside_zoo.judge(row, near)
    assert beside_zoo.judge(row, Stat.of([0.834] * 3)) == "0.00 points"  # runs that do not differ
    unknown = beside_zoo.judge(replace(row, seeds="unknown"), Stat.of([0.81, 0.82, 0.83]))
    assert unknown == "−1.40 points"
    monkeypatch.setattr(Stat, "prediction_half", lambda *_: 0.045)  # and half a unit: 5.0
    edge = beside_zoo.judge(replace(row, last="80"), Stat.of([0.84, 0.85, 0.86]))
    assert edge == "+5.00 points, plausible as one of ours (± 4.50)"


@pytest.mark.thorough
def test_run_in_a_second_clone(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedbench.sharing.push_file.picture", lambda f: b"a picture")
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "second"))
    file = EmbeddingFile.open(runs.parent / f"{NAME}.h5")
    with hub_server.serving() as hub:
        hub_server.use(monkeypatch, hub)
        command("push", file.path, "hf://datasets/kanan/zoo", "--licence", "unknown")
        commit, _ = hub.repositories["kanan/zoo"].head
        fetched = f"hf://datasets/kanan/zoo@{commit}/{NAME}.h5"
        command("run", fetched, *RUN, "--out", tmp_path / "runs")
    first, second = (
        json.loads(next(root.glob("*/ncm-*/seed-*/record.json")).read_text())
        for root in (runs, tmp_path / "runs")
    )
    first["files"], second["files"] = ([r["files"][0]["digests"]] for r in (first, second))
    assert all(first[key] == second[key] for key in ("files", "digests", "metrics"))
    assert len(beside(tmp_path / "runs")) == len(beside(runs))  # the fetched file stands for it


def test_printed_tables_without_a_spread_are_named(runs: Path) -> None:
    text = command("report", runs, "--beside", "zoo")
    begin = "no spread is printed: no difference can be called decided in "
    (line,) = [line for line in text.splitlines() if line.startswith(begin)]
    named = line.removeprefix(begin).split("; ")
    places = {f"{row.paper}, {row.table}" for row in read_zoo().published if row.data == "cifar100"}
    spread = {f"{row.paper}, {row.table}" for row in read_zoo().published if row.sd}
    assert {*named} == places - spread
