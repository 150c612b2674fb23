"""Importing a run: answers of another tool on an exported stream become a run like any other."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from embedbench import cache, leases
from embedbench.arrays import digest
from embedbench.disk import remove, temporary_name
from embedbench.errors import UserError, short
from embedbench.scores import record
from embedbench.scores.checked import remember
from embedbench.scores.compare import MISSING
from embedbench.scores.predictions import Predictions, WrongError
from embedbench.scores.run_record import Costs, ImportedAnswers, Package, SessionCosts, UnscoredRun
from embedbench.version import __version__

from .answers import read_answers
from .exported import load
from .publish import publish, set_aside, tidy
from .registry import learner_names
from .stream_file import ExportedStream

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,59}", re.ASCII)
_TOOL = re.compile(r"([A-Za-z0-9][\w.+-]{0,59})==([\w.+-]{1,60})", re.ASCII)


def parse_tool(text: str) -> Package:
    """The tool and its version, written as pip writes them.

    >>> parse_tool("avalanche-lib==0.6.0")
    Package(name='avalanche-lib', version='0.6.0')
    """
    match = _TOOL.fullmatch(text)
    if match is None:
        raise UserError(
            f"name the tool and its version as avalanche-lib==0.6.0 or PILOT==COMMIT, got "
            f"{short(text)}"
        )
    return Package(match[1], match[2])


def import_answers(
    answers: Path,
    stream_directory: Path,
    root: Path,
    *,
    name: str,
    tool: Package,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    overwrite: bool = False,
) -> Path:
    """Score the answers of another tool on an exported stream, and save them as a run.

    Parameters
    ----------
    answers : Path
        The npz file.
    stream_directory : Path
        The exported stream.
    root : Path
        The directory of all runs.
    name : str
        Name of the method, in the place of a learner's.
    tool : Package
        The tool and its version.
    settings : mapping or None
        Settings of the method.
    command : str
        The command that imports it.
    overwrite : bool
        Whether a run of this method on this stream is replaced.

    Returns
    -------
    Path
        The directory of the run.

    Raises
    ------
    UserError
        The answers or the stream cannot be used, or the run is there already.
    """
    if not _NAME.fullmatch(name) or name.replace("_", "-") in learner_names():
        raise UserError(
            f"--name takes up to 60 letters, digits and . _ + - and no name of a learner of "
            f"embedbench, such as avalanche-er; got {short(name)}"
        )
    stream, tests = load(stream_directory)
    try:
        predictions, gave = read_answers(answers, stream, tests)
    except WrongError as e:
        raise UserError(f"{answers}: {e}") from e
    settings = dict(settings or {})
    text = json.dumps(settings, sort_keys=True)
    place = root / stream.directory / f"{name}-{digest(text)[:8]}" / stream.run
    imported = ImportedAnswers(tool=tool, gave=gave, sha256=cache.sha256(answers))
    what = {"learner": name, "learner_params": settings, "imported": imported, "command": command}
    place.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.take(leases.lease_path(place))
    if lease is None:
        raise UserError(f"another process writes {place}; import it again when that has ended")
    with lease:
        tidy(place, root)
        _save(predictions, stream, what, place, root, overwrite)
    return place


def lacks_references(place: Path) -> bool:
    """Whether the reference runs of an imported run are not there."""
    return record.load(place).reference.source == MISSING


def _save(
    predictions: Predictions,
    stream: ExportedStream,
    what: dict[str, Any],
    place: Path,
    root: Path,
    overwrite: bool,
) -> None:
    """Write a run to its place, whose lease is held."""
    if record.is_finished(place) and not overwrite:
        raise UserError(
            f"{place} is there already; give another --name or other --set, or add --overwrite"
        )
    made = temporary_name(place)
    made.mkdir()
    old = None
    try:
        predictions.save(made / record.PREDICTIONS)
        unscored = _unscored(stream, what, cache.sha256(made / record.PREDICTIONS))
        record.save(record.evaluate(unscored, made, root, place), made)
        if record.is_finished(place):
            old = set_aside(place)
        publish(made, place, root)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        if old is not None and old.exists():
            publish(old, place, root)
        raise
    if old is not None:
        remove(old)
    remember(place, root)


def _unscored(stream: ExportedStream, what: dict[str, Any], predictions_sha256: str) -> UnscoredRun:
    """The record of an imported run before it is scored; its costs are not known."""
    shared = {f.name for f in fields(ExportedStream)} & {f.name for f in fields(UnscoredRun)}
    described = {name: getattr(stream, name) for name in shared - {"schema", "sessions"}}
    unknown = {"total": math.nan}
    costs = SessionCosts(math.nan, math.nan, unknown, {})
    made = UnscoredRun(
        **described,
        **what,
        schema=record.SCHEMA,
        learns=True,
        predictions_sha256=predictions_sha256,
        environment={"embedbench": __version__},
        sessions=(costs,) * len(stream.sessions),
        seconds=Costs(math.nan, math.nan),
        footprint=unknown,
    )
    return UnscoredRun.from_json(made.to_json(), "the record of these answers")
