"""The reproduction of Kemker et al. (2018): its published values, sizes, rules, data, tables."""

import json
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import quick_workers
from file_helpers import says
from protocol_files import make_file
from report_records import scored
from reproduce_files import blob_file, by_labels

from embedbench.engines.engine import Engine
from embedbench.errors import UserError
from embedbench.files.write_file import write_file
from embedbench.papers.kemker2018 import paper as kemker
from embedbench.papers.paper import PaperData
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import Value
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import Stat
from embedbench.streams.view import rows_of

PRINTED = facts("kemker2018")["printed"]["tables"]


def test_table_3_is_the_mean_of_table_2_but_for_a_misprint() -> None:
    # all are printed to three decimals: means of rounded values, rounded, differ by at most .001
    means: dict[tuple[str, str], list[float]] = {}
    for row in PRINTED["2"]:
        means.setdefault((row["learner"], row["protocol"]), []).append(row["omega_all"])
    keys = [(row["learner"], row["protocol"], row["omega_all"]) for row in PRINTED["3"]]
    off = [key for *key, value in keys if abs(np.mean(means[tuple(key)]) - value) > 0.00101]
    assert off == [["ewc", "multi-modal"]]
    ((place, remark),) = kemker.table3(kemker.KemkerRuns(Path(), [0])).remarks
    assert place.startswith("EWC, ")
    assert remark.startswith("printed 0.913, reads 0.928: ")


def test_sixteen_of_eighteen_sizes_to_the_printed_digit_and_two_in_another_reading() -> None:
    off = []
    for row in PRINTED["2 MB"]:
        size = kemker.Size.of_paper(row["data"])
        mine = kemker.megabytes(row["learner"], size, fel_units=kemker.FEL_UNITS[row["data"]])
        if f"{mine:.2f}" != f"{row['mb']:.2f}":
            off.append((row["learner"], row["data"]))
            ten = kemker.megabytes(row["learner"], size._replace(classes=10))
            assert f"{ten:.2f}" == f"{row['mb']:.2f}"
    assert off == [("geppnet", "cub"), ("geppnet-stm", "cub")]
    counts = {"mlp": 32, "ewc": 64, "pathnet": 73_640, "fel": 53, "geppnet": 262}
    for learner, count in (counts | {"geppnet-stm": 262 + 300 * 7}).items():  # by hand
        small = kemker.megabytes(learner, kemker.Size(6, 4, 24), units=2, side=3, fel_units=5)
        assert small == 4 * count / 1e6


def test_a_file_is_held_to_its_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blob_file(Path("birds.h5"), 4, 4)
    runs = kemker.KemkerRuns(tmp_path, [0])
    runs.data = runs.find_data(["cub=birds.h5"])
    assert runs.label("cub") == "a part of CUB-200, another backbone (birds)"
    blob_file(Path("more.h5"), 201, 2)
    with pytest.raises(UserError, match=r"more\.h5 .* 201 .* 200 .* cub-stand-in=more\.h5"):
        runs.find_data(["cub=more.h5"])
    for given in ("birds.h5", "audiosett=birds.h5"):
        with pytest.raises(UserError, match="mnist", check=says(what="--data", got=given)):
            runs.find_data([given])
    runs.data = runs.find_data(["cub-stand-in=birds.h5"])
    assert list(runs.data) == ["cub"]
    assert runs.label("cub") == "birds for CUB-200"
    assert runs.size("cub") == kemker.Size(6, 4, 8)
    assert runs.label("audioset", "cub") == "AudioSet / birds for CUB-200"
    assert runs.capacity("pathnet", "cub") == {}  # Table S10 searches none
    misprinted = "multi-modal, EWC, AudioSet / birds for CUB-200, Ω_base"
    assert misprinted in [place for place, _ in kemker.table2(runs).remarks]


def test_table_3_has_means_of_three_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(runs: kemker.KemkerRuns, _: str, names: tuple[str, ...], __: str) -> list[float]:
        return [0.25, 0.75][: 2 - (names == ("cub",))] if runs.data.keys() >= {*names} else []

    monkeypatch.setattr(kemker.KemkerRuns, "of", made)
    monkeypatch.setattr(kemker, "make_stats", lambda records, _: records and [Stat.of(records)])
    data = {n: PaperData(tmp_path / "x.h5", None if n == "cub" else n) for n in kemker.NAMES}
    values = by_labels(kemker.table3(kemker.KemkerRuns(tmp_path, [0, 1], data)))
    mlp = values["MLP", "MNIST, x for CUB-200, AudioSet"]
    assert [v.ours and v.ours.values for v in mlp.values()] == [(0.25,), (0.25,), (0.25, 0.75)]
    assert {v.difference for v in mlp.values()} == {None}
    del data["audioset"]
    rows = kemker.table3(kemker.KemkerRuns(tmp_path, [0, 1], data)).rows
    assert not any(v.ours for row in rows for v in row.values.values())


def test_stand_ins_are_run_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blob_file(Path("birds.h5"), 4, 12)
    items = ["mlp.units=8", "offline.mlp.units=8"]
    items += [f"{name}.stop.epochs=1" for name in ("mlp", "offline.mlp")]
    out, names, data = tmp_path / "a" / "out", ["2", "2mb", "4"], ["cub-stand-in=birds.h5"]
    runs = kemker.KemkerRuns(out, [0, 1], learners=["mlp"], items=items)
    tables = kemker.PAPER.reproduce(runs, names, data)
    assert runs.failed == []
    assert [t.name for t in tables] == ["2", "2 MB", "4"]
    assert [data.file for data in runs.data.values()] == [Path("birds.h5")]
    omegas, sizes, minutes = map(by_labels, tables)
    mine = omegas["permutation", "MLP", "birds for CUB-200"]["Ω_all"]
    assert mine.ours is not None
    assert len(mine.ours.values) == 2
    assert mine.published == 0.635
    assert mine.difference is None
    assert omegas["permutation", "MLP", "MNIST"]["Ω_all"].ours is None
    assert omegas["permutation", "MLP", "MNIST"]["Ω_all"].flags is None
    # held: a network of 6·8 + 8 + 8·8 + 8 + 8·4 + 4 numbers of four bytes
    of_data = sizes["MLP", "birds for CUB-200"]
    held, counted = of_data["MB held here"], of_data["MB as the paper counts"]
    size = kemker.megabytes("mlp", kemker.Size(6, 4, 24))  # with the paper's 400 units
    assert counted == Value(None, Stat.of([size]), 2)
    assert held == Value(None, Stat.of([4 * 164 / 1e6] * 2), 2)
    # Table 4 has the protocols of one modality, and minutes of learning and of evaluation
    costs: dict[str, list[float]] = {}
    flags = set[str]()
    for made in map(record_files.load, record_files.find(out / "runs")):
        if (made.learner, made.protocol) == ("mlp", "permutation"):
            flags |= {*made.flags}
        took = made.seconds.learn + made.seconds.evaluate
        costs.setdefault(made.protocol, []).extend([took / 60] * (made.learner == "mlp"))
    assert flags
    assert {*(mine.flags or ())} == flags
    assert list(tables[2].columns) == ["permutation", "incremental-class"]
    for protocol, each in costs.items():
        mine = minutes["MLP", "birds for CUB-200"][protocol]
        assert mine.ours is not None
        assert sorted(mine.ours.values) == pytest.approx(sorted(each))


@pytest.mark.thorough
def test_a_table_asks_for_the_runs_that_it_shows_and_no_others(tmp_path: Path) -> None:
    data = {n: PaperData(tmp_path / f"{n}.h5", None if n == "cub" else n) for n in kemker.NAMES}
    runs = kemker.KemkerRuns(tmp_path, [0], data)

    def protocols(*tables: str) -> dict[str, int]:
        specs = runs.plan_tables(kemker.TABLES[table] for table in tables)
        assert runs.planned is None
        return dict(Counter(spec.protocol.name for spec in specs))

    one = {"permutation": 3 * 6, "incremental-class": 3 * 5}
    assert protocols("4") == {"permutation": 6, "incremental-class": 5}
    assert protocols("s8") == {"multi-modal": 2 * 6}
    assert protocols("2", "s8") == {**one, "multi-modal": 2 * 6}
    runs.learners = ["mlp"]
    assert protocols("2") == {"permutation": 3, "incremental-class": 3, "multi-modal": 2}
    runs.learners = [*runs.every]
    assert protocols("s6") == {"incremental-class": 20}
    del data["mnist"]
    assert protocols("s6", "s1") == {}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_end_of_a_drifting_stream_is_of_upper_classes(share: float, tmp_path: Path) -> None:
    file = blob_file(tmp_path / "ten.h5", 10, 24)  # 120 training samples
    stream = kemker.drifting(file.path, share, 1)
    y = np.concatenate([s.y for s in stream.sessions])
    late = round(share * 120)
    assert len(y) == 120
    assert {*y[120 - late :].tolist()} == ({*range(5, 10)} if late else set())
    if share < 1:
        assert set(y[: 120 - late]) & set(range(5))
    assert all(len(e.y) == 120 for e in stream.eval_sets)
    assert set(stream.eval_sets[-1].y) == set(range(10))
    train = set(np.flatnonzero(file.split == 0))
    assert all(set(rows_of(s.x)) <= train and len(s.val_x) == 0 for s in stream.sessions)


@pytest.mark.thorough
def test_capacity_serves_both_protocols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kemker.CAPACITIES, "mlp", {"units": [3, 5]})
    file = blob_file(tmp_path / "birds.h5", 4, 40)
    runs = kemker.KemkerRuns(
        tmp_path,
        [0],
        learners=["mlp"],
        engine=Engine("local:2"),  # trials in processes, whose settings and scores must travel
        items=["offline.mlp.units=8", "mlp.stop.epochs=3"],
    )
    with quick_workers():
        (table,) = kemker.PAPER.reproduce(runs, ["s10"], [f"cub-stand-in={file.path}"])
    assert runs.failed == []
    (log,) = (json.loads(p.read_text()) for p in (tmp_path / "runs" / "tuning").iterdir())
    tried = [t["settings"] for t in log["tried"]]
    assert log["sessions"] == 1
    assert tried == [{"units": "3"}, {"units": "5"}]
    chosen = ("MLP", "birds for CUB-200", f"units {log['chosen']['units']}")
    rows = {row.labels: row.values["Ω_all"].ours for row in table.rows if row.labels[3]}
    assert list(rows) == [("permutation", *chosen), ("incremental-class", *chosen)]
    assert [len(stat.values) for stat in rows.values() if stat] == [1, 1]
    size = kemker.megabytes("mlp", kemker.Size(6, 4, 80), units=int(log["chosen"]["units"]))
    sizes = [row.values["MB as the paper counts"].ours for row in table.rows if row.labels[3]]
    assert sizes == [Stat.of([size])] * 2
    ours = [value for row in table.rows if row.labels[3] for value in row.values.values()]
    assert all(value.stands_in for value in ours)
    assert len(table.rows) == 22


def test_tables_s6_and_s8_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = scored([[0.875, math.nan], [0.5, 0.75]], [0.875, 0.625], {})
    monkeypatch.setattr(kemker.KemkerRuns, "records", lambda *_: [record])
    data = {n: PaperData(tmp_path / "a.h5", n) for n in ("mnist", "cub", "audioset")}
    runs = kemker.KemkerRuns(tmp_path, [0], data)
    s6, s8 = by_labels(kemker.table_s6(runs)), by_labels(kemker.table_s8(runs))
    for table, label, means, texts in (
        (s6, ("Inc-3", "GeppNet"), [87.5, 75, 62.5], None),
        (s8, ("MLP", "CUB-200 / AudioSet"), [87.5, 50, 75], ["61.8", "20.3", "41.2"]),
    ):
        values = table[label].values()
        assert [v.ours and v.ours.mean for v in values] == means
        assert {v.decimals for v in values} == {1}
        assert texts in (None, [v.texts()[0] for v in values])
    made: Any = SimpleNamespace(by_score={"accuracy": SimpleNamespace(pooled=np.arange(10) / 16)})
    made.sessions = [SimpleNamespace(log={"lam": k}) for k in range(3)]
    assert kemker._read_s1(made) == [6.25, 25, 56.25, 2]
    assert (tmp_path / "orders" / "inc-3.txt").read_text().split() == [*"012456789", "3"]


def test_table_1_counts_samples_of_uneven_classes(tmp_path: Path) -> None:
    file = make_file(tmp_path, (9, 4, 5), (0,) * 3, (2, 3, 7))
    runs = kemker.KemkerRuns(tmp_path, [0], {"cub": PaperData(file.path)})
    assert runs.size("cub") == kemker.Size(file.shape[1], 3, 18)
    values = by_labels(kemker.table1(runs))["file for CUB-200",].values()
    assert [v.ours and v.ours.mean for v in values] == [3, file.shape[1], 18, 12, 4, 9, 2, 7]
    assert {(v.decimals, v.made) for v in values} == {(0, "exact")}


def test_tables_s7_and_s9_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = PRINTED["S7"]
    monkeypatch.setitem(kemker.PRINTED, "S7", [first, last])
    file = blob_file(tmp_path / "ten.h5", 4, 100)
    data = {"mnist": PaperData(file.path, "mnist")}
    runs = kemker.KemkerRuns(tmp_path, [0], data, items=["fel.fel_units=200"])
    rows = by_labels(kemker.table_s7(runs))
    means = [v["accuracy"].ours.mean for v in rows.values() if v["accuracy"].ours]
    assert list(rows) == [("0.00",), ("1.00",)]
    assert 40 < means[1] < 60 < means[0] <= 100  # of the upper half alone
    assert [2 * mean for mean in means] == pytest.approx([round(2 * mean) for mean in means])
    twice = write_file(tmp_path / "2.h5", file.samples, np.repeat(file.read(), 2, axis=1), {})
    runs.data["mnist"] = PaperData(twice.path, "mnist")
    found = [v.ours and v.ours.mean for v in by_labels(kemker.table_s9(runs))["MNIST",].values()]
    assert found == [6, 50]


def test_figure_s1_has_one_row_a_way_of_choosing_lambda(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "digits.h5", 4, 40)
    items = ["ewc.units=8", "ewc.stop.epochs=2", "ewc.lam_sessions=1", "offline.mlp.units=8"]
    runs = kemker.KemkerRuns(tmp_path, [0], {"mnist": PaperData(file.path, "mnist")}, items=items)
    assert runs.specs("permutation", ("mnist",), "fel")[0].learner.settings.fel_units == 2000
    runs.run([c for choice in kemker.CHOICES for c in runs.s1_specs(choice)])
    assert runs.failed == []
    table = kemker.figure_s1(runs)
    assert len(table.rows) == len(kemker.CHOICES) == 3
    lams = [row.values["λ in the end"].ours for row in table.rows]
    assert lams[0] == Stat.of([0.0])
    for row, choice in zip(table.rows, kemker.CHOICES, strict=True):
        (record,) = runs.records(runs.s1_specs(choice))
        pooled, lam = record.by_score["accuracy"].pooled, record.sessions[-1].log["lam"]
        each = [*(100 * pooled[k] for k in (1, 4, 9)), lam]
        assert [v.ours for v in row.values.values()] == [Stat.of([value]) for value in each]
        assert [v.decimals for v in row.values.values()] == [1, 1, 1, 0]
    assert "samples" in record.footprint  # of the last, which keeps validation data
