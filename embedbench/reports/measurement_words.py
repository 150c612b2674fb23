"""What *n* of a row counts, in words."""

from collections.abc import Mapping

from embedbench.scores.run_record import FINAL

from .results import Results


def count_text(measurements: int, runs: int) -> str:
    """A number of measurements; "=3" where three runs with equal answers are one."""
    return f"={runs}" if measurements == 1 < runs else str(measurements)


def describe_measurements(rows: Mapping[str, Results], metric: str = FINAL) -> list[str]:
    """Say what n counts and ± is over, of rows by label whose runs are not seeds each."""
    shared: dict[str, list[str]] = {}
    equal = list[str]()
    fewer = list[str]()
    for label, runs in rows.items():
        counted = len(runs.measurements(metric))
        if counted == 1 < len(runs):
            equal.append(f"{label} (={len(runs)})")
        elif counted < len(runs):
            fewer.append(f"{label} {counted} of {len(runs)}")
        elif runs.varied not in ("", "seeds"):
            shared.setdefault(runs.varied, []).append(label)
    lines = [
        f"± of {', '.join(labels)}: over {varied} alone, the others are the same in all runs"
        for varied, labels in shared.items()
    ]
    if fewer:
        what = "runs that share a seed, or gave equal answers, are one measurement"
        lines.append(f"n of {', '.join(fewer)} runs: {what}")
    if equal:
        lines.append(f"=: runs with equal answers, one measurement: {', '.join(equal)}")
    return lines
