"""The package of docs/plugins.md, and the learners of docs/add_a_learner.md."""

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import Call
from PIL import Image
from protocol_files import make_file

from embedbench.api import build_stream, make_learner, run, score
from embedbench.checks import conformance_suite
from embedbench.checks.conformance_suite import LEARNER_CHECKS, check
from embedbench.cli import list_entries
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.learning.learner import Context

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "plugins.md").read_text(encoding="utf-8")
LEARNERS = (DOCS / "add_a_learner.md").read_text(encoding="utf-8")
MODULES = ("protocol", "metrics", "backbone", "tracker", "shelf", "engine")  # as on the page
BRIEF = ["--set", "offline.mlp.stop.epochs=1", "--jobs", "1", "--device", "cpu", "--quiet"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with images in it; the page's package is installed elsewhere."""
    (package := tmp_path / "site" / "mine").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, code in zip(MODULES, blocks("python"), strict=True):
        (package / f"{name}.py").write_text(code, encoding="utf-8")
    made = tomllib.loads(blocks("toml")[0])["project"]
    info = tmp_path / "site" / "embedbench_mine-0.3.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {made['name']}\nVersion: {made['version']}\n"
    (info / "METADATA").write_text(metadata)
    lines = []
    for group, entries in made["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (info / "RECORD").write_text("".join(f"mine/{name}.py,,\n" for name in MODULES))
    (tmp_path / "work" / "shelf").mkdir(parents=True)
    draw = np.random.default_rng(0)
    for i in range(48):
        pixels = draw.integers(0, 128, (12, 10, 3), np.uint8) + np.uint8(16 * (i % 6))
        Image.fromarray(pixels).save(tmp_path / "work" / "shelf" / f"c{i % 6}-{i}.png")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", [*(p for p in sys.path if p), str(tmp_path / "site")])
    yield tmp_path / "work"
    for name in [m for m in sys.modules if m.partition(".")[0] == "mine"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "kind", "checks"),
    [
        ("halves", None, 13),
        ("best_class_accuracy", None, 5),
        ("mine.metrics:best_class_accuracy", "metrics", 5),
        ("mosaic", None, 3),
        ("lines", None, 1),
        ("mine.shelf:shelf@shelf", "sources", 2),
        ("mine.engine:threads", "engines", 1),
    ],
)
def test_it_passes_every_check(name: str, kind: str | None, checks: int, mine: Path) -> None:
    results = conformance_suite.check(name, kind=kind)
    assert [r for r in results if not r.passed] == []
    assert sum(r.applies for r in results) == checks


def test_it_is_listed_with_its_package(mine: Path) -> None:
    for kind, name, code in (
        ("protocols", "halves", "mine.protocol:Halves"),
        ("metrics", "best_class_accuracy", "mine.metrics:best_class_accuracy"),
        ("backbones", "mosaic", "mine.backbone:Mosaic"),
        ("trackers", "lines", "mine.tracker:Lines"),
    ):
        (row,) = [e for e in list_entries.entries(kind) if e["name"] == name]
        assert (row["summary"], row["package"]) == (code, "embedbench-mine 0.3")
    assert "mine" not in sys.modules  # a list runs nothing


@pytest.mark.thorough
def test_from_images_to_a_report(mine: Path, call: Call) -> None:
    words = ("--backbone", "mosaic", "--split", "0.5", "--device", "cpu", "--quiet")
    code, _, err = call("extract", "mine.shelf:shelf@shelf", "--out", "shelf.h5", *words)
    assert code == 0, err
    made = EmbeddingFile.open(Path("shelf.h5")).provenance
    library = [made["backbone"][k] for k in ("name", "library", "library_version")]
    assert library == ["mosaic", "embedbench-mine", "0.3"]
    assert made["source"]["package"] == "embedbench-mine 0.3"
    words = ("--protocol", "halves", "--learner", "ncm,slda", "--seeds", "0-1", "--out", "runs")
    code, out, err = call("run", "shelf.h5", *words, *BRIEF)
    assert code == 0, err
    assert "best_class_accuracy" in out
    kept = [json.loads(p.read_text()) for p in Path("runs").rglob("record.json")]
    for made in [r for r in kept if r["learner"] == "ncm"]:
        assert made["packages"] == {"protocol": {"name": "embedbench-mine", "version": "0.3"}}
        assert "best_class_accuracy" not in made["metrics"]
    assert not [r for r in kept if r["learner"] == "offline" and "learner" in r["packages"]]
    code, out, _ = call("report", "runs")
    assert "metrics of embedbench-mine 0.3, which no record holds: best_class_accuracy" in out
    code, out, _ = call("report", "runs", "--compare", "--metric", "best_class_accuracy")
    assert code == 0
    assert "best_class_accuracy %" in out
    code, out, _ = call("score", "runs", "--json")
    assert all(row["agrees"] for row in json.loads(out))
    sys.path.remove(str(mine.parent / "site"))  # its runs are scored and reported all the same
    code, out, _ = call("score", "runs")
    assert code == 0
    assert "0 differ, 0 cannot be recomputed" in out
    code, out, _ = call("report", "runs", "--metric", "worst_class_accuracy")
    assert code == 0
    assert "worst_class_accuracy" in out
    assert "best_class_accuracy" not in out
    code, _, err = call("report", "runs", "--metric", "best_class_accuracy")
    assert code == 2
    assert "unknown metric 'best_class_accuracy'. Did you mean " in err


def test_an_object_and_a_path_make_the_same_stream(mine: Path) -> None:
    from embedbench.checks.protocol_cases import WIDTH, small_file

    sys.path.insert(0, str(mine.parent / "site"))
    from mine.protocol import Halves  # type: ignore[import-not-found]

    file = small_file("plain", WIDTH)
    streams: list[Any] = [
        build_stream(file, Halves(share=0.3)),
        build_stream(file, "halves", share=0.3),
        build_stream(file, "mine.protocol:Halves", share=0.3),
    ]
    assert [s.digests for s in streams[1:]] == [streams[0].digests] * 2
    assert len(run(streams[0], "ncm").session) == 2
    with pytest.raises(UserError, match=r"^Halves .*already; .* share "):
        build_stream(file, Halves(), share=0.3)


NAME = "mypkg.mod:Mine"
WITH_NET = "mypkg.decay:Decay"
WITH_LOSS = "mypkg.replay:ReplayMLP"
THOROUGH = [pytest.param(name, marks=pytest.mark.thorough) for name in (WITH_NET, WITH_LOSS)]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the page's learners in mypkg, which is the working directory."""
    code, with_net, with_loss = re.findall(
        r"^```python\n(.*?)^```", LEARNERS, re.MULTILINE | re.DOTALL
    )
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "mod.py").write_text(code, encoding="utf-8")
    (tmp_path / "mypkg" / "decay.py").write_text(with_net, encoding="utf-8")
    (tmp_path / "mypkg" / "replay.py").write_text(with_loss, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    yield tmp_path
    for module in ("mypkg", "mypkg.mod", "mypkg.decay", "mypkg.replay"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", [NAME, *THOROUGH])
def test_a_learner_passes_every_check(name: str, outside: Path) -> None:
    results = check(name)
    assert [r for r in results if not r.passed] == []
    assert len(results) == len(LEARNER_CHECKS)


@pytest.mark.parametrize("hook", ["objective", "regularise", "stepped", "store", "validate"])
def test_every_hook_of_the_training_has_its_signature(hook: str) -> None:
    assert re.search(rf"\| `{hook}\((x, y)?\)` \|", LEARNERS)


def test_the_loss_of_the_page_uses_the_classes_that_the_protocol_allows(
    outside: Path, tmp_path: Path
) -> None:
    """A head's weights of classes without a gradient stay as they are drawn."""
    file = make_file(tmp_path, [10] * 4, [0] * 4, [5] * 4)
    stream = build_stream(file, "incremental-class", step=2, loss="seen")
    learner: Any = make_learner(WITH_LOSS, **{"stop.epochs": 1})
    learner.start(stream.spec, Seeds.of(0), "cpu")
    before = learner.net.head.bias.detach().clone()
    learner.learn(stream.sessions[0], Context(validate=lambda _: 0.5))
    moved = (learner.net.head.bias != before).numpy()
    assert {*moved.nonzero()[0].tolist()} == {*stream.sessions[0].classes.tolist()}


def test_what_is_left_out_is_as_on_the_command_line(tmp_path: Path) -> None:
    """Seed 0 of stream and run, one thread, and no Ω_new as a share."""
    file = make_file(tmp_path, [10] * 6, [0] * 6, [5] * 6)
    first, second = (build_stream(file, "permutation", sessions=2, seed=s) for s in (0, 1))
    stream, threads = build_stream(file, "permutation", sessions=2), set[int]()
    assert stream.digests == first.digests != second.digests
    learner = make_learner("chance")
    learner.prepare = lambda: threads.add(torch.get_num_threads())  # type: ignore[method-assign]
    mine, zero, one = (run(stream, learner, **s).answer for s in ({}, {"seed": 0}, {"seed": 1}))
    assert np.array_equal(mine, zero)
    assert not np.array_equal(mine, one)
    assert threads == {1}
    assert 0 < score(run(stream, "chance"))["omega_new"] < 1


def test_a_faulty_one_ends_the_command_with_1(outside: Path, call: Call) -> None:
    file = outside / "mypkg" / "mod.py"
    text = file.read_text(encoding="utf-8")
    assert ', "counts": "means"}' in text
    file.write_text(text.replace(', "counts": "means"}', "}"), encoding="utf-8")
    code, out, _ = call("check", NAME)
    assert code == 1
    assert "FAILED  state round trips" in out
    assert "expected the same scores after loading the state" in out
    assert "–       goes on inside a session  (does not apply)" in out
    assert "–       memory stays within its limit  (does not apply)" in out
    asked = len(LEARNER_CHECKS) - 2
    assert f"{asked - 1} of {asked} checks passed, 2 do not apply" in out


def test_every_check_says_in_one_line_what_it_demands() -> None:
    """The page sends to `check --markdown` for these lines."""
    assert "`--markdown`" in LEARNERS
    for c in LEARNER_CHECKS:
        demand, *more = (inspect.getdoc(c) or "").split("\n")
        assert demand.endswith("."), c.__name__
        assert not any(more[:1]), c.__name__
