"""Names of files that lie elsewhere."""

import pytest

from embedbench.errors import UserError
from embedbench.files.remote.uri import Name

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
        (
            "https://x.org/b.h5#sha256=12",
            "'https://x.org/b.h5#sha256=12': after # comes sha256= and 64 hexadecimal digits, got "
            "'sha256=12'",
        ),
        ("https://x.org/b.h5#top", "sha256="),
        ("https://me:pw@x.org/b.h5", "holds a password"),
        ("https://x.org/b.h5?X-Amz-Signature=abc", "holds a password or a signature"),
        ("https://x.org/b.h5?access_token=abc", "holds a password or a signature"),
        ("https://[x/b.h5", "no IPv6 address"),
    ],
)
def test_wrong_names(text: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        Name.parse(text)
    assert sentence in str(error.value)
    assert "pw" not in str(error.value)
    assert "abc" not in str(error.value)
