r"""Paths with bytes that are no UTF-8, `b"donn\xe9es"`: used as any path, or refused at once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Call
from image_files import embedding_file
from tiny_images import images

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.scores import record_files

LATIN = "donn\udce9es"  # as Python has the bytes of "données" in Latin-1
RUN = ("--protocol", "incremental-class", "--learner", "ncm", "--set", "references=0", "--quiet")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> Call:
    """Run one command in a folder with the files `e.h5` and `donn\\xe9es/e.h5`."""
    for folder in (tmp_path, tmp_path / LATIN):
        folder.mkdir(exist_ok=True)
        embedding_file(folder)
    monkeypatch.chdir(tmp_path)
    return call


def answers(root: str) -> list[Path]:
    return list(Path(root).rglob("predictions.h5"))


def record(root: str) -> Any:
    (place,) = [p for p in record_files.find(Path(root)) if p.parent.name.startswith("ncm-")]
    return json.loads((place / "record.json").read_bytes().decode("utf-8"))


@pytest.mark.parametrize(
    ("file", "out"), [(f"{LATIN}/e.h5", "runs"), ("e.h5", f"{LATIN}/runs")], ids=["file", "out"]
)
def test_a_run_can_be_read_back(call: Call, file: str, out: str) -> None:
    assert call("run", file, *RUN, "--out", out).code == 0
    assert call("score", out).out.startswith("2 runs: 2 agree, 0 differ, 0 cannot be recomputed\n")
    assert r"$'donn\xe9es/" in record(out)["command"]
    assert call("report", out).code == 0
    assert call("runs", "pack", out, "--out", f"{LATIN}/p.zip").code == 0
    assert call("runs", "merge", f"{LATIN}/p.zip", "--out", "merged").code == 0


def test_a_file_is_named_with_an_escape(call: Call) -> None:
    Path("e.h5").rename("\udce9.h5")
    assert call("run", "\udce9.h5", *RUN, "--out", "runs").code == 0
    assert record("runs")["files"][0]["name"] == r"\xe9.h5"
    assert call("score", "runs").code == 0
    assert call("show", "\udce9.h5", "--protocol", "incremental-class", "--export", "x").code == 0
    assert json.loads(Path("x/stream.json").read_text())["files"][0]["name"] == r"\xe9.h5"


def test_a_setting_that_no_record_can_hold_is_refused_before_any_work(call: Call) -> None:
    Path(LATIN, "order.txt").write_text("0\n1\n2\n3\n4\n5\n")
    order = f"{LATIN}/order.txt"
    done = call("run", "e.h5", *RUN, "--order", order, "--out", "runs")
    assert done.code == 2
    assert answers("runs") == []
    assert r"protocol.order must be a text in UTF-8, got 'donn\\xe9es/order.txt'" in done.err
    done = call(
        "show", "e.h5", "--protocol", "incremental-class", "--order", order, "--export", "x"
    )
    assert done.code == 2
    assert not Path("x", "stream.json").exists()


def test_a_study_file_holds_no_such_path(call: Call) -> None:
    done = call("run", f"{LATIN}/e.h5", *RUN, "--out", "r", "--save-config", "study.toml")
    assert done.code == 2
    assert not Path("study.toml").exists()
    assert "study.toml must be a text in UTF-8" in done.err


def test_a_table_is_imported_under_an_escaped_name(call: Call) -> None:
    np.savez("t.npz", features=np.eye(40, dtype="f4"), labels=np.arange(40) % 2)
    Path("t.npz").rename(f"{LATIN}.npz")
    assert call("import", f"{LATIN}.npz", "--out", f"{LATIN}/t.h5").code == 0
    made = EmbeddingFile.open(f"{LATIN}/t.h5").provenance
    assert made["source"]["name"] == r"donn\xe9es"
    assert call("verify", f"{LATIN}/t.h5").code == 0


def test_a_folder_is_extracted_and_what_is_said_of_it_checked_first(call: Call) -> None:
    images(Path(LATIN, "in"), 6)
    words = ("extract", f"{LATIN}/in", "--backbone", "pixels", "--size", "8", "--quiet", "--out")
    assert call(*words, f"{LATIN}/f.h5").code == 0
    assert call("verify", f"{LATIN}/f.h5").code == 0
    done = call(*words, "g.h5", "--licence", "\udce9")
    assert done.code == 2
    assert sorted(p.name for p in Path().glob("*g.h5*")) == []
    assert "licence must be a text in UTF-8" in done.err


def test_a_pack_names_its_maker_in_text(call: Call) -> None:
    assert call("run", "e.h5", *RUN, "--out", "runs").code == 0
    done = call("runs", "pack", "runs", "--out", "p.zip", "--by", "Andr\udce9")
    assert done.code == 2
    assert not Path("p.zip").exists()


def test_what_was_tracked_from_such_a_folder_is_remembered(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(LATIN)
    assert call("run", "e.h5", *RUN, "--out", "runs").code == 0
    for replays in (2, 0):
        done = call("runs", "track", "runs", "--to", "tensorboard:tb")
        assert done.code == 0
        assert done.err == f"runs replayed: {replays}\n"
