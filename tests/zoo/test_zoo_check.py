"""`check zoo:NAME FILE`: what fits, what does not, and what is not known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from file_helpers import PROVENANCE
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, Samples
from embedbench.files.write_file import write_file
from embedbench.zoo.zoo_entries import check_file

NETWORK = "vit_base_patch16_224"
VIT = {
    "backbone": {"name": NETWORK, "weights_id": f"timm/{NETWORK}.augreg_in21k"},
    "preprocessing": {"input_size": [3, 224, 224], "crop_pct": 0.9, "mean": [0.5, 0.5, 0.4]},
    "split": {"rule": "official"},
}


def digits(path: Path, train: int = 6000, test: int = 1000) -> EmbeddingFile:
    """MNIST's classes, with these counts a class and features of two values."""
    n = train + test
    labels = np.repeat(np.arange(10), n)
    samples = Samples(
        ids=np.array([f"s{i}" for i in range(len(labels))], dtype=object),
        labels=labels,
        split=np.where(np.arange(len(labels)) % n < test, TEST, 0).astype(np.uint8),
        classes=tuple("0123456789"),
        parents=np.full(10, -1),
    )
    features = np.zeros((len(labels), 2), np.float32)
    return write_file(path, samples, features, {**PROVENANCE, **VIT})


def fits(name: str, file: EmbeddingFile) -> dict[str, bool | None]:
    return {f.fact: f.fits for f in check_file(name, file)}


def test_counts_lists_and_digests(tmp_path: Path) -> None:
    right = fits("zoo:mnist", digits(tmp_path / "a.h5"))
    assert right["images"] is right["to learn from, to test on"] is right["split"] is True
    assert right["class list, SHA-256"] is True
    assert right["samples, digest"] is False  # other ids, and the zoo holds those of MNIST
    assert right["licence"] is None
    few = {f.fact: f for f in check_file("zoo:mnist", digits(tmp_path / "b.h5", 5, 2))}
    assert (few["images"].zoo, few["images"].file, few["images"].fits) == ("70,000", "70", False)
    assert few["to learn from, to test on"].file == "50 20"
    moved = fits("zoo:mnist", digits(tmp_path / "c.h5", 5000, 2000))
    assert (moved["images"], moved["to learn from, to test on"]) == (True, False)
    other = fits("zoo:cifar100", digits(tmp_path / "d.h5", 5, 2))
    assert other["class list, SHA-256"] is other["classes"] is False
    assert other["samples, digest"] is None  # the zoo does not hold it


def test_backbone_weights_and_preprocessing(tmp_path: Path) -> None:
    file = digits(tmp_path / "a.h5", 5, 2)
    assert fits("zoo:vit-b16-augreg-in21k", file) == {
        "backbone": True,
        "weights": True,
        "preprocessing, input_size": True,
        "preprocessing, crop_pct": True,
        "preprocessing, interpolation": None,
        "preprocessing, mean": False,
        "preprocessing, std": None,
        "features": False,
    }
    for weights_id, expected in ((f"timm/{NETWORK}.orig_in21k", False), ("a.pth", None)):
        backbone = {**VIT["backbone"], "weights_id": weights_id}
        other = replace(file, provenance={**file.provenance, "backbone": backbone})
        assert fits("zoo:mnist/vit-b16-augreg-in21k", other)["weights"] is expected


def test_the_command_ends_with_1_where_something_differs(tmp_path: Path) -> None:
    path = digits(tmp_path / "a.h5", 5, 2).path
    result = CliRunner().invoke(app, ["check", "zoo:mnist", str(path)])
    assert result.exit_code == 1
    assert "FAILED   images" in result.output
    for words, why in (
        (["zoo:mnist"], "name the file to compare with zoo:mnist"),
        (["mlp", str(path)], "check takes a FILE for an entry of the zoo"),
        (["zoo:mnits", str(path)], "Did you mean 'mnist'"),
    ):
        refused = CliRunner().invoke(app, ["check", *words]).exception
        assert isinstance(refused, UserError), words
        assert why in str(refused)
    with pytest.raises(UserError, match="unknown backbone"):
        check_file("zoo:mnist/x", EmbeddingFile.open(path))
