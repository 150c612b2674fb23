"""What `embedbench run` asks for: a study file, and the options over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from embedbench.engines.task import pairs
from embedbench.errors import UserError
from embedbench.files.remote.uri import as_written

from .shared_options import check_free

if TYPE_CHECKING:
    from embedbench.studies.study import Study

# Options that mean one key of a study each.
SINGLE = (
    *("preset", "trunk", "weights", "augment", "tune_sessions", "budget_mb"),
    *("engine", "resources", "threads", "device"),
)


def parse_study(ctx: typer.Context, **more: str) -> Study:
    """The study of a command line: what `--config` says, and the options over it.

    `more` are options that the command does not have.
    """
    from embedbench.studies.study import Study
    from embedbench.studies.study_file import read_study
    from embedbench.studies.study_runs import parts

    given = {k: v for k, v in ctx.params.items() if _is_given(ctx, k) and v is not None} | more
    if isinstance(given.get("learner"), list):
        given["learner"] = ",".join(given["learner"])
    if given.get("allow_code") and "config" not in given:
        raise UserError("--allow-code is for a study file; add --config STUDY, or leave it out")
    study = Study()
    if "config" in given:
        study = read_study(given["config"], allow_code=bool(given.get("allow_code")))
    study = study.under(_flags(given))
    parts(study)  # refuses what lacks a file, a protocol or a learner
    return study


def save(study: Study, path: Path, overwrite: bool) -> None:
    """Write a study file, after all of the study's cells are planned."""
    from embedbench.storage.atomic_write import write_safely
    from embedbench.studies.study_file import study_text
    from embedbench.studies.study_runs import alone, parts

    check_free(path, overwrite)
    for part in parts(study):
        part.cells()
    write_safely(path, study_text(alone(study)))


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _flags(given: Mapping[str, Any]) -> Study:
    """The options alone as a study."""
    from embedbench.studies.set_options import key_value
    from embedbench.studies.study import Study

    if "seed" in given and "seeds" in given:
        raise UserError("give --seed or --seeds, not both")
    values = {name: given[name] for name in SINGLE if name in given}
    if "jobs" in given and "engine" not in given:
        values["engine"] = f"local:{given['jobs']}"
    if files := given.get("files"):
        values["files"] = (tuple(map(as_written, files)),)
        _check_words(values["files"][0], given.get("learner", ""))
    for name, option in (("protocols", "protocol"), ("orders", "order")):
        values[name] = (given[option],) if given.get(option) else ()
    for name, option in (("learners", "learner"), ("vary", "vary")):
        values[name] = _names(given.get(option, ""))
    if "learner" in given and not values["learners"]:
        raise UserError("--learner names no learner; give one or more, with commas")
    if "seed" in given or "seeds" in given:
        values["seeds"] = given.get("seeds", str(given.get("seed")))
    values["set"] = dict(map(key_value, given.get("settings", ())))
    values["tune"] = dict(_list(item) for item in given.get("tune", ()))
    values["engine_set"] = pairs("--engine-set", given.get("engine_set", ()))
    return Study(**values)


def _check_words(files: Sequence[str], learner: str) -> None:
    """Refuse `--learner ncm slda`, which makes a file of the second name."""
    from embedbench.runs.class_registry import learner_names

    names = [f for f in files if not Path(f).exists() and f in learner_names()]
    if names:
        listed = ",".join([learner, *names])
        raise UserError(f"--learner takes names with commas between them: --learner {listed}")


def _list(item: str) -> tuple[str, Sequence[str]]:
    """The key and the values of `--tune key=value,value`."""
    key, _, values = item.partition("=")
    listed = tuple(v.strip() for v in values.split(",") if v.strip())
    if not key or not listed:
        raise UserError(f"--tune takes name=value,value, such as mlp.lr=0.1,0.01; got {item!r}")
    return key, listed


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
