"""Commands that take names of files: their records work on another machine."""

import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from file_helpers import make_small
from file_server import COMMIT, TOKEN, Served, run_main, serving

from embedbench import build_stream

NAME = "hf://datasets/org/open/small.h5"
RUN = ["--protocol", "incremental-class", "--set", "protocol.base=2", "--learner", "ncm"]
RUN += ["--device", "cpu", "--jobs", "1", "-q", "--out"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    data = make_small(tmp_path / "small.h5").read_bytes()
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with serving({"/lfs/small.h5": data}) as store, serving({"/small.h5": data}) as served:
        served.elsewhere = store
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served


def records(root: str) -> dict[str, dict[str, Any]]:
    """The records of a directory of runs, by learner."""
    found = [json.loads(p.read_text()) for p in Path(root).rglob("record.json")]
    return {r["learner"]: r for r in found}


def test_a_run_of_a_name(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(monkeypatch, ["run", NAME, *RUN, "named"]) == 0
    assert run_main(monkeypatch, ["run", "small.h5", *RUN, "plain"]) == 0
    named, plain = records("named"), records("plain")
    assert set(named) == set(plain) == {"ncm", "offline", "chance"}
    where = f"hf://datasets/org/open@{COMMIT}/small.h5"
    for learner, record in named.items():
        (file,), (same,) = record["files"], plain[learner]["files"]
        assert set(same) == {"name", "kind", "digests"}
        assert file == same | {
            "url": where,
            "commit": COMMIT,
            "sha256": hashlib.sha256(hub.files["/small.h5"]).hexdigest(),
        }
        assert record["metrics"] == plain[learner]["metrics"]
        assert record["command"].split()[:3] == ["embedbench", "run", where]
    # on another machine: an empty cache, and another place for runs
    monkeypatch.setenv("EMBEDBENCH_CACHE", "other")
    hub.commit = COMMIT
    words = shlex.split(named["chance"]["command"].replace("--out named", "--out again"))[1:]
    words += ["--jobs", "1", "--device", "cpu"]
    assert run_main(monkeypatch, words) == 0
    for key in ("files", "digests", "predictions_sha256"):
        assert records("again")["chance"][key] == named["chance"][key]
    texts = [p.read_bytes() for p in Path().rglob("*") if p.is_file()]
    assert len(texts) > 20
    assert not any(TOKEN.encode() in text for text in texts)


def test_another_content_is_refused(
    hub: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for file in (f"{hub.address}/small.h5", "small.h5"):
        assert run_main(monkeypatch, ["run", file, "--expect", "ab", *RUN, "runs"]) == 2
        said = capfd.readouterr().err
        assert "has the content digest" in said
        assert said.count("\n") == 1
    assert not Path("runs").exists()


def test_every_command_that_takes_a_file(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(hub.files["/small.h5"])
    for words in (
        ["inspect", NAME],
        ["inspect", NAME, "--redundancy"],
        ["verify", NAME],
        ["diff", NAME, f"{hub.address}/small.h5"],
        ["export", NAME, "--out", "small.npz"],
        ["order", NAME, "--kind", "random", "--sessions", "3", "--out", "order.json"],
    ):
        assert run_main(monkeypatch, words) == 0, words
    assert hub.elsewhere is not None
    whole = [r for r in hub.elsewhere.asked_for("/lfs/small.h5") if r == f"bytes=0-{size - 1}"]
    assert len(whole) == 2  # by the card, as the file is that small, and once into the cache
    assert hub.asked_for("/small.h5") == ["bytes=0-0", f"bytes=0-{size - 1}"]


def test_streams_in_python(hub: Served) -> None:
    named = build_stream(NAME, "incremental-class", base=2)
    plain = build_stream("small.h5", "incremental-class", base=2)
    assert named.digests == plain.digests


def test_list_and_prune(
    hub: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, ["verify", NAME]) == 0
    capfd.readouterr()
    assert run_main(monkeypatch, ["list", "files", "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert [r["name"] for r in rows] == [
        "known:emoji-vit",
        f"hf://datasets/org/open@{COMMIT}/small.h5",
    ]
    assert rows[1]["size"] == str(len(hub.files["/small.h5"]))
    assert run_main(monkeypatch, ["list", "files", "--prune"]) == 0
    out, err = capfd.readouterr()
    assert "removed 1 fetched file, 0.0 MB" in err
    assert "open" not in out
    assert run_main(monkeypatch, ["list", "--prune"]) == 2
