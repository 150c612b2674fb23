"""Learners that stored every training sample are named, and no others."""

from pathlib import Path
from typing import Any

import pytest
from report_records import keep, make

from embedbench.reports.tables_from_runs import collect, remark_on_memory, stores_all
from embedbench.scores.run_record import RunRecord

ALL = (300, 400, 500)  # samples after each session of `make`
BY_CLASS = [200, 100, 150, 50]


def run(
    stored: tuple[int, ...], by_class: list[int] | None = BY_CLASS, **memory: Any
) -> dict[str, Any]:
    """A run that stored so many samples of 40 bytes after each session, as its footprint says."""
    made = make("er", learner_params={"memory": {"total": None, "per_class": 20} | memory})
    made |= {} if by_class is None else {"n_train_by_class": by_class}
    for session, n in zip(made["sessions"], stored, strict=True):
        session["footprint"] = {"parameters": 7, "samples": 40 * n}
    return made


def stored(*args: Any, **memory: Any) -> bool:
    return stores_all(RunRecord.from_json(run(*args, **memory)))


@pytest.mark.parametrize("select", ["reservoir", "balanced", "gradients"])
def test_a_memory_of_samples_that_holds_the_stream(select: str) -> None:
    assert stored(ALL, total=500, select=select)
    assert stored(ALL, None, total=2000, select=select)
    assert not stored((300, 400, 499), total=499, select=select)
    # a limit above the stream, and another number of samples in fact
    assert not stored((300, 400, 450), total=500, select=select)


@pytest.mark.parametrize("select", ["herding", "random"])
def test_a_memory_that_classes_share_holds_the_largest_class(select: str) -> None:
    assert stored(ALL, select=select, total=800)  # 200 of each of 4 classes
    assert not stored(ALL, select=select, total=799)
    assert stored(ALL, select=select, per_class=200)
    assert not stored(ALL, select=select, per_class=199)
    # as many of each session's samples: the ratio alone says nothing
    assert not stored((30, 40, 50), select=select, per_class=20)
    assert not stored(ALL, None, select=select, per_class=200)  # sizes of classes are not known


def test_what_has_no_limit_or_says_too_little() -> None:
    assert not stored(ALL, select="all", total=2000)
    assert not stored((0, 0, 0), select="herding", per_class=200)
    assert not stored(ALL, select="reservoir", total="many")
    assert not stores_all(RunRecord.from_json(make("mlp")))
    assert not stores_all(RunRecord.from_json(make("mine", learner_params={"memory": 300})))


def test_learners_of_one_sentence() -> None:
    whole = [RunRecord.from_json(run(ALL, select="reservoir", total=n)) for n in (500, 600, 400)]
    assert remark_on_memory([("er", whole[:1])]) == [
        "er stored all 500 training samples: its memory does not bind"
    ]
    assert remark_on_memory([("er", whole[:2]), ("mir", whole[1:2]), ("agem", whole[1:])]) == [
        "er and mir stored all 500 training samples: their memories do not bind"
    ]


def test_the_report_has_it_as_a_note(tmp_path: Path) -> None:
    keep(tmp_path, run(ALL, select="reservoir", total=2000), make("mlp"))
    rows = collect(tmp_path)
    assert "er stored all 500 training samples: its memory does not bind" in rows[0].group.notes
