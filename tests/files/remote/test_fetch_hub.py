"""Files of a hub, by a server that speaks its protocol; a token appears nowhere."""

import hashlib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from file_helpers import refusal
from file_server import COMMIT, TOKEN, Served

from embedbench import build_stream
from embedbench.files.remote.fetch import fetch, local, pin_name
from embedbench.files.remote.names_here import known_files
from embedbench.storage import user_cache

pytestmark = pytest.mark.usefixtures("cache")
NAME = "hf://datasets/org/{}/small.h5"
FIXED = f"hf://datasets/org/{{}}@{COMMIT}/small.h5"


def test_a_branch_is_fixed_to_its_commit(hub: Served, small: bytes) -> None:
    assert pin_name(NAME.format("open")) == FIXED.format("open")
    found = fetch(NAME.format("open"))
    assert found.commit == COMMIT
    assert found.sha256 == hashlib.sha256(small).hexdigest()
    hub.asked.clear()
    path = local(FIXED.format("open"))
    assert path.read_bytes() == small  # of a commit nothing is asked
    assert hub.asked == []
    hub.commit = "f" * 40  # with the same file
    hub.elsewhere.asked.clear()
    assert pin_name(NAME.format("open")) == NAME.format("open@" + "f" * 40)
    assert local(NAME.format("open@" + "f" * 40)) == path
    assert hub.elsewhere.asked_for("/lfs/small.h5") == ["bytes=0-0"]


def test_what_the_hub_refuses(hub: Served, small: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, sentence in {
        NAME.format("gated"): "access to org/gated",
        NAME.format("private"): "access to org/private",
        NAME.format("status200"): "name its commit",
        NAME.format("status403"): "access to org/status403",
        NAME.format("status409"): "by another commit",
        NAME.format("status412"): "by another commit",
        NAME.format("status418"): "(status 418)",
        NAME.format("open@v9"): "no hf://datasets/org/open@v9/small.h5",
        "hf://datasets/org/open/none.h5": "no hf://datasets/org/open/none.h5",
    }.items():
        assert sentence in refusal(local, name)
    hub.faults["lfs"] = "0" * 64
    assert "expected 0000" in refusal(local, NAME.format("open"))
    hub.faults["size"] = "7"
    said = refusal(local, NAME.format("open"))
    assert all(part in said for part in (FIXED.format("open"), f" {len(small):,} bytes", "says 7"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "(Connect" in refusal(local, NAME.format("open"))


def test_secrets(hub: Served, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in output, nor in a file or a record, nor is it sent to another host."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    said, store = "", hub.elsewhere
    for hub.elsewhere in (store, None):
        hub.files = {} if hub.elsewhere else store.files
        for words in (
            ("inspect", NAME.format("gated"), "--json"),
            ("inspect", NAME.format("gated@v9")),
            ("inspect", "hf://datasets/org/private/none.h5"),
            ("verify", NAME.format("private")),
            ("list", "files", "--json"),
        ):
            said += "".join(call(*words)[1:])
        assert local(NAME.format("private")).is_relative_to(user_cache.directory() / "files")
        shutil.rmtree(user_cache.directory())
    assert json.dumps(hub.commit)[1:-1] in said
    assert f"Bearer {TOKEN}" in {login for _, _, login in hub.asked} <= {"", f"Bearer {TOKEN}"}
    assert {login for _, _, login in store.asked} == {""}
    texts = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    for secret in (TOKEN, "Signature"):
        assert not any(secret.encode() in text for text in (*texts, said.encode()))


OPEN = NAME.format("open")
HERE = ("--device", "cpu", "--jobs", "1", "-q", "--out")
RUN = ("--protocol", "incremental-class", "--set", "protocol.base=2", "--learner", "ncm")
RUN = (*RUN, "--set", "offline.mlp.stop.epochs=1", *HERE)


@pytest.fixture
def here(hub: Served, small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The hub; its file lies in the working directory, too."""
    (tmp_path / "small.h5").write_bytes(small)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return hub


def records(root: str) -> dict[str, dict[str, Any]]:
    found = [json.loads(p.read_text()) for p in Path(root).rglob("record.json")]
    return {r["learner"]: r for r in found}


def test_runs(here: Served, small: bytes, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("run", OPEN, *RUN, "named")[0] == 0
    assert call("run", "small.h5", *RUN, "plain")[0] == 0
    named, plain = records("named"), records("plain")
    assert set(named) == set(plain) == {"ncm", "offline", "chance"}
    where, sha256 = FIXED.format("open"), hashlib.sha256(small).hexdigest()
    for learner, record in named.items():
        (file,), (same,) = record["files"], plain[learner]["files"]
        assert set(same) == {"name", "kind", "digests"}
        assert file == same | {"url": where, "commit": COMMIT, "sha256": sha256}
        assert record["metrics"] == plain[learner]["metrics"]
        assert record["command"].split()[:3] == ["embedbench", "run", where]
    *shipped, fetched = json.loads(call("list", "files", "--json")[1])
    assert [file["name"] for file in shipped] == sorted(f"known:{name}" for name in known_files())
    assert fetched["name"] == where
    assert fetched["size"] == str(len(small))
    # on another machine: an empty cache, and another place for runs
    monkeypatch.setenv("EMBEDBENCH_CACHE", "other")
    words = shlex.split(named["chance"]["command"].replace("--out named", "--out again"))[1:]
    assert call(*words, "--jobs", "1", "--device", "cpu")[0] == 0
    for key in ("files", "digests", "predictions_sha256"):
        assert records("again")["chance"][key] == named["chance"][key]
    texts = [p.read_bytes() for p in Path().rglob("*") if p.is_file()]
    assert len(texts) > 20
    assert not any(TOKEN.encode() in text for text in texts)


def test_every_command_that_takes_a_file(here: Served, small: bytes, call: Any) -> None:
    for words in (
        ["inspect", OPEN, "--redundancy"],
        ["verify", OPEN],
        ["diff", OPEN, f"{here.address}/small.h5"],
        ["export", OPEN, "--out", "small.npz"],
        ["order", OPEN, "--kind", "random", "--sessions", "3", "--out", "order.json"],
    ):
        assert call(*words)[0] == 0, words
    whole = f"bytes=0-{len(small) - 1}"
    assert here.elsewhere.asked_for("/lfs/small.h5").count(whole) == 1  # into the cache
    assert here.asked_for("/small.h5") == ["bytes=0-0", whole]
    named, plain = (build_stream(x, "incremental-class", base=2) for x in (OPEN, "small.h5"))
    assert named.digests == plain.digests
