"""The conformance suite: the checks that every learner, protocol and metric must pass.

`embedbench check NAME` runs it, also for code outside the project; the tests run it over everything
in the package. A check is one function. The first line of its docstring says what it demands; it
raises `CheckFailed` if the demand is not met, and `NotApplicable` if it does not apply.
"""

import inspect
import re
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from embedbench import plugins
from embedbench.config.json_records import JsonRecord
from embedbench.errors import CodeExitError, UserError, error_text, unknown
from embedbench.learning.learner import Learner
from embedbench.runs import learner_and_protocol_names as names
from embedbench.scores.metrics import all_metrics
from embedbench.scores.unrecorded_metrics import OutsideMetric
from embedbench.streams.protocol import Protocol
from embedbench.text.terminal_text import fit_width, terminal_width

from . import learner_contract, learner_edge_cases  # noqa: F401  (they fill LEARNER_CHECKS)
from .check_building_blocks import CheckFailed, NotApplicable
from .learner_check_tools import LEARNER_CHECKS, on_device
from .metric_contract import METRIC_CHECKS
from .plugin_contracts import BACKBONE_CHECKS, ENGINE_CHECKS, SOURCE_CHECKS, TRACKER_CHECKS
from .protocol_contract import PROTOCOL_CHECKS

T = TypeVar("T")
_RAISED = re.compile(r"\w+(?:Error|Exception): .+", re.DOTALL)


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
    place : str
        Where code of what is checked raised an error: its file and line; else empty.
    """

    name: str
    demand: str
    passed: bool
    message: str
    seconds: float
    applies: bool = True
    place: str = ""

    @property
    def fault(self) -> tuple[str, str]:
        """What tells its failure from those of other checks.

        One line of code may end many checks, with other numbers in what it says.
        """
        if not self.place:
            return self.message, ""
        kind, _, _ = self.message.partition(":")
        return kind, self.place


def check_text(results: Sequence[CheckResult]) -> str:
    """Results as text: one line per check, each fault once, and how many passed."""
    lines: list[str] = []
    first: dict[tuple[str, str], str] = {}  # by fault, the check that it ended first
    raised: dict[str, tuple[str, str]] = {}  # by what an error says, the fault that said it first
    for r in results:
        said = _RAISED.search(r.message)
        fault = r.fault
        if said is not None:
            of_first = raised.setdefault(said[0], fault)
            if not r.place:  # a check that says more around the same error
                fault = of_first
        if not r.applies:
            lines.append(f"–       {r.name}  (does not apply)")
        elif r.passed:
            lines.append(f"ok      {r.name}  ({r.seconds:.1f} s)")
        elif fault in first:
            lines.append(f"FAILED  {r.name}  ({r.seconds:.1f} s): as {first[fault]}")
        else:
            first[fault] = r.name
            at = f" ({r.place})" if r.place else ""
            lines.append(f"FAILED  {r.name}  ({r.seconds:.1f} s)")
            lines += [f"        demanded: {r.demand}", f"        {r.message}{at}"]
    return fit_width("\n".join([*lines, _total(results, len(first))]), terminal_width())


def _total(results: Sequence[CheckResult], faults: int) -> str:
    """How many checks passed, and how many faults those have that did not."""
    passed = [r.passed for r in results if r.applies]
    failed = passed.count(False)
    rest = len(results) - len(passed)
    total = f"{sum(passed)} of {len(passed)} checks passed"
    if failed > faults:
        total += f", {failed} failed by {faults} " + ("fault" if faults == 1 else "faults")
    if rest:
        total += f", {rest} " + ("does not apply" if rest == 1 else "do not apply")
    return total


def check(name: str, device: str = "cpu", kind: str | None = None) -> list[CheckResult]:
    """Check anything by its name.

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
    kind = kind_of(name, kind)
    if device != "cpu" and kind != "learners":
        raise UserError(f"{name} is checked on no device", f"leave out --device {device}")
    checks, subject, _ = CONTRACTS[kind]
    with on_device(device):
        return run_checks(checks, subject(name))


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


def _place(error: BaseException, subject: object) -> str:
    """The file and the line in which code of a class, or beside it, ended; "" elsewhere."""
    try:
        file = inspect.getsourcefile(subject)  # type: ignore[arg-type]  # of an object: TypeError
    except (TypeError, OSError):
        return ""
    walked = traceback.walk_tb(error.__traceback__)
    numbers = [number for frame, number in walked if frame.f_code.co_filename == file]
    return f"{Path(str(file)).name}, line {numbers[-1]}" if numbers else ""


def _run(check: Callable[[T], None], subject: T) -> CheckResult:
    began = time.perf_counter()
    message = ""
    applies = True
    place = ""
    try:
        check(subject)
    except NotApplicable:
        applies = False
    except CheckFailed as failure:
        message = str(failure)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too, is a failure of this check
        cause = error.__cause__ if isinstance(error, CodeExitError) else None
        left = cause or error
        message = f"{_method(left, subject)}raised {error_text(left)}"
        place = _place(left, subject)
    demand = (inspect.getdoc(check) or "").partition("\n")[0]
    name = check.__name__.replace("_", " ")
    seconds = time.perf_counter() - began
    return CheckResult(name, demand, not message, message, seconds, applies, place)


# --- kinds of names ---


def _metric(name: str) -> Any:
    ours = all_metrics()
    return ours[name] if name in ours else OutsideMetric.load(name).function


# the checks of each kind, what each of them takes, made from a name, and names of ours
Contract = tuple[Sequence[Callable[[Any], None]], Callable[[str], Any], Iterable[str]]
CONTRACTS: dict[str, Contract] = {
    "learners": (LEARNER_CHECKS, names.learner_class, names.our_learners()),
    "protocols": (PROTOCOL_CHECKS, names.protocol_class, names.our_protocols()),
    "metrics": (METRIC_CHECKS, _metric, all_metrics()),
    "backbones": (BACKBONE_CHECKS, str, ("pixels", "log-mel")),
    "sources": (SOURCE_CHECKS, str, ("demo",)),
    "engines": (ENGINE_CHECKS, str, ("local", "local:2", "ray", "slurm")),
    "trackers": (TRACKER_CHECKS, str, ()),
}


def kind_of(name: str, kind: str | None) -> str:
    """The kind of what has a name."""
    if kind is not None:
        if kind not in CONTRACTS:
            raise unknown("kind", kind, CONTRACTS)
        return kind
    head = name.partition("@")[0]  # of a source: the rest is for it
    by_kind = {k: {*ours, *plugins.entry_points_by_name(k)} for k, (*_, ours) in CONTRACTS.items()}
    kinds = [k for k, known in by_kind.items() if {head, head.replace("_", "-")} & known]
    if not kinds and ":" not in head:
        raise unknown("name", head, set[str]().union(*by_kind.values()), more=plugins.YOURS)
    kinds = kinds or _kinds_of_thing(plugins.outside(head))
    if len(kinds) != 1:
        raise UserError(f"say by --kind what {head} is, one of {', '.join(CONTRACTS)}")
    return kinds[0]


def _kinds_of_thing(thing: Any) -> list[str]:
    """The kind of a class; none of a function."""
    from embedbench.extract.backbone import Backbone

    bases = {Learner: "learners", Protocol: "protocols", Backbone: "backbones"}
    if inspect.isclass(thing):
        kinds = [kind for base, kind in bases.items() if issubclass(thing, base)]
        if kinds:
            return kinds
    return ["trackers"] if hasattr(thing, "add_run") else []
