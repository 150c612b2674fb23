"""What failed, and why, in one sentence."""

import errno

import pytest

from embedbench.errors import UserError
from embedbench.storage.regular_files import explain_errors

MISSING = FileNotFoundError(errno.ENOENT, "No such file or directory", "a/b.npy")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("bad\nat line 3"), "it failed (ValueError: bad); try again."),
        (MemoryError(), "it failed (MemoryError); try again."),
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
