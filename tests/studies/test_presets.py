"""Presets of settings on images: each is what its paper says, and trains a few steps."""

import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from plan_runs import plan
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.networks.paper_networks import timm
from embedbench.runs.learner_and_protocol_names import learner_names
from embedbench.scores import record_files
from embedbench.studies.presets import preset, preset_names
from embedbench.studies.resolve import sort_settings
from embedbench.studies.study import Key

CLASSES, TRAINED, TESTED = 6, 10, 2
IMAGES = [name for name in preset_names() if name.endswith("-images")]


def settings(learner: str, name: str, *items: str) -> dict[str, Any]:
    """A learner's settings under a preset, complete."""
    protocol = "iirc" if name.startswith("iirc") else "incremental-class"
    (cell,) = plan(["file.h5"], protocol, [learner], [0], items, preset=name)
    made: dict[str, Any] = asdict(cell.learner.settings)
    return made


def colours(folder: Path, size: int = 16) -> Path:
    """Six classes of noisy colours; the first three lie below one node."""
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), TRAINED + TESTED)
    colour = draw.integers(40, 216, (CLASSES, 1, 1, 3))
    noise = draw.integers(-40, 40, (len(labels), size, size, 3))
    split = np.tile(np.repeat([TRAIN, TEST], [TRAINED, TESTED]), CLASSES).astype(np.uint8)
    ids = np.array([f"{i}.png" for i in range(len(labels))])
    parents = np.array([6, 6, 6, -1, -1, -1, -1])
    samples = Samples(ids, labels, split, (*"abcdef", "node"), parents)
    values = (colour[labels] + noise).astype(np.uint8)
    return write_file(folder / "colours.h5", samples, values, {}).path


# --- what the papers say ---


@pytest.mark.parametrize("learner", ["finetune", "er", "agem", "icarl-cnn", "lucir", "ewc"])
def test_iirc_on_cifar(learner: str) -> None:
    made = settings(learner, "iirc-cifar-images")
    assert (made["trunk"], made["images"]["augment"]) == ("resnet32", "crop-flip")
    assert (made["lr"], made["weight_decay"], made["batch_size"]) == (1.0, 1e-5, 128)
    stop = made["stop"]
    assert (stop["epochs"], stop["first_epochs"], stop["patience"]) == (140, 280, 10)
    assert (stop["factor"], stop["lr_min"], stop["rewind"]) == (0.1, 0.0, False)
    assert stop["restore"] is (learner in ("finetune", "er", "ewc"))


@pytest.mark.parametrize("learner", sorted({key.target for key in preset("iirc")}))
def test_iirc_on_images_is_iirc_with_a_trunk(learner: str) -> None:
    if learner == "offline":
        made, other = (sort_settings({}, [], name).defaults["offline"] for name in ("iirc", SHOWN))
        assert other.pop("mlp.trunk") == "resnet32"
        assert other.pop("mlp.images.augment") == "crop-flip"
    else:
        made, other = (settings(learner, n) for n in ("iirc", SHOWN))
        made.pop("trunk")
        made.pop("images")
        assert other.pop("trunk") == "resnet32"
        assert other.pop("images")["augment"] == "crop-flip"
    assert made == other


SHOWN = "iirc-cifar-images"


@pytest.mark.parametrize(
    ("learner", "lr"),
    [
        *(("finetune", 0.1), ("er", 0.1), ("lucir", 0.1), ("icarl-cnn", 0.5)),
        *(("icarl-norm", 0.5), ("bic", 0.5), ("agem", 0.5)),
    ],
)
def test_iirc_on_imagenet(learner: str, lr: float) -> None:
    made = settings(learner, "iirc-imagenet-images")
    assert (made["trunk"], made["lr"]) == ("resnet50", lr)
    assert (made["stop"]["epochs"], made["stop"]["first_epochs"]) == (100, 200)


@pytest.mark.parametrize("learner", ["finetune", "lwf", "icarl", "bic", "lucir", "il2m"])
def test_class_orderings(learner: str) -> None:
    made = settings(learner, "class-orderings-images")
    assert (made["trunk"], made["lr"], made["weight_decay"]) == ("resnet32", 0.1, 2e-4)
    stop = made["stop"]
    assert (stop["rule"], stop["epochs"], stop["lr_min"]) == ("plateau", 200, 1e-4)
    assert stop["factor"] == pytest.approx(1 / 3)
    assert stop["patience"] + 1 == 10  # the tenth epoch in a row lowers the rate
    if learner != "finetune":
        assert made["memory"] == {"total": None, "per_class": 20, "select": "herding"}
    assert preset("class-orderings-images")[Key("protocol", "sessions")] == "10"


def test_online() -> None:
    er, gdumb, finetune = (settings(n, "online-images") for n in ("er", "gdumb", "finetune"))
    assert {made["trunk"] for made in (er, gdumb, finetune)} == {"resnet18_small_images"}
    assert (er["lr"], er["weight_decay"], er["batch_size"]) == (0.01, 1e-4, 64)
    assert er["memory"] == {"total": 2000, "per_class": 20, "select": "reservoir"}
    assert (gdumb["lr"], gdumb["batch_size"], gdumb["stop"]["epochs"]) == (0.05, 16, 30)
    assert gdumb["memory"]["select"] == "balanced"
    # one pass over the stream, ten images a step, with the momentum that was
    assert (finetune["batch_size"], finetune["stop"]["epochs"]) == (10, 1)
    assert (finetune["stop"]["rule"], finetune["optimiser_state"]) == ("epochs", "kept")
    assert preset("online-images")[Key("protocol", "observe_batch")] == "10"


def test_the_trunk_of_online_learning_has_no_pooling_before_its_stages() -> None:
    import torch

    model = timm.create_model("resnet18_small_images", num_classes=0)
    assert sum(p.numel() for p in model.parameters()) == 11_168_832
    seen: list[tuple[int, ...]] = []
    model.layer1.register_forward_hook(lambda _, x, y: seen.append(tuple(y.shape)))
    assert model.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 512)
    assert seen == [(2, 64, 32, 32)]
    assert model.conv1.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)


@pytest.mark.parametrize("name", IMAGES)
def test_no_learner_is_refused(name: str) -> None:
    """Those that the paper did not have, too; what has no trunk keeps what it has."""
    learners = [learner for learner in learner_names() if learner not in ("offline", "chance")]
    protocol = "iirc" if name.startswith("iirc") else "incremental-class"
    trunks = [
        getattr(cell.learner.settings, "trunk", None)
        for cell in plan(["file.h5"], protocol, learners, [0], preset=name)
    ]
    assert len(trunks) == len(learners)
    assert len({*trunks} - {None}) == 1
    assert preset(name)[Key("trunk")] in trunks


def test_the_command_line_is_over_a_preset() -> None:
    made = settings("si", "class-orderings-images", "trunk=resnet8", "stop.epochs=3", "si.lr=0.2")
    assert (made["trunk"], made["stop"]["epochs"], made["lr"]) == ("resnet8", 3, 0.2)
    assert made["stop"]["rule"] == "plateau"
    with pytest.raises(UserError, match="unknown preset 'onlin'"):
        settings("er", "onlin")


@pytest.mark.parametrize("name", [*IMAGES, "pretrain"])
def test_the_guide_has_a_command_that_parses(name: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "images.md"
    text = page.read_text(encoding="utf-8")
    lines = [line for line in re.findall(r"`embedbench ([^`]+)`", text) if name in line.split()]
    assert lines
    for line in lines:
        words = shlex.split(line)
        group: Any = typer.main.get_command(app)
        group.commands[words[0]].make_context(words[0], words[1:])


# --- a few steps ---


@pytest.mark.parametrize(
    ("name", "protocol", "learners", "items"),
    [
        ("iirc-cifar-images", "iirc", "er", ["protocol.hierarchy=file", "protocol.step=3"]),
        ("class-orderings-images", "incremental-class", "icarl", ["protocol.sessions=2"]),
        ("online-images", "incremental-class", "er,gdumb,finetune", ["protocol.sessions=2"]),
    ],
)
def test_a_few_steps(
    tmp_path: Path, name: str, protocol: str, learners: str, items: list[str]
) -> None:
    short = ["stop.epochs=1", "trunk=resnet8", "references=0"]
    short += ["stop.first_epochs=1"] if protocol == "iirc" else []
    words = ["run", colours(tmp_path), "--protocol", protocol, "--learner", learners]
    words += ["--preset", name, "--device", "cpu", "--out", tmp_path / "runs", "--quiet"]
    words += [w for item in (*items, *short) for w in ("--set", item)]
    made = CliRunner().invoke(app, [str(w) for w in words])
    assert made.exit_code == 0, (made.output, made.exception)
    places = [p for p in record_files.find(tmp_path / "runs") if "chance" not in str(p)]
    assert len(places) == len(learners.split(","))
    for place in places:
        run = record_files.load(place)
        own = run.learner_params
        assert own["lr"] == settings(run.learner, name)["lr"]
        assert own["images"]["augment"] == "crop-flip"
        assert f"--preset {name}" in run.command
        assert run.footprint["total"] > 0
