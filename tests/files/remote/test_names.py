"""Names of files that lie elsewhere, and known files: what ships is true."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from file_helpers import refusal
from file_server import serving

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote import known_files
from embedbench.files.remote.fetch import local, pin_name
from embedbench.files.remote.uri import Name

pytestmark = pytest.mark.usefixtures("cache")
SHIPPED = {
    name: e
    for name, e in known_files.known_files().items()
    if e.url.startswith(known_files.SHIPPED)
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, small: bytes) -> Path:
    path = tmp_path_factory.mktemp("known") / "small.h5"
    path.write_bytes(small)
    return path


def entry(path: Path, url: str = "https://x.org/small.h5", **changes: Any) -> str:
    data = path.read_bytes()
    about = {"what": "three classes of noise", "url": url, "licence": "CC0-1.0"}
    measured = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    values = {**about, **measured, **EmbeddingFile.open(path).digests, **changes}
    return "\n".join(["[small]", *(f"{key} = {json.dumps(v)}" for key, v in values.items())])


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_is_true(name: str) -> None:
    says = SHIPPED[name]
    path = known_files.find_shipped(f"known:{name}")
    assert path is not None
    data = path.read_bytes()
    assert (says.size, says.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    digests = {"content": says.content, "samples": says.samples, "recipe": says.recipe}
    assert EmbeddingFile.open(path).digests == digests
    assert local(f"known:{name}") == path
    assert pin_name(f"known:{name}", expect=says.content) == f"known:{name}"


def test_an_entry_of_a_named_file(
    path: Path, small: bytes, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.toml"
    monkeypatch.setenv("EMBEDBENCH_KNOWN", str(mine))
    with serving({"/small.h5": small}) as web:
        url = f"{web.address}/small.h5"
        mine.write_text(entry(path, url))
        assert pin_name("known:small") == f"{url}#sha256={hashlib.sha256(small).hexdigest()}"
        assert local("known:small").read_bytes() == small
        mine.write_text(entry(path, url, content="0" * 64))
        assert "has the content digest" in refusal(local, "known:small")
        web.asked.clear()
        assert call("list", "files", "--json")[0] == 0
        assert web.asked == []
    assert "unknown file 'smal'. Did you mean 'small'?" in refusal(local, "known:smal")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (r"\[small\]", "[Small]", "name must be of small letters"),
        ("url = .*", "", "the key url is missing"),
        ("url = .*", 'url = "shipped:none.h5"', "ships no file 'none.h5'"),
        ("url = .*", 'url = "shipped:../__init__.py"', "ships no file"),
        ("url = .*", 'url = "file:///etc/passwd"', "on one machine only"),
        ("licence = .*", 'licence = " "', "licence must be a text"),
        ("size = .*", "size = 0", "size must be a number of bytes"),
        ("sha256 = .*", 'sha256 = "12"', "sha256 must be 64 hexadecimal digits"),
        ("what = .*", 'wat = "x"', "the key what is missing"),
        ("what = .*", "what = ", "is not TOML"),
    ],
)
def test_wrong_entries(path: Path, tmp_path: Path, old: str, new: str, sentence: str) -> None:
    known = tmp_path / "k.toml"
    known.write_text(re.sub(old, new, entry(path), count=1))
    said = refusal(known_files.read, known)
    assert sentence in said
    assert str(known) in said
    known.write_text(entry(path, size=1))
    assert known_files.read(known)["small"].size == 1  # the smallest


# --- names

COMMIT, SHA = "a1" * 20, "b2" * 32


@pytest.mark.parametrize(
    ("text", "url", "basename"),
    [
        ("hf://datasets/org/name/a/b.h5", "hf://datasets/org/name/a/b.h5", "b.h5"),
        ("hf://org/name@v1/b.h5", "hf://org/name@v1/b.h5", "b.h5"),
        ("HTTPS://x.org/a/b%20c.h5?download=1", "https://x.org/a/b%20c.h5?download=1", "b_c.h5"),
        ("s3://bucket/.hidden", "s3://bucket/.hidden", "hidden"),
        ("FILE:///a?b/c.h5", "file:///a?b/c.h5", "c.h5"),
        ("memory://b.h5", "memory://b.h5", "b.h5"),
        ("https://x.org/a/..", "https://x.org/a/..", "file.h5"),
    ],
)
def test_parts(text: str, url: str, basename: str) -> None:
    name = Name.parse(text)
    assert (name.url, name.basename, name.sha256, name.commit) == (url, basename, None, None)


def test_what_fixes_a_name() -> None:
    assert Name.parse(f"hf://datasets/org/name@{COMMIT}/b.h5").commit == COMMIT
    name = Name.parse(f"https://x.org/b.h5#sha256={SHA}")
    assert (name.sha256, str(name)) == (SHA, f"https://x.org/b.h5#sha256={SHA}")


def test_a_hub_name_at_a_commit() -> None:
    hub = Name.parse("hf://datasets/org/name@refs%2Fpr%2F1/a/b.h5").hub
    assert (hub.kind, hub.repo, hub.revision) == ("dataset", "org/name", "refs/pr/1")
    assert str(hub) == "hf://datasets/org/name@refs%2Fpr%2F1/a/b.h5"
    assert hub.at(COMMIT) == f"hf://datasets/org/name@{COMMIT}/a/b.h5"
    assert Name.parse("hf://org/name/b.h5").hub.at(COMMIT) == f"hf://org/name@{COMMIT}/b.h5"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file://", "names no file"),
        ("htps://x.org/b.h5", "Did you mean 'https'"),
        ("https://x.org", "names no file"),
        ("hf://datasets/org/b.h5", "hf://datasets/ORG/NAME@REVISION/FILE"),
        ("hf://datasets/org/name/../b.h5", "hf://datasets/ORG/NAME@REVISION/FILE"),
        ("https://x.org/b.h5#sha256=12", "'https://x.org/b.h5#sha256=12': after # comes sha256="),
        ("https://x.org/b.h5#top", "sha256="),
        ("https://me:pw@x.org/b.h5", "holds a password"),
        ("https://x.org/b.h5?X-Amz-Signature=abc", "holds a password or a signature"),
        ("https://x.org/b.h5?access_token=abc", "holds a password or a signature"),
        ("https://[x/b.h5", "no IPv6 address"),
    ],
)
def test_wrong_names(text: str, sentence: str) -> None:
    said = refusal(Name.parse, text)
    assert sentence in said
    assert "pw" not in said
    assert "abc" not in said
