"""The images that the demo unpacks."""

from pathlib import Path

from embedbench.cli.demo import CLASSES, MOST, unpack


def test_images_are_class_folders(tmp_path: Path) -> None:
    n = unpack(tmp_path)
    counts = {folder.name: len(list(folder.iterdir())) for folder in tmp_path.iterdir()}
    assert sorted(counts) == sorted(CLASSES)
    assert sum(counts.values()) == n
    assert max(counts.values()) == counts["country-flag"] == MOST
    assert min(counts.values()) >= 20
