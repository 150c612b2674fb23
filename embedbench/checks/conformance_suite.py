"""The conformance suite: the checks that every learner, protocol and metric must pass.

`embedbench check NAME` runs it, also for code outside the project; the tests run it over everything
in the package. A check is one function. The first line of its docstring says what it demands; it
raises `CheckFailed` if the demand is not met, and `NotApplicable` if it does not apply.
"""

import dataclasses
import inspect
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from embedbench import plugins
from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError, unknown
from embedbench.learning.learner import Learner
from embedbench.runs import learner_and_protocol_names
from embedbench.scores.metrics import all_metrics
from embedbench.scores.unrecorded_metrics import OutsideMetric, takes_scores
from embedbench.streams.protocol import Protocol
from embedbench.text.terminal_text import fit_width, terminal_width

from . import learner_edge_cases  # noqa: F401  (with what it imports it fills LEARNER_CHECKS)
from .backbone_contract import BACKBONE_CHECKS, BackboneSubject
from .check_building_blocks import CheckFailed, NotApplicable
from .engine_contract import ENGINE_CHECKS
from .learner_check_tools import LEARNER_CHECKS, on_device
from .metric_contract import METRIC_CHECKS
from .protocol_contract import PROTOCOL_CHECKS
from .source_contract import SOURCE_CHECKS, SourceSubject
from .tracker_contract import TRACKER_CHECKS, TrackerSubject

T = TypeVar("T")
SEVERAL = 3  # checks that end with one error are listed together
ERROR = r"(\w+ )?raised \w+: "
CALLS = ("cell_started", "session", "cell_done", "close")  # of a tracker
BACKBONES = ("pixels", "log-mel")  # ours that compute rows


@dataclass(frozen=True)
class CheckResult(JsonRecord):
    """The result of one check.

    Parameters
    ----------
    demand : str
        What the check demands, one sentence.
    message : str
        What came instead; empty if the check passed.
    applies : bool
        Whether the check applies to this learner or protocol; if not, it passed.
    """

    name: str
    demand: str
    passed: bool
    message: str
    seconds: float
    applies: bool = True

    @property
    def error(self) -> bool:
        """Whether an error ended the check."""
        return not self.passed and bool(re.match(ERROR, self.message))


def check_text(results: Sequence[CheckResult]) -> str:
    """Results as text: one line per check, the message if it failed, and how many passed.

    An error that ended several checks comes first and once, with their names.
    """
    errors = [r.message for r in results if r.error]
    lines, often = [], {e: n for e, n in Counter(errors).most_common() if n >= SEVERAL}
    for message, n in often.items():
        names = ", ".join(r.name for r in results if r.message == message)
        lines += [f"{n} checks could not run: {message}", f"        {names}", ""]
    for r in results:
        if r.message in often:
            continue
        if not r.applies:
            lines.append(f"–       {r.name}  (does not apply)")
            continue
        lines.append(f"{'ok    ' if r.passed else 'FAILED'}  {r.name}  ({r.seconds:.1f} s)")
        if not r.passed:
            lines += [f"        demanded: {r.demand}", f"        {r.message}"]
    asked = [r.passed for r in results if r.applies]
    rest = len(results) - len(asked)
    total = f"{sum(asked)} of {len(asked)} checks passed"
    total += f", {rest} {'does' if rest == 1 else 'do'} not apply" if rest else ""
    return fit_width("\n".join([*lines, total]), terminal_width())


def check(name: str, device: str = "cpu", kind: str | None = None) -> list[CheckResult]:
    """Check anything by its name, or all our metrics by the name "metrics".

    Parameters
    ----------
    name : str
        As on the command line: a learner, protocol, metric, backbone, source, engine or tracker;
        what is from outside by its entry point or as `package.module:Name`.
    device : str
        Device of a learner; nothing else is given one.
    kind : str or None
        One of `plugins.KINDS`; None: the one that has the name.
    """
    kind = "metrics" if name == "metrics" else kind_of(name, kind)
    if device != "cpu" and kind != "learners":
        raise UserError(f"{name} is checked on no device; leave out --device {device}")
    if kind == "learners":
        return check_learner(name, device)
    if name != "metrics":
        return run_checks(*contract(kind, name))
    return [
        dataclasses.replace(r, name=f"{each}: {r.name}")
        for each, metric in all_metrics().items()
        for r in run_checks(METRIC_CHECKS, metric)
    ]


def check_learner(learner: str | type[Learner], device: str = "cpu") -> list[CheckResult]:
    """Run every check for learners on a learner, given by name or class, on a device."""
    cls = learner_and_protocol_names.learner_class(learner) if isinstance(learner, str) else learner
    with on_device(device):
        return run_checks(LEARNER_CHECKS, cls)


def run_checks(checks: Iterable[Callable[[T], None]], subject: T) -> list[CheckResult]:
    """Run checks one after the other; an error inside a check counts as its failure."""
    return [_run(c, subject) for c in checks]


def _method(error: BaseException, subject: object) -> str:
    """The method of a class that was called last before an error, and a space."""
    names = [
        frame.f_code.co_name
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if isinstance(subject, type) and isinstance(frame.f_locals.get("self"), subject)
    ]
    return f"{names[0]} " if names else ""


def _run(check: Callable[[T], None], subject: T) -> CheckResult:
    began = time.perf_counter()
    message, applies = "", True
    try:
        check(subject)
    except NotApplicable:
        applies = False
    except CheckFailed as failure:
        message = str(failure)
    except Exception as error:
        message = f"{_method(error, subject)}raised {type(error).__name__}: {error}"
    demand = (inspect.getdoc(check) or "").partition("\n")[0]
    name = check.__name__.replace("_", " ")
    seconds = time.perf_counter() - began
    return CheckResult(name, demand, not message, message, seconds, applies)


# --- kinds of names ---


def kind_of(name: str, kind: str | None) -> str:
    """The kind of what has a name."""
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
        "learners": learner_and_protocol_names.our_learners(),
        "protocols": learner_and_protocol_names.our_protocols(),
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
    """The checks of a kind, and what each of them takes; not of learners."""
    contracts: dict[str, tuple[Sequence[Callable[[Any], None]], Callable[[str], Any]]] = {
        "protocols": (PROTOCOL_CHECKS, learner_and_protocol_names.protocol_class),
        "metrics": (METRIC_CHECKS, _metric),
        "backbones": (BACKBONE_CHECKS, BackboneSubject),
        "sources": (SOURCE_CHECKS, SourceSubject),
        "engines": (ENGINE_CHECKS, str),
        "trackers": (TRACKER_CHECKS, TrackerSubject),
    }
    checks, subject = contracts[kind]
    return checks, subject(name)


def _metric(name: str) -> Any:
    ours = all_metrics()
    return ours[name] if name in ours else OutsideMetric.load(name).function
