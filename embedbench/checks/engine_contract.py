"""The checks for engines, ours and those of plug-ins."""

from collections.abc import Iterator
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager

from embedbench.engines.engine import Engine

from .check_building_blocks import CheckFailed, Checks, applies_where, demand

TASKS = 5
PATIENCE = 300  # seconds for all tasks of a check

ENGINE_CHECKS = Checks[str]()


@contextmanager
def _executor(name: str) -> Iterator[Executor]:
    """The executor of an engine; `NotApplicable` if this process does the work itself."""
    with Engine.parse(name).executor(TASKS) as executor:
        applies_where(executor is not None)
        assert executor is not None
        yield executor


def square(number: int) -> int:
    """A task."""
    return number * number


def fail(number: int) -> int:
    """A task that raises."""
    raise ValueError(f"task {number} is meant to fail")


@ENGINE_CHECKS.add
def tasks_are_run(name: str) -> None:
    """Every task runs once, and its result comes back."""
    with _executor(name) as executor:
        tasks = {executor.submit(square, i): i for i in range(TASKS)}
        got = {tasks[done]: done.result() for done in as_completed(tasks, timeout=PATIENCE)}
    demand(got == {i: i * i for i in range(TASKS)}, f"expected the squares of 0 to 4, got {got}")


@ENGINE_CHECKS.add
def errors_come_back(name: str) -> None:
    """The error of a task comes back as it was raised, and other tasks go on."""
    with _executor(name) as executor:
        bad, good = executor.submit(fail, 3), executor.submit(square, 3)
        try:
            value = bad.result(timeout=PATIENCE)
        except ValueError as error:
            demand("task 3" in str(error), f"expected the task's own error, got {error}")
        else:
            raise CheckFailed(f"expected the task's ValueError, got the result {value}")
        demand(good.result(timeout=PATIENCE) == 9, "expected the result of the task beside it")


@ENGINE_CHECKS.add
def it_ends(name: str) -> None:
    """After it was shut down it takes no task, and can be started again."""
    with _executor(name) as executor:
        executor.submit(square, 2).result(timeout=PATIENCE)
    try:
        executor.submit(square, 2)
    except RuntimeError:
        pass
    else:
        raise CheckFailed("expected a RuntimeError from submit after the shutdown")
    with _executor(name) as executor:
        demand(executor.submit(square, 4).result(timeout=PATIENCE) == 16, "expected 16")
