"""The confusion matrix of each learner, its classes in the order in which they were learned."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embedbench.array_types import Floats, Ints
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.confusion_matrix import learned_sessions
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import RunRecord
from embedbench.scores.score_matrix import mean_of_known

from .figure_style import STYLE, words
from .result_rows import Row
from .score_figures import draw_maps

TRUTH = "true labels"  # the title of what a learner gets that is always right
BORDER: Any = {"color": "white", "linewidth": 0.5, "alpha": 0.8}  # between sessions
NAME_STEP, NAME_SIZE = 0.075, 5.5  # inches of a class that has a name, and points of that
LETTER = 0.042  # inches of its letters
LONGEST = 16  # letters of a name
MOST_TICKS = 12
ROOM, LARGEST = 1.15, 2.2  # inches beside the panels, and of a panel among several


class Confusion(NamedTuple):
    """What one run answered after a session, its classes in the order of learning."""

    answers: Floats  # (k, k) shares of each true class that were given each class
    truth: Floats  # (k, k) of the true labels
    classes: Ints  # (k,) numbers of the classes in the file
    sessions: Ints  # (k,) that brought them; equal ones are neighbours


Reader = Callable[[Path, RunRecord], Confusion | None]


Units = list[list[Confusion]]  # of each measurement, of each of its runs


def confusion(
    rows: Sequence[Row],
    width: float,
    session: int | None = None,
    reader: Reader | None = None,
) -> Figure:
    """The confusion matrix of each learner after a session, a mean over its runs.

    Classes have the order of their sessions, and in a session that of the file. Where runs have
    other class orders than others, a mean over them is of no class: the first seed that all
    learners have is drawn alone, and the axis says so. Label sets have the true labels in front.

    Parameters
    ----------
    session : int or None
        From 0; None is the last.
    reader : callable or None
        The matrix of a run after this session, if it is known already.

    Raises
    ------
    UserError
        There is no such session, or the answers of a run cannot be read.
    """
    rows = [row for row in rows if row.used and row.learns]
    if not rows:
        raise UserError("no learner is left to draw: guessing has no confusion matrix")
    last = rows[0].group.sessions - 1
    session = last if session is None else session
    if not 0 <= session <= last:
        raise UserError("--session", expected=f"0 to {last}", got=session)
    units = {row.label: counted_runs(row) for row in rows}
    made = {
        row.label: [
            [read_confusion(row, run, session, reader) for run in unit] for unit in units[row.label]
        ]
        for row in rows
    }
    among = " among those of its session," if rows[0].group.score.startswith("within_") else ""
    given = f"class given{among} after session {session}"
    if not _are_alike(_flat(made)):
        seed = first_common_seed(rows)
        given += f", seed {seed} alone"
        made = {label: _of_seed(units[label], each, seed) for label, each in made.items()}
    every = _flat(made)
    if not _are_alike(every):
        raise UserError(f"the runs of seed {seed} differ in the class order", "report one learner")
    maps = {
        label: _mean([[one.answers for one in unit] for unit in each])
        for label, each in made.items()
    }
    truth = _mean([[one.truth] for one in every])
    if np.nanmax(truth - np.eye(len(truth)), initial=0.0) > 0:
        maps = {TRUTH: truth, **maps}
    names = class_names(rows[0].used[0], every[0].classes)
    return _draw(maps, every[0].sessions, names, width, given)


def read_confusion(
    row: Row,
    run: RunRecord,
    session: int,
    reader: Reader | None = None,
) -> Confusion:
    """The confusion matrix of one run of a row."""
    place = row.place_of(run)
    if place is None:
        raise UserError(
            f"the answers of {row.label} are not there, which a confusion matrix is made of",
            "name the directory that has their predictions.h5",
        )
    if reader is None:
        answers = record_files.read_predictions(place, run)
        made = confusion_of(answers, row.group.score, session)
    else:
        made = reader(place, run)
    if made is None:
        raise UserError(f"{row.label} does not answer with classes", "--figure matrix draws R")
    return made


def confusion_of(answers: RunAnswers, score: str, session: int) -> Confusion | None:
    """The confusion matrix of some answers after a session; None of others than classes."""
    moment = int(answers.ends[session])
    shares = answers.confusion(score, moment)
    truth = answers.confusion(score, moment, truth=True)
    if shares is None or truth is None:
        return None
    learned = learned_sessions(answers.seen[answers.ends[: session + 1]])
    order = order_of_learning(learned)
    square = np.ix_(order, order)
    return Confusion(shares[square], truth[square], order, learned[order])


def order_of_learning(learned: Ints) -> Ints:
    """The classes that were seen, by their (C,) sessions; those of one session as in the file.

    >>> order_of_learning(np.array([1, 0, -1, 0, 1])).tolist()
    [1, 3, 0, 4]
    """
    order: Ints = np.argsort(learned, kind="stable")
    return order[learned[order] >= 0]


def counted_runs(row: Row) -> list[list[RunRecord]]:
    """The runs of each measurement of the row's means: those of one seed; equal answers once."""
    return [
        [result.record for result in unit if result.record is not None]
        for unit in row.results.measured
    ]


def _of_seed(units: Sequence[Sequence[RunRecord]], made: Units, seed: int) -> Units:
    """What was made of the runs with one seed."""
    kept = []
    for runs, ones in zip(units, made, strict=True):
        kept.append([one for run, one in zip(runs, ones, strict=True) if run.seed == seed])
    return [unit for unit in kept if unit]


def _flat(made: Mapping[str, Units]) -> list[Confusion]:
    return [one for each in made.values() for unit in each for one in unit]


def _seeds(row: Row) -> set[int]:
    return {run.seed for unit in counted_runs(row) for run in unit}


def first_common_seed(rows: Sequence[Row]) -> int:
    """The smallest seed that every row has a run of."""
    common = set.intersection(*(_seeds(row) for row in rows))
    if not common:
        names = ", ".join(row.label for row in rows)
        raise UserError(
            f"{names}: runs have other class orders, and no seed is common to all",
            "run them with the same seeds, or report one learner",
        )
    return min(common)


def class_names(run: RunRecord, classes: Ints) -> list[str]:
    """The names of some classes; empty where a record does not name all, as those of superclasses.

    Long ones are cut.
    """
    names = [name for names in run.classes for name in names]
    if len(classes) and classes.max() >= len(names):
        return []
    cut = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    return [words(cut[number]) for number in classes]


def _mean(units: Sequence[Sequence[Floats]]) -> Floats:
    """The mean over measurements, each the mean of its runs, of what is defined."""
    each = [mean_of_known(np.array(unit), axis=0) for unit in units]
    return mean_of_known(np.array(each), axis=0)


def _are_alike(every: Sequence[Confusion]) -> bool:
    """Whether all have the same classes in the same places, from the same sessions."""
    first = every[0]
    return all(
        np.array_equal(one.classes, first.classes) and np.array_equal(one.sessions, first.sessions)
        for one in every
    )


@rc_context(STYLE)
def _draw(
    maps: dict[str, Floats], sessions: Ints, names: Sequence[str], width: float, given: str
) -> Figure:
    """Draw matrices of one order with lines between sessions; `names` may be empty."""
    true = "true class, by session"
    room = ROOM
    most = 2 * round(width / 3.25)
    longest = max(map(len, names), default=0) * LETTER
    if (width - room - longest) / min(len(maps), most) >= NAME_STEP * len(sessions) and names:
        true = "true class"
        room = room + longest
    else:
        names = ()
    figure = draw_maps(
        maps,
        width,
        "% of the row",
        axes_names=(true, given),
        room=room,
        largest=LARGEST,
        most=most,
    )
    borders = np.flatnonzero(np.diff(sessions)) + 0.5
    for panel in figure.axes[: len(maps)]:
        for border in borders:
            panel.axhline(border, **BORDER)
            panel.axvline(border, **BORDER)
        _mark_sessions(panel, sessions)
        if names:
            panel.set_yticks(range(len(names)), names, fontsize=NAME_SIZE)
    return figure


def _mark_sessions(panel: Axes, sessions: Ints) -> None:
    """Number the sessions on both axes, each in the middle of its classes."""
    numbers = np.unique(sessions)
    numbers = numbers[:: -(-len(numbers) // MOST_TICKS)]
    middles = [float(np.flatnonzero(sessions == number).mean()) for number in numbers]
    panel.set_xticks(middles, [str(number) for number in numbers])
    panel.set_yticks(middles, [str(number) for number in numbers])
