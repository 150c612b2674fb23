"""Files of a hub, by a server that speaks its protocol; a token appears nowhere."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_helpers import make_small
from file_server import COMMIT, TOKEN, Served, run_main, serving

from embedbench.errors import UserError
from embedbench.files.remote.fetch import fetch, local, pin_name
from embedbench.storage import user_cache

NAME = "hf://datasets/org/{}/small.h5"
FIXED = f"hf://datasets/org/{{}}@{COMMIT}/small.h5"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    data = make_small(tmp_path / "s.h5").read_bytes()
    with serving({"/lfs/small.h5": data}) as store, serving() as served:
        served.elsewhere = store
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        yield served


def store_of(hub: Served) -> Served:
    """Where the bytes of its large files lie."""
    assert hub.elsewhere is not None
    return hub.elsewhere


def test_a_branch_is_fixed_to_its_commit(hub: Served) -> None:
    data = store_of(hub).files["/lfs/small.h5"]
    assert pin_name(NAME.format("open")) == FIXED.format("open")
    found = fetch(NAME.format("open"))
    assert (found.commit, found.sha256) == (COMMIT, hashlib.sha256(data).hexdigest())
    hub.asked.clear()
    assert local(FIXED.format("open")).read_bytes() == data  # of a commit nothing is asked
    assert hub.asked == []


def test_a_new_commit_with_the_same_file(hub: Served) -> None:
    path = local(NAME.format("open"))
    hub.commit = "f" * 40
    store_of(hub).asked.clear()
    assert pin_name(NAME.format("open")) == NAME.format("open@" + "f" * 40)
    assert local(NAME.format("open@" + "f" * 40)) == path
    assert store_of(hub).asked_for("/lfs/small.h5") == ["bytes=0-0"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (NAME.format("gated"), "ask for access at https://huggingface.co/datasets/org/gated"),
        (NAME.format("private"), "there is no dataset org/private, or it is private"),
        (NAME.format("open@v9"), "there is no revision 'v9' of hf://datasets/org/open@v9/small.h5"),
        ("hf://datasets/org/open/none.h5", "there is no file hf://datasets/org/open/none.h5"),
    ],
)
def test_what_the_hub_refuses(hub: Served, name: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        local(name)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_no_hub(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"small.h5 could not be reached \(\w+\)"):
        local(NAME.format("open"))


def test_other_bytes_than_the_hub_says(hub: Served) -> None:
    hub.faults["lfs"] = "0" * 64
    with pytest.raises(UserError, match="expected 0000"):
        local(NAME.format("open"))


def test_another_size_than_the_hub_says(hub: Served) -> None:
    size = len(store_of(hub).files["/lfs/small.h5"])
    hub.faults["size"] = "7"
    with pytest.raises(UserError) as error:
        local(NAME.format("open"))
    assert str(error.value) == f"{FIXED.format('open')} has {size:,} bytes, and the hub says 7"


def test_a_token_appears_nowhere(
    hub: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither in output, nor in a file or a record, nor is it sent to another host."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    said, store = "", store_of(hub)
    for hub.elsewhere in (store, None):
        hub.files = {} if hub.elsewhere else store.files
        for words in (
            ["inspect", NAME.format("gated"), "--json"],
            ["inspect", NAME.format("gated@v9")],
            ["inspect", "hf://datasets/org/private/none.h5"],
            ["verify", NAME.format("private")],
            ["list", "files", "--json"],
        ):
            run_main(monkeypatch, words)
            said += "".join(capfd.readouterr())
        assert local(NAME.format("private")).is_relative_to(user_cache.directory() / "files")
        run_main(monkeypatch, ["list", "files", "--prune"])
    assert json.dumps(hub.commit)[1:-1] in said
    assert all(login in ("", f"Bearer {TOKEN}") for _, _, login in hub.asked)
    assert f"Bearer {TOKEN}" in {login for _, _, login in hub.asked}
    assert {login for _, _, login in store.asked} == {""}
    texts = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert not any(TOKEN.encode() in text or b"Signature" in text for text in texts)
    assert TOKEN not in said
    assert "Signature" not in said
