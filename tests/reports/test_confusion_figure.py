"""Confusion matrices as figures: whose answers, in which order, after which session."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from file_helpers import says
from label_set_answers import label_sets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pinned_runs import write_run
from report_records import HEX, keep, make, typed
from toy import predictions

from embedbench.errors import UserError
from embedbench.reports.confusion_figure import (
    _mark_sessions,
    class_names,
    confusion,
    counted_runs,
)
from embedbench.reports.figure_kinds import WIDTHS, save_figure
from embedbench.reports.tables_from_runs import collect
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_answers import RunAnswers

# Class 2 is learned first, then 0 and 1: the places are 2, 0, 1.
GROUPS = [[2], [0, 1]]
TRUTH = [[2, 2], [0, 0, 1, 1]]
RIGHT = [[2, 2, 2, 2, 2, 2], [2, 2, 0, 0, 1, 1]]
NEWEST = [[2, 2, 2, 2, 2, 2], [0, 1, 0, 1, 1, 1]]


def answered(
    truth: list[list[int]], answers: list[list[int]], groups: list[list[int]]
) -> Predictions:
    """Answers by hand; those within the session are right."""
    within = np.tile(np.concatenate(truth), (len(answers), 1))
    return predictions(truth, answers, groups, within=within)


def write(root: Path, learner: str, seed: int, p: RunAnswers, order: int = 7) -> None:
    """A run with answers."""
    how: dict[str, Any] = {"classes": [["ant", "bee", "cat"]], "learner": learner, "seed": seed}
    how["seeds"] = {"order": order, "init": seed, "batches": seed, "memory": seed}
    how["digests"] = HEX | {"train": f"{order:064x}"}
    write_run(root, f"stream-1/{learner}-1/seed-{seed}", p, **how)  # type: ignore[arg-type]


def panels(figure: Figure) -> dict[str, Axes]:
    """The panel of each title, without the scale of colours."""
    return {axes.get_title(): axes for axes in figure.axes if axes.images and axes.get_title()}


def cells(axes: Axes) -> list[list[float]]:
    """The numbers that a panel shows, in percent."""
    values = np.ma.filled(axes.images[0].get_array(), np.nan)
    return np.asarray(values, dtype=float).tolist()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learners; one is right in one run, and answers with the newest session in the other."""
    place = tmp_path_factory.mktemp("runs")
    write(place, "ncm", 0, answered(TRUTH, RIGHT, GROUPS))
    write(place, "mlp", 0, answered(TRUTH, RIGHT, GROUPS))
    write(place, "mlp", 1, answered(TRUTH, NEWEST, GROUPS))
    return place


def draw(root: Path, session: int | None = None, width: float = WIDTHS["page"]) -> Figure:
    return confusion(collect(root), width, session)


def test_it_is_the_mean_over_runs_in_the_order_of_learning(root: Path) -> None:
    """Of class 2 one run keeps all, the other gives half to 0 and half to 1."""
    expected = [[50, 25, 25], [0, 75, 25], [0, 0, 100]]
    assert cells(panels(draw(root))["mlp"]) == expected


def test_each_learner_has_a_panel(root: Path) -> None:
    assert set(panels(draw(root))) == {"ncm", "mlp"}


def test_classes_that_were_not_learned_are_not_there(root: Path) -> None:
    assert cells(panels(draw(root, 0))["mlp"]) == [[100]]


def test_names_are_in_the_order_of_learning(root: Path) -> None:
    axes = panels(draw(root))["ncm"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["cat", "ant", "bee"]


def test_lines_lie_between_sessions(root: Path) -> None:
    """One after the one class of session 0, in each direction."""
    across, down = panels(draw(root))["mlp"].lines
    assert (list(across.get_ydata()), list(down.get_xdata())) == ([0.5, 0.5], [0.5, 0.5])


def test_sessions_are_numbered_in_the_middle_of_their_classes(root: Path) -> None:
    axes = panels(draw(root))["mlp"]
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert dict(zip(axes.get_xticks(), names, strict=True)) == {0: "0", 1.5: "1"}


@pytest.mark.parametrize(("session", "said"), [(None, "session 1"), (0, "session 0")])
def test_the_axis_says_which_session(root: Path, session: int | None, said: str) -> None:
    assert draw(root, session).get_supxlabel() == f"class given after {said}"


def test_the_axis_says_among_which_classes(root: Path) -> None:
    """Those answers are right in both runs."""
    figure = confusion(collect(root, metrics=["within_accuracy"]), WIDTHS["page"])
    said = "class given among those of its session, after session 1"
    assert figure.get_supxlabel() == said
    assert cells(panels(figure)["mlp"]) == [[100, 0, 0], [0, 100, 0], [0, 0, 100]]


@pytest.mark.parametrize("session", [-1, 2])
def test_a_session_that_there_is_not_is_refused(root: Path, session: int) -> None:
    with pytest.raises(UserError, check=says(what="--session", expected="0 to 1", got=session)):
        draw(root, session)


@pytest.fixture
def other_orders(tmp_path: Path) -> Path:
    """Seed 3 of each learner has the order of `GROUPS`, seed 4 another."""
    others = [[0], [1, 2]]
    truth = [[0, 0], [1, 1, 2, 2]]
    for learner in ("ncm", "mlp"):
        write(tmp_path, learner, 3, answered(TRUTH, RIGHT, GROUPS), order=3)
        answers = [[0, 0, 0, 0, 0, 0], [2, 2, 1, 1, 2, 2]]
        write(tmp_path, learner, 4, answered(truth, answers, others), order=4)
    return tmp_path


def test_of_several_class_orders_one_seed_is_drawn(other_orders: Path) -> None:
    assert cells(panels(draw(other_orders))["mlp"]) == [[100, 0, 0], [0, 100, 0], [0, 0, 100]]


def test_the_axis_says_which_seed(other_orders: Path) -> None:
    assert draw(other_orders).get_supxlabel() == "class given after session 1, seed 3 alone"


def test_learners_without_a_seed_in_common_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "ncm", 3, answered(TRUTH, RIGHT, GROUPS), order=3)
    others = answered([[0, 0], [1, 1, 2, 2]], [[0] * 6, [0] * 6], [[0], [1, 2]])
    write(tmp_path, "mlp", 4, others, order=4)
    with pytest.raises(UserError, match="no seed is common to all"):
        draw(tmp_path)


def bears(root: Path) -> Path:
    """A bear, a bus, and after them two kinds of bears; the learner knows the newest alone."""
    p = label_sets(
        [{0, 2}, {0, 3}, {1}],
        [[{0}, {0}, {1}], [{2}, {0, 2}, {3}]],
        [{0, 1}, {2, 3}],
        [-1, -1, 0, 0],
        [0] * 3,
    )
    write(root, "er", 0, p)
    return root


def test_label_sets_have_the_true_labels_in_front(tmp_path: Path) -> None:
    shown = panels(draw(bears(tmp_path)))
    assert list(shown) == ["true labels", "er"]
    assert cells(shown["true labels"]) == [
        [100, 0, 50, 50],
        [0, 100, 0, 0],
        [100, 0, 100, 0],
        [100, 0, 0, 100],
    ]


def test_label_sets_have_the_share_of_the_samples_with_a_label(tmp_path: Path) -> None:
    """Of two bears both are given 2, and one is a bear."""
    shown = panels(draw(bears(tmp_path)))["er"]
    assert cells(shown) == [[50, 0, 100, 0], [0, 0, 0, 100], [0, 0, 100, 0], [100, 0, 100, 0]]


def test_superclasses_have_no_names_in_a_record(tmp_path: Path) -> None:
    """So that the axis has the sessions instead."""
    axes = panels(draw(bears(tmp_path)))["er"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1"]


def test_answers_that_are_not_there_are_named(root: Path, tmp_path: Path) -> None:
    rows = [row for row in collect(root) if row.learner == "mlp"]
    gone = [type(row)(row.group, row.label, row.used, row.left_out) for row in rows]
    with pytest.raises(UserError, match="the answers of mlp are not there"):
        confusion(gone, 3.25)


def test_guessing_alone_is_no_confusion(tmp_path: Path) -> None:
    keep(tmp_path, make("chance"))
    with pytest.raises(UserError, match="no learner is left to draw"):
        save_figure(collect(tmp_path), "confusion", tmp_path / "a.svg")


def test_names_of_more_than_sixteen_letters_are_cut() -> None:
    run = typed(classes=[["n" * 16, "n" * 17]])
    assert class_names(run, np.array([0, 1])) == ["n" * 16, "n" * 15 + "…"]


@pytest.mark.parametrize(("sessions", "step"), [(12, 1), (13, 2), (25, 3)])
def test_at_most_twelve_sessions_are_numbered(sessions: int, step: int) -> None:
    panel = Figure().add_subplot()
    _mark_sessions(panel, np.arange(sessions))
    labels = [text.get_text() for text in panel.get_xticklabels()]
    assert labels == [str(number) for number in range(0, sessions, step)]


def test_the_command_takes_the_session(root: Path, tmp_path: Path) -> None:
    words = ("report", root, "--figure", "confusion", "--out", tmp_path / "a.svg", "--session", "0")
    assert embedbench(*words).exit_code == 0
    assert "class given after session 0" in (tmp_path / "a.svg").read_text("utf-8")


def test_a_session_is_for_confusion_alone(root: Path, tmp_path: Path) -> None:
    words = ("report", root, "--figure", "matrix", "--out", tmp_path / "a.svg", "--session", "0")
    with pytest.raises(UserError, match="add --figure confusion"):
        raise embedbench(*words).exception  # type: ignore[misc]


def test_runs_of_one_seed_count_once_as_in_the_table(root: Path) -> None:
    """Two runs of seed 0 are one measurement, and the run of seed 1 another."""
    (row,) = (row for row in collect(root) if row.learner == "mlp")
    right, wrong = sorted(row.used, key=lambda run: run.metrics["final_accuracy"], reverse=True)
    again = replace(right, seed=1, seeds=replace(right.seeds, init=1, batches=1, memory=1))
    twice = replace(wrong, seed=right.seed, seeds=right.seeds)
    units = counted_runs(replace(row, used=(right, twice, again)))
    assert [len(unit) for unit in units] == [2, 1]
