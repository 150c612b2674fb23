"""The conformance suite of `embedbench check NAME --device cuda`, one learner per step."""

from __future__ import annotations

from functools import partial

from embedbench.checks.conformance_suite import LEARNER_CHECKS, run_checks
from embedbench.checks.learner_check_tools import on_device
from embedbench.runs import learner_and_protocol_names
from gpu_parts.answers import each_learner
from gpu_parts.step import Bench, Figure, Step

TOY = 3  # checks per learner in a test


def steps() -> list[Step]:
    """One step per learner."""
    return [
        Step(f"conformance/{name}", 30 if tags.images else 12, partial(hold, name))
        for name, tags in each_learner()
    ]


def hold(name: str, bench: Bench) -> list[Figure]:
    """Run all checks on one learner."""
    cls = learner_and_protocol_names.learner_class(name)
    with on_device(bench.device):
        results = run_checks(LEARNER_CHECKS[: TOY if bench.toy else None], cls)
    failed = [r for r in results if not r.passed]
    figure = f"{len(results) - len(failed)} of {len(results)} passed"
    note = "; ".join(f"{r.name}: {r.message}" for r in failed)
    what, values = f"{name}: checks of the conformance suite", {"failed": [r.name for r in failed]}
    return [Figure(what, figure, "all", not failed, note, values)]
