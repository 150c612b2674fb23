"""Runs on a pretended card: the CPU's answers, and faults that only a card shows.

`tests/helpers/pretend_card.py` says what it cannot show.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_files import colour_folder, embedding_file
from pretend_card import pretended_card
from safetensors.torch import load_file
from torch import Tensor, nn
from typer.testing import CliRunner

from embedbench.checks.blob_streams import EVERY_CLASS, SESSIONS, as_images, blobs, family_blobs
from embedbench.checks.conformance_suite import check
from embedbench.checks.learner_check_tools import SEEDS, on_device, same, small
from embedbench.checks.learner_contract import _check
from embedbench.cli.app import app
from embedbench.extract.pipeline import extract
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.runs.stream_runner import run_stream
from embedbench.scores import record_files
from embedbench.scores.run_answers import RunAnswers

# Settings of these names, nested ones too, are as small as they can be: each operation is slow.
FEW: dict[str, Any] = {
    "epochs": 2, "min_steps": 1, "finetune_epochs": 1, "batches": 3, "epoch_samples": 20,
    "units": 8, "features": 16, "projections": 16, "population": 4, "side": 4, "hold": 10,
    "iterations": 50, "som_iterations": 20, "nudge_steps": 2, "retrain_steps": 2,
}  # fmt: skip
IMAGES = {**FEW, "trunk": "resnet8", "augment": "crop-flip"}


FAULTS: list[Callable[[Tensor], Any]] = [
    lambda x: x @ torch.ones(x.shape[1], 2),
    lambda x: torch.rand(3, generator=torch.Generator(), device=x.device),
    lambda x: x.clone().normal_(generator=torch.Generator()),
    lambda x: x.numpy(),
    lambda x: torch.zeros(len(x))[x.argmax(0)],
    lambda x: x.index_select(0, torch.tensor([0])),
    lambda x: x.masked_fill(torch.zeros(x.shape, dtype=torch.bool), 0.0),
    lambda x: x.clone().__setitem__(torch.tensor([0]), torch.zeros(x.shape[1])),
    lambda x: nn.Linear(x.shape[1], 2)(x),
    lambda x: x.to("cuda:1" if x.is_cuda else "cpu"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[Tensor], Any]) -> None:
    fault(torch.ones(2, 2))  # the CPU does not see it
    what = r"device|convert|generator|ordinal"
    with pretended_card(), pytest.raises((RuntimeError, TypeError), match=what):
        fault(torch.ones(2, 2, device="cuda"))


def kinds() -> list[Any]:
    cases = []
    for name in by_name.learner_names():
        if name not in by_name.ALIASES:
            tags = by_name.learner_class(name).tags
            cases += [(name, "layers" if tags.needs_layers else "embeddings")]
            cases += [(name, "label-sets")] * tags.multilabel + [(name, "images")] * tags.images
    return cases


def answers(name: str, kind: str, device: str) -> RunAnswers:
    cls = by_name.learner_class(name)
    if kind == "label-sets":
        stream = family_blobs(cls.tags, 16, n_val=4)
    else:
        stream = blobs(cls.tags, EVERY_CLASS if cls.tags.offline else SESSIONS, 8, n_val=4)
    stream = as_images(stream) if kind == "images" else stream
    return run_stream(stream, small(cls, **(IMAGES if kind == "images" else FEW)), SEEDS, device)[0]


@pytest.mark.parametrize(("name", "kind"), kinds())
def test_a_learner_answers_as_on_the_cpu(name: str, kind: str) -> None:
    """To the last bit: the same kernels compute, in the same order."""
    expected = answers(name, kind, "cpu")
    with pretended_card():
        assert same(vars(answers(name, kind, "cuda")), vars(expected))


@pytest.mark.parametrize("name", ["mlp", pytest.param("icarl", marks=pytest.mark.long)])
def test_an_interrupted_run_goes_on(name: str) -> None:
    cls = by_name.learner_class(name)
    stream = blobs(cls.tags, SESSIONS[:2], 8, n_val=4)
    with pretended_card(), on_device("cuda"):
        _check(lambda: small(cls, **FEW), stream, 1)


def command(*words: object) -> str:
    made = CliRunner().invoke(app, [str(w) for w in words])
    assert made.exit_code == 0, (made.output, made.exception)
    return made.output


def test_run_with_tuning_and_its_references(tmp_path: Path) -> None:
    file = embedding_file(tmp_path, width=4).path
    metrics = {}
    for device in ("cpu", "cuda"):
        out = tmp_path / device
        words = ["run", file, "--protocol", "incremental-class", "--learner", "mlp", "--out", out]
        words += ["--set", "mlp.stop.rule=epochs", "--set", "stop.epochs=1", "--quiet"]
        words += ["--set", "offline.mlp.stop.rule=epochs", "--set", "offline.mlp.stop.epochs=1"]
        words += ["--set", "protocol.val_fraction=0.2", "--tune", "lr=0.1,0.01"]
        with pretended_card():
            command(*words, "--device", device)
        (place,) = (p for p in out.rglob("record.json") if "mlp" in str(p.parent))
        stored = record_files.load(place.parent)
        metrics[device] = stored.metrics
        assert stored.environment["device"] == device
        assert (out / "tuning").is_dir()
    np.testing.assert_equal(metrics["cuda"], metrics["cpu"])


def test_check_takes_the_card() -> None:
    with pretended_card():
        text = command("check", "ncm", "--device", "cuda")
        assert re.search(r"^(\d+) of \1 checks passed", text, re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in by_name.learner_names() if n not in by_name.ALIASES])
def test_every_check_of_a_learner(name: str) -> None:
    with pretended_card():
        failures = [r for r in check(name, "cuda") if not r.passed]
    assert failures == []


def test_pretrain(tmp_path: Path) -> None:
    folder = colour_folder(tmp_path, "abc", each=5, size=16)
    places = str(folder), tmp_path / "p.h5"
    file = extract(*places, backbone="none", size=16, split="0.2", device="cpu")
    words = ["pretrain", file.path, "--protocol", "incremental-class", "--trunk", "resnet8"]
    words += ["--set", "protocol.base=2", "--epochs", 1, "--batch-size", 4, "--warmup", 0]
    made = {}
    for device in ("cpu", "cuda"):
        out = tmp_path / f"{device}.safetensors"
        with pretended_card():
            command(*words, "--device", device, "--out", out, "--quiet")
        made[device] = load_file(out)
    assert same(made["cuda"], made["cpu"])
