"""Commands whose output has another encoding, no reader, no room, or is closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORDS = [sys.executable, "-m", "embedbench"]


def run(*words: str, **env: str) -> "subprocess.CompletedProcess[bytes]":
    given = {**os.environ, **env}
    return subprocess.run([*WORDS, *words], env=given, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("env", "escape"),
    [
        ({"PYTHONIOENCODING": "ascii"}, b"\\u03a9_base: mean"),
        ({"PYTHONIOENCODING": "latin-1"}, b"\\u03a9_base: mean"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, b"\\u03a9_base: mean"),
    ],
)
def test_what_an_encoding_lacks_is_escaped_aloud(env: dict[str, str], escape: bytes) -> None:
    done = run("list", "metrics", **env)
    assert escape in done.stdout
    assert b"lacks some characters" in done.stderr
    assert done.returncode == 0


def test_utf8_is_as_it_was() -> None:
    done = run("list", "metrics", PYTHONIOENCODING="utf-8")
    assert "Ω_base: mean" in done.stdout.decode()
    assert done.stderr == b""


def test_a_reader_that_goes_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*WORDS, "list", "metrics"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_sentence() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*WORDS, "list", "metrics"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.stderr.splitlines() == [
        b"embedbench: the output cannot be written (No space left on device); free some space, or "
        b"name a file"
    ]
    assert done.returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_error(closed: str) -> None:
    line = f"{sys.executable} -m embedbench list metrics {closed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
    assert done.stderr == b""
    assert done.returncode == 0
