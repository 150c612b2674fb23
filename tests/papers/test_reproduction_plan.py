"""`reproduce PAPER --plan`: counts against the shipped lists, commands against the command line."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from command_line import embedbench
from protocol_files import make_file
from reproduce_files import blob_file

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file
from embedbench.papers import paper_folders
from embedbench.papers.class_orderings.paper import OrderingRuns
from embedbench.papers.kemker2018.paper import CAPACITIES, PRINTED, KemkerRuns
from embedbench.papers.paper import PaperData
from embedbench.papers.reproduction_plan import make_plan, plan_text
from embedbench.protocols.fscil import LISTS, read_list
from embedbench.streams.make_class_order import make_order

PAPERS = ("kemker2018", "masana2020", "abdelsalam2021", "tang2024", "michel2023")
ORDERS = Path(paper_folders.__file__).parents[1] / "assets" / "cifar100_orders.json"
CIFAR = json.loads(ORDERS.read_text("utf-8"))


def plan_of(name: str, seeds: int = 3) -> dict[str, Any]:
    return make_plan(name, "0-2", seeds)


def cells_of(name: str, data: Sequence[str], out: Path, seeds: Sequence[int], *items: str) -> int:
    """How many runs the paper itself plans for its usual tables."""
    paper = paper_folders.paper(name)
    out.mkdir(parents=True, exist_ok=True)
    runs = paper.runs(out, seeds, items=items)
    runs.data = runs.find_data(data)
    tables = (make for name, make in paper.tables.items() if name not in paper.unplanned)
    return len(runs.plan_tables(tables))


def small_file(folder: Path, name: str, width: int, classes: Sequence[str]) -> EmbeddingFile:
    """A training and a test sample of each class."""
    sizes: Any = [[n] * len(classes) for n in (1, 0, 1)]
    return make_file(folder, *sizes, name=f"{name}.h5", width=width, classes=classes)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A pixel file with CIFAR-100's classes, two images each, in an order of its own."""
    pixels = np.random.default_rng(0).integers(0, 255, (200, 4, 4, 3)).astype(np.uint8)
    samples = small_file(tmp_path, "vectors", 4, CIFAR["classes"][::-1]).samples
    return write_file(tmp_path / "images.h5", samples, pixels, {}).path


def test_counts_of_the_few_shot_lists() -> None:
    plan = plan_of("tang2024")
    names = {"cifar100": "CIFAR-100", "mini-imagenet": "miniImageNet", "cub200": "CUB-200"}
    for key, (base, way) in LISTS.items():
        data = next(d for d in plan["data"] if d["name"].startswith(names[key]))
        sessions = read_list(key)
        assert base + way * (len(sessions) - 1) == data["classes"]
        listed = sum(map(len, sessions))
        assert any(f"{listed:,} " in remark for remark in plan["remarks"])
        assert listed <= data["samples"]["train"]
    keys = ("cifar100", "cub200")  # miniImageNet is as CIFAR-100
    each = [(*LISTS[key], len(read_list(key))) for key in keys]
    fr = [w["samples"] for w in plan["estimate"] if w["what"].startswith("FR")]
    assert fr == [600 * sum(base + way * i for i in range(n)) for base, way, n in each]


def test_hours_and_bytes_follow_the_formulas() -> None:
    one, three = (plan_of("tang2024", seeds) for seeds in (1, 3))
    for work, again in zip(one["estimate"], three["estimate"], strict=True):
        hours = work["runs"] * work["samples"] * work["epochs"] / work["samples_a_second"]
        assert work["gpu_hours_estimated"] == pytest.approx(hours / 3600)
        seeded = work["what"].startswith(("FR", "nine"))
        assert again["runs"] == (3 if seeded else 1) * work["runs"]
    total = sum(w["gpu_hours_estimated"] for w in three["estimate"])
    assert three["gpu_hours_estimated"] == pytest.approx(total)
    files = three["data"][0]["files"]
    assert files[0]["path"] == "cifar100-36.h5"
    assert files[0]["bytes"] == 60_000 * 36 * 36 * 3
    assert files[1]["bytes"] == 60_000 * 4 * 256 * 4
    assert three["bytes"] == sum(f["bytes"] for d in three["data"] for f in d["files"])
    text = plan_text(three)
    assert "--seeds 0-2 --device cuda --jobs 1\n" in text
    assert "samples digest: not computed here" in text
    assert all(f" {w['samples']:,} " in text for w in three["estimate"])
    assert f"COMMANDS\n\n1. {next(iter(three['steps']))}\n" in text


def test_cifar100_by_name_is_the_papers_data(images: Path, tmp_path: Path) -> None:
    """Published orders, in the file's own numbering, and superclasses; no other classes pass."""
    runs = OrderingRuns(tmp_path / "m", [0])
    runs.data = runs.find_data([f"cifar100={images}"])
    assert runs.data == {"cifar100": PaperData(images, "cifar100")}
    made = (Path(runs.orders["cifar100", k]) for k in ("max-confusion", "coarse"))
    order, coarse = (json.loads(path.read_text("utf-8"))["order"] for path in made)
    assert order == [CIFAR["classes"][k] for k in CIFAR["cifar100-max-confusion"]]
    first = ["beaver", "dolphin", "otter", "seal", "whale"]
    assert coarse[:5] == first
    assert sorted(coarse) == CIFAR["classes"]
    (cell,) = runs.specs("cifar100", "coarse", "icarl")
    assert cell.learner.settings.trunk == "resnet32"
    other = blob_file(tmp_path / "other.h5", 100, 2)
    with pytest.raises(UserError, match=r"100 classes.*see --plan"):
        runs.find_data([f"cifar100={other.path}"])
    with pytest.raises(UserError, match="no class hierarchy"):
        make_order(other, "coarse")


def test_images_get_the_settings_of_the_papers_networks(images: Path, tmp_path: Path) -> None:
    def runs_of(name: str, *data: str) -> Any:
        runs = paper_folders.paper(name).runs(tmp_path, [0])
        runs.data = runs.find_data(data)
        return runs

    runs = runs_of("michel2023", str(images))
    (er,), (finetune,) = (runs.specs("images", 10, n) for n in ("er", "finetune"))
    assert er.learner.settings.trunk == "resnet18_small_images"
    assert (er.learner.settings.memory.total, finetune.learner.settings.memory.total) == (2000, 0)
    runs = runs_of("abdelsalam2021", f"cifar={images}", f"imagenet-lite={images}")
    trunks = [runs.specs(n, 0, "er-5")[0].learner.settings for n in ("cifar", "imagenet-lite")]
    assert [(t.trunk, t.memory.per_class) for t in trunks] == [("resnet32", 5), ("resnet50", 5)]


@pytest.mark.parametrize("name", PAPERS)
def test_the_commands_of_a_plan_are_ours_and_make_files_before_they_read_them(name: str) -> None:
    group: Any = typer.main.get_command(app)
    steps, paper = plan_of(name)["steps"], paper_folders.paper(name)
    lines = [line for commands in steps.values() for line in commands]
    words = [shlex.split(line)[1:] for line in lines if line.startswith("embedbench ")]
    assert {"verify", "inspect", "reproduce"} <= {command for command, *_ in words}
    made: set[str] = set()
    sent = []
    for command, *rest in words:
        # an unknown option or a missing argument raises
        context = group.commands[command].make_context(command, list(rest))
        read = {part.rpartition("=")[2] for part in rest if part.endswith((".h5", ".safetensors"))}
        out = context.params.get("out")
        if command == "reproduce":
            assert paper_folders.paper(rest[0]) is paper
            sent.append(f"{out or f'reproduce/{paper.stem}'}/{paper.stem}.json")
        elif out is not None:
            read.discard(str(out))
            made.add(str(out))
        assert read <= made, (command, read - made)
    assert plan_of(name)["send_back"] == sent
    with pytest.raises(Exception, match="no-such"):
        group.commands["verify"].make_context("verify", ["a.h5", "--no-such"])


@pytest.mark.thorough
def test_runs_of_kemker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(runs: Any, learner: str, name: str) -> dict[str, str]:
        # never Table 2's capacity
        return {key: str(values[-1]) for key, values in CAPACITIES.get(learner, {}).items()}

    monkeypatch.setattr(KemkerRuns, "capacity", chosen)
    given = []
    for name, width, classes in (("mnist", 784, 10), ("cub", 2048, 200), ("audioset", 1280, 100)):
        file = small_file(tmp_path, name, width, [str(c) for c in range(classes)])
        given.append(f"{name}={file.path}")
    plan = plan_of("kemker2018", 2)
    assert cells_of("kemker2018", given, tmp_path / "k", [0, 1]) == plan["runs"]
    trials = sum(len(values) for grid in CAPACITIES.values() for values in grid.values())
    (search,) = [w for w in plan["estimate"] if "search" in w["what"]]
    assert search["runs"] == trials * len({row["data"] for row in PRINTED["S10"] if "data" in row})


@pytest.mark.thorough
def test_runs_of_all_but_kemker(tmp_path: Path, images: Path) -> None:
    def plans(name: str, *data: str, items: Sequence[str] = ()) -> int:
        return cells_of(name, data, tmp_path / name, [0, 1], *items)

    made = {"masana2020": plans("masana2020", f"cifar100={images}")}
    each = [[f"protocol.sessions={k}"] for k in ("10", "100")]
    made["michel2023"] = sum(plans("michel2023", str(images), items=items) for items in each)
    for classes in (100, 200):
        blob_file(tmp_path / f"{classes}.h5", classes, 2, layers=("block-7",))
    of = {name: tmp_path / f"{200 if name == 'cub200' else 100}.h5" for name in LISTS}
    cifar, x = EmbeddingFile.open(images).samples, np.ones((200, 4), np.float32)
    of["cifar100"] = write_file(tmp_path / "c.h5", cifar, x, {}, layers={"block-7": x}).path
    made["tang2024"] = plans("tang2024", *(f"{name}={file}" for name, file in of.items()))
    assert made == {name: plan_of(name, 2)["runs"] for name in made}
    lite = cells_of("abdelsalam2021", [f"imagenet-lite={images}"], tmp_path / "l", [0])
    assert plans("abdelsalam2021", f"cifar={images}") + lite == plan_of("abdelsalam2021", 2)["runs"]


def test_plans_are_printed_without_torch_files_or_network(tmp_path: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from embedbench.cli.app import app\n"
        f"for name in {(*PAPERS, 'iirc')}:\n"
        "    app(['reproduce', name, '--plan', '--seeds', '0-9'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules and 'h5py' not in sys.modules"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"masana2020, seeds 0-9: {8 * 7 * 10} runs" in done.stdout
    assert done.stdout.count("Plan to reproduce ") == len(PAPERS) + 1
    assert not list(tmp_path.iterdir())
    wrong = embedbench("reproduce", "iirc", "--plan", "--seeds", "4-1")
    assert "names no seed" in str(wrong.exception)
