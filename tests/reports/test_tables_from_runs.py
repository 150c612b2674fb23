"""Reports: means and intervals by hand, refusals, flags."""

import re
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_records import keep, make, put, typed

from embedbench.config.fields_added_later import EARLIER, later_fields
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.reports.html_report import render
from embedbench.reports.load_results import align_records
from embedbench.reports.result_rows import FLAGS, Group
from embedbench.reports.results import variations
from embedbench.reports.run_values import run_value
from embedbench.reports.tables_from_runs import _short, check_average, check_comparable, collect
from embedbench.reports.terminal_tables import table_text
from embedbench.runs import learner_and_protocol_names as names
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

OTHER = "1234567890ab" + "0" * 52  # a digest


def test_mean_and_interval_by_hand() -> None:
    # 1…5: sd = √(10/4); t(0.975, 4) = 2.776445 → 2.776445 · 1.581139 / √5 = 1.963243
    five = Stat.of([1, 2, 3, 4, 5])
    assert five.mean == 3.0
    assert five.values == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert five.sd == pytest.approx(1.5811388)
    assert five.half == pytest.approx(1.9632432)
    assert Stat.of([1, 3]).half == pytest.approx(12.7062047)  # t(0.975, 1) · √2 / √2
    one = Stat.of([0.7])
    assert one.mean == 0.7
    assert np.isnan(one.half)
    assert np.isnan(one.sd)
    assert np.isnan(Stat.of([]).mean)
    assert np.isnan(Stat.of([0.5, float("nan")]).mean)  # never the mean of what is left


def test_rows_hold_means_costs_and_commands(tmp_path: Path) -> None:
    finals = [0.70, 0.74, 0.78]
    keep(tmp_path, *(make(seed=s, final=f) for s, f in zip((0, 2, 3), finals, strict=True)))
    keep(tmp_path, make("ewc", 0, 0.9), make("ewc", 1, 0.9, command=""), make("chance", 0, 0.95))
    ewc, mlp, chance = collect(tmp_path)  # best first, references last
    assert [r.label for r in (ewc, mlp, chance)] == ["ewc", "mlp", "chance"]
    stat = mlp.metrics["final_accuracy"]
    assert (stat.mean, stat.half) == pytest.approx((0.74, 4.302653 * 0.04 / np.sqrt(3)))
    assert stat.values == tuple(finals)
    assert mlp.n == "3"
    assert mlp.footprint == {"parameters": 1_500_000, "fisher": 500_000, "total": 2_000_000}
    assert {kind: of.mean for kind, of in mlp.seconds.items()} == {"learn": 6.0, "evaluate": 1.5}
    command = "embedbench run toy.h5 --out RUNS --learner {} --seed {}"
    assert mlp.commands == [command.format("mlp", seed) for seed in (0, 2, 3)]
    assert ewc.commands == [command.format("ewc", 0)]


def test_values_of_a_run_by_name() -> None:
    """A session without training data has no passes and no steps."""
    made = make(n_train=[300, 100, 0])
    made["curves"] = {"raa": [0.9, None, 0.3], "superclass_pw_js": [0, 0.5, 0.25]}
    for session, epochs in zip(made["sessions"], (2, 4, None), strict=True):
        session["log"] = {"steps": 7 * epochs, "epochs": epochs} if epochs else {}
    run = RunRecord.from_json(made)
    expected = {"steps": 42, "passes": 2.5, "raa": 0.3, "superclass_pw_js": 0.25}
    expected |= {"within_accuracy": 0.9, "bytes.fisher": 500_000, "seconds.evaluate": 1.5}
    expected |= dict.fromkeys(("bytes.none", "nothing"), np.nan)
    assert {k: run_value(run, k) for k in expected} == pytest.approx(expected, nan_ok=True)
    assert np.isnan(run_value(replace(run, n_train=(0, 0, 0)), "passes"))


def test_what_a_table_says_of_its_stream() -> None:
    def said(*runs: RunRecord) -> list[str]:
        return Group("", runs).describe()

    ideals = ({"ideal": {"class_accuracy": level}} for level in (0.8, [0.8, 0.9, 0.7]))
    one, each = (make()["reference"] | ideal for ideal in ideals)
    drawn = {"order": {"kind": "random"}}
    assert said(typed(**drawn), typed(seed=1, n_train=[310, 100, 90], reference=one, **drawn)) == [
        *("4 classes", "3 sessions"),
        "300–310 training samples at first, then 90–100 a session",
        "2 class orders, by the seed",
        *("validation from training data", "mean per-class accuracy"),
        "offline (α_ideal): mlp on all data at once, 85.0 %",
    ]
    about: dict[str, Any] = {"n_train": [1000] * 3, "reference": each, "scale": "unit"}
    assert said(replace(typed(), n_train=(5,)))[1:3] == ["1 session", "5 training samples"]
    assert said(typed(validation="test", **about))[2:] == [
        "1,000 training samples a session",
        *("validation from TEST data", "scale unit", "mean per-class accuracy"),
        "offline (α_ideal): mlp on all data of a session at once, 80.0 %, 90.0 %, 70.0 %",
    ]


def test_a_protocol_that_orders_no_classes_has_no_class_orders() -> None:
    said = Group("", (typed(), typed(seed=1))).describe()
    assert [phrase for phrase in said if "order" in phrase] == []


def test_namesakes_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    settings = [{"lam": lam, "stop": {"epochs": e}} for lam, e in ((1.0, 5), (1000.0, 5))]
    for i, params in enumerate(settings):
        keep(tmp_path, make("ewc", final=0.5 - 0.1 * i, learner_params=params), row=f"ewc-{i}")
    keep(tmp_path, make("mlp", final=0.1))
    assert [r.label for r in collect(tmp_path)] == ["ewc lam=1", "ewc lam=1000", "mlp"]


def test_a_table_that_cannot_be_made_is_named_and_the_others_remain(tmp_path: Path) -> None:
    keep(tmp_path / "a", make(seed=0))
    keep(tmp_path / "b", make(seed=0), make("ewc", seed=1), row="mlp")
    said: list[str] = []
    (row,) = collect(tmp_path, notify=said.append)
    assert row.learner == "mlp"
    assert row.n == "1"
    assert [sentence[:39] for sentence in said] == ["left out, a whole table: cannot average"]


def test_runs_from_before_a_setting_was_added_are_of_the_same_row(tmp_path: Path) -> None:
    """Their place is the same, for the setting has its earlier value in the newer runs."""
    then = {"lam": 1.0, "stop": {"epochs": 5}}
    now = {"lam": 1.0, "stop": {"epochs": 5, "perfect": 0}, "passes": 0.0}
    keep(tmp_path, make("ewc", seed=0, learner_params=then, protocol_params={"base": 2}))
    params = {"base": 2, "scale_least": 0}
    keep(tmp_path, make("ewc", seed=1, learner_params=now, protocol_params=params))
    (row,) = collect(tmp_path)
    assert row.label == "ewc"
    assert row.n == "2"
    assert row.params == now
    assert [run.protocol_params for run in row.records] == [params, params]


@pytest.mark.parametrize("now", [{"passes": 20.0}, {"stop": {"perfect": 5}}, {"unknown": 1}])
def test_another_value_of_a_setting_that_was_added_is_refused(now: dict[str, Any]) -> None:
    runs = [typed(seed=0, learner_params={"stop": {}}), typed(seed=1, learner_params=now)]
    with pytest.raises(UserError, match="cannot average"):
        check_average(align_records(runs))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0a" * 32, "0a" * 6),
        ("0a", "'0a'"),
        ("0a" * 31 + "a-", f"'{'0a' * 29}…"),
    ],
)
def test_a_digest_is_shown_by_its_first_digits(value: str, text: str) -> None:
    assert _short(value) == text


def test_earlier_values_are_those_of_the_classes() -> None:
    """Reports import no learner, so they have a list of their own."""

    def earlier(made: Any) -> dict[str, Any]:
        later = later_fields(type(made))
        whole = {name: asdict(group) for name, group in later.items() if is_dataclass(group)}
        groups = {f.name: getattr(made, f.name, None) for f in fields(made)}
        inner = {name: earlier(group) for name, group in groups.items() if is_dataclass(group)}
        return later | {name: group for name, group in inner.items() if group} | whole

    kinds = {
        "learner": {name: names.learner_class(name) for name in names.our_learners()},
        "protocol": {name: names.protocol_class(name) for name in names.our_protocols()},
    }
    found = {
        kind: {name: made for name, cls in of.items() if (made := earlier(cls()))}
        for kind, of in kinds.items()
    }
    assert found == EARLIER


def test_a_setting_of_another_class_has_no_earlier_value() -> None:
    """`updates` of somebody's learner, and `loss` of a protocol, are other settings of a name."""
    runs = [
        typed(seed=s, learner="a.b:C", learner_params=p) for s, p in ((0, {}), (1, {"updates": 1}))
    ]
    assert [r.learner_params for r in align_records(runs)] == [{}, {"updates": 1}]
    foreign = typed(protocol="a.b:C", protocol_params={"loss": "all"})
    assert "loss over all" not in " ".join(Group("", (foreign,)).describe())
    assert "loss" not in Group("", (replace(foreign, protocol_params={"loss": "mse"}),)).title


def test_the_same_run_twice_is_not_averaged(tmp_path: Path) -> None:
    keep(tmp_path, make(seed=0))
    put(typed(seed=0), tmp_path / "stream-1" / "mlp" / "seed-0 (copy)")
    with pytest.raises(UserError, match=r"run once.*mlp seed 0 .*mlp seed 0 \(copy\)"):
        collect(tmp_path)


@pytest.mark.parametrize("case", ["0 train", "0 eval", "0 features", "1 recipe", "1 features"])
def test_learners_with_different_data_are_not_paired(case: str) -> None:
    """Of other seeds than the first learner's train and eval may differ."""
    seed, key = case.split()
    runs = [typed("mlp"), typed("ewc", int(seed), digests={key: OTHER})]
    with pytest.raises(UserError, match=f"in here: .* one {key} digest"):
        check_comparable(runs, "here")
    check_comparable([typed("mlp", 0), typed("ewc", 1, digests={"train": OTHER, "eval": OTHER})])


def test_references_are_no_rows_and_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"finished runs .*embedbench run"):
        collect(tmp_path)
    keep(tmp_path, make("offline"), stream="references")
    with pytest.raises(UserError, match="found none"):
        collect(tmp_path)
    (row,) = collect(tmp_path, [tmp_path / "references/offline/seed-0"])
    assert row.label == "offline"
    assert collect(tmp_path, []) == []
    (tmp_path / "references/offline/seed-0/record.json").write_text("[]")
    with pytest.raises(UserError, match="none of the 1"):
        collect(tmp_path, [tmp_path / "references/offline/seed-0"])


@pytest.mark.parametrize("flag", ["nan", "diverged"])
def test_broken_runs_are_left_out_and_counted(tmp_path: Path, flag: str) -> None:
    """Kinds of bytes are means over all other runs."""
    for seed, final, of in ((0, 0.6, {"a": 2, "total": 2}), (1, 0.8, {"b": 4, "total": 4})):
        keep(tmp_path, make(seed=seed, final=final, footprint=of))
    keep(tmp_path, make(seed=2, final=0.1, flags=[flag], footprint={"total": 10**9}))
    (row,) = collect(tmp_path)
    assert row.metrics["final_accuracy"].mean == pytest.approx(0.7)
    assert row.footprint == {"a": 1, "total": 3, "b": 2}
    assert row.n == "2 of 3"
    assert row.flags == {flag: ["2"]}
    assert re.search(rf"{flag}: .*left out of every mean \[mlp 1 of 3: seed 2\]", table_text([row]))


def test_runs_with_other_threads_or_references_are_marked(tmp_path: Path) -> None:
    """By the reference's settings: runs of a row may have different class orders."""
    of = (make(seed=s, environment={"threads": n}) for s, n in enumerate([1, 4, 1]))
    keep(tmp_path / "threads", *of)
    (row,) = collect(tmp_path / "threads")
    assert row.n == "3"
    assert row.flags == {"threads": ["1"]}
    assert re.search(r"mlp +3 .* B\n(.*\n)*.*threads: .*\[mlp 1 of 3: seed 1\]", table_text([row]))
    here, there, other = (f"references/offline-0000000{k}" for k in ("a-1111", "a-2222", "b-1111"))
    runs = [here, there, here, other, here, here]
    for seed, run in enumerate(runs):
        offline = [f"{run}1111/seed-{s}" for s in range(2 if seed == 4 else 1)]
        chance = {"chance_run": "references/chance-1/seed-0" if seed == 5 else None}
        about = make()["reference"] | {"offline_runs": offline} | chance
        keep(tmp_path / "other", make(seed=seed, reference=about))
    (row,) = collect(tmp_path / "other")
    assert row.flags == {"reference": ["3", "4"]}
    assert re.search(r"reference: .*\[mlp 2 of 6: seed 3, 4\]", table_text([row]))


def test_a_learner_with_no_usable_run_has_a_row(tmp_path: Path) -> None:
    keep(tmp_path, make(flags=["nan"]), make("ewc"))
    rows = collect(tmp_path)
    assert [r.n for r in rows] == ["1", "0 of 1"]
    assert re.search(r"mlp +0 of 1( +–){8} +N", table_text(rows))
    assert "0 of 1" in render(rows, "runs")


def test_marks_and_their_legend(tmp_path: Path) -> None:
    assert len({mark for mark, _ in FLAGS.values()}) == len(FLAGS)
    flags, finals = ["not-learned", "test-validation"], [0.50, 0.51, 0.52, 0.53, 0.90]
    keep(tmp_path, *(make("ewc", seed=s, flags=flags) for s in range(2)))
    few = make("mlp", seed=4, final=0.90, flags=["few-steps"])
    few["sessions"][1]["log"]["steps"] = 3
    keep(tmp_path, *(make("mlp", seed=s, final=f) for s, f in enumerate(finals[:4])), few)
    keep(tmp_path, *(make("chance", seed=s, final=f) for s, f in enumerate(finals)))
    rows = _, mlp, chance = collect(tmp_path)
    assert (mlp.flags, chance.flags) == ({"few-steps": ["4"]}, {})
    assert mlp.metrics["final_accuracy"].mean == pytest.approx(np.mean(finals))  # marked, kept
    text = table_text(rows)
    assert re.search(r"ewc .*L T\n(.*\n)*L  not-learned: .* \[ewc\]", text)
    for shown in (text, render(rows, "runs")):
        assert "[mlp 1 of 5: seed 4 (3)]" in shown


@pytest.mark.parametrize(
    "change",
    [
        *({"digests": {key: OTHER}} for key in ("recipe", "features")),
        *({"learner_params": {"units": 10}}, {"learner": "ewc"}),
        {"reference": {**make()["reference"], "preset": "kemker_eq"}},
    ],
)
def test_runs_of_different_streams_or_settings_are_not_averaged(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"average .* 'mlp' in here") as e:
        check_average([typed(), typed(seed=1, **change)], "here")
    if "recipe" in change.get("digests", {}):
        assert str(e.value) == (
            "cannot average the runs of 'mlp' in here: expected one recipe digest, got "
            f"{'a' * 12} (mlp seed 0) and 1234567890ab (mlp seed 1); keep the runs of each in a "
            "directory of its own (another --out)"
        )


def test_references_that_are_missing_or_unequal_and_chance_are_noted(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp"))
    keep(tmp_path, make("ewc", reference={**make()["reference"], "source": "missing", "ideal": {}}))
    better = {**make()["reference"], "ideal": {"accuracy": 0.95}}
    keep(tmp_path, make("ncm", reference=better), make("chance", final=0.3, learns=False))
    text = table_text(collect(tmp_path))
    nothing = "no verdict (–): that takes seeds in common, three where all differences are equal"
    for note in (nothing, "Ω is open", "different offline references"):
        assert note in text
    assert "chance: 25.0 %" in text  # what guessing scores on average


def run(seed: int, final: float = 0.8, **other: int) -> dict[str, Any]:
    """A record with the four seeds of `seed`, but for `other`."""
    seeds = asdict(Seeds.of(seed, **other))
    return make(seed=seed, final=final, seeds=seeds, digests={"train": f"{seeds['order']:064x}"})


def keep_each(root: Path, *runs: dict[str, Any]) -> Path:
    for i, r in enumerate(runs):
        put(RunRecord.from_json(r), root / "stream-1" / r["learner"] / f"seed-{r['seed']}-{i}")
    return root


def test_variations_of_a_run_are_told_from_runs_of_their_own() -> None:
    def records(*runs: dict[str, Any]) -> list[RunRecord]:
        return [RunRecord.from_json(one) for one in runs]

    base = records(run(0), run(1), run(2))
    varied = records(run(0, order=9), run(0, init=9), run(0, init=8), run(2, memory=9))
    assert variations([*varied, *base]) == (base, varied)
    # one order for all seeds: each run has a seed of its own
    fixed = records(*(run(s, order=9) for s in range(3)))
    assert variations(fixed) == (fixed, [])
    # the same and one of its seeds varied: the run that is varied stands for itself
    more = records(run(0, order=9, init=8))
    assert variations([*fixed, *more]) == (fixed, more)
    # by hand, without a run that they vary: as they were asked for
    orders = records(*(run(0, order=v) for v in (7, 8, 9)))
    assert variations(orders) == (orders, [])


def test_tables_average_independent_runs_only(tmp_path: Path) -> None:
    runs = [run(0, 0.8), run(1, 0.6), run(0, 0.1, order=9), run(0, 0.2, init=9)]
    (row,) = collect(keep_each(tmp_path, *runs))
    assert row.metrics["final_accuracy"].mean == pytest.approx(0.7)
    assert row.n == "2"
    assert "single seeds set otherwise, in no mean: 2" in table_text([row])
    assert "in no mean" not in table_text(collect(keep_each(tmp_path / "alone", *runs[:2])))


def test_a_stream_beside_others_in_its_directory_is_told_apart(tmp_path: Path) -> None:
    """`run` shows its own runs alone, and those of an earlier command were on another stream."""
    for base in (2, 4):
        other = {"protocol_params": {"base": base}, "digests": {"recipe": f"{base:064x}"}}
        keep(tmp_path, make("ncm", **other), stream=f"base-{base}")
    places = [place for place in record_files.find(tmp_path) if "base-4" in str(place)]
    (row,) = collect(tmp_path, places, notify=pytest.fail)
    assert row.group.title.endswith("toy.h5 · base=4")
