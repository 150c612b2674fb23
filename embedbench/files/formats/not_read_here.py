"""What to say of files that import never reads, with the lines that convert them."""

from pathlib import Path

from embedbench.errors import UserError

_PICKLES = (".pkl", ".pickle", ".p", ".joblib", ".dill", ".pck")
_FAISS = (".faiss", ".index", ".faissindex")
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz")
_SHEETS = (".xlsx", ".xls", ".ods")
_SAVE = "`np.savez({new!r}, features=d['features'], labels=d['labels'])`"


def refuse_by_suffix(path: Path) -> None:
    """Raise the error for a file that would run code, or that no library here reads."""
    suffix = path.suffix.lower()
    name = path.name
    new = f"{path.stem}.npz"
    if suffix in _PICKLES:
        load = f"import pickle, numpy as np; d = pickle.load(open({name!r}, 'rb'))"
        if suffix == ".joblib":
            load = f"import joblib, numpy as np; d = joblib.load({name!r})"
        raise UserError(
            f"{path} is a pickle, which would run code when it is read; where you trust it, "
            f"convert it by these two lines: `{load}` and {_SAVE.format(new=new)}."
        )
    if suffix in _FAISS:
        raise UserError(
            f"{path} is an index of FAISS, which has vectors and no labels; convert it by these "
            f"two lines: `import faiss, numpy as np; d = faiss.read_index({name!r})` and "
            f"`np.save('{path.stem}.npy', d.reconstruct_n(0, d.ntotal))`, and give the labels by "
            "--labels FILE."
        )
    if suffix in _SHEETS:
        raise UserError(f"{path} is a spreadsheet", "save it as CSV")
    if suffix in _PACKED:
        raise UserError(f"{path} is packed", "unpack it first")
