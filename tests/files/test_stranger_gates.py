"""Feature files of others that would crash the reader, or grow in it: each is one sentence."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from file_helpers import make_features

N, D = 12, 5
X = make_features(N, D)
Y = np.arange(N) % 3
FAR = 10**8  # a row far beyond the memory of a small matrix


def run_import(path: Path) -> "subprocess.CompletedProcess[str]":
    """`import` in a process of its own, which a file may end."""
    command = [sys.executable, "-m", "embedbench", "import", path, "--out", path.with_name("o.h5")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write_hdf5_of_matlab(path: Path, change: Callable[[h5py.File], Any]) -> None:
    """A .mat file of version 7.3 with what `change` writes."""
    with h5py.File(path, "w", userblock_size=512) as file:
        change(file)
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")


def write_sparse(file: h5py.File, **parts: Any) -> None:
    """A unit matrix (3, 3) as MATLAB keeps sparse ones, with some of its parts replaced."""
    group = file.create_group("X")
    group.attrs["MATLAB_class"] = np.bytes_("double")
    group.attrs["MATLAB_sparse"] = parts.pop("rows", np.uint64(3))
    plain = {"jc": np.arange(4), "ir": np.arange(3), "data": np.ones(3)}
    for name, values in {**plain, **parts}.items():
        group[name] = values


# --- sparse matrices: where their values go ---


def far_of_version_5(path: Path) -> None:
    scipy.io.savemat(path, {"X": scipy.sparse.csc_array(np.eye(3)), "y": [1, 2, 3]})
    data = path.read_bytes()
    rows, far = np.arange(3, dtype=np.int32).tobytes(), np.array([FAR, 1, 2], np.int32).tobytes()
    assert data.count(rows) == 2  # and the first 3 of the beginnings of columns
    path.write_bytes(data.replace(rows, far, 1))


def far_of_version_73(path: Path) -> None:
    write_hdf5_of_matlab(path, lambda file: write_sparse(file, ir=np.array([FAR, 1, 2])))


@pytest.mark.parametrize("write", [far_of_version_5, far_of_version_73])
def test_a_sparse_value_outside_of_its_matrix_is_refused(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "a.mat")
    done = run_import(tmp_path / "a.mat")
    assert (done.returncode, "a.mat: X cannot be read" in done.stderr) == (2, True)
