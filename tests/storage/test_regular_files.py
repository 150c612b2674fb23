"""What failed, and why, in one sentence."""

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from file_helpers import refusal

from embedbench.errors import UserError
from embedbench.papers.result_files import PaperResults
from embedbench.reports.results_csv import read_csv
from embedbench.storage import safe_zips
from embedbench.storage.regular_files import explain_errors, open_regular, read_text
from embedbench.studies.study_file import read_toml

MISSING = FileNotFoundError(errno.ENOENT, "No such file or directory", "a/b.npy")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("bad\nat line 3"), "it failed (ValueError: bad); try again."),
        (MemoryError(), "it failed (MemoryError); try again."),
        (ValueError("b" * 201), f"it failed (ValueError: {'b' * 200}); try again."),
        (PermissionError(errno.EACCES, "Permission denied"), "(no permission to read it)"),
        (OSError(errno.EIO, "Input/output error"), "(Input/output error)"),
        (MISSING, "it failed (not there, or a link to nothing); try again."),
        # of libraries, which raise OSError for what is no error of the system
        (FileNotFoundError("no 'x' on the hub"), "(FileNotFoundError: no 'x' on the hub)"),
        (ConnectionError("\nno network\n"), "it failed (ConnectionError: no network); try again."),
        (UserError("a sentence"), "a sentence"),
    ],
)
def test_any_error_becomes_one_sentence(error: Exception, sentence: str) -> None:
    with pytest.raises(UserError) as raised, explain_errors("it failed", "try again"):
        raise error
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_pipe_that_takes_the_place_of_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    os.mkfifo(tmp_path / "a")
    before = os.stat(__file__)
    monkeypatch.setattr(os, "stat", lambda _: before)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "a")


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("a..b/c", {"flag_bits": 0x888}, ""),
        ("a\0b", {}, "its name holds a NUL"),
        *((name, {}, "its name leads out of the archive") for name in ("/a", "a/../b")),
        *(("a", {"flag_bits": 2**bit}, "it is encrypted, or a patch of") for bit in (0, 5, 6)),
        ("a", {"compress_type": 9}, "compression method 9"),
    ],
)
def test_members_that_cannot_be_read(name: str, changes: dict[str, int], problem: str) -> None:
    member = zipfile.ZipInfo(name)
    for key, value in changes.items():
        setattr(member, key, value)
    said = safe_zips.member_problem(name, member, (zipfile.ZIP_STORED,))
    assert said.startswith(problem)
    assert bool(said) == bool(problem)


def test_each_kind_of_text_has_its_longest(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("0123456789")
    assert read_text(path, 10) == "0123456789"
    assert "longer than 9 bytes" in refusal(read_text, path, 9)
    kinds = {read_text: 2**26, read_csv: 2**28, PaperResults.read: 2**24, read_toml: 2**20}
    for read, longest in kinds.items():
        os.truncate(path, longest + 1)
        assert f"longer than {longest:,} bytes" in refusal(read, path)


SAID = {
    "signs for a terminal are left out": (
        ValueError("\x1b[1mdo\x1b[0m not"),
        "(ValueError: do not)",
    ),
    "a fault on a library's own variables": (
        UnboundLocalError("cannot access local variable 'fs'"),
        "(UnboundLocalError)",
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_insides_of_a_library_are_not_shown(what: str) -> None:
    error, reason = SAID[what]
    with pytest.raises(UserError) as raised, explain_errors("it failed"):
        raise error
    assert str(raised.value) == f"it failed {reason}."
