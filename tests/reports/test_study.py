"""Comparisons of learners: differences and ranks by hand, ties, class orders, the diagram."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from report_records import keep, make, typed
from scipy import stats
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.reports.compare_learners import ComparisonStudy, order_name, studies
from embedbench.reports.comparison_results import Comparison, by_order, compare
from embedbench.reports.comparison_text import by_order_parts, comparison_parts, letter, study_rows
from embedbench.reports.html_report import render
from embedbench.reports.inline_svg import INK
from embedbench.reports.matrix_figures import ranks
from embedbench.reports.result_rows import Row
from embedbench.reports.result_tables import collect, to_json
from embedbench.reports.terminal_tables import table_text
from embedbench.reports.verdict import verdict
from embedbench.scores.learner_ranking import PairedDifference, holm, tie_groups
from embedbench.text.terminal import render_text

# --- numbers ---


def test_paired_difference_by_hand() -> None:
    # .1 .2 .3: mean .2, sd .1, t(.975, 2) = 4.302653, half = 4.302653 · .1/√3
    found = PairedDifference.of([0.1, 0.2, 0.3])
    assert (found.mean, found.n) == (pytest.approx(0.2), 3)
    assert found.half == pytest.approx(0.2484138)
    assert found.p == pytest.approx(stats.ttest_1samp([0.1, 0.2, 0.3], 0).pvalue)
    assert (PairedDifference.of([0.1, 0.1, 0.1]).p, PairedDifference.of([0.0, 0.0]).p) == (0.0, 1.0)
    alone = PairedDifference.of([0.1])
    assert alone.mean == 0.1
    assert math.isnan(alone.half)
    assert math.isnan(alone.p)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.5, math.nan, 0.4])[::2] == [0.8, 0.8]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_tie_groups_by_hand() -> None:
    def apart(k: int, *pairs: tuple[int, int]) -> Any:
        table = np.zeros((k, k), dtype=np.bool_)
        for i, j in pairs:
            table[i, j] = table[j, i] = True
        return table

    assert tie_groups(apart(3)) == [(0, 1, 2)]
    assert tie_groups(apart(3, (0, 1), (0, 2), (1, 2))) == [(0,), (1,), (2,)]
    assert tie_groups(apart(4, (0, 3), (0, 2))) == [(0, 1), (1, 2, 3)]
    # 0 and 2 are apart, but neither from 1: two groups that overlap
    assert tie_groups(apart(3, (0, 2))) == [(0, 1), (1, 2)]
    # 0 and 1 are apart, but neither from 2, which varies more: not neighbours
    assert tie_groups(apart(3, (0, 1))) == [(0, 2), (1, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_a_letter_is_shared_exactly_where_no_test_separates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 12))
    upper = np.triu(rng.random((k, k)) < rng.random(), 1)
    apart = upper | upper.T
    groups = tie_groups(apart)
    for i, j in itertools.product(range(k), repeat=2):
        assert any({i, j} <= set(group) for group in groups) == (not apart[i, j])
    for group in groups:  # none can be left out
        others = [g for g in groups if g != group]
        pairs = itertools.product(group, repeat=2)
        assert not all(any({i, j} <= set(g) for g in others) for i, j in pairs)


def test_letters_never_run_out() -> None:
    letters = [letter(g) for g in range(120)]
    assert letters[:2] + letters[25:27] + letters[51:54] == ["a", "b", "z", "A", "Z", "a2", "b2"]
    assert len(set(letters)) == 120


def test_two_units_are_not_tested_anywhere() -> None:
    """Two equal differences would have p = 0; the verdict says that two seeds test nothing."""
    found = compare(study(a=[0.9, 0.8], b=[0.5, 0.4]))
    assert [e.rank for e in found.learners] == [None, None]
    assert found.groups == (("a", "b"),)
    assert math.isnan(found.pairs[0].holm)
    text = render_text(comparison_parts(found))
    assert "p –: fewer than 3 seeds in common: not tested\n" in text  # nor is it a tie


def uneven(root: Path) -> list[Row]:
    """`a` is above the steady `b` in every run; `c`, which varies, is below both and tied."""
    scores = {"ewc": (0.80, 0.81, 0.80), "si": (0.77, 0.78, 0.77), "mas": (0.5, 0.9, 0.7)}
    keep(root, *(make(n, s, v) for n, each in scores.items() for s, v in enumerate(each)))
    return collect(root)


def test_verdict_letters_and_bars_say_the_same(tmp_path: Path) -> None:
    rows = uneven(tmp_path)
    (found,) = map(compare, studies(rows))
    groups = {e.learner: {*e.groups} for e in found.learners}
    assert not groups["ewc"] & groups["si"]
    assert groups["ewc"] & groups["mas"]
    assert groups["si"] & groups["mas"]
    assert "; mas cannot be told apart from it; si is behind by 3.0 points" in verdict(rows)
    (axes,) = ranks(rows, 3.25, "final_accuracy").axes
    place = {e.learner: e.average_rank for e in found.learners}
    dots = [
        {float(x) for x in np.asarray(bar.get_xdata(), dtype=float)}
        for bar in axes.lines
        if bar.get_color() == INK and bar.get_marker() == "o"
    ]
    assert dots == [{place[label] for label in group} for group in found.groups]


def test_learners_that_learned_nothing_count_in_the_correction_of_the_verdict(
    tmp_path: Path,
) -> None:
    """One pair more or less decides here; the verdict tests the pairs that `--compare` tests."""
    near = {"ewc": (0.80, 0.82, 0.81), "si": (0.79, 0.803, 0.799)}
    idle = {"mas": (0.3, 0.32, 0.2), "lwf": (0.2, 0.34, 0.31)}
    keep(tmp_path, *(make(n, seed=s, final=v) for n, e in near.items() for s, v in enumerate(e)))
    flags = ["not-learned"]
    keep(
        tmp_path,
        *(make(n, seed=s, final=v, flags=flags) for n, e in idle.items() for s, v in enumerate(e)),
    )
    rows = collect(tmp_path)
    (found,) = map(compare, studies(rows))
    first = found.pairs[0]
    assert first.p < 0.05 < first.holm
    assert found.groups[0] == ("ewc", "si")
    assert "si cannot be told apart from it" in verdict(rows)


def test_the_other_pairs_have_a_table_if_they_are_few() -> None:
    jitter = [0.0, 0.01, 0.005]
    few = compare(
        study(**{f"l{i}": [0.9 - i / 10 + (i + 1) * e for e in jitter] for i in range(3)})
    )
    text = render_text(comparison_parts(few))
    assert text.index("the other pairs") < text.index("against")
    assert [w for w in text.splitlines() if w.startswith("l1 ")][1].split()[:2] == ["l1", "l2"]
    by_name = {row["learner"]: row for row in study_rows(few)}
    assert by_name["l2"]["minus.l1"] == pytest.approx(-by_name["l1"]["minus.l2"])
    assert by_name["l1"]["minus.l2"] == pytest.approx(0.1 - 0.005)
    assert by_name["l1"]["minus.l1"] is None
    assert by_name["l1"]["minus.l2.holm"] == by_name["l2"]["minus.l1.holm"] == few.pairs[2].holm
    many = compare(study(**{f"l{i}": [0.9 - i / 10 + e for e in jitter] for i in range(8)}))
    assert "the other pairs: --csv or --json" in render_text(comparison_parts(many))


def test_tuned_settings_are_marked_and_several_of_one_learner_are_said(tmp_path: Path) -> None:
    for lam, final in ((10, 0.8), (300, 0.5)):
        log = {"seed": 0, "tried": [{}] * 3, "chosen": {"lam": str(lam)}}
        params = {"lam": lam}
        keep(
            tmp_path,
            *(make("ewc", s, final + s / 100, learner_params=params, tuning=log) for s in range(3)),
            row=f"ewc-{lam}",
        )
    keep(tmp_path, *(make("mlp", s, 0.3) for s in range(3)))
    rows = collect(tmp_path)
    text = table_text(rows)
    assert [("V" in t.split()[-1]) for t in text.splitlines()[4:7]] == [True, True, False]
    assert "[ewc lam=10: best of 3 on seed 0; ewc lam=300: best of 3 on seed 0]" in text
    note = "ewc is compared with 2 settings, some of them tuned"
    assert f"note: {note}" in text
    assert "stream-1/ewc-10 (ewc lam=10), stream-1/ewc-300 (ewc lam=300)" in text
    (found,) = map(compare, studies(rows))
    compared = render_text(comparison_parts(found))
    assert (
        "note: tuned on validation data: ewc lam=10 (best of 3 on seed 0), ewc lam=300" in compared
    )
    assert note in compared
    assert [row["candidates"] for row in to_json(rows)["tables"][0]["rows"]] == [3, 3, None]
    page = render(rows, "runs")
    assert "best of 3 on seed 0" in page
    assert note in page
    # as the note says: one is kept by moving the other away
    (tmp_path / "stream-1" / "ewc-300").rename(tmp_path.parent / "ewc-300")
    assert "is compared with" not in table_text(collect(tmp_path))


# --- studies ---


def study(**learners: list[float]) -> ComparisonStudy:
    """One order; learner → score for each seed."""
    scores = {
        name: {("natural", str(s)): v for s, v in enumerate(values)}
        for name, values in learners.items()
    }
    return ComparisonStudy("toy", "final_accuracy", scores)


def test_clear_differences_rank_and_ties_share_a_rank() -> None:
    noise = [0.001, -0.002, 0.003, 0.0, -0.001]
    found = compare(
        study(
            top=[0.9 + e for e in noise],
            second=[0.7 + 2 * e for e in noise],
            third=[0.69, 0.72, 0.68, 0.71, 0.695],
            last=[0.2 - e for e in noise],
        )
    )
    assert [e.rank for e in found.learners] == [1, 2, 2, 4]
    assert found.groups == (("top",), ("second", "third"), ("last",))
    assert [e.average_rank for e in found.learners] == [1.0, 2.4, 2.6, 4.0]
    assert found.units == "seeds"
    first = found.pairs[0]
    assert (first.a, first.b, first.n) == ("top", "second", 5)
    assert first.difference == pytest.approx(0.2 - 0.001 * 0.2)


def test_pairing_finds_what_means_hide() -> None:
    """Seeds that differ by 30 points, and a learner that is always one point better."""
    base = [0.3, 0.6, 0.4, 0.5]
    jitter = [0.0005, -0.0005, 0.0002, 0.0]
    found = compare(study(a=[b + 0.01 + e for b, e in zip(base, jitter, strict=True)], b=base))
    assert [e.rank for e in found.learners] == [1, 2]


def test_runs_on_one_order_are_no_evidence_about_others() -> None:
    """a is better on both orders' three seeds; two orders are two units, not six."""
    rng = np.random.default_rng(0)
    blocks = [(o, str(s)) for o in ("x", "y") for s in range(3)]
    gain = {"x": 0.10, "y": 0.02}
    b = {k: 0.5 + rng.normal(0, 0.01) for k in blocks}
    a = {k: v + gain[k[0]] for k, v in b.items()}
    found = compare(ComparisonStudy("toy", "final_accuracy", {"a": a, "b": b}))
    pair = found.pairs[0]
    assert (pair.n, found.units) == (2, "orders")
    assert pair.difference == pytest.approx(0.06)
    assert pair.half == pytest.approx(12.706205 * 0.04)  # t(.975, 1) · half the distance
    assert [e.rank for e in found.learners] == [None, None]


def test_only_shared_blocks_are_paired() -> None:
    made = study(a=[0.5, 0.6, 0.9], b=[0.4, 0.5])
    pair = compare(made).pairs[0]
    assert pair.n == 2
    assert pair.difference == pytest.approx(0.1)


def test_without_three_units_in_common_there_is_no_rank() -> None:
    """Of c, two seeds are those of the others; what it lacks takes no rank from them."""
    made = compare(study(a=[0.9, 0.91, 0.9], b=[0.5, 0.51, 0.52], c=[0.95, 0.96]))
    assert {e.learner: e.rank for e in made.learners} == {"a": 1, "b": 2, "c": None}
    assert "–" in render_text(comparison_parts(made))


def test_less_forgetting_is_better() -> None:
    made = study(worse=[0.5, 0.51, 0.5], better=[0.1, 0.11, 0.12])
    turned = ComparisonStudy("toy", "average_forgetting", dict(reversed(made.scores.items())))
    found = compare(turned)
    assert [(e.learner, e.rank) for e in found.learners] == [("better", 1), ("worse", 2)]
    assert [e.average_rank for e in found.learners] == [1.0, 2.0]


# --- class orders ---


def ordered() -> ComparisonStudy:
    """Three orders, two seeds; `a` and `b` change places on order z."""
    means = {"a": {"x": 0.6, "y": 0.5, "z": 0.3}, "b": {"x": 0.5, "y": 0.4, "z": 0.4}}
    means["c"] = {"x": 0.2, "y": 0.2, "z": 0.2}
    scores = {
        name: {(o, s): v + e for o, v in on.items() for s, e in (("0", 0.01), ("1", -0.01))}
        for name, on in means.items()
    }
    return ComparisonStudy("toy", "final_accuracy", scores)


def test_spread_over_orders_by_hand() -> None:
    found = by_order(ordered())
    a, _, c = found.learners
    assert a.by_order == pytest.approx({"x": 0.6, "y": 0.5, "z": 0.3})
    assert (a.least, a.most) == (pytest.approx(0.3), pytest.approx(0.6))
    assert a.sd_orders == pytest.approx(np.std([0.6, 0.5, 0.3], ddof=1))
    assert a.sd_seeds == pytest.approx(math.sqrt(2) * 0.01)  # of two values .02 apart
    assert c.sd_orders == pytest.approx(0, abs=1e-12)
    assert [e.ranks for e in found.learners] == [
        {"x": 1, "y": 1, "z": 2},
        {"x": 2, "y": 2, "z": 1},
        {"x": 3, "y": 3, "z": 3},
    ]
    # x and y agree; z has one of three pairs the other way round: (2 - 1)/3
    assert found.tau == pytest.approx({"x | y": 1.0, "x | z": 1 / 3, "y | z": 1 / 3})
    assert found.tau_mean == pytest.approx(5 / 9)
    text = render_text(by_order_parts(found))
    assert "mean 0.56, least 0.33 (x | z)" in text
    assert "best on some order: a, b" in text
    assert "60.0 [1]" in text


def test_one_order_has_no_spread() -> None:
    with pytest.raises(UserError, match="on two class orders or more; toy has natural only"):
        by_order(study(a=[0.5], b=[0.4]))
    with pytest.raises(UserError, match="needs two learners on the same stream; toy has a only"):
        compare(study(a=[0.5]))


def test_names_of_orders() -> None:
    def name(kept: dict[str, Any] | None, **params: str) -> str:
        return order_name(typed(seed=3, order=kept, protocol_params=params))

    assert name({"kind": "natural", "name": None}) == "natural"
    assert name({"kind": "random", "name": None}) == "random 103"
    assert name({"kind": "coarse", "name": "coarse.json"}) == "coarse"
    assert name({"kind": "coarse", "name": "mine.json"}) == "coarse (mine)"
    assert name({"kind": "file", "name": "list.txt"}) == "list"
    assert name({"kind": "random", "name": "r7.json"}) == "random (r7)"
    assert name(None) == "drawn 103"  # a protocol that draws something else
    # records of before orders were kept
    assert name(None, order="natural") == "natural"
    assert name(None, order="/some/where/mine.json") == "mine"


# --- runs on disk and the command line ---


def store(root: Path) -> None:
    """Two learners, two orders of two seeds each; every order has a stream directory."""
    finals = {
        "mlp": {"x": (0.6, 0.62), "y": (0.4, 0.44)},
        "ewc": {"x": (0.5, 0.5), "y": (0.5, 0.6)},
    }
    for learner, by in finals.items():
        for order, values in by.items():
            about = {"kind": "coarse", "name": f"{order}.json", "digest": order * 64}
            records = [
                make(
                    learner,
                    seed=s,
                    final=v,
                    order=about,
                    protocol_params={"base": 2, "order": f"/some/{order}.json"},
                    digests={"recipe": order * 64},
                )
                for s, v in enumerate(values)
            ]
            keep(root, *records, stream=f"stream-{order}")
    keep(root, make("chance", seed=0, final=0.1, digests={"recipe": "x" * 64}), stream="stream-x")


def test_streams_that_differ_in_the_order_only_are_one_study(tmp_path: Path) -> None:
    store(tmp_path)
    (found,) = studies(collect(tmp_path))
    assert found.orders == ["coarse (x)", "coarse (y)"]
    assert found.learners == ["ewc", "mlp"]  # means .525 and .515; chance takes no part
    assert [found.mean(label) for label in found.learners] == pytest.approx([0.525, 0.515])
    # another set of parameters is another study
    keep(tmp_path, make("mlp", seed=0, protocol_params={"base": 3}), stream="stream-z")
    assert len(studies(collect(tmp_path))) == 2
    with pytest.raises(UserError, match="fwt is undefined in every run of incremental-class; name"):
        studies(collect(tmp_path), "fwt")
    with pytest.raises(UserError, match="Did you mean 'final_accuracy'"):
        studies(collect(tmp_path), "final_acuracy")


@pytest.mark.parametrize(
    ("setting", "usual", "other"), [("loss", "all", "seen"), ("embedding", "final", "block-8")]
)
def test_what_the_loss_or_the_learner_sees_is_another_study(
    setting: str, usual: str, other: str, tmp_path: Path
) -> None:
    """A record without the setting, made before there was one, goes with the usual ones."""
    for name, params in (("old", {}), ("usual", {setting: usual}), ("other", {setting: other})):
        runs = [make(learner, protocol_params=params) for learner in ("mlp", "ewc")]
        keep(tmp_path, *runs, stream=f"stream-{name}")
    rows = collect(tmp_path)
    titles = [found.title for found in studies(rows)]
    assert titles == [
        "incremental-class · toy.h5",
        f"incremental-class · toy.h5 · {setting}={other}",
    ]
    assert {row.group.title for row in rows} == {*titles}


def embedbench(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


def test_the_command_line_compares_and_draws(tmp_path: Path) -> None:
    store(tmp_path / "runs")
    figure = ("--figure", "ranks", "--out", tmp_path / "ranks.svg")
    told = ("report", tmp_path / "runs", "--compare", "--metric", "final_accuracy")
    done = embedbench(*told, *figure)
    assert done.exit_code == 0, done.output
    assert "2 class orders · 2 orders a pair" in done.stdout
    drawn = ElementTree.fromstring(figure[-1].read_text())
    texts = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"ewc", "mlp"} <= {(t or "").strip() for t in texts}
    assert isinstance(embedbench(*told, *figure).exception, UserError)  # is there already
    printed = json.loads(embedbench(*told, "--json").stdout)
    assert [e["learner"] for e in printed["studies"][0]["learners"]] == ["ewc", "mlp"]
    assert printed["studies"][0]["groups"] == [["ewc", "mlp"]]
    assert Comparison.from_json(printed).to_json() == printed
    orders = json.loads(embedbench("report", tmp_path / "runs", "--by", "order", "--json").stdout)
    assert Comparison.from_json(orders).to_json() == orders
    done = embedbench("report", tmp_path / "runs", "--by", "order")
    assert "coarse (x)" in done.stdout
    assert isinstance(embedbench("report", tmp_path / "runs", "--by", "seed").exception, UserError)


def test_text_of_a_comparison() -> None:
    text = render_text(
        comparison_parts(compare(study(best=[0.9, 0.91, 0.9], rest=[0.5, 0.5, 0.52])))
    )
    lines = text.splitlines()
    assert lines[1].split(" · ")[1] == "1 class order"
    assert lines[3].split() == ["best", "3", "90.3", "1", "a", "1.00"]
    first, last = lines[4].split()[:5], lines[4].split()[-1]
    assert (first, last) == (["rest", "3", "50.7", "2", "b"], "2.00")
    assert "−39.7 ±" in lines[4]
    assert "one class order" in lines[-1]
