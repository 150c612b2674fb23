"""Rows of finished runs, as `Run.row` or a CSV file has them: chosen, and told apart."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from embedbench.config.plain_numbers import plain_number
from embedbench.errors import unknown
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.text.table_export import flatten

from .row_names import NO_NAMES, RowNames, check_apart, plain_name

RowOfRun = Mapping[str, Any]
# Names of a row that are no values of its run.
NAMES = {
    *{"run", "root", "stream", "protocol", "learner", "settings", "learns", "seed", "files"},
    *{"order", "sessions", "n_train", "validation", "score", "flags", "command"},
}
PREFIXES = ("protocol.", "learner.", "seeds.", "environment.", "digests.", "reference.")
STREAM = ("protocol", "files", "score", "digests.recipe", "digests.features", "reference.preset")


def value_names(rows: Sequence[RowOfRun]) -> list[str]:
    """The names in rows that are numbers of runs: metrics, bytes, seconds."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(type(value))
    numbers = [name for name, of in kinds.items() if of <= {int, float, Stat} and name not in NAMES]
    return [name for name in numbers if not name.startswith(PREFIXES)]


def streams(rows: Sequence[RowOfRun]) -> list[str]:
    """The name of each row's stream; different streams have different names."""
    first: dict[tuple[str, ...], RowOfRun] = {}
    for row in rows:
        first.setdefault(_stream_key(row), row)
    each = [(_title(row), _of(row, "protocol.") | _code(row)) for row in first.values()]
    apart = [", ".join(words) for words in differences(each, absent=False)]
    told = [" · ".join(filter(None, (n, a))) for (n, _), a in zip(each, apart, strict=True)]
    names = list(told)
    for i, row in enumerate(first.values()):
        if told.count(told[i]) > 1:
            names[i] += f" ({str(row.get('digests.features'))[:8]} {i})"
    of = dict(zip(first, names, strict=True))
    return [of[_stream_key(row)] for row in rows]


def _stream_key(row: RowOfRun) -> tuple[str, ...]:
    key = tuple(str(row.get(name)) for name in (*STREAM, "stream"))
    return key if "digests.recipe" in row else (*key, str(_of(row, "protocol.")))


def _title(row: RowOfRun) -> str:
    protocol = str(row.get("protocol") or "")
    files = str(row.get("files") or "")
    made = filter(None, [plain_name(protocol), files])
    return str(row.get("stream") or " · ".join(made))


def _code(row: RowOfRun) -> dict[str, str]:
    """Where the protocol is from, which tells two of one name apart."""
    return {"code": str(row["protocol"])} if row.get("protocol") else {}


def settings_apart(rows: Sequence[RowOfRun]) -> list[str]:
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
    if isinstance(wanted, np.ndarray):
        return list(wanted.reshape(-1).tolist())
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


def condition_values(given: Any) -> list[Any]:
    """The values of a condition; those that a file has as decimal numbers are texts there."""
    values = given if isinstance(given, list) else [given]
    numbers = [plain_number(one) for one in values if isinstance(one, str)]
    return [*values, *(number for number in numbers if number is not None)]


# --- labels of rows and streams: a name, and the settings that tell it from its namesakes ---


def labels(
    learners: Sequence[Sequence[RunRecord]], *, short: bool = False, names: RowNames = NO_NAMES
) -> list[str]:
    """A label for each list of runs: the learner's name; for namesakes, what differs, too.

    `short`: a learner of `package.module:Class` is called by its class, see `short_names`.
    `names` are those that somebody gave them.

    Raises
    ------
    UserError
        Two of them would have one name.
    """
    each = [(runs[0].learner, flatten(runs[0].learner_params)) for runs in learners]
    called = {name: name for name, _ in each}
    if short:
        called = short_names(called)
    usual = []
    result = []
    for (name, _), words in zip(each, differences(each), strict=True):
        usual.append(" ".join([called[name], *words]))
        result.append(names.label(name, called[name], words))
    check_apart(usual, result)
    return result


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name → what stands after the `:` of `package.module:Name`, unless another is called so.

    >>> short_names(["ncm", "mine:NCM", "mine:Replay"])
    {'ncm': 'ncm', 'mine:NCM': 'mine:NCM', 'mine:Replay': 'Replay'}
    """
    parts = {name: name.rpartition(":")[2] for name in names}
    taken = Counter(part.lower() for part in parts.values())
    return {name: part if taken[part.lower()] == 1 else name for name, part in parts.items()}


def differences(
    each: Sequence[tuple[str, Mapping[str, Any]]], *, absent: bool = True
) -> list[list[str]]:
    """For each name with its settings, those in which its namesakes differ, as `key=value`.

    `absent` says whether a namesake without a setting differs in it.
    """
    result = []
    for name, settings in each:
        namesakes = [other for n, other in each if n == name]
        apart = []
        for key, mine in settings.items():
            missing = None if absent else mine
            if any(other.get(key, missing) != mine for other in namesakes):
                apart.append(f"{key}={_setting(mine)}")
        result.append(apart)
    return result


def _setting(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, float) else str(setting)
