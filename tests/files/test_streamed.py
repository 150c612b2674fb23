"""Arrays of samples that `import` streams: the same rows, never whole in memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import make_features

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.formats.lazy_arrays import SlicedTable
from embedbench.files.formats.numpy_files import load_npy, load_npz
from embedbench.files.import_features import import_file

N = 2500
Y = np.arange(N) % 3


def stored(path: Path, x: Any, how: str) -> Path:
    """x under `features` and Y under `labels`, as a directory of npy files or as an npz file."""
    if how == "npy":
        path.mkdir()
        np.save(path / "features.npy", x)
        np.save(path / "labels.npy", Y)
        return path
    {"npz": np.savez, "packed": np.savez_compressed}[how](f"{path}.npz", features=x, labels=Y)
    return Path(f"{path}.npz")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("how", ["npy", "npz", "packed"])
def test_rows_and_digests_do_not_depend_on_how_they_came(
    tmp_path: Path, how: str, dtype: str
) -> None:
    x = make_features(N).astype(dtype)
    made = import_file(stored(tmp_path / "a", x, how), tmp_path / "a.h5")
    by_columns = np.asfortranarray(x)  # is read at once, as it always was
    whole = import_file(stored(tmp_path / "b", by_columns, how), tmp_path / "b.h5")
    assert made.digests == whole.digests
    np.testing.assert_array_equal(made.read(), x.astype(np.float32))
    assert made.dtype == np.float16 if dtype == "float16" else np.float32


@pytest.mark.parametrize("how", ["npy", "packed"])
def test_slices_come_in_any_order(tmp_path: Path, how: str) -> None:
    x = make_features(N).astype(np.float64)
    path = stored(tmp_path / "a", x, how)
    rows = load_npy(path / "features.npy") if how == "npy" else load_npz(path)["features"]
    assert isinstance(rows, SlicedTable)
    assert (len(rows), rows.shape, rows.ndim, rows.dtype) == (N, (N, 5), 2, np.float32)
    for first, end in ((0, 9), (9, 2000), (2100, 2500), (5, 7), (7, 7), (2400, 9000)):
        np.testing.assert_array_equal(rows[first:end], x[first:end].astype(np.float32))


def test_a_damaged_member_is_one_sentence(tmp_path: Path) -> None:
    path = stored(tmp_path / "a", make_features(N), "npz")
    data = bytearray(path.read_bytes())
    data[data.index(b"features.npy") + 30_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.npz cannot be read \(BadZipFile: Bad CRC-32"):
        import_file(path, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


MEASURED = """
import resource, sys
from pathlib import Path
from embedbench.files.import_features import import_file
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
src = Path(sys.argv[1])
import_file(src.parent / "small.npz", src.parent / "small.h5")
before = most()
import_file(src, src.with_suffix(".h5"))
print(most() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="kilobytes are a matter of the system")
@pytest.mark.parametrize("how", ["npy", "packed"])
def test_memory_does_not_grow_with_the_array(tmp_path: Path, how: str) -> None:
    x = np.zeros((25_000, 512), dtype=np.float32)  # 51 MB
    y = np.arange(25_000) % 3
    np.savez(tmp_path / "small.npz", features=x[:9], labels=y[:9])
    path = tmp_path / "large"
    if how == "npy":
        path.mkdir()
        np.save(path / "features.npy", x)
        np.save(path / "labels.npy", y)
    else:
        path = Path(f"{path}.npz")
        np.savez_compressed(path, features=x, labels=y)
    words = [sys.executable, "-c", MEASURED, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 0.5 * x.nbytes
    assert EmbeddingFile.open(path.with_suffix(".h5")).shape == x.shape
