"""The engine SLURM, through submitit: one job a task. Jobs go on when this process ends."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from embedbench.config.plain_numbers import has_only_digits, read_whole
from embedbench.errors import UserError, unknown
from embedbench.storage import user_cache
from embedbench.system import callback_types

from . import engine_tasks

# Of --engine-set; all but the first three go to sbatch as they are.
SETTINGS = (
    *("cluster", "time", "array_parallelism"),
    *("partition", "account", "qos", "constraint", "exclude", "nodelist", "gres"),
)
TIME = 4 * 60  # minutes of a job where `time` is not given
MINUTES = {"m": 1, "h": 60, "d": 24 * 60}
POLL = 0.2  # seconds from one look at the jobs to the next, and in which an array gathers
LOOK = 15.0  # seconds from one look at SLURM's queue to the next
WARNING = 90  # seconds before a job's end in which it saves what it has done, and ends
TRIES = 2  # of a task whose jobs ended without an answer and without progress


def options(resources: engine_tasks.Resources, settings: Mapping[str, str]) -> dict[str, Any]:
    """submitit's parameters of a job, from what a task takes and the settings; see `SETTINGS`."""
    made: dict[str, Any] = {"cpus_per_task": resources.cpus, "name": "embedbench"}
    made["timeout_min"] = TIME
    if resources.gpus not in (0, 1):
        raise UserError(
            f"--engine slurm gives a job whole cards: --resources gpus=1, not {resources.gpus:g}"
        )
    made["gpus_per_node"] = int(resources.gpus)
    if resources.memory:
        made["mem_gb"] = resources.memory / 2**30
    for name, value in settings.items():
        if name not in SETTINGS:
            raise unknown("setting of --engine slurm", name, SETTINGS)
        if name == "time":
            made["timeout_min"] = _minutes(value)
        elif name == "array_parallelism":
            made["slurm_array_parallelism"] = read_whole(value, name, 1, 10**6)
        elif name != "cluster":
            made[f"slurm_{name}"] = value
    made["slurm_signal_delay_s"] = min(WARNING, 15 * made["timeout_min"])
    if _cluster(settings) == "slurm" and shutil.which("sbatch") is None:
        raise UserError(
            "--engine slurm needs SLURM, and there is no sbatch here",
            "run it where you submit jobs (on one machine, --engine-set cluster=local tries it)",
        )
    return made


@dataclass
class _Call:
    """A call, how much of it is saved, and how many jobs in a row ended without adding to that."""

    packed: engine_tasks.Packed
    progress: Callable[[], int]
    saved: int
    tries: int = 0
    future: Future[Any] = field(default_factory=Future)


class SlurmExecutor(Executor):
    """Jobs of SLURM, one a task; see `SETTINGS`.

    A thread submits what was asked for as arrays of jobs, and looks for what has finished. The
    first argument of a function may have a method `progress`, a number that grows with what is
    saved of it: a job that ends without an answer after it grew is no failed try.
    """

    def __init__(self, resources: engine_tasks.Resources, settings: Mapping[str, str]) -> None:
        import submitit

        root = user_cache.directory() / "slurm"
        root.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=".jobs.", dir=root))
        self._jobs = submitit.AutoExecutor(folder=self.folder, cluster=_cluster(settings))
        self._jobs.update_parameters(**options(resources, settings))
        self._waiting: SimpleQueue[_Call] = SimpleQueue()
        self._running: list[tuple[_Call, Any]] = []
        self._queue = _Queue()
        self._ends = self._leaves = False
        self.lost = False  # whether an error names a file of a job
        self._run = engine_tasks.runner()
        self._thread = Thread(target=self._serve, name="slurm", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` in a job."""
        progress = getattr(args[0] if args else None, "progress", int)
        task = _Call(engine_tasks.pack(in_job, (fn, *args), kwargs), progress, progress())
        self._waiting.put(task)
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the jobs; with `cancel_futures` leave them to themselves."""
        self._ends = True
        self._leaves = self._leaves or cancel_futures
        if wait:
            self._thread.join()

    def left(self) -> list[str]:
        """The jobs that have not finished, as `scancel` takes them."""
        return sorted({job.job_id.partition("_")[0] for _, job in self._running})

    def _serve(self) -> None:
        while not self._leaves:
            self._submit()
            self._running = [pair for pair in self._running if not self._settled(*pair)]
            if self._ends and not self._running and self._waiting.empty():
                return
            time.sleep(POLL)

    def _submit(self) -> None:
        """Submit the tasks that wait, as one array of jobs."""
        taken = list(self._taken())
        if not taken:
            return
        try:
            with self._jobs.batch():
                jobs = [self._jobs.submit(self._run, task.packed) for task in taken]
        except Exception as error:  # of sbatch, or of the disk
            reason = str(error).strip().rpartition("\n")[2] or type(error).__name__
            refused = UserError(f"SLURM did not take the jobs ({reason})", "check --engine-set")
            for task in taken:
                task.future.set_exception(refused)
            return
        job: Any
        for job in jobs:
            job.watcher = self._queue
            job._results_timeout_s = 0
        self._queue.forget()
        self._running += zip(taken, jobs, strict=True)

    def _taken(self) -> Iterator[_Call]:
        with suppress(Empty):
            while True:
                task = self._waiting.get_nowait()
                if task.future.running() or task.future.set_running_or_notify_cancel():
                    yield task

    def _settled(self, task: _Call, job: Any) -> bool:
        """Whether a job has ended; its task gets its answer, or another job."""
        from submitit.core.utils import UncompletedJobError

        try:
            if not job.done():
                return False
            task.future.set_result(engine_tasks.unpack(job.result()))
        except (UncompletedJobError, engine_tasks.TimeUpError):
            self._go_on(task, job)
        except Exception as error:  # of the task, or an answer that cannot be read
            task.future.set_exception(error)
        return True

    def _go_on(self, task: _Call, job: Any) -> None:
        """Submit a task again, unless its jobs end where they began."""
        before = task.saved
        task.saved = task.progress()
        task.tries = 0 if task.saved > before else task.tries + 1
        if task.tries < TRIES:
            self._waiting.put(task)
            return
        self.lost = True
        more = " Or was its time over before it saved anything (--engine-set time)?"
        task.future.set_exception(
            engine_tasks.LostTaskError(TRIES, f"{more} See {job.paths.stderr}")
        )


def in_job(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """In a job: call a function. When the job's time is nearly over, `ends_soon` is set."""
    # submitit's handler raises an error
    signal.signal(signal.SIGUSR2, lambda *_: engine_tasks.ends_soon.set())
    return fn(*args, **kwargs)


class _Queue:
    """Which jobs SLURM still has; submitit's own watcher asks `sacct`, which needs accounting."""

    def __init__(self) -> None:
        self._looks: list[set[str]] = []  # the last two since jobs were submitted
        self._next = 0.0

    def forget(self) -> None:
        """New jobs were submitted, which the looks so far could not see."""
        self._looks.clear()

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Whether a job was not there twice: the file of its answer would be seen by then."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LOOK
            if (there := list_jobs()) is not None:
                self._looks = [*self._looks[-1:], there]
        return len(self._looks) == 2 and not any(job_id in look for look in self._looks)

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """For submitit's message."""
        return "gone"


def list_jobs() -> set[str] | None:
    """The jobs of this user that wait or run, as "12" or "12_3"; None: SLURM does not say."""
    line = ["squeue", "--noheader", "--array", "--format=%i", f"--user={os.getuid()}"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    try:
        made = subprocess.run(
            line, env=plain, capture_output=True, text=True, check=True, timeout=60
        )
    except FileNotFoundError:  # no SLURM here
        return set()
    except (OSError, subprocess.SubprocessError):
        return None
    return set(made.stdout.split())


@contextmanager
def slurm_executor(
    resources: engine_tasks.Resources, settings: Mapping[str, str], notify: callback_types.Notify
) -> Iterator[Executor]:
    """Jobs of SLURM. After Ctrl-C they go on, and a sentence says how to cancel them."""
    executor = SlurmExecutor(resources, settings)
    try:
        yield executor
    except BaseException:
        executor.shutdown(cancel_futures=True)
        if left := executor.left():
            notify(
                f"{len(left)} jobs go on, and the next run takes what they finish; cancel them "
                f"with: scancel {' '.join(left)}"
            )
        raise
    else:
        executor.shutdown()
        if not executor.lost:  # its messages are still to be read
            shutil.rmtree(executor.folder, ignore_errors=True)


def _cluster(settings: Mapping[str, str]) -> str:
    value = settings.get("cluster", "slurm")
    if value not in ("slurm", "local"):
        raise UserError("cluster", expected="slurm, or local to try it", got=value)
    return value


def _minutes(value: str) -> int:
    """The minutes of "30m", "4h" or "2d"."""
    number = value[:-1]
    unit = value[-1:]
    if not (has_only_digits(number) and unit in MINUTES and len(number) < 6):
        raise UserError("time", expected="minutes, hours or days: 30m, 4h, 2d", got=value)
    return int(number) * MINUTES[unit]
