"""Runs on one stream, as `embedbench run` plans them."""

from collections.abc import Iterable, Sequence
from typing import Any

from embedbench.runs.run_spec import RunSpec
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings


def plan(
    files: Sequence[str],
    protocol: str,
    learners: Sequence[str],
    seeds: Iterable[int],
    items: Iterable[str] = (),
    *,
    preset: str | None = None,
    unknown: str | None = None,
    **how: Any,
) -> list[RunSpec]:
    """Learners × seeds, with the items of `--set`; `how` is for `resolve`."""
    study = Study(
        files=(tuple(files),),
        protocols=(protocol,),
        learners=tuple(learners),
        seeds=tuple(seeds),
        preset=preset,
        unknown=unknown,
        set=parse_settings(items),
    )
    return resolve(study, **how)
