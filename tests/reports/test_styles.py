"""One colour and one mark a learner, whatever else is in a report."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike
from report_records import keep, make

from embedbench.array_types import Floats
from embedbench.reports.learner_colours import (
    COLOURS,
    FREE,
    LEARNERS,
    SAME,
    STYLES,
    assign_styles,
    look,
    styles_in,
)
from embedbench.reports.tables_from_runs import collect
from embedbench.runs.learner_and_protocol_names import ALIASES, our_learners


def alone(name: str) -> int:
    return assign_styles([(name, name)])[name]


def test_the_table_names_each_learner_once() -> None:
    assert len(set(LEARNERS)) == len(LEARNERS) <= FREE
    assert not set(LEARNERS) & set(SAME)
    assert all(ALIASES[name][0] == same for name, same in SAME.items())
    missing = {*our_learners()} - {*LEARNERS} - {*SAME, "chance"}  # which has no style
    assert not missing, f"add {missing} to LEARNERS in embedbench/reports/learner_colours.py"


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
    hues = COLOURS
    # distances of colours that are known
    assert apart(("#ffffff", "#000000"), SEEN["all"]) == pytest.approx(100, abs=0.01)
    np.testing.assert_allclose(lab(("#ff0000",), SEEN["all"])[0], [53.2, 80.1, 67.2], atol=0.1)
    assert apart(("#ff0000", "#877b00"), SEEN["deuteranopia"]) < 20  # red and olive
    assert apart(hues, SEEN["all"]) > 25
    assert min(apart(hues, SEEN[who]) for who in ("deuteranopia", "protanopia")) > 13
    assert min(apart(hues[:6], seen) for seen in SEEN.values()) > 19


@pytest.mark.parametrize(
    "compared",
    [
        "mlp ewc er icarl ncm slda lwf ranpac derpp bic",
        "mlp ewc si mas lwf er icarl",
        "finetune er joint er-infinite agem lucir icarl-cnn icarl-norm",
        "mlp ewc fel geppnet geppnet-stm pathnet icarl",
        "finetune lwf icarl eeil bic lucir il2m wa",
        "er agem derpp gdumb er-ace mir gss",
        "exstream remind slda ncm",
        "prototype fr teen nc-fscil c-fscil alice",
    ],
)
def test_what_papers_compare_has_different_colours(compared: str) -> None:
    hues = [look(alone(name))["color"] for name in compared.split()]
    assert len(set(hues)) == len(hues)


def test_no_two_styles_look_alike() -> None:
    assert len({tuple(look(style).values()) for style in range(STYLES)}) == STYLES
    # the commonest have hues and marks of their own
    assert [alone(name) for name in LEARNERS[:10]] == list(range(10))
    assert len({look(style)["marker"] for style in range(10)}) == 10


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_looks_the_same_in_every_report(seed: int) -> None:
    draw = np.random.default_rng(seed)
    some = [str(n) for n in draw.choice(LEARNERS, 12, replace=False)]
    styles = assign_styles((name, name) for name in [*some, "pkg.mod:Mine"])
    assert {name: styles[name] for name in some} == {name: LEARNERS.index(name) for name in some}
    assert len(set(styles.values())) == 13
    if alone("pkg.mod:Mine") not in {styles[name] for name in some}:
        assert styles["pkg.mod:Mine"] == alone("pkg.mod:Mine")


def test_settings_of_one_learner_have_hues_of_their_own() -> None:
    styles = assign_styles(("ewc", f"ewc lam={lam}") for lam in (1, 10, 100))
    assert styles["ewc lam=1"] == LEARNERS.index("ewc")
    assert len({look(style)["color"] for style in styles.values()}) == 3
    many = assign_styles(("ewc", f"ewc lam={lam}") for lam in range(STYLES))
    assert len(set(many.values())) == STYLES
    # and two names of one learner are one
    assert alone("finetune") == alone("mlp") == LEARNERS.index("mlp")
    both = assign_styles([("finetune", "finetune"), ("mlp", "mlp")])
    assert both["mlp"] == LEARNERS.index("mlp") != both["finetune"]


def test_the_defaults_of_a_learner_keep_its_style(tmp_path: Path) -> None:
    """Also where the label of another setting comes first in the alphabet, as 1 before 5."""
    command = "embedbench run e.h5 --protocol incremental-class --learner ewc"
    keep(tmp_path, make("ewc", command=f"{command} --seed 0", learner_params={"lam": 5.0}))
    (alone,) = styles_in(collect(tmp_path)).values()
    longer = f"{command} --set ewc.lam=1 --seed 0"
    keep(tmp_path, make("ewc", command=longer, learner_params={"lam": 1.0}), row="ewc-2")
    styles = styles_in(collect(tmp_path))
    assert styles["ewc lam=5"] == alone == LEARNERS.index("ewc") != styles["ewc lam=1"]
