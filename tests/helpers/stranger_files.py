"""A .mat file of version 7.3 as MATLAB writes it, which nothing on Python writes."""

from pathlib import Path

import h5py
import numpy as np
from file_helpers import make_features

N, D = 12, 5
X = make_features(N, D)
Y = np.arange(N) % 3
NAMES = np.array(["jay", "owl", "wren"])


def write_mat73(path: Path, *, cells: bool = True) -> None:
    """Write a .mat file as MATLAB 7.3 does: axes turned round, texts as numbers, cells by name."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("fts", data=X.T.astype(float), chunks=True, compression="gzip")
        file["fts"].attrs["MATLAB_class"] = np.bytes_("double")
        file["labels"] = Y[None] + 1.0
        file["labels"].attrs["MATLAB_class"] = np.bytes_("double")
        file["note"] = np.array([[ord(letter)] for letter in "by us"], np.uint16)
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")
        if cells:
            places = []
            for name in NAMES.tolist():
                letters = np.array([[ord(letter)] for letter in name], np.uint16)
                kept = file.create_dataset(f"#refs#/{name}", data=letters)
                kept.attrs["MATLAB_class"] = np.bytes_("char")
                places.append(kept.ref)
            file.create_dataset("classes", data=np.array([places], h5py.ref_dtype))
            file["classes"].attrs["MATLAB_class"] = np.bytes_("cell")
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")
