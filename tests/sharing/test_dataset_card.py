"""The page of a file: a golden text, hostile text, licences, determinism, the picture."""

import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from file_helpers import PROVENANCE, make_features, make_samples
from image_files import embedding_file, pixel_file
from markdown_it import MarkdownIt
from PIL import Image
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.inspect import card
from embedbench.files.write_file import write_file
from embedbench.reports.picture_of_file import components
from embedbench.sharing.dataset_card import card_page, hub_licence
from embedbench.sharing.push_file import picture
from embedbench.text.markdown import code, escape_markdown

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = (
    "</h1><script>alert(1)</script>\x1b[31m![x](http://e.org/x.png)`|\n# big\n---\nlicense: mit"
)


def front(page: str) -> dict[str, object]:
    _, text, _ = re.split(r"^---\n", page, maxsplit=2, flags=re.MULTILINE)
    data: dict[str, object] = yaml.safe_load(text)
    return data


def test_inspect_prints_it_and_says_nothing_of_this_machine(tmp_path: Path) -> None:
    path = shutil.copy(GOLDEN / "v1.1.h5", tmp_path)
    result = CliRunner().invoke(app, ["inspect", str(path), "--card"])
    assert result.stdout == (GOLDEN / "v1.1-card.md").read_text(encoding="utf-8")


def test_text_of_other_people_is_no_markup(tmp_path: Path) -> None:
    made = {
        "backbone": {"name": HOSTILE, "weights_sha256": HOSTILE},
        "source": {"name": HOSTILE, "licence": HOSTILE, "citation": HOSTILE, "url": HOSTILE},
        "weights": {"licence": HOSTILE, "pretrained_on": [HOSTILE]},
        "preprocessing": {HOSTILE: HOSTILE},
    }
    page = card_page(card(write_file(tmp_path / "a.h5", make_samples(40), make_features(40), made)))
    assert front(page)["license"] == "other"
    html = MarkdownIt("gfm-like", {"linkify": False}).render(page.split("---\n", 2)[2])
    assert "<script" not in html
    assert "<img" not in html
    assert "\x1b" not in page
    assert html.count("<h1>") == 1
    assert html.count("<h2>") == 7


@pytest.mark.parametrize("text", ["a`b", "``", "`x", "x`", "a|b", ""])
def test_code_is_shown_as_it_is(text: str) -> None:
    assert f"<code>{text.replace('|', '¦') or ' '}</code>" in MarkdownIt().render(code(text))
    shown = MarkdownIt().renderInline(escape_markdown("*a* _b_ <c> ![d](e)"))
    assert shown == "*a* _b_ &lt;c&gt; ![d](e)"


def test_sizes_and_licences_in_the_words_of_the_hub(tmp_path: Path) -> None:
    made = card(embedding_file(tmp_path))
    sizes = {999: "n<1K", 1000: "1K<n<10K", 10_000: "10K<n<100K", 10**9: "100M<n<1B"}
    for known, name in ({}, "unknown backbone"), ({"backbone": {"name": "r18"}}, "r18"):
        assert f": {name} embeddings\n" in card_page(replace(made, provenance=known))
    for n, size in sizes.items():
        page = card_page(replace(made, shape=(n, 1), bytes=max(n, 1000) * 100))
        assert front(page)["size_categories"] == [size]
        assert f" {max(n, 1000) / 10_000:,.1f} MB" in page
    assert "100.0 kB" in card_page(replace(made, bytes=99_999))
    assert hub_licence("Apache-2.0") == {"license": "apache-2.0"}
    assert hub_licence("CC0") == {"license": "cc0-1.0"}
    for n in (60, 61):
        assert hub_licence("x" * n) == {"license": "other", "license_name": "x" * 60}


def with_classes(file: EmbeddingFile, n: int, inner: int = 0) -> str:
    """The page of a file with a picture, as if it had so many classes."""
    counts = {f"class {i}": dict.fromkeys(("train", "val", "test"), 1) for i in range(n)}
    made = replace(card(file), classes={"leaves": n, "inner": inner}, class_counts=counts)
    return card_page(made, picture="a.png")


def test_a_page_lists_twenty_classes_and_names_those_of_its_picture(tmp_path: Path) -> None:
    file = embedding_file(tmp_path)
    assert "class 18, class 19\n" in with_classes(file, 20)
    assert "class 18, class 19, …\n" in with_classes(file, 21)
    of_points = "First two principal components of samples, by "
    assert f"![{of_points}class](a.png)\n\n*{of_points}class*" in with_classes(file, 12)
    assert f"*{of_points}class*" in with_classes(file, 12, inner=3)
    assert f"*{of_points}the 12 largest of 13 classes*" in with_classes(file, 13)
    assert f"*{of_points}the classes at the top of the hierarchy*" in with_classes(file, 13, 3)


def test_the_licence_of_the_file_counts_before_that_of_the_push(tmp_path: Path) -> None:
    made = card(write_file(tmp_path / "a.h5", make_samples(40), make_features(40), PROVENANCE))
    assert front(card_page(made, licence="MIT"))["license"] == "cc0-1.0"
    without = replace(made, provenance={"source": {"licence": "not stated"}})
    page = card_page(without, licence="MIT")
    assert front(page)["license"] == "mit"
    assert "- **data:** MIT\n" in page
    assert "- **data:** not stated\n" in card_page(without)
    for unknown in ("pooling", "layer", "preprocessing"):
        assert f"**{unknown}:**" not in page
    page = card_page(card(pixel_file(tmp_path)))
    assert front(page)["task_categories"] == ["image-classification"]
    assert "file.images()" in page


def test_components_are_those_of_the_covariance() -> None:
    x = (np.random.default_rng(0).normal(size=(50, 4)) * [1, 5, 2, 0.1]).astype(np.float32)
    points, shares = components(x)
    values, axes = np.linalg.eigh(np.cov(x.T.astype(np.float64)))
    expected = (x - x.mean(axis=0)) @ axes[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-4)
    np.testing.assert_allclose(shares, values[::-1][:2] / values.sum(), rtol=1e-5)
    assert components(x[:, :1])[0].shape == (50, 2)


def test_the_picture_depends_on_the_file_alone(tmp_path: Path) -> None:
    file = embedding_file(tmp_path)
    assert picture(file) == picture(EmbeddingFile.open(file.path))
    assert Image.open(io.BytesIO(picture(file))).width == 720
    other = write_file(tmp_path / "b.h5", file.samples, file.read() ** 2, {})
    assert picture(other) != picture(file)
