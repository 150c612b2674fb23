"""CUB-200-2011 as it is published: images, and lists of their classes and parts."""

from collections import Counter
from pathlib import Path

import numpy as np

from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.storage.regular_files import read_text

from .source import Source, escape_name, id_problem, read_sample


def is_cub(root: Path) -> bool:
    """Whether a folder holds CUB-200-2011's lists."""
    return (root / "images.txt").is_file() and (root / "image_class_labels.txt").is_file()


def cub_source(root: Path) -> Source:
    """Return CUB-200-2011 as its lists say; see the README inside its archive."""
    paths = _table(root / "images.txt")
    numbers = _table(root / "image_class_labels.txt")
    training = _table(root / "train_test_split.txt")
    names = _table(root / "classes.txt")
    if not paths.keys() == numbers.keys() == training.keys():
        raise UserError(
            f"images.txt, image_class_labels.txt and train_test_split.txt in {root} "
            "list different images; restore the three files from the data set's archive."
        )
    if len(set(names.values())) < len(names) or any("\0" in name for name in names.values()):
        raise UserError(f"classes.txt in {root} has a name twice, or one with a zero byte.")
    index = {number: i for i, number in enumerate(names)}
    unknown = sorted(set(numbers.values()) - index.keys())
    if unknown:
        raise UserError(f"class {unknown[0]} of image_class_labels.txt is not in classes.txt.")
    times = Counter(paths.values())
    problems = {
        f"images/{path}": "it is listed more than once" if times[path] > 1 else _problem(path)
        for path in paths.values()
    }
    kept = [key for key, path in paths.items() if not problems[f"images/{path}"]]
    ids = tuple(f"images/{paths[key]}" for key in kept)
    return Source(
        name="CUB-200-2011",
        ids=ids,
        labels=np.array([index[numbers[key]] for key in kept], np.int64),
        classes=tuple(names.values()),
        parents=np.full(len(names), -1, np.int64),
        read=lambda i: read_sample(root / ids[i]),
        split=np.array([TRAIN if training[key] == "1" else TEST for key in kept], np.uint8),
        refused=tuple(
            (escape_name(name), problem) for name, problem in problems.items() if problem
        ),
    )


def _problem(path: str) -> str:
    """Return why an image of the list cannot be read; empty if it can."""
    if path.startswith("/") or ".." in path.split("/"):
        return "its path leads out of the folder"
    return id_problem(f"images/{path}")


def _table(path: Path) -> dict[str, str]:
    """Return the lines "key value" of a text file, in order."""
    if not path.is_file():
        raise UserError(f"{path} is missing; CUB-200-2011's layout has it beside images.txt.")
    rows: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            key, _, value = line.strip().partition(" ")
            if not value or key in rows:
                raise UserError(f"{path}, line {number}: expected 'id value', each id once.")
            rows[key] = value
    return rows
