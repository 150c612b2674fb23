"""Comparisons of learners: differences and ranks by hand, all pairs, class orders."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from confident_runs import keep_runs
from file_helpers import says
from pinned_runs import REFERENCE, STREAM, answers, merged, write_references, write_run
from report_records import keep, make, typed
from scipy import stats
from toy import keep_samples

from embedbench.errors import UserError
from embedbench.reports import comparison_tables, score_figures
from embedbench.reports.compare_learners import ComparisonStudy, studies
from embedbench.reports.comparison_tables import allowed_ranks, pooled_sd, rank_learners
from embedbench.reports.html_report import render
from embedbench.reports.results import Result, Results
from embedbench.reports.run_values import order_name
from embedbench.reports.tables_from_runs import collect, to_json
from embedbench.reports.terminal_tables import table_text
from embedbench.reports.verdict_sentence import verdict
from embedbench.scores.metrics import Reference, omega_all
from embedbench.scores.predictions import Predictions
from embedbench.text.terminal_text import render_text


def keep_finals(root: Path, *, flags: Sequence[str] = (), **finals: Sequence[float]) -> None:
    """Records of learners by their final accuracies, a seed each."""
    for name, each in finals.items():
        keep(root, *(make(name, s, v, flags=flags) for s, v in enumerate(each)))


def test_two_equal_differences_are_no_verdict_anywhere(tmp_path: Path) -> None:
    keep_finals(tmp_path, ewc=(0.9, 0.8), si=(0.5, 0.4))
    rows = collect(tmp_path)
    (found,) = studies(rows)
    verdicts = [(e.rank, e.behind, e.ranks) for e in found.verdicts]
    assert verdicts == [(1, None, (1, 2)), (2, None, (1, 2))]
    text = render_text(rank_learners(found).parts)
    assert text.splitlines()[4].split() == ["si", "2", "45.0", "2", "–", "40.0", "(–)"]
    assert "no verdict (–): that takes seeds in common, three where" in text
    assert "nothing can be said of the difference" in verdict(rows)
    (axes,) = score_figures.ranks(rows, 3.25, "final_accuracy").axes
    assert [li.get_marker() for li in axes.lines] == ["o", "s"]  # no bar without a verdict


def test_table_sentence_figure_and_comparison_have_one_verdict(tmp_path: Path) -> None:
    """`si` is below `ewc` in every run; `mas`, which varies, is below both and may be level."""
    keep_finals(tmp_path, ewc=(0.80, 0.81, 0.80), si=(0.77, 0.778, 0.77), mas=(0.5, 0.9, 0.7))
    rows = collect(tmp_path)
    (found,) = studies(rows)
    assert found.learners == ["ewc", "si", "mas"]
    assert [e.behind for e in found.verdicts] == [False, True, False]
    # differences .03 .032 .03: mean .030667, s .0011547; t(2) at .05/3 is 5.33934
    least = 0.0306667 - 5.33934 * 0.0011547 / math.sqrt(3)
    assert found.verdicts[1].behind_by_least == pytest.approx(least, 1e-5)
    sentence = verdict(rows)
    assert "; mas may be level; si is behind by at least 2.7 points (at 5 %)" in sentence
    cells = [line.split() for line in table_text(rows).splitlines()]
    # `mas` may be the best, and by far
    assert next(line for line in cells if line[:1] == ["si"])[4:8] == ["3.1", "(2.7", "to", "53.2)"]
    (axes,) = score_figures.ranks(rows, 3.25, "final_accuracy").axes
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() != "None"]
    lines = [line for line in axes.lines if line.get_marker() == "None"]
    bars = [tuple(line.get_xdata()) for line in lines]
    assert {line.get_linewidth() for line in lines} == {2.5}
    assert axes.lines[-1].get_zorder() == 3
    assert (marks, bars) == ([1, 2, 3], [e.ranks for e in found.verdicts])
    assert [t.get_text() for t in axes.get_yticklabels()] == found.learners
    made = to_json(rows)["tables"][0]
    assert made["verdict"] == sentence
    assert [r["verdict"]["behind"] for r in made["rows"]] == [False, True, False]
    page = render(rows, "runs")
    assert f'<p class="verdict">verdict: {sentence}</p>' in page
    assert "<td>3.1 <small>(2.7 to 53.2)</small></td>" in page


def test_stored_answers_give_the_test_sample_its_share(tmp_path: Path) -> None:
    """One seed of two learners: 300 samples, of which the second has other 90 wrong."""
    n, rng = 300, np.random.default_rng(0)
    y = np.arange(n) % 2
    every = {
        "ids": np.arange(n), "y": y, "eval_set": np.zeros(n, dtype=np.int64),
        "set_classes": np.ones((3, 2), dtype=np.bool_), "session": np.arange(3),
        "samples_seen": np.array([10, 20, 30]), "seen": np.ones((3, 2), dtype=np.bool_),
    }  # fmt: skip
    right = {}
    for name, wrong in (("ncm", 30), ("mlp", 90)):
        answer = y.copy()
        answer[rng.permutation(n)[:wrong]] ^= 1
        tables = dict.fromkeys(("answer", "within"), np.tile(answer.astype(np.int32), (3, 1)))
        keep_runs(tmp_path, {name: [Predictions(**every, **tables)]})
        right[name] = (answer == y).astype(float)
    rows = collect(tmp_path)
    (found,) = studies(rows)
    mlp = found.verdicts[1]
    assert mlp.parts == ("test sample",)
    assert mlp.n == 1
    assert mlp.groups == n
    assert mlp.behind is True
    d = right["ncm"] - right["mlp"]
    by_class = sum(d[y == c].var(ddof=1) / (y == c).sum() for c in (0, 1)) / 4
    half = stats.t.isf(0.025, n - 1) * math.sqrt(by_class)
    assert mlp.behind_by_least == pytest.approx(mlp.behind_by - half, rel=2e-3)
    assert "over the test sample (300 samples) alone" in table_text(rows)
    assert "nothing can be said" in verdict(collect(tmp_path, over="seeds"))


def test_omega_has_a_share_with_its_reference_fixed(tmp_path: Path) -> None:
    """One seed: the half-widths are those of Ω_all without each sample, by the ordinary scorer."""
    p = answers(1)
    alpha = float(merged(p).score_matrix().pooled[-1])
    first = np.where(p.y % 2, p.answer, p.seen.argmax(axis=1)[:, None]).astype(np.int32)
    made = {"ncm": p, "mlp": replace(p, answer=first)}
    write_references(tmp_path)
    for learner, of in made.items():
        how = {"reference": REFERENCE, "learner": learner}
        write_run(tmp_path, f"{STREAM}/{learner}-1/seed-0", of, **how)
    (of_omega,) = studies(collect(tmp_path, metrics=["class_accuracy"]), "omega_all")
    for label, on in zip(of_omega.learners, of_omega.verdicts, strict=True):
        of, omegas = made[label], []
        for left in p.ids:
            rest = keep_samples(of, of.ids != left)
            omegas.append(omega_all(rest.score_matrix(), Reference(ideal=alpha)))
        n = len(omegas)
        _, sizes = np.unique(of.y, return_counts=True)
        effective = len(sizes) ** 2 / sum(1 / sizes)  # classes of unequal size
        half = stats.t.isf(0.025, effective - 1) * math.sqrt(np.var(omegas) * (n - 1))
        assert on.half == pytest.approx(half, rel=1e-9), label
        assert on.parts == ("test sample",)
        assert on.groups == n


def test_tuned_settings_are_marked(tmp_path: Path) -> None:
    for lam, final in ((10, 0.8), (300, 0.5)):
        log = {"seed": 0, "tried": [{}] * 3, "chosen": {"lam": str(lam)}}
        tuned: dict[str, Any] = {"learner_params": {"lam": lam}, "tuning": log}
        each = (make("ewc", s, final + s / 100, **tuned) for s in range(3))
        keep(tmp_path, *each, row=f"ewc-{lam}")
    keep_finals(tmp_path, mlp=(0.3, 0.3, 0.3))
    rows = collect(tmp_path)
    text = table_text(rows)
    assert [t.split()[-1] for t in text.splitlines()[4:7]] == ["V3", "V3", "6.0"]
    assert "[ewc lam=10: best of 3 on seed 0; ewc lam=300: best of 3 on seed 0]" in text
    ranked = render_text(rank_learners(studies(rows)[0]).parts)
    assert "tuned on validation data: ewc lam=10 (best of 3 on seed 0), ewc lam=300" in ranked
    assert [row["candidates"] for row in to_json(rows)["tables"][0]["rows"]] == [3, 3, None]
    assert "best of 3 on seed 0" in render(rows, "runs")


Scores = dict[str, dict[tuple[str, str], float]]  # learner → order, seed → score


def compared(scores: Scores, metric: str = "final_accuracy") -> ComparisonStudy:
    """A study of numbers alone."""
    rows = [
        Result(learner=learner, order=order, seed=int(seed), values={metric: value})
        for learner, blocks in scores.items()
        for (order, seed), value in blocks.items()
    ]
    return ComparisonStudy("toy", metric, Results(tuple(rows)))


def on_one_order(**learners: list[float]) -> Scores:
    """Learner → score for each seed."""
    return {k: {("natural", str(s)): v for s, v in enumerate(vs)} for k, vs in learners.items()}


def study(**learners: list[float]) -> ComparisonStudy:
    return compared(on_one_order(**learners))


def test_clear_differences_rank_and_others_leave_ranks_open() -> None:
    noise = [0.001, -0.002, 0.003, 0.0, -0.001]
    found = study(
        top=[0.9 + e for e in noise],
        second=[0.7 + 2 * e for e in noise],
        third=[0.69, 0.72, 0.68, 0.71, 0.695],
        last=[0.2 - e for e in noise],
    )
    assert [e.rank for e in found.verdicts] == [1, 2, 3, 4]
    assert list(map(allowed_ranks, found.verdicts)) == ["1", "2–3", "2–3", "4"]
    second = found.verdicts[1]
    assert second.against == 0
    assert second.n == 5
    assert second.parts == ("seeds",)
    assert second.behind_by == pytest.approx(0.2 - 0.001 * 0.2)
    assert "fewer than" not in render_text(rank_learners(found).parts)


def test_runs_on_one_order_are_no_evidence_about_others() -> None:
    """a is better on both orders' three seeds; two orders are two units, not six."""
    rng, blocks = np.random.default_rng(0), [(o, str(s)) for o in ("x", "y") for s in range(3)]
    gain, b = {"x": 0.10, "y": 0.02}, {k: 0.5 + rng.normal(0, 0.01) for k in blocks}
    a = {k: v + gain[k[0]] for k, v in b.items()}
    made = compared({"a": a, "b": b})
    _, second = made.verdicts
    assert second.n == 2
    assert made.units == "orders"
    assert second.behind_by == pytest.approx(0.06)
    assert second.detectable == pytest.approx(12.706205 * 0.04)  # t(.975, 1) · half the distance
    assert [e.ranks for e in made.verdicts] == [(1, 2), (1, 2)]


def test_only_shared_seeds_are_paired() -> None:
    _, second = study(a=[0.5, 0.6, 0.9], b=[0.4, 0.52]).verdicts
    assert second.n == 2
    assert second.behind_by == pytest.approx(0.09)
    scores = on_one_order(a=[0.9, 0.91, 0.9], b=[0.5, 0.51, 0.52])
    lone = compared({**scores, "c": {("natural", "7"): 0.95}})
    assert [e.behind for e in lone.verdicts] == [False, True, None]
    text = render_text(rank_learners(lone).parts)
    assert text.splitlines()[5].split() == ["c", "1", "95.0", "1", "–", "–"]
    some = study(a=[0.9, 0.91, 0.93, 0.9], b=[0.5, 0.51, 0.5, 0.5], c=[0.1, 0.2])
    assert "over 2–4 seeds alone" in render_text(rank_learners(some).parts)
    # less forgetting is better
    turned = compared(on_one_order(b=[0.1], a=[0.5]), "average_forgetting")
    assert [(e.rank, e.behind_by) for e in turned.verdicts] == [(1, 0), (2, 0.4)]


def ordered() -> ComparisonStudy:
    """Three orders, two seeds; `a` and `b` change places on order z."""
    mean = {"a": {"x": 0.6, "y": 0.5, "z": 0.3}, "b": {"x": 0.5, "y": 0.4, "z": 0.4}}
    mean["c"] = {"x": 0.2, "y": 0.2, "z": 0.2}
    seeds = {"0": 0.01, "1": -0.01}.items()
    scores = {k: {(o, s): v + e for o, v in on.items() for s, e in seeds} for k, on in mean.items()}
    return compared(scores)


def test_spread_over_orders_by_hand() -> None:
    view = comparison_tables.spread_over_orders(ordered())
    found = view.data
    a, _, c = found["learners"]
    assert a["by_order"] == pytest.approx({"x": 0.6, "y": 0.5, "z": 0.3})
    sds = [a["sd_orders"], a["sd_seeds"], c["sd_orders"]]  # of two values .02 apart: √2 · .01
    assert sds == pytest.approx([np.std([0.6, 0.5, 0.3], ddof=1), math.sqrt(2) * 0.01, 0])
    ranks = [[e["ranks"][order] for order in "xyz"] for e in found["learners"]]
    assert ranks == [[1, 1, 2], [2, 2, 1], [3, 3, 3]]
    # x and y agree; z has one of three pairs the other way round: (2 - 1)/3
    assert found["tau"] == pytest.approx({"x | y": 1.0, "x | z": 1 / 3, "y | z": 1 / 3})
    assert found["tau_mean"] == pytest.approx(5 / 9)
    text = render_text(view.parts)
    assert "mean 0.56, least 0.33 (x | z)" in text
    assert "60.0 [1]" in text


def test_an_order_that_a_learner_lacks() -> None:
    means = {"a": {"x": 0.6, "y": 0.5}, "b": {"x": 0.5, "y": 0.4}, "c": {"x": 0.2}}
    scores = {k: {(o, "0"): v for o, v in on.items()} for k, on in means.items()}
    view = comparison_tables.spread_over_orders(compared(scores, "average_forgetting"))
    ranks = [entry["ranks"] for entry in view.data["learners"]]
    assert ranks == [{"x": 3, "y": 2}, {"x": 2, "y": 1}, {"x": 1}]
    c = render_text(view.parts).splitlines()[5].split()
    assert view.data["tau"] == {"x | y": 1}
    assert c[1:] == ["20.0", "–", "–", "20.0", "[1]", "–"]
    apart = compared({"a": {("x", "0"): 1.0}, "b": {("y", "0"): 0.5}})
    view = comparison_tables.spread_over_orders(apart)
    found = [view.data[key] for key in ("tau", "tau_mean", "tau_least")]
    assert found == [{"x | y": None}, None, None]
    assert "Kendall" not in render_text(view.parts)


def test_equal_means_share_a_rank() -> None:
    """Of three pairs two agree, and one is a tie on x: τ_b is 2 / √(2 · 3)."""
    means = {"a": (0.5, 0.6), "b": (0.5, 0.4), "c": (0.2, 0.2)}
    scores = {k: {("x", "0"): x, ("y", "0"): y} for k, (x, y) in means.items()}
    tied = compared(scores)
    found = comparison_tables.spread_over_orders(tied).data
    ranks = [tuple(entry["ranks"].values()) for entry in found["learners"]]
    assert ranks == [(1.5, 1), (1.5, 2), (3, 3)]
    assert found["tau"] == pytest.approx({"x | y": 2 / math.sqrt(6)})


def test_names_of_orders() -> None:
    def name(kept: dict[str, Any] | None, **params: str) -> str:
        return order_name(typed(seed=3, order=kept, protocol_params=params))

    for kind, file, expected in (
        *(("natural", None, "natural"), ("random", None, "random 103")),
        *(("coarse", "coarse.json", "coarse"), ("coarse", "mine.json", "coarse (mine)")),
        *(("file", "list.txt", "list"), ("random", "r7.json", "random (r7)")),
    ):
        assert name({"kind": kind, "name": file}) == expected
    assert name(None) == "drawn 103"  # a protocol that draws something else
    assert name(None, order="/some/where/mine.json") == "mine"  # of before orders were kept


def store(root: Path) -> None:
    """Two learners, two orders of two seeds each; every order has a stream directory."""
    ends = {"mlp": {"x": (0.6, 0.62), "y": (0.4, 0.44)}, "ewc": {"x": (0.5, 0.5), "y": (0.5, 0.6)}}
    for learner, order in itertools.product(ends, "xy"):
        params = [("base", 2), ("step", 1)][:: 1 if order == "x" else -1]
        about: dict[str, Any] = {
            "order": {"kind": "coarse", "name": f"{order}.json", "digest": order * 64},
            "protocol_params": dict(params) | {"order": f"/some/{order}.json"},
            "learner_params": {"parts": [dict(params)]},
            "digests": {"recipe": order * 64},
        }
        runs = (make(learner, s, v, **about) for s, v in enumerate(ends[learner][order]))
        keep(root, *runs, stream=f"stream-{order}")
    keep(root, make("chance", seed=0, final=0.1, digests={"recipe": "x" * 64}), stream="stream-x")


def test_streams_that_differ_in_the_order_only_are_one_study(tmp_path: Path) -> None:
    store(tmp_path)
    (found,) = studies(collect(tmp_path))  # chance takes no part
    assert found.orders == ["coarse (x)", "coarse (y)"]
    assert found.learners == ["ewc", "mlp"]
    assert [found.mean(label) for label in found.learners] == pytest.approx([0.525, 0.515])
    # another set of parameters is another study
    keep(tmp_path, make("mlp", seed=0, protocol_params={"base": 3}), stream="stream-z")
    assert len(studies(collect(tmp_path))) == 2
    with pytest.raises(UserError, match="fwt is undefined"):
        studies(collect(tmp_path), "fwt")
    with pytest.raises(UserError, match=r"'final_acuracy'.* 'final_accuracy'"):
        studies(collect(tmp_path), "final_acuracy")


@pytest.mark.parametrize("case", ["loss all seen", "embedding final block-8"])
def test_what_the_loss_or_the_learner_sees_is_another_study(case: str, tmp_path: Path) -> None:
    """A record without the setting, made before there was one, goes with the usual ones."""
    setting, usual, other = case.split()
    for name, params in (("old", {}), ("usual", {setting: usual}), ("other", {setting: other})):
        runs = [make(learner, protocol_params=params) for learner in ("mlp", "ewc")]
        keep(tmp_path, *runs, stream=f"stream-{name}")
    rows = collect(tmp_path)
    titles, usually = [found.title for found in studies(rows)], "incremental-class · toy.h5"
    assert titles == [usually, f"{usually} · {setting}={other}"]
    assert {row.group.title for row in rows} == {*titles}


def test_the_command_line_compares_and_draws(tmp_path: Path) -> None:
    store(tmp_path / "runs")

    def report(*words: Any) -> Any:
        return embedbench("report", tmp_path / "runs", *words)

    figure = ("--figure", "ranks", "--out", tmp_path / "ranks.svg")
    done = report("--compare", "--metric", "final_accuracy", *figure)
    assert done.exit_code == 0, done.output
    for part in ("accuracy, % · 2 class orders", "over 2 orders alone", "fewer than 5 order"):
        assert part in done.stdout
    drawn = figure[-1].read_text()
    assert {f">{name}</text>" in drawn for name in ("ewc", "mlp")} == {True}
    (ranked,) = json.loads(report("--compare", "--json").stdout)["studies"]
    ranks = {entry["learner"]: entry["ranks"] for entry in ranked["learners"]}
    assert ranks == {"ewc": [1, 2], "mlp": [1, 2]}
    (orders,) = json.loads(report("--by", "order", "--json").stdout)["studies"]
    assert orders["tau_least"] == "coarse (x) | coarse (y)"
    assert "coarse (x)" in report("--by", "order").stdout
    assert says(expected="seeds")(report("--over", "samples").exception)
    assert isinstance(report("--by", "seed").exception, UserError)


def test_text_of_a_comparison() -> None:
    text = render_text(rank_learners(study(best=[0.9, 0.91, 0.9], rest=[0.5, 0.5, 0.52])).parts)
    lines = text.splitlines()
    assert lines[1].split(" · ")[1] == "1 class order"
    assert lines[3].split() == ["best", "3", "90.3", "1", "1", "0.0"]
    # differences .4 .41 .38: mean .39667, s .015275; t(2) at .05/2 is 4.30265
    assert lines[4].split() == ["rest", "3", "50.7", "2", "2", "39.7", "(35.9", "to", "43.5)"]
    assert "of the distance to whichever row is the best" in text
    assert "over 3 seeds alone: above 0 a row is behind" in text
    assert "in half of the rows no difference under 3.8 points can be seen" in text
    assert "one class order" in lines[-1]


def test_one_order_and_one_learner_are_refused() -> None:
    with pytest.raises(UserError, match=r"--by order .* natural only"):
        comparison_tables.spread_over_orders(study(a=[0.5], b=[0.4]))
    with pytest.raises(UserError, match="toy has a only"):
        rank_learners(study(a=[0.5]))


def test_spread_within_groups_by_hand() -> None:
    assert pooled_sd([[0.1, 0.2, 0.3]]) == pytest.approx(0.1)
    # two groups about their own means, one run that tells nothing: (2·.01 + 2·.0025)/3
    pooled = pooled_sd([[0.1, 0.2, 0.3], [0.9], [0.5, 0.6]])
    assert pooled == pytest.approx(math.sqrt((0.02 + 0.005) / 3))
    rest = [pooled_sd(values) for values in ([[0.5, 0.5]], [], [[0.1], [0.2]])]
    assert rest == pytest.approx([0, math.nan, math.nan], nan_ok=True)
