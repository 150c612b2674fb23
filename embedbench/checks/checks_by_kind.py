"""What a name means to `embedbench check`: its kind, and the checks of that kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from embedbench import plugins
from embedbench.errors import UserError, unknown
from embedbench.learning.learner import Learner
from embedbench.runs import class_registry
from embedbench.scores.metrics import all_metrics
from embedbench.scores.plugin_metrics import OutsideMetric, takes_scores
from embedbench.streams.protocol import Protocol

CALLS = ("cell_started", "session", "cell_done", "close")  # of a tracker
BACKBONES = ("pixels", "log-mel")  # ours that compute rows


def kind_of(name: str, kind: str | None) -> str:
    """The kind of what has a name.

    Raises
    ------
    UserError
        Nothing has the name, or several kinds have it.
    """
    if kind is not None:
        if kind not in plugins.KINDS:
            raise unknown("kind", kind, plugins.KINDS)
        return kind
    head = name.partition("@")[0]  # of a source: the rest is for it
    by_kind = _names()
    plain = {head, head.replace("_", "-")}
    kinds = [k for k, names in by_kind.items() if plain & names]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise UserError(f"{head} is in {', '.join(kinds)}; say which with --kind")
    if ":" not in head:
        known = {name for names in by_kind.values() for name in names}
        error = unknown("name", head, [*known, "metrics"])
        raise UserError(f"{error} Code of yours is named {plugins.BY_PATH}.")
    return _kind_of_thing(head, plugins.outside(head))


def _names() -> dict[str, set[str]]:
    """All names that can be checked, by kind."""
    ours = {
        "learners": class_registry.our_learners(),
        "protocols": class_registry.our_protocols(),
        "metrics": all_metrics(),
        "backbones": BACKBONES,
        "sources": ("demo",),
        "engines": ("local", "local:2", "ray", "slurm"),
    }
    return {
        kind: {*ours.get(kind, ()), *plugins.entry_points_by_name(kind)} for kind in plugins.KINDS
    }


def _kind_of_thing(name: str, thing: Any) -> str:
    """The kind of an object, by its class or by the arguments that it takes."""
    from embedbench.extract.backbone import Backbone

    bases = {Learner: "learners", Protocol: "protocols", Backbone: "backbones"}
    for base, kind in bases.items():
        if inspect.isclass(thing) and issubclass(thing, base):
            return kind
    if all(hasattr(thing, call) for call in CALLS):
        return "trackers"
    if takes_scores(thing):
        return "metrics"
    raise UserError(
        f"{name} is no learner, protocol, backbone, metric or tracker; say what it is with --kind, "
        f"one of {', '.join(plugins.KINDS)}"
    )


def contract(kind: str, name: str) -> tuple[Sequence[Callable[[Any], None]], Any]:
    """The checks of a kind, and what each of them takes; not of learners and protocols."""
    if kind == "metrics":
        from .metric_contract import METRIC_CHECKS

        ours = all_metrics()
        return METRIC_CHECKS, ours[name] if name in ours else OutsideMetric.load(name).function
    if kind == "backbones":
        from . import backbone_contract

        return backbone_contract.BACKBONE_CHECKS, backbone_contract.BackboneSubject(name)
    if kind == "sources":
        from . import plugin_contracts

        return plugin_contracts.SOURCE_CHECKS, plugin_contracts.SourceSubject(name)
    if kind == "engines":
        from .plugin_contracts import ENGINE_CHECKS

        return ENGINE_CHECKS, name
    if kind == "trackers":
        from . import plugin_contracts

        return plugin_contracts.TRACKER_CHECKS, plugin_contracts.TrackerSubject(name)
    raise UserError(f"{name}: {kind} are checked by themselves")
