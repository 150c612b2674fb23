"""Names of files that lie elsewhere, and known files: what ships is true."""

import hashlib
import shutil
from pathlib import Path

import pytest
from file_helpers import refusal, says

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.fetch import local, pin_name
from embedbench.files.remote.names_here import find_known, known_files
from embedbench.files.remote.uri import Name
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.runs.stream_metadata import _file_info

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("name", known_files())
def test_what_ships_is_true(name: str) -> None:
    entry = known_files()[name]
    path = find_known(f"known:{name}")
    data = path.read_bytes()
    assert entry.size == len(data)
    assert entry.sha256 == hashlib.sha256(data).hexdigest()
    digests = {"content": entry.content, "samples": entry.samples, "recipe": entry.recipe}
    if entry.columns is not None:
        digests["columns"] = entry.columns
    assert (file := EmbeddingFile.open(path)).digests == digests
    assert _file_info(file, f"known:{name}").url == f"known:{name}"
    assert local(f"known:{name}") == path
    assert pin_name(f"known:{name}") == f"known:{name}"
    near = "emoji-vit"
    with pytest.raises(UserError, check=says(what="unknown file", got="emoji-vi", expected=near)):
        local("known:emoji-vi")


def test_the_features_that_ship_are_at_most_40_megabytes() -> None:
    assert sum(entry.size for entry in known_files().values()) <= 40_000_000


def test_no_drawer_of_omniglot_is_in_both_parts() -> None:
    file = EmbeddingFile.open("known:omniglot")
    drawers = file.column("group")
    training, test = {*drawers[file.split == TRAIN]}, {*drawers[file.split == TEST]}
    assert (len(training), len(test), training & test) == (28, 12, set())


def test_a_known_name_opens_as_commands_take_it() -> None:
    assert EmbeddingFile.open("known:emoji-vit").digests["content"] == (
        known_files()["emoji-vit"].content
    )


def test_an_address_of_this_machine_opens(tmp_path: Path) -> None:
    copied = shutil.copy(find_known("known:emoji-vit"), tmp_path / "a.h5")
    assert EmbeddingFile.open(f"file://{copied}").path == tmp_path / "a.h5"


def test_a_path_that_reads_as_a_name_opens_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(find_known("known:emoji-vit"), "known:mine")
    assert EmbeddingFile.open("known:mine").path.name == "known:mine"


def test_a_known_name_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        UserError, check=says(what="unknown file", got="emoji-vi", expected="emoji-vit")
    ):
        EmbeddingFile.open("known:emoji-vi")


def test_open_asks_no_server() -> None:
    with pytest.raises(UserError, match=r"lies elsewhere; fetch it first: .*api.local\('https:"):
        EmbeddingFile.open("https://example.org/a.h5")


COMMIT, SHA = "a1" * 20, "b2" * 32


def test_parts_and_what_fixes_a_name() -> None:
    for text, url, basename in (
        ("HTTPS://x.org/a/b%20c.h5?download=1", "https://x.org/a/b%20c.h5?download=1", "b_c.h5"),
        ("s3://bucket/.hidden", "s3://bucket/.hidden", "hidden"),
        ("FILE:///a?b/c.h5", "file:///a?b/c.h5", "c.h5"),
        ("memory://b.h5", "memory://b.h5", "b.h5"),
        ("https://x.org/a/..", "https://x.org/a/..", "file.h5"),
    ):
        name = Name.parse(text)
        assert name.url == url
        assert name.basename == basename
        assert name.sha256 is None
        assert name.commit is None
    assert Name.parse(f"hf://datasets/org/name@{COMMIT}/b.h5").commit == COMMIT
    name = Name.parse(f"https://x.org/b.h5#sha256={SHA}")
    assert name.sha256 == SHA
    assert str(name) == f"https://x.org/b.h5#sha256={SHA}"
    name = Name.parse("hf://datasets/org/name@refs%2Fpr%2F1/a/b.h5")
    assert name.path == "a/b.h5"
    assert name.commit is None
    assert name.hub.repo == "org/name"
    assert name.hub.revision == "refs/pr/1"
    assert str(name.hub) == "hf://datasets/org/name@refs%2Fpr%2F1/a/b.h5"
    assert name.hub.at(COMMIT) == f"hf://datasets/org/name@{COMMIT}/a/b.h5"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file://", "names no file"),
        ("htps://x.org/b.h5", "unknown scheme 'htps'"),
        ("https://x.org", "names no file"),
        ("hf://datasets/org/b.h5", "hf://datasets/ORG/NAME@REVISION/FILE"),
        ("hf://datasets/org/name/../b.h5", "hf://datasets/ORG/NAME@REVISION/FILE"),
        ("https://x.org/b.h5#sha256=12", "digits, got 'sha256=12'"),
        (f"https://x.org/b.h5#sha1={SHA}", "digits, got 'sha1=b2"),
        ("https://me:pw@x.org/b.h5", "holds a password"),
        ("https://me@x.org/b.h5", "holds a password"),
        ("https://x.org/b.h5?X-Amz-Signature=abc", "holds a password"),
        ("https://x.org/b.h5?sig=", "holds a password"),
        *(
            (f"https://x.org/b.h5?{key}=abc", "holds a password")
            for key in ("access_token", "api_key", "AccessKeyId")
        ),
        ("https://[x/b.h5", "no IPv6 address"),
    ],
)
def test_wrong_names(text: str, sentence: str) -> None:
    said = refusal(Name.parse, text)
    assert sentence in said
    assert "pw" not in said
    assert "abc" not in said
