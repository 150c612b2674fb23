"""What the demo says of its runs, and the images that it unpacks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from embedbench.cli.demo import CLASSES, MOST, surprise, unpack


def _row(learner: str, new: float, every: float, protocol: str = "incremental-class") -> Any:
    metrics = {"omega_new": SimpleNamespace(mean=new), "omega_all": SimpleNamespace(mean=every)}
    return SimpleNamespace(
        learner=learner, metrics=metrics, records=[SimpleNamespace(protocol=protocol)]
    )


def test_the_surprise_is_said_only_where_the_runs_show_it() -> None:
    mlp, idle = _row("mlp", 0.96, 0.36), _row("ewc", 0.03, 0.67)
    said = surprise([mlp, idle, _row("ewc", 0.9, 0.1, "permutation")])
    assert "(Ω_new 0.03)" in said
    assert "Ω_all of 0.67 is above the 0.36 of mlp" in said
    assert surprise([mlp]) == surprise([]) == ""
    assert surprise([mlp, _row("ewc", 0.03, 0.35)]) == ""  # not above
    assert surprise([mlp, _row("ewc", 0.30, 0.67)]) == ""  # it learned something
    assert surprise([mlp, _row("ewc", 0.1, 0.67)]) == surprise([mlp, _row("ewc", 0.0, 0.36)]) == ""
    assert surprise([mlp, _row("ewc", 0.099, 0.361)])


def test_images_are_class_folders(tmp_path: Path) -> None:
    n = unpack(tmp_path)
    counts = {folder.name: len(list(folder.iterdir())) for folder in tmp_path.iterdir()}
    assert sorted(counts) == sorted(CLASSES)
    assert sum(counts.values()) == n
    assert max(counts.values()) == counts["country-flag"] == MOST
    assert min(counts.values()) >= 20
