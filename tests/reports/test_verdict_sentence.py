"""The verdict on a table: its sentence for every kind of table, worked out by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from report_records import make, typed

from embedbench.reports.compare_learners import judge
from embedbench.reports.result_rows import Group, Row
from embedbench.reports.verdict_sentence import verdict
from embedbench.scores.run_record import RunRecord


def sentence(*learners: Sequence[RunRecord]) -> str:
    """The verdict on a table with a row for each list of runs, best first."""
    group = Group("stream-1", tuple(run for runs in learners for run in runs))
    rows = []
    for runs in learners:
        lost = tuple(run for run in runs if "diverged" in run.flags)
        used = tuple(run for run in runs if run not in lost)
        rows.append(Row(group, runs[0].learner, used, lost))
    return verdict(rows)


def runs(learner: str, *finals: float, **changes: Any) -> list[RunRecord]:
    """One run for each final accuracy."""
    return [typed(learner, seed, final, **changes) for seed, final in enumerate(finals)]


def test_a_leader_and_who_is_behind() -> None:
    ncm = runs("ncm", 0.80, 0.81, 0.82)
    others = runs("ewc", 0.50, 0.51, 0.53), runs("mlp", 0.30, 0.31, 0.31)
    # ewc: .30 .30 .29, mean 29.67 points, s .57735; t(2) at .05/3 is 5.33934, at .05/2 4.30265
    lead = "ncm leads with 81.0 % mean per-class accuracy (offline: 90.0 %, chance: 25.0 %)"
    assert sentence(ncm, *others) == (
        f"{lead}; ewc and mlp are behind, by at least 27.9 and 48.6 points (2 statements, each at "
        "5 %)"
    )
    assert sentence(ncm, others[0]) == f"{lead}; ewc is behind by at least 28.2 points (at 5 %)"
    # alone it leads nobody
    assert sentence(ncm) == f"none, of one learner: {lead.replace('leads with', 'has')}"
    # two rows of one label
    text = sentence(ncm, runs("ncm", 0.30, 0.31, 0.31))
    assert text.endswith("; ncm is behind by at least 48.9 points (at 5 %)")
    # er has other seeds and is compared with none: .50 .50 .51; t(2) at .05/2
    text = sentence(ncm, others[1], [typed("er", seed, 0.2) for seed in (3, 4)])
    assert text.endswith(
        "; mlp is behind by at least 48.9 points (at 5 %); nothing can be said of er"
    )


def test_who_may_be_level() -> None:
    # differences of ewc .02 -.01 .01 and of si .03 -.02 .01
    leader, ewc = runs("mlp", 0.80, 0.81, 0.82), runs("ewc", 0.78, 0.82, 0.81)
    si = runs("si", 0.77, 0.83, 0.81)
    far = runs("er", 0.10, 0.11, 0.13)  # .70 .70 .69; t(2) at .05/4 is 6.20535
    text = sentence(leader, ewc, si, far)
    assert text.startswith("mlp leads with 81.0 %")
    assert text.endswith("; ewc and si may be level; er is behind by at least 67.6 points (at 5 %)")


def test_nobody_leads_where_nothing_is_decided() -> None:
    """Differences of si .03 -.02 .01: mean .667 points, s 2.51661; t(2) at .05/2 is 4.302653."""
    leader, si = runs("mlp", 0.80, 0.81, 0.82), runs("si", 0.77, 0.83, 0.81)
    half = 4.302653 * 2.51661 / math.sqrt(3)
    assert sentence(leader, si) == (
        "nothing is decided: mlp has the highest mean, 81.0 % mean per-class accuracy (offline: "
        "90.0 %, chance: 25.0 %); si may be level; no difference to the best under "
        f"{half:.1f} points could have been seen with 3 seeds"
    )


def test_what_is_not_decided_is_said_of_those_that_learned() -> None:
    """Of er, which is behind by far, it is said that it did not learn."""
    leader, si = runs("mlp", 0.80, 0.81, 0.82), runs("si", 0.77, 0.83, 0.81)
    text = sentence(leader, si, runs("er", 0.10, 0.11, 0.13, flags=["not-learned"]))
    assert text.startswith(
        "nothing is decided among those that learned the new sessions: mlp has the highest mean, "
    )


def test_a_bound_that_another_row_gives_is_said_to_be_below_it() -> None:
    """The best varies too much to be above anybody; ewc, which does not, is above si."""
    leader = runs("mas", 0.5, 0.9, 0.95)
    text = sentence(leader, runs("ewc", 0.70, 0.71, 0.72), runs("si", 0.60, 0.61, 0.63))
    # .10 .10 .09: mean 9.667 points, s .57735; t(2) at .05/3 is 5.33934
    assert text == (
        "nobody leads: mas has the highest mean, 78.3 % mean per-class accuracy (offline: 90.0 %, "
        "chance: 25.0 %); ewc may be level; si is behind by at least 7.9 points (at 5 %, that of "
        "si from ewc)"
    )


def test_rows_of_chance_are_no_learners_to_be_compared() -> None:
    """With them there were three rows, and each test at .05/3."""
    rows = runs("ncm", 0.80, 0.81, 0.82), runs("chance", 0.85, 0.86, 0.88)
    text = sentence(rows[1], rows[0], runs("ewc", 0.50, 0.51, 0.53))
    assert text.endswith("; ewc is behind by at least 28.2 points (at 5 %)")


@pytest.mark.parametrize("n", [1, 2])
def test_one_run_or_two_equal_differences_say_nothing(n: int) -> None:
    text = sentence(runs("ncm", *[0.8] * n), runs("mlp", *[0.3] * n), runs("er", *[0.2] * n))
    assert text.startswith("nothing is decided: ncm has 80.0 % mean per-class accuracy (")
    assert text.endswith(
        " and mlp, the next, 30.0 %; without stored answers or seeds in common, three where all "
        "differences are equal, nothing can be said of the difference"
    )


def test_chance_is_one_in_the_classes_whether_it_was_run_or_not() -> None:
    assert "chance: 25.0 %" in sentence(runs("ncm", 0.8), runs("chance", 0.22, 0.24))
    assert sentence(runs("chance", 0.2)) == "no learner can be ranked: the table has chance only"
    limits: dict[str, Any] = {"n_candidates": [2, 2, 4]}
    for about, level in (
        ({"n_classes": [2, 1, 1]}, 25.0),
        (limits | {"n_classes": [0, 0, 0]}, 41.7),  # (1/2 + 1/2 + 1/4) / 3
        # a set with two of four classes counts twice as much: (2/2 + 1/2 + 1/4) / 4
        (limits | {"n_classes": [2, 1, 1]}, 43.8),
        ({"n_classes": [0, 0, 0], "n_train_by_class": [200, 200, 100, 0]}, 33.3),
    ):
        assert f"chance: {level} %" in sentence(runs("ncm", 0.8, **about))
    assert "chance" not in sentence(runs("ncm", 0.8, classes=[], n_classes=[0, 0, 0]))


@pytest.mark.parametrize(("largest", "says"), [(0.29, False), (0.31, True), (math.nan, False)])
def test_the_largest_class_is_named_from_five_points_above_chance(
    largest: float, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Group, "largest_class", property(lambda _: largest))
    assert ("the largest class always: 31.0 %" in sentence(runs("ncm", 0.8))) is says


def test_a_leader_that_did_not_learn() -> None:
    idle = runs("er", 0.70, 0.71, 0.72, flags=["not-learned"])
    active = runs("ncm", 0.60, 0.61, 0.62), runs("mlp", 0.30, 0.31, 0.31)
    text = sentence(idle, *active)
    lead = "er has 71.0 % but did not learn the new sessions; of the learners that did, ncm leads"
    assert text.startswith(f"{lead} with 61.0 % mean per-class accuracy")
    assert text.endswith("; mlp is behind by at least 38.6 points (at 5 %, that of mlp from er)")
    assert sentence(active[0], idle).endswith("; er did not learn the new sessions")
    at = "has 71.0 % mean per-class accuracy (offline: 90.0 %, chance: 25.0 %)"
    assert sentence(idle) == f"no learner learned the new sessions: the best, er, {at}"
    flags = ("chance-level", "not-learned")
    chance = [[replace(run, flags=flags) for run in each] for each in (idle, active[1])]
    assert sentence(*chance) == f"no learner is clearly above chance: the best, er, {at}"
    # a flag counts where most runs have it
    er = runs("er", 0.70, 0.71, 0.72)
    one, two = ([replace(r, flags=flags[1:] * (r.seed < n)) for r in er] for n in (1, 2))
    assert sentence(one).startswith("none, of one learner: er has 71.0 %")
    assert sentence(two).startswith("no learner learned the new sessions")


def test_runs_that_diverged_or_are_undefined() -> None:
    gone = runs("mlp", 0.1, flags=["diverged"])
    text = sentence(runs("ncm", 0.8, 0.8, 0.8), gone)
    assert text.endswith("; mlp has no run without NaN or divergence")
    also = runs("si", 0.1, flags=["diverged"])
    assert "; mlp and si have no run" in sentence(runs("ncm", 0.8), gone, also)
    lost = "no learner can be ranked: no learner has runs with a final score"
    assert sentence(gone).startswith(lost)
    undefined = make("si")
    undefined["metrics"]["final_accuracy"] = None
    assert "si" not in sentence(runs("ncm", 0.8), [RunRecord.from_json(undefined)])


def test_references_that_are_missing() -> None:
    reference = make()["reference"]
    lost = reference | {"source": "missing", "ideal": {}, "offline_runs": ["references/o"]}
    waiting = runs("ncm", 0.8, reference=lost)
    waiting = [replace(r, metrics=r.metrics | {"omega_all": math.nan}) for r in waiting]
    assert "(offline: open, chance: 25.0 %)" in sentence(waiting)
    assert "(chance: 25.0 %)" in sentence(runs("ncm", 0.8, reference=lost | {"offline_runs": []}))
    each = reference | {"ideal": {"class_accuracy": [0.8, 0.9, 0.7]}}
    assert "(chance: 25.0 %)" in sentence(runs("ncm", 0.8, reference=each))


def test_label_sets() -> None:
    made = make("icarl", final=0.4)
    by_score = {"pw_js": made["by_score"]["class_accuracy"]}
    run = RunRecord.from_json({**made, "score": "pw_js", "by_score": by_score})
    # no chance level but that of runs, and no offline reference of this score
    assert sentence([run]) == "none, of one learner: icarl has 40.0 % pw-JS"
    drawn = [replace(r, score="pw_js") for r in runs("chance", 0.2, 0.3)]
    text = "none, of one learner: icarl has 40.0 % pw-JS (chance: 25.0 %)"
    assert sentence([run], drawn) == text


def test_many_names_are_counted() -> None:
    leader = runs("mlp", 0.80, 0.81, 0.82)
    many = [runs(f"l{i}", *(0.5 - i / 50 + d for d in (0, 0.001, 0.003))) for i in range(8)]
    # .30 .309 .317 to l0, s .85049 points; t(2) at .05/2 is 4.30265, as each can be compared with
    # the leader alone: to the others the differences are equal
    text = sentence(leader, *many)
    by = "by at least 28.8 to 42.8 points (8 statements, each at 5 %)"
    assert text.endswith(f"; l0, l1, l2 and 5 more are behind, {by}")
    each = "28.8, 30.8, 32.8 and 34.8 points (4 statements, each at 5 %)"
    text = sentence(leader, *many[:4])
    assert text.endswith(f"; l0, l1, l2 and l3 are behind, by at least {each}")
    text = sentence(leader, *many[:5])
    assert "l2 and 2 more are behind, by at least 28.8 to 36.8 points (5 statements" in text


def test_equal_means_are_no_highest_one() -> None:
    text = sentence(runs("ncm", 0.80, 0.82, 0.81), runs("slda", 0.81, 0.80, 0.82))
    assert text.startswith("nothing is decided: ncm and slda have the same mean, 81.0 % ")
    assert "may be level" not in text


def test_a_row_as_high_as_the_leader_is_named_beside_one_that_is_behind() -> None:
    ncm, slda = runs("ncm", 0.80, 0.82, 0.81), runs("slda", 0.81, 0.80, 0.82)
    text = sentence(ncm, slda, runs("mlp", 0.30, 0.31, 0.31))
    assert "; slda may be level; mlp is behind" in text


@pytest.mark.parametrize(
    ("alone", "said"),
    [
        (["ewc", "si"], "(2 statements, each at 5 %, over the test sample alone)"),
        (["si"], "(2 statements, each at 5 %, that of si over the test sample alone)"),
    ],
)
def test_a_bound_that_no_seed_entered_says_so(alone: list[str], said: str) -> None:
    learners = (
        runs("mas", 0.9, 0.91, 0.92),
        runs("ewc", 0.5, 0.51, 0.53),
        runs("si", 0.3, 0.31, 0.3),
    )
    group = Group("stream-1", tuple(run for each in learners for run in each))
    rows = [Row(group, each[0].learner, tuple(each), ()) for each in learners]
    judged = judge(rows)
    verdicts = [
        replace(one, parts=("test sample",)) if row.label in alone and one else one
        for row, one in zip(rows, judged.rows, strict=True)
    ]
    assert verdict(rows, judged._replace(rows=verdicts)).endswith(said)
