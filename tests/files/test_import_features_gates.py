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
from file_helpers import make_features, refusal
from stranger_files import write_mat73

from embedbench.files.formats.foreign_hdf5 import read_hdf5
from embedbench.files.formats.matlab_files import read_matlab
from embedbench.files.import_features import import_file
from embedbench.storage import untrusted_files

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
    assert done.returncode == 2
    assert "a.mat: X cannot be read" in done.stderr


def large_of_version_5(path: Path) -> None:
    one = scipy.sparse.csc_array(([1.0], ([0], [0])), (2**10, 2**10))
    scipy.io.savemat(path, {"X": one, "y": [1, 2, 3]})


def large_of_version_73(path: Path) -> None:
    write_hdf5_of_matlab(path, lambda file: write_sparse(file, rows=np.uint64(2**12)))


@pytest.mark.parametrize("write", [large_of_version_5, large_of_version_73])
def test_a_sparse_matrix_of_far_more_zeros_is_refused(tmp_path: Path, write: Any) -> None:
    """8 MiB of one value, 96 kB of three."""
    write(tmp_path / "a.mat")
    said = refusal(import_file, tmp_path / "a.mat", tmp_path / "a.h5")
    assert said.endswith("X is too large to be made dense; save it as a full matrix")


def test_structures_of_matlab_are_taken_apart_four_deep(tmp_path: Path) -> None:
    inner = {"X": X, "e": {"Y": X}}
    scipy.io.savemat(tmp_path / "a.mat", {"a": {"b": {"c": {"d": inner}}}})
    read = read_matlab(tmp_path / "a.mat")
    assert list(read) == ["a/b/c/d/X"]
    assert read.not_read == ["a/b/c/d/e (neither numbers nor texts)"]


def test_an_empty_matrix_of_matlab_is_none_though_its_shape_is_stored(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        file["E"] = np.array([0, 3], np.uint64)
        file["E"].attrs["MATLAB_empty"] = np.uint8(1)
        file["X"] = X

    write_hdf5_of_matlab(tmp_path / "a.mat", change)
    read = read_matlab(tmp_path / "a.mat")
    assert list(read) == ["X"]
    assert read.not_read == ["E (neither numbers nor texts)"]


def test_an_empty_cell_among_texts_of_matlab_is_an_empty_text(tmp_path: Path) -> None:
    cells = np.array(["jay", "", "owl"], object)
    scipy.io.savemat(tmp_path / "a.mat", {"y": cells})
    assert read_matlab(tmp_path / "a.mat")["y"].tolist() == ["jay", "", "owl"]


@pytest.mark.parametrize(("largest", "kind"), [(107.0, "i"), (2.0**53, "i"), (2.0**54, "f")])
def test_whole_numbers_of_matlab_are_integers_while_a_float_counts_them(
    tmp_path: Path, largest: float, kind: str
) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"y": [1.0, -largest, 3.0]})
    assert read_matlab(tmp_path / "a.mat")["y"].dtype.kind == kind


# --- what the gate reads first, in a process of its own ---


def break_texts(path: Path) -> None:
    """Damage where texts of any length lie."""
    data = path.read_bytes()
    assert data.count(b"GCOL") == 1
    path.write_bytes(data.replace(b"GCOL", b"XXXX"))


def test_a_single_text_is_read_by_the_gate(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["note"] = "hello"
    break_texts(tmp_path / "a.h5")
    assert {*untrusted_files.ask("foreign", tmp_path / "a.h5")} == {"damaged"}


def test_a_single_text_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["note"] = "a" * 5000
        file["other"] = "b" * 5000
    monkeypatch.setattr(untrusted_files, "too_large", lambda declared, there: declared > 9000)
    monkeypatch.setattr(untrusted_files, "alive", lambda *_: None)  # it would end the tests
    answer = untrusted_files.examine(str(tmp_path / "a.h5"), foreign=True)
    assert "longer than its bytes can hold" in answer.get("refused", "")


def vectors(file: h5py.File) -> None:
    lengths = np.empty(4, object)
    lengths[:] = [np.array([row]) for row in range(4)]
    write_sparse(file)
    del file["X/jc"]
    file["X"].create_dataset("jc", data=lengths, dtype=h5py.vlen_dtype(np.int64))


def a_text(file: h5py.File) -> None:
    write_sparse(file, ir="rows")


def rows_by_reference(file: h5py.File) -> None:
    write_sparse(file)
    rows = np.empty(1, object)
    rows[0] = np.array([3])
    file["X"].attrs.create("MATLAB_sparse", rows, dtype=h5py.vlen_dtype(np.int64))


def no_columns(file: h5py.File) -> None:
    write_sparse(file)
    del file["X/jc"]


@pytest.mark.parametrize("change", [vectors, a_text, rows_by_reference, no_columns])
def test_a_sparse_matrix_of_other_types_is_not_read(tmp_path: Path, change: Any) -> None:
    write_hdf5_of_matlab(tmp_path / "a.mat", change)
    assert read_matlab(tmp_path / "a.mat").not_read == ["X (neither numbers nor texts)"]


def test_a_sparse_matrix_of_matlab_is_read(tmp_path: Path) -> None:
    write_hdf5_of_matlab(tmp_path / "a.mat", write_sparse)
    assert read_matlab(tmp_path / "a.mat")["X"].tolist() == np.eye(3).tolist()


# --- honest files ---


def test_references_in_chunks_are_no_damage(tmp_path: Path) -> None:
    write_mat73(tmp_path / "a.mat")
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        places = file["classes"][()]
        del file["classes"]
        file.create_dataset("classes", data=places, chunks=True)
        file["classes"].attrs["MATLAB_class"] = np.bytes_("cell")
    assert read_matlab(tmp_path / "a.mat")["classes"].tolist() == ["jay", "owl", "wren"]


def test_a_type_with_a_name_and_an_attribute_is_no_damage(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kind"] = np.dtype("<f4")
        file["kind"].attrs["unit"] = "metre"
        file["features"] = X
    assert read_hdf5(tmp_path / "a.h5")["features"].tolist() == X.tolist()


def test_a_letter_of_two_numbers_of_matlab_is_one(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        numbers = np.frombuffer("owl\N{OWL}".encode("utf-16-le"), np.uint16)
        file["bird"] = numbers[:, None]
        file["bird"].attrs["MATLAB_class"] = np.bytes_("char")

    write_hdf5_of_matlab(tmp_path / "a.mat", change)
    assert read_matlab(tmp_path / "a.mat")["bird"].tolist() == ["owl\N{OWL}"]
