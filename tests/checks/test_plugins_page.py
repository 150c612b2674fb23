"""The package of docs/plugins.md, installed beside us: listed, checked, run, reported."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Call
from PIL import Image

from embedbench.api import build_stream, run
from embedbench.checks import conformance_suite
from embedbench.cli import list_entries
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"
TEXT = PAGE.read_text(encoding="utf-8")
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
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {made['name']}\nVersion: {made['version']}\n"
    )
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
    assert (code, "best_class_accuracy, %" in out) == (0, True)
    code, out, _ = call("score", "runs", "--json")
    assert all(row["agrees"] for row in json.loads(out))
    sys.path.remove(str(mine.parent / "site"))  # its runs are scored and reported all the same
    code, out, _ = call("score", "runs")
    assert (code, "0 differ, 0 cannot be recomputed" in out) == (0, True)
    code, out, _ = call("report", "runs", "--metric", "worst_class_accuracy")
    assert (code, "worst_class_accuracy" in out) == (0, True)
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
    with pytest.raises(UserError, match=r"^Halves is made already; give it share when you make it"):
        build_stream(file, Halves(), share=0.3)
