"""Engines: where tasks run (this machine, Ray, SLURM), behind `concurrent.futures.Executor`.

Everything that makes runs or blocks asks an `Engine` for an executor. Nothing of an engine is
imported before it is asked for.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from embedbench import plugins
from embedbench.config.plain_numbers import read_whole
from embedbench.errors import UserError, error_text, keep_inside, short, unknown
from embedbench.system.callback_types import Notify
from embedbench.system.cpu_threads import cores

from .engine_tasks import Resources, pairs

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")
R = TypeVar("R")
NAMES = ("local", "local:N", "ray", "ray://HOST:PORT", "slurm", "package.module:make_executor")
NEEDS = {"ray": ("Ray", "ray"), "slurm": ("submitit", "submitit")}  # kind → name, module


@dataclass(frozen=True)
class Engine:
    """Who runs the tasks: one of `NAMES`, what a task takes, and settings of this engine alone."""

    name: str = "local"
    resources: Resources = field(default_factory=Resources)
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, text: str, resources: Resources | None = None, settings: Sequence[str] = ()
    ) -> Self:
        """Read `--engine` and `--engine-set`, and check that the engine can be used here.

        `resources` is what one task takes; None: one core.
        """
        made = cls(text, resources or Resources(), pairs("--engine-set", settings))
        kind = made.kind
        if kind == "local":
            made.processes(2)
            if made.settings:
                raise UserError("--engine local takes no --engine-set", "leave it out")
            if made.resources.memory:
                raise UserError(
                    "--engine local does not limit memory",
                    "leave out --resources memory, and let fewer runs go at once (--jobs)",
                )
        elif kind in NEEDS:
            name, module = NEEDS[kind]
            if importlib.util.find_spec(module) is None:
                remedy = f"pip install 'embedbench-cl[{kind}]'"
                raise UserError(f"--engine {text} needs {name}", remedy)
            from . import ray_engine, slurm_engine

            engine = ray_engine if kind == "ray" else slurm_engine
            engine.options(made.resources, made.settings)
        else:
            plugins.load("engines", kind)
        return made

    @property
    def kind(self) -> str:
        """`local`, `ray`, `slurm`, or the whole name of an engine of other people."""
        head = self.name.partition(":")[0]
        if re.fullmatch(r"local(:.+)?|ray(://.+:\d+)?|slurm", self.name):
            return head
        known = plugins.entry_points_by_name("engines")
        is_code = head not in ("", "local", "ray", "slurm") and ":" in self.name
        if self.name not in known and not is_code:
            raise unknown("engine", self.name, [*NAMES, *known])
        return self.name

    @property
    def is_local(self) -> bool:
        """Whether its processes are on this machine, and end with this process."""
        return self.kind == "local"

    def processes(self, tasks: int) -> int:
        """Processes that `local` has for so many tasks: as given, or as many as the cores allow.

        Shares of cards limit them in any case.
        """
        most = max(1, cores() // self.resources.cpus)
        if number := self.name.partition(":")[2]:
            most = read_whole(number, "the N of --engine local:N", 1, 10**6)
        if self.resources.gpus and most > 1:
            from . import local_pool

            most = min(most, at_once(self.resources.gpus, local_pool.cards()))
        return max(1, min(most, tasks))

    def at_most(self, processes: int) -> Self:
        """This engine, with at most so many processes where it is `local` without a number."""
        if self.name != "local":
            return self
        return replace(self, name=f"local:{self.processes(processes)}")

    def executor(
        self, tasks: int, notify: Notify = lambda _: None
    ) -> "AbstractContextManager[Executor | None]":
        """An executor for so many tasks; None: this process is to do the work itself.

        Functions, arguments and results are pickled. A task that raises gives its error through
        `Future.result`; one whose process ended is tried again, and then gives a `LostTaskError`.
        KeyboardInterrupt inside ends `local`'s processes and Ray's tasks; jobs of SLURM go on, and
        `notify` takes the line that cancels them.
        """
        from . import local_pool, ray_engine, slurm_engine

        kind = self.kind
        if not tasks:
            return nullcontext()
        if kind == "local":
            processes = self.processes(tasks)
            if processes == 1:
                return nullcontext()
            return local_pool.local_executor(processes)
        if kind == "ray":
            return ray_engine.ray_executor(self.name, self.resources)
        if kind == "slurm":
            return slurm_engine.slurm_executor(self.resources, self.settings, notify)
        return _outside_executor(kind, tasks, self.resources, dict(self.settings))


def run_calls(
    pool: "Executor | None", function: Callable[[T], R], items: Iterable[T]
) -> Iterator[tuple[T, Callable[[], R]]]:
    """Call a function with each item; yields it with what returns its result or raises its error.

    With a pool each comes when its call has ended there; without one in turn, and what is yielded
    with it makes the call.
    """
    from concurrent.futures import as_completed

    if pool is None:
        for item in items:
            yield item, partial(function, item)
        return
    pending = {pool.submit(function, item): item for item in items}
    for future in as_completed(list(pending)):
        yield pending.pop(future), future.result


def at_once(share: float, number: int) -> int:
    """Count the tasks that fit on a number of cards, each with a share of a card.

    >>> at_once(0.25, 2), at_once(0.3, 2), at_once(1.0, 4)
    (8, 6, 4)
    """
    if not number:
        raise UserError(
            "--resources gpus asks for a GPU, and this machine has none", "leave it out"
        )
    return number * int(1 / share + 1e-9)


HERE = Engine("local:1")  # this process


@contextmanager
def _outside_executor(
    name: str, tasks: int, resources: Resources, settings: dict[str, str]
) -> "Iterator[Executor]":
    """The executor that a function of other people makes; it is shut down at the end."""
    from concurrent.futures import Executor

    try:
        with keep_inside("it"):
            executor = plugins.load("engines", name)(tasks, resources, settings)
    except Exception as e:
        raise UserError(f"--engine {name} made no executor: {error_text(e)}") from e
    if not isinstance(executor, Executor):
        raise UserError(f"{name} must return a concurrent.futures.Executor, not {short(executor)}")
    try:
        yield executor
    except BaseException as error:
        executor.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
        raise
    executor.shutdown()
