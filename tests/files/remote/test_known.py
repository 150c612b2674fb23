"""Known files: what ships is true, and what is wrong in an entry is said."""

import hashlib
import re
from pathlib import Path

import pytest
from file_server import run_main, serving

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote import known_files
from embedbench.files.remote.fetch import local, pin_name
from embedbench.files.remote.remote_inspection import peek

SHIPPED = {
    name: e
    for name, e in known_files.known_files().items()
    if e.url.startswith(known_files.SHIPPED)
}
ENTRY = """
[small]
what = "three classes of noise"
url = "{url}"
licence = "CC0-1.0"
size = {size}
sha256 = "{sha256}"
content = "{content}"
samples = "{samples}"
recipe = "{recipe}"
"""


def entry(path: Path, url: str = "https://x.org/small.h5", **changes: str) -> str:
    """The text of an entry for a file."""
    data = path.read_bytes()
    digests = EmbeddingFile.open(path).digests
    values = {"url": url, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return ENTRY.format(**{**values, **digests, **changes})


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
    assert peek(f"known:{name}").digests == digests


def test_an_entry_of_a_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = known_files.find_shipped("known:emoji-vit")
    assert path is not None
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EMBEDBENCH_KNOWN", str(tmp_path / "mine.toml"))
    with serving({"/small.h5": path.read_bytes()}) as web:
        url = f"{web.address}/small.h5"
        (tmp_path / "mine.toml").write_text(entry(path, url))
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        assert pin_name("known:small") == f"{url}#sha256={sha256}"
        assert local("known:small").read_bytes() == path.read_bytes()
        (tmp_path / "mine.toml").write_text(entry(path, url, content="0" * 64))
        with pytest.raises(UserError, match="has the content digest"):
            local("known:small")
        web.asked.clear()
        assert run_main(monkeypatch, ["list", "files", "--json"]) == 0
        assert web.asked == []
    with pytest.raises(UserError, match=r"unknown file 'smal'. Did you mean 'small'\?"):
        local("known:smal")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (r"\[small\]", "[Small]", "must be of small letters"),
        ("url = .*", "", "the key url is missing"),
        ("url = .*", 'url = "shipped:none.h5"', "ships no file 'none.h5'"),
        ("url = .*", 'url = "shipped:../__init__.py"', "ships no file"),
        ("url = .*", 'url = "file:///etc/passwd"', "on one machine only"),
        ("licence = .*", 'licence = " "', "licence is empty"),
        ("size = .*", "size = 0", "size must be a number of bytes"),
        ("sha256 = .*", 'sha256 = "12"', "sha256 must be 64 hexadecimal digits"),
        ("what = .*", 'wat = "x"\nwhat = "y"', "has 'wat'; an entry takes"),
        ("what = .*", "what = ", "is not TOML"),
    ],
)
def test_wrong_entries(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = known_files.find_shipped("known:emoji-vit")
    assert path is not None
    (tmp_path / "k.toml").write_text(re.sub(old, new, entry(path), count=1))
    with pytest.raises(UserError) as error:
        known_files.read(tmp_path / "k.toml")
    assert sentence in str(error.value)
    assert str(tmp_path / "k.toml") in str(error.value)


def test_the_smallest_size_is_one_byte(tmp_path: Path) -> None:
    path = known_files.find_shipped("known:emoji-vit")
    assert path is not None
    (tmp_path / "k.toml").write_text(entry(path, size="1"))
    assert known_files.read(tmp_path / "k.toml")["small"].size == 1
