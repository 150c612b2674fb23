"""`benchmarks/study_pages.py`: the rows of runs, what a page says, the shipped pages."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.import_export import import_file
from embedbench.studies.resolve import resolve
from embedbench.studies.study_file import read_study

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import study_pages  # noqa: E402  (the path is set above)
from study_tables import compared, hours, measured, rows, which  # noqa: E402
from study_tables.rows import Row  # noqa: E402


def row(learner: str, seed: int, final: float, stream: str = "a", **changes: object) -> Row:
    """A row of made-up numbers."""
    made = Row(
        file=stream,
        embedding="final",
        protocol="incremental-class",
        learner=learner,
        seed=seed,
        chosen="",
        sessions=10,
        final_accuracy=final,
        average_incremental_accuracy=final,
        omega_all=1.0,
        average_forgetting=0.1,
        bytes=2_000_000,
        samples=0,
        learn_seconds=3.0,
        evaluate_seconds=1.0,
        flags="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields of a row


def crowd(learners: tuple[str, ...], noise: float = 0.004) -> list[Row]:
    """Three streams and four seeds: the first learner is the best, by two points a place."""
    draw = np.random.default_rng(3)
    return [
        row(name, seed, 0.9 - 0.02 * place - 0.1 * s + noise * draw.normal(), stream)
        for s, stream in enumerate("abc")
        for place, name in enumerate(learners)
        for seed in range(4)
    ]


def test_rows_survive_their_file(tmp_path: Path) -> None:
    made = [row("ncm", 0, 0.123456), row("er", 1, math.nan, omega_all=0.5, chosen="lr=0.1, b")]
    rows.write(made, tmp_path / "rows.csv")
    assert str(rows.read(tmp_path / "rows.csv")) == str(made)  # NaN is equal to no NaN
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no table of a study"):
        rows.read(tmp_path / "other.csv")


def test_a_stream_counts_once_and_seeds_are_paired() -> None:
    made = [
        *(row("x", s, v) for s, v in enumerate((0.50, 0.60))),
        *(row("y", s, v) for s, v in enumerate((0.48, 0.56))),
        *(row("x", s, v, "b") for s, v in enumerate((0.30, 0.32, 0.34))),
        *(row("y", s, v, "b") for s, v in enumerate((0.20, 0.22, 0.24))),
    ]
    best, other = compared.overall(made).learners
    assert (best.learner, other.n) == ("x", 2)
    assert other.behind_by == pytest.approx((0.03 + 0.10) / 2)
    alone = compared.apart([r for r in made if r.file == "a"], ["x"], ["y"])
    assert len(alone.values) == 2
    assert alone.mean == pytest.approx(0.03)
    # t(0.975, 1) = 12.706; the differences .02 and .04 have the standard error .01
    assert alone.half == pytest.approx(12.706 * 0.01, rel=1e-3)
    assert compared.verdict(alone) == "level"
    sure = compared.apart([r for r in made if r.file == "b"], ["x"], ["y"])
    assert (sure.half, compared.verdict(sure)) == (pytest.approx(0, abs=1e-12), "above")
    assert compared.over_streams(made, "x").values == pytest.approx((0.55, 0.32))


def test_runs_without_a_score_are_left_out_and_named() -> None:
    made = [*crowd(("x", "y")), row("z", 0, math.nan, flags="nan")]
    assert {r.learner for r in compared.used(made)} == {"x", "y"}
    said = study_pages.which.parts.missing(made, made)
    assert said == "1 runs whose answers were NaN are left out, all of z."


def test_the_page_says_where_the_claim_holds() -> None:
    made = crowd(("slda", "icarl", "ncm", "ewc"))
    values = which.values(made, [], 15)
    assert values["answer"][0].startswith("Over the 3 streams `slda` has the highest mean")
    # the mean of slda and ncm, at places 1 and 3, is that of icarl, at place 2
    assert "above 0 on 0, below on 0 and undecided on 3 of 3" in values["answer"][1]
    assert values["answer"][2].endswith("and all are within the 15 MB.")
    holds = " ".join(values["holds"])
    assert "**holds**: `slda` is above `icarl` on a, incremental-class; b, incre" in holds
    assert "`ncm` train nothing and have a lower mean than `icarl`" in holds
    other = which.values(crowd(("icarl", "slda", "ncm", "ewc")), [], 1.5)
    over = "and all are within the 1.5 MB but for `ewc` (2.0 MB), `icarl` (2.0 MB)"
    assert over in other["answer"][2]
    assert "does **not**: `slda` is below `icarl`" in " ".join(other["holds"])


@pytest.mark.parametrize("study", study_pages.STUDIES)
def test_a_page_needs_only_its_data(study: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    made = [*crowd(("slda", "er", "ncm")), *crowd(("chance",))]
    if study == "backbone":
        made = [replace(r, file="vit", embedding=f"block-{r.file}") for r in made]
        made += [replace(r, embedding="final") for r in made if r.embedding == "block-a"]
    rows.write(made, tmp_path / "data" / f"{study}.csv")
    study_pages.page(study, tmp_path)
    text = (tmp_path / f"{study}.md").read_text(encoding="utf-8")
    assert "3 learners" in text
    assert "| `slda` | " in text
    assert text.count("`chance`") >= 1
    assert not re.search(r"\bnan\b", text)
    study_pages.page(study, tmp_path)
    assert (tmp_path / f"{study}.md").read_text(encoding="utf-8") == text


def test_hours_are_cells_times_seconds(tmp_path: Path) -> None:
    config = tmp_path / "study.toml"
    config.write_text(
        'files = ["a.h5", "b.h5"]\nprotocols = ["incremental-class"]\nlearners = ["ncm", "ewc"]\n'
        'seeds = "0-4"\n[tune]\newc.lam = [1, 10, 100]\n'
    )
    made = [
        row("ncm", 0, 0.5, learn_seconds=1.0, evaluate_seconds=1.0),
        row("ewc", 0, 0.5, learn_seconds=9.0),
        row("ewc", 0, 0.5, "b", learn_seconds=19.0),
    ]
    cells, trials, estimate = hours.estimate(config, made)
    assert (cells, trials) == (20, 6)
    # ncm: ten cells of 2 s; ewc: five of 10 s and five of 20 s, and of each 3 trials of 3 of 10
    # sessions
    assert estimate * 3600 == pytest.approx(20 + 50 + 100 + 0.9 * 10 + 0.9 * 20)


def test_bytes_are_measured_on_the_run_itself(tmp_path: Path) -> None:
    draw, y = np.random.default_rng(0), np.repeat(np.arange(4), 12)
    x = (draw.normal(size=(4, 6)) + 0.1 * draw.normal(size=(12, 4, 6))).transpose(1, 0, 2)
    split = np.tile(np.where(np.arange(12) < 9, "train", "test"), 4)
    np.savez(tmp_path / "blobs.npz", features=x.reshape(48, 6), labels=y, split=split)
    import_file(tmp_path / "blobs.npz", tmp_path / "blobs.h5")
    line = f"run {tmp_path / 'blobs.h5'} --protocol incremental-class --set protocol.base=3 "
    line += "--learner ncm,er,ewc --set references=0 --set ewc.stop.rule=epochs "
    line += f"--set ewc.stop.epochs=2 --jobs 1 --out {tmp_path / 'runs'}"
    assert CliRunner().invoke(app, line.split()).exit_code == 0
    made = measured.measure(tmp_path / "runs", tmp_path, "incremental-class")
    assert {m.learner for m in made} == {"ncm", "er", "ewc"}
    assert all(m.recorded == m.saved <= m.memory for m in made)
    assert [m.learner for m in made if m.renewed] == ["ewc"]  # Adam begins anew in every session
    said = which._bytes_verdict(made)
    assert said == "Recorded equals saved for all 3, to the byte."
    wrong = [replace(made[0], saved=made[0].recorded * 2), *made[1:]]
    assert "differ, by 100.00 % at most" in which._bytes_verdict(wrong)
    got = rows.of_runs([tmp_path / "runs"])
    assert {r.learner for r in got} == {"ncm", "er", "ewc", "chance"}
    line += " --set ewc.lam=7"
    assert CliRunner().invoke(app, line.split()).exit_code == 0
    with pytest.raises(UserError, match="ewc has two runs of blobs, incremental-class with seed 0"):
        rows.of_runs([tmp_path / "runs"])


@pytest.mark.parametrize(
    ("name", "cells"),
    [("which-learner", 12 * 2 * 2 * 5), ("backbone", 6 * 4 * 5)],
)
def test_the_shipped_studies_have_their_cells(name: str, cells: int) -> None:
    assert len(resolve(read_study(ROOT / "docs" / "studies" / f"{name}.toml"))) == cells


@pytest.mark.parametrize("study", study_pages.STUDIES)
def test_the_shipped_pages_are_those_of_their_data(study: str, tmp_path: Path) -> None:
    docs = ROOT / "docs" / "studies"
    if not (docs / "data" / f"{study}.csv").is_file():
        pytest.skip(f"the study {study} was not run")
    (tmp_path / "data").symlink_to(docs / "data")
    study_pages.page(study, tmp_path)
    made = (tmp_path / f"{study}.md").read_text(encoding="utf-8")
    assert made == (docs / f"{study}.md").read_text(encoding="utf-8")
