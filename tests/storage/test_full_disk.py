"""A disk that is full while a file is written: one sentence, and nothing is left; no crash.

A limit on the size of files stands for the disk. Each case is a process of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MADE = """
import resource, sys
import numpy as np
sys.path.insert(0, sys.argv[3])
from confident_runs import confident_predictions
from file_helpers import PROVENANCE, make_features, make_samples
from embedbench.errors import UserError
from embedbench.files.export_features import export_file
from embedbench.files.write_file import write_file
from embedbench.storage.atomic_write import write_safely
from embedbench.text.table_export import csv_text
from pathlib import Path

n = 3000
write_file("a.h5", make_samples(n), make_features(n), PROVENANCE)
limit, how = int(sys.argv[1]), sys.argv[2]
p = confident_predictions(2)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    if how == "h5":
        write_file("x.h5", make_samples(n), make_features(n), PROVENANCE)
    elif how == "predictions":
        p.save(Path("x.h5"))
    elif how == "text":
        write_safely(Path("x.csv"), csv_text([{"a": i} for i in range(n)]) * 9)
    else:
        export_file("a.h5", f"x.{how}")
except UserError as error:
    print(error)
    sys.exit(2)
"""
HELPERS = Path(__file__).resolve().parents[1] / "helpers"
KINDS = ("h5", "predictions", "text", "npz", "parquet", "safetensors")


def written(folder: Path, how: str, limit: int) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", MADE, str(limit), how, str(HELPERS)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_a_sentence(tmp_path: Path, kind: str) -> None:
    done = written(tmp_path, kind, 20_000)
    assert done.stdout.startswith("cannot write x.")
    assert "(File too large); free some space" in done.stdout
    assert done.stderr == ""
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


@pytest.mark.thorough
@pytest.mark.parametrize("limit", [1_000, 60_000, 100_000, 120_000, 130_000, 134_000])
def test_a_disk_that_is_full_anywhere_in_an_hdf5_file(tmp_path: Path, limit: int) -> None:
    """HDF5 crashed the process where the disk was full when it closed its tables."""
    done = written(tmp_path, "h5", limit)
    size = (tmp_path / "a.h5").stat().st_size
    assert done.returncode == (2 if limit < size else 0), done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["npz", "parquet", "safetensors"])
def test_an_export_has_the_rights_of_a_new_file(tmp_path: Path, kind: str) -> None:
    before = os.umask(0o027)
    try:
        written(tmp_path, kind, 10**9)
    finally:
        os.umask(before)
    assert oct((tmp_path / f"x.{kind}").stat().st_mode & 0o777) == oct(0o640)
