"""One long table of finished runs: a row for each value of each run.

It is made from the rows of runs (`Run.row`), or from a CSV file that has such rows; curves and R
come from whole records, which are read when they are asked for. Whatever shows results is a
selection of it.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Array, Floats, Ints
from embedbench.config.json_records import INTEGERS
from embedbench.errors import UserError, unknown
from embedbench.scores.run_record import RunRecord
from embedbench.storage.regular_files import read_text
from embedbench.text.table_export import flatten

if TYPE_CHECKING:
    import pandas

Texts = NDArray[np.object_]
RowOfRun = Mapping[str, Any]
MOST = 2**28  # bytes of a CSV file
ALL = -1  # the eval set of a value over all classes seen
CURVES = ("R", "pooled")  # what every record has beside its named curves
# Names of a row that are no values of its run.
NAMES = {
    *{"run", "root", "stream", "protocol", "learner", "settings", "learns", "seed", "files"},
    *{"order", "sessions", "n_train", "validation", "score", "flags", "command"},
}
PREFIXES = ("protocol.", "learner.", "seeds.", "environment.", "digests.", "reference.")
STREAM = ("protocol", "files", "score", "digests.recipe", "digests.features", "reference.preset")


@dataclass(frozen=True, eq=False, repr=False)
class LongTable:
    """(rows,) Values of runs, an array for each column.

    Parameters
    ----------
    stream, learner, settings : array of str
        The stream's protocol and files, with the settings in which streams of one title differ;
        the learner's name, and the settings in which the learners of one name differ.
    seed, moment, eval_set : array of int
        The run's seed; the session after which the value was measured, from 0; the eval set, -1
        for all.
    metric : array of str
        The name of the value; "R" has one for each moment and eval set, "pooled" one a moment.
    value : array of float
        Fractions, seconds, bytes; NaN where undefined.
    run : array of int
        The number of the run among those that the table was made of.
    """

    stream: Texts
    learner: Texts
    settings: Texts
    seed: Ints
    moment: Ints
    eval_set: Ints
    metric: Texts
    value: Floats
    run: Ints

    @classmethod
    def of(
        cls,
        rows: Sequence[RowOfRun],
        names: Sequence[str] = (),
        record: Callable[[int], RunRecord] | None = None,
    ) -> Self:
        """The table of some runs, a row of `rows` each; `record` gives a run's whole record.

        `names` are metrics, costs, curves, "pooled" or "R"; none: all metrics and costs.

        Raises
        ------
        UserError
            No run has a value of such a name.
        """
        known = value_names(rows)
        cells: list[_Cell] = []
        for name in names or known:
            found = [*_ends(rows, name)] if name in known else []
            if record and name not in known:
                found = [cell for i in range(len(rows)) for cell in _by_moment(record(i), i, name)]
            if rows and not found:
                raise unknown("value of the runs", name, [*known, *(CURVES if record else ())])
            cells += found
        run, moment, eval_set = (np.array([c[k] for c in cells], np.int64) for k in range(3))
        metric = np.array([cell[3] for cell in cells], dtype=object)
        value = np.array([cell[4] for cell in cells], dtype=np.float64)
        stream, settings = (np.array(v, dtype=object) for v in (streams(rows), _settings(rows)))
        learner = np.array([row["learner"] for row in rows], dtype=object)
        seed = np.array([row["seed"] for row in rows], dtype=np.int64)
        of_run = (stream[run], learner[run], settings[run], seed[run])
        return cls(*of_run, moment, eval_set, metric, value, run)

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        """Its size and the names of its values."""
        return f"<{len(self):,} values: {', '.join(dict.fromkeys(self.metric.tolist()))}>"

    def where(self, **conditions: Any) -> Self:
        """The part where columns have these values, or one of a list of values."""
        keep = np.ones(len(self), dtype=np.bool_)
        for name, wanted in conditions.items():
            if name not in columns_of(self):
                raise unknown("column", name, columns_of(self))
            keep &= np.isin(getattr(self, name), _several(wanted))
        return type(self)(*(values[keep] for values in columns_of(self).values()))

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a data frame; needs pandas."""
        return need_pandas().DataFrame(columns_of(self))


def columns_of(table: LongTable) -> dict[str, Array]:
    """The columns of a table by name."""
    return {f.name: getattr(table, f.name) for f in fields(table)}


def need_pandas() -> Any:
    """pandas, or one sentence on how to get it."""
    try:
        import pandas as pd
    except ImportError:
        raise UserError(
            "to_pandas needs pandas; pip install 'embedbench-cl[pandas]'; rows() needs nothing"
        ) from None
    return pd


_Cell = tuple[int, int, int, str, float]  # run, moment, eval set, metric, value


def _ends(rows: Sequence[RowOfRun], name: str) -> Iterator[_Cell]:
    """A value of each run after its last session."""
    for run, row in enumerate(rows):
        if name in row:
            yield run, row.get("sessions", 1) - 1, ALL, name, row[name]


def _by_moment(made: RunRecord, run: int, name: str) -> Iterator[_Cell]:
    """A curve of a run, or its R."""
    if name == "R":
        for moment, scores in enumerate(made.R):
            yield from ((run, moment, j, name, score) for j, score in enumerate(scores))
        return
    curve = made.pooled if name == "pooled" else (made.curves or {}).get(name, ())
    yield from ((run, moment, ALL, name, score) for moment, score in enumerate(curve))


def value_names(rows: Sequence[RowOfRun]) -> list[str]:
    """The names in rows that are numbers of runs: metrics, bytes, seconds, joules."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(type(value))
    numbers = [name for name, of in kinds.items() if of <= {int, float} and name not in NAMES]
    return [name for name in numbers if not name.startswith(PREFIXES)]


def streams(rows: Sequence[RowOfRun]) -> list[str]:
    """The name of each row's stream; different streams have different names."""
    keys = [_stream_key(row) for row in rows]
    first = dict(zip(reversed(keys), reversed(rows), strict=True))
    order = list(dict.fromkeys(keys))
    each = [(_title(first[key]), _of(first[key], "protocol.")) for key in order]
    apart = [", ".join(words) for words in differences(each, absent=False)]
    names = [" · ".join(filter(None, (n, a))) for (n, _), a in zip(each, apart, strict=True)]
    for i, key in enumerate(order):
        if names.count(names[i]) > 1:
            names[i] += f" ({str(first[key].get('digests.features'))[:8]} {i})"
    of = dict(zip(order, names, strict=True))
    return [of[key] for key in keys]


def _stream_key(row: RowOfRun) -> tuple[str, ...]:
    key = tuple(str(row.get(name)) for name in (*STREAM, "stream"))
    return key if "digests.recipe" in row else (*key, str(_of(row, "protocol.")))


def _title(row: RowOfRun) -> str:
    made = (str(row[name]) for name in ("protocol", "files") if row.get(name))
    return str(row.get("stream") or " · ".join(made))


def _settings(rows: Sequence[RowOfRun]) -> list[str]:
    """The settings in which a row's learner differs from its namesakes."""
    each = [(str(row["learner"]), _of(row, "learner.")) for row in rows]
    keys = [(name, str(settings)) for name, settings in each]
    first = dict(zip(keys, each, strict=True))
    of = dict(zip(first, differences(list(first.values())), strict=True))
    return [
        " ".join(filter(None, [row.get("settings"), *of[key]]))
        for row, key in zip(rows, keys, strict=True)
    ]


def _of(row: RowOfRun, prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in row.items() if k.startswith(prefix)}


def _several(wanted: Any) -> list[Any]:
    return list(wanted) if isinstance(wanted, list | tuple | set | range) else [wanted]


def matching(rows: Sequence[RowOfRun], conditions: Mapping[str, Any]) -> list[bool]:
    """Whether each row has these values, or one of a list of values."""
    wanted = {name: _several(values) for name, values in conditions.items()}
    for name in wanted:
        if rows and not any(name in row for row in rows):
            raise unknown("name in the rows", name, {key for row in rows for key in row})
    return [
        all(name in row and row[name] in values for name, values in wanted.items()) for row in rows
    ]


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file with a line for each run and the names of `Run.row`."""
    text = read_text(path, most=MOST)
    try:
        lines = csv.DictReader(text.splitlines(), restkey="", restval="")
        rows = [{name: _value(v) for name, v in line.items() if name and v} for line in lines]
    except csv.Error as e:
        raise UserError(f"{path} is not CSV ({e})") from None
    if not rows or not all(map(_is_run, rows)):
        raise UserError(
            f"{path} must have a line for each run, with learner and seed, a whole number; the "
            "names of its columns are those of docs/results_as_data.md"
        )
    return rows


def _is_run(row: RowOfRun) -> bool:
    numbers = row.get("seed"), row.get("sessions", 1)
    whole = all(type(number) is int and 0 <= number < INTEGERS for number in numbers)
    return whole and isinstance(row.get("learner"), str)


def _value(text: str) -> Any:
    """A cell of a CSV file: true, false and numbers as such."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


# --- labels of rows and streams: a name, and the settings that tell it from its namesakes ---


def labels(learners: Sequence[Sequence[RunRecord]]) -> list[str]:
    """A label for each list of runs: the learner's name; for namesakes, what differs, too."""
    each = [(runs[0].learner, flatten(runs[0].learner_params)) for runs in learners]
    apart = differences(each)
    return [" ".join([name, *words]) for (name, _), words in zip(each, apart, strict=True)]


def differences(
    each: Sequence[tuple[str, Mapping[str, Any]]], *, absent: bool = True
) -> list[list[str]]:
    """For each name with its settings, those in which its namesakes differ, as `key=value`.

    `absent` says whether a namesake without a setting differs in it.
    """
    result = []
    for name, settings in each:
        same = [other for n, other in each if n == name]
        keys = [
            k
            for k, mine in settings.items()
            if any(other.get(k, None if absent else mine) != mine for other in same)
        ]
        result.append([f"{k}={_setting(settings[k])}" for k in keys])
    return result


def _setting(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, float) else str(setting)
