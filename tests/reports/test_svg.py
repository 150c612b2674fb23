"""A figure as inline SVG takes its colours and its font from the page, and loads nothing."""

import re

from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.reports.figure_style import STYLE
from embedbench.reports.html_report import svg
from embedbench.reports.learner_colours import BLANK, COLOURS, HUES, INK, LINE, SOFT, colour


def drawn(label: str = "accuracy & <time>") -> str:
    with rc_context(STYLE):
        figure = Figure(figsize=(3, 2))
        axes = figure.add_subplot()
        axes.plot([0, 1, 2], [1, 3, 2], color=colour(0), marker="o")
        axes.plot([0, 1, 2], [2, 1, 1], color=colour(HUES + 1))
        axes.axhline(1, color=INK)
        axes.grid(axis="y")
        axes.set_xlabel("session")
        return svg(figure, label)


def test_colours_are_the_pages() -> None:
    text = drawn()
    assert {f"var(--{name})" for name in ("c0", "c1", "ink", "soft", "line", "blank")} == set(
        re.findall(r"var\(--\w+\)", text)
    )
    assert not set(re.findall(r"#[0-9a-f]{6}", text)) & {INK, SOFT, LINE, BLANK, *COLOURS}


def test_the_grid_is_seen_and_is_thinner_than_axes_and_curves() -> None:
    widths = dict(
        re.findall(r"stroke:var\(--(c0|blank)\);stroke-width:([\d.]+);stroke-linec", drawn())
    )
    assert widths == {"c0": "1.1", "blank": "0.4"}


def test_nothing_is_loaded_and_the_font_is_the_pages() -> None:
    text = drawn()
    assert not re.search(r"https?:|<style|<metadata|font-family|font:|xlink|<script|<image", text)
    assert "session</text>" in text


def test_size_and_name() -> None:
    head, _, _ = drawn().partition(">")
    assert head.startswith('<svg role="img" aria-label="accuracy &amp; &lt;time&gt;"')
    assert "viewBox" in head
    assert " width=" not in head
    assert " height=" not in head


def test_the_same_figure_gives_the_same_text_and_references_resolve() -> None:
    text = drawn()
    assert text == drawn()
    ids = set(re.findall(r'\bid="([^"]*)"', text))
    used = set(re.findall(r'href="#([^"]*)"', text)) | set(re.findall(r"url\(#([^)]*)\)", text))
    assert used
    assert used <= ids
    assert not ids & set(re.findall(r'\bid="([^"]*)"', drawn("another")))  # two on one page
