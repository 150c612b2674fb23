"""Colours that everybody can tell apart."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from report_records import keep, make

from embedbench.array_types import Floats
from embedbench.reports.learner_colours import COLOURS, look, styles_in
from embedbench.reports.tables_from_runs import collect

# What is seen with no fault, with deuteranopia and with protanopia: Machado et al. (2009), Table 1,
# severity 1, over linear RGB.
SEEN = {
    "all": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def lab(hues: tuple[str, ...], seen: ArrayLike) -> Floats:
    """(n, 3) CIELAB of colours (sRGB, D65) as somebody sees them."""
    rgb = np.array([[int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5)] for hue in hues])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    t = np.clip(linear @ np.asarray(seen).T, 0, 1) @ XYZ.T / XYZ.sum(axis=1)
    x, y, z = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def apart(hues: tuple[str, ...], seen: ArrayLike) -> float:
    """The least distance between two of the colours; 2.3 can just be seen."""
    places = lab(hues, seen)
    every = np.linalg.norm(places[:, None] - places[None], axis=-1)
    return float(every[np.triu_indices(len(hues), 1)].min())


def test_hues_differ_for_everybody() -> None:
    np.testing.assert_allclose(lab(("#ff0000",), SEEN["all"])[0], [53.2, 80.1, 67.2], atol=0.1)
    assert apart(("#ff0000", "#877b00"), SEEN["deuteranopia"]) < 20  # red and olive
    assert apart(COLOURS, SEEN["all"]) > 25
    assert min(apart(COLOURS, seen) for seen in SEEN.values()) > 13
    assert min(apart(COLOURS[:6], seen) for seen in SEEN.values()) > 19


def test_no_two_styles_look_alike(tmp_path: Path) -> None:
    assert len({tuple(look(style).values()) for style in range(100)}) == 100
    assert len({look(style)["marker"] for style in range(10)}) == 10
    keep(tmp_path, *map(make, ("mlp", "ewc", "chance")))
    assert styles_in(collect(tmp_path)) == {"ewc": 0, "mlp": 1}
