"""What failed, and why, in one sentence."""

import errno
import os
from pathlib import Path

import pytest
from file_helpers import refusal

from embedbench.errors import UserError
from embedbench.papers.result_files import Results
from embedbench.reports.run_rows import read_csv
from embedbench.storage.regular_files import explain_errors, read_text
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


def test_each_kind_of_text_has_its_longest(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("0123456789")
    assert read_text(path, 10) == "0123456789"
    assert "longer than 9 bytes" in refusal(read_text, path, 9)
    kinds = {read_text: 2**26, read_csv: 2**28, Results.read: 2**24, read_toml: 2**20}
    for read, longest in kinds.items():
        os.truncate(path, longest + 1)
        assert f"longer than {longest:,} bytes" in refusal(read, path)
