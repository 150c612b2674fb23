"""`reproduce PAPER --plan`: counts against the shipped lists, commands against the command line."""

import itertools
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import typer
from reproduce_files import blob_file
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.formats.mnist_idx import read_idx
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.papers import paper_folders
from embedbench.papers.class_orderings.paper import OrderingRuns
from embedbench.papers.kemker2018.runs import CAPACITIES, PRINTED, KemkerRuns
from embedbench.papers.paper import PaperData, ReproduceRequest
from embedbench.papers.reproduction_plan import make_plan, plan_text
from embedbench.protocols._hierarchy import hierarchy_text
from embedbench.protocols.fscil import LISTS, read_list
from embedbench.streams.make_class_order import make_order

PAPERS = ("kemker2018", "masana2020", "abdelsalam2021", "tang2024", "michel2023")
CIFAR = json.loads(
    (Path(paper_folders.__file__).parents[1] / "assets" / "cifar100_orders.json").read_text("utf-8")
)


Plan = dict[str, Any]


def plan_of(name: str, seeds: int = 3) -> Plan:
    return make_plan(name, "0-2", seeds)


def lines(plan: Plan) -> list[str]:
    return [line for step in plan["steps"] for line in step["commands"]]


def embedbench_words(plan: Plan) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in lines(plan) if line.startswith("embedbench ")]


def cells_of(name: str, data: Sequence[str], out: Path, seeds: Sequence[int], *items: str) -> int:
    """How many runs the paper itself plans for its usual tables."""
    paper = paper_folders.paper(name)
    asked = ReproduceRequest(
        out=out, seeds=seeds, data=data, items=items, learners=list(paper.runs.every)
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = list(paper.tables)
    return len(paper.runs(asked, paper.runs.find_data(asked, tables)).plan_tables(tables))


def counted(name: str, seeds: int) -> int:
    return int(plan_of(name, seeds)["runs"])


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A pixel file with CIFAR-100's classes, two images each, in an order of its own."""
    names = CIFAR["classes"][::-1]
    samples = Samples(
        ids=np.array([f"{i:03d}" for i in range(200)]),
        labels=np.tile(np.arange(100), 2),
        split=np.repeat([0, 2], 100),
        classes=tuple(names),
        parents=np.full(100, -1),
    )
    pixels = np.random.default_rng(0).integers(0, 255, (200, 4, 4, 3)).astype(np.uint8)
    return write_file(tmp_path / "images.h5", samples, pixels, {}).path


@pytest.mark.parametrize("name", PAPERS)
def test_every_command_of_a_plan_is_one_of_ours(name: str) -> None:
    group: Any = typer.main.get_command(app)
    words = embedbench_words(plan_of(name))
    assert {"verify", "inspect", "reproduce"} <= {command for command, *_ in words}
    for command, *rest in words:
        sub: click.Command = group.commands[command]
        sub.make_context(command, list(rest))  # an unknown option or a missing argument raises
    with pytest.raises(Exception, match="no-such"):
        group.commands["verify"].make_context("verify", ["a.h5", "--no-such"])


@pytest.mark.parametrize("name", PAPERS)
def test_files_are_made_before_they_are_read(name: str) -> None:
    made: set[str] = set()
    for command, *rest in embedbench_words(plan_of(name)):
        read = {part.rpartition("=")[2] for part in rest if part.endswith((".h5", ".safetensors"))}
        if "--out" in rest and command != "reproduce":
            out = rest[rest.index("--out") + 1]
            read.discard(out)
            made.add(out)
        assert read <= made, (command, read - made)
    reproduced = [w for w in embedbench_words(plan_of(name)) if w[0] == "reproduce"]
    assert all(paper_folders.paper(w[1]).name == name for w in reproduced)
    given = [w[w.index("--out") + 1] if "--out" in w else None for w in reproduced]
    stem = paper_folders.paper(name).stem
    sent = [f"{out or f'reproduce/{stem}'}/{stem}.json" for out in given]
    assert plan_of(name)["send_back"] == sent


@pytest.mark.parametrize("seeds", [1, 3])
def test_runs_of_masana_and_michel_and_tang(seeds: int, tmp_path: Path, images: Path) -> None:
    each = list(range(seeds))
    data = [f"cifar100={images}"]
    assert cells_of("masana2020", data, tmp_path / "m", each) == counted("masana2020", seeds)
    found = [
        cells_of("michel2023", [str(images)], tmp_path / k, each, f"protocol.sessions={k}")
        for k in ("10", "100")
    ]
    assert sum(found) == counted("michel2023", seeds)
    layers = str(blob_file(tmp_path / "layers.h5", 20, 4, layers=("block-7",)).path)
    given = [f"{name}={layers}" for name in LISTS]
    assert cells_of("tang2024", given, tmp_path / "t", each) == counted("tang2024", seeds)


def test_runs_of_iirc(tmp_path: Path, images: Path) -> None:
    cifar = cells_of("abdelsalam2021", [f"cifar={images}"], tmp_path / "c", [0, 1, 2])
    lite = cells_of("abdelsalam2021", [f"imagenet-lite={images}"], tmp_path / "l", [0])
    assert cifar + lite == counted("abdelsalam2021", 3)


def test_runs_of_kemker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(runs: Any, learner: str, name: str) -> dict[str, str]:
        # never Table 2's capacity
        return {key: str(values[-1]) for key, values in CAPACITIES.get(learner, {}).items()}

    monkeypatch.setattr(KemkerRuns, "capacity", chosen)
    given = []
    for name, width, classes in (("mnist", 784, 10), ("cub", 2048, 200), ("audioset", 1280, 100)):
        samples = Samples(
            ids=np.array([str(i) for i in range(2 * classes)]),
            labels=np.tile(np.arange(classes), 2),
            split=np.repeat([0, 2], classes),
            classes=tuple(str(c) for c in range(classes)),
            parents=np.full(classes, -1),
        )
        path = tmp_path / f"{name}.h5"
        write_file(path, samples, np.ones((2 * classes, width), np.float32), {})
        given.append(f"{name}={path}")
    assert cells_of("kemker2018", given, tmp_path / "k", [0, 1]) == counted("kemker2018", 2)
    trials = sum(len(values) for grid in CAPACITIES.values() for values in grid.values())
    data = {row["data"] for row in PRINTED["S10"] if "data" in row}
    (search,) = [w for w in plan_of("kemker2018")["estimate"] if "search" in w["what"]]
    assert search["runs"] == trials * len(data)


def test_counts_of_the_few_shot_lists() -> None:
    plan = plan_of("tang2024")
    names = {"cifar100": "CIFAR-100", "mini-imagenet": "miniImageNet", "cub200": "CUB-200"}
    data = {
        key: next(d for d in plan["data"] if d["name"].startswith(name))
        for key, name in names.items()
    }
    for key, (base, way) in LISTS.items():
        sessions = read_list(key)
        assert base + way * (len(sessions) - 1) == data[key]["classes"]
        listed = sum(map(len, sessions))
        assert any(f"{listed:,} " in remark for remark in plan["remarks"])
        assert listed <= data[key]["samples"]["train"]
    seen = [
        sum(LISTS[key][0] + LISTS[key][1] * i for i in range(len(read_list(key))))
        for key in ("cifar100", "cub200")  # miniImageNet is as CIFAR-100
    ]
    fr = [w["samples"] for w in plan["estimate"] if w["what"].startswith("FR")]
    assert fr == [600 * n for n in seen]


def test_counts_of_iirc_follow_from_its_hierarchies() -> None:
    names = ("cifar", "imagenet-lite", "imagenet-full")
    shipped = {n: json.loads(hierarchy_text(f"iirc-{n}")) for n in names}
    above = shipped["cifar"]["parents"]
    leaves = [c for c in above if c not in set(above.values())]
    grouped = [c for c in leaves if above[c] is not None]
    # of 400 training images a class: alone all; below a superclass four fifths, and two fifths of
    # the list teach the superclass (no superclass of CIFAR-100 has more than the cap of 8)
    taught = 400 * (len(leaves) - len(grouped)) + len(grouped) * (320 + 160)
    assert len(leaves) == 100
    n_sessions = {n: len(d["configurations"][0]) for n, d in shipped.items()}
    lite, full = (len(set(itertools.chain(*shipped[n]["configurations"][0]))) for n in names[1:])
    of_lite = round(1_215_123 * lite / full)  # Table 1
    growing = (400 * len(leaves) * (n_sessions["cifar"] + 1) // 2,
               of_lite * (n_sessions["imagenet-lite"] + 1) // 2)  # fmt: skip
    work = [w["samples"] for w in plan_of("abdelsalam2021")["estimate"]]
    assert work == [taught, growing[0], of_lite, growing[1]]


def test_the_samples_digest_of_mnist_is_of_ids_labels_and_split_alone(tmp_path: Path) -> None:
    """What `import` computes, and so the plan's digest; here of three digits written out."""
    for part, labels in (("train", [1, 0]), ("t10k", [1])):
        head = bytes([0, 0, 8, 1]) + len(labels).to_bytes(4, "big")
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(labels))
        head = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (len(labels), 1, 1))
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(head + bytes(len(labels)))
    read, _ = read_idx(tmp_path)
    assert read.digest() == idx_digest([1, 0], [1])
    assert read.digest() != idx_digest([0, 1], [1])


def idx_digest(train: Sequence[int], test: Sequence[int]) -> str:
    """The digest of MNIST's samples from its labels."""
    ids = [f"{p}/{i:05d}" for p, y in (("train", train), ("test", test)) for i in range(len(y))]
    labels, split = [*train, *test], [0] * len(train) + [2] * len(test)
    names = tuple(str(c) for c in range(max(labels) + 1))
    none = np.full(len(names), -1)
    return Samples(np.array(ids), np.array(labels), np.array(split), names, none).digest()


def test_hours_and_bytes_follow_the_formulas() -> None:
    one, three = (plan_of("tang2024", seeds) for seeds in (1, 3))
    for work, again in zip(one["estimate"], three["estimate"], strict=True):
        hours = work["runs"] * work["samples"] * work["epochs"] / work["samples_a_second_assumed"]
        assert work["gpu_hours_estimated"] == pytest.approx(hours / 3600)
        seeded = work["what"].startswith(("FR", "nine"))
        assert again["runs"] == (3 if seeded else 1) * work["runs"]
    total = sum(w["gpu_hours_estimated"] for w in three["estimate"])
    assert three["gpu_hours_estimated"] == pytest.approx(total)
    assert three["data"][0]["files"][0] == {"path": "cifar100-36.h5", "bytes": 60_000 * 36 * 36 * 3}
    assert three["data"][0]["files"][1]["bytes"] == 60_000 * 4 * 256 * 4
    assert three["bytes"] == sum(f["bytes"] for d in three["data"] for f in d["files"])
    assert three["data"][2]["samples_digest"] is None
    text = plan_text(three)
    assert "--seeds 0-2 --device cuda --jobs 1\n" in text
    assert "samples digest: not computed here" in text


@pytest.mark.parametrize("name", [*PAPERS, "iirc"])
def test_a_plan_is_printed_without_torch_files_or_network(name: str, tmp_path: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        f"sys.argv = ['embedbench', 'reproduce', '{name}', '--plan', '--json']\n"
        "from embedbench.cli.app import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules and 'h5py' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["paper"] in PAPERS
    assert not list(tmp_path.iterdir())


def test_the_plan_is_of_the_seeds_that_are_asked_for() -> None:
    done = CliRunner().invoke(app, ["reproduce", "masana2020", "--plan", "--seeds", "0-9"])
    assert done.exit_code == 0, done.output
    assert f"seeds 0-9: {8 * 7 * 10} runs" in done.stdout
    assert "--seeds 0-9 " in done.stdout
    with pytest.raises(UserError, match="names no seed"):
        CliRunner().invoke(
            app, ["reproduce", "iirc", "--plan", "--seeds", "4-1"], catch_exceptions=False
        )


def test_cifar100_by_name_is_the_papers_data(images: Path, tmp_path: Path) -> None:
    """Published orders, in the file's own numbering, and its superclasses; no other file passes."""
    asked = ReproduceRequest(out=tmp_path / "m", seeds=[0], data=[f"cifar100={images}"])
    asked.out.mkdir()
    runs = OrderingRuns(asked, OrderingRuns.find_data(asked, []))
    assert runs.data == {"cifar100": PaperData(images, "cifar100")}
    order = json.loads(Path(runs.orders["cifar100", "max-confusion"]).read_text("utf-8"))["order"]
    assert order == [CIFAR["classes"][k] for k in CIFAR["cifar100-max-confusion"]]
    coarse = json.loads(Path(runs.orders["cifar100", "coarse"]).read_text("utf-8"))["order"]
    assert coarse[:5] == ["beaver", "dolphin", "otter", "seal", "whale"]
    assert sorted(coarse) == CIFAR["classes"]
    (cell,) = runs.specs("cifar100", "coarse", "icarl")
    assert cell.learner.settings.trunk == "resnet32"
    other = blob_file(tmp_path / "other.h5", 100, 2).path
    with pytest.raises(UserError, match=r"100 classes.*'torch/cifar100[?]download=yes'"):
        OrderingRuns.find_data(replace(asked, data=[f"cifar100={other}"]), [])
    with pytest.raises(UserError, match="no class hierarchy"):
        make_order(blob_file(tmp_path / "flat.h5", 100, 2), "coarse")


def test_images_get_the_settings_of_the_papers_networks(images: Path, tmp_path: Path) -> None:
    asked = ReproduceRequest(out=tmp_path, seeds=[0], data=[str(images)])
    kind: Any = paper_folders.paper("michel2023").runs
    runs = kind(asked, kind.find_data(asked, []))
    (er,), (finetune,) = (runs.specs("images", 10, n) for n in ("er", "finetune"))
    assert er.learner.settings.trunk == "resnet18_small_images"
    assert (er.learner.settings.memory.total, finetune.learner.settings.memory.total) == (2000, 0)
    asked = ReproduceRequest(
        out=tmp_path, seeds=[0], data=[f"cifar={images}", f"imagenet-lite={images}"]
    )
    kind = paper_folders.paper("abdelsalam2021").runs
    runs = kind(asked, kind.find_data(asked, []))
    trunks = [runs.specs(n, 0, "er-5")[0].learner.settings for n in ("cifar", "imagenet-lite")]
    assert [t.trunk for t in trunks] == ["resnet32", "resnet50"]
    assert [t.memory.per_class for t in trunks] == [5, 5]
