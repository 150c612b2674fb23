"""Engines as the command line names them, and the processes of this machine."""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from commands import quick_workers

from embedbench.cli.shared_options import chosen_device, chosen_engine
from embedbench.engines import engine, local_pool, ray_engine, slurm_engine
from embedbench.engines.engine import Engine, at_once
from embedbench.engines.engine_tasks import (
    LostTaskError,
    Resources,
    TimeUpError,
    ends_soon,
    pack,
    pairs,
    runner,
    unpack,
)
from embedbench.engines.local_pool import local_executor, use_card
from embedbench.errors import UserError


def test_resources_are_cores_shares_and_bytes() -> None:
    assert Resources.parse("", cpus=3) == Resources(cpus=3)
    assert Resources.parse("cpus=2, gpus=0.25,memory=1.5GB") == Resources(2, 0.25, 1_500_000_000)
    assert Resources.parse("memory=300MB").memory == 300_000_000
    assert Resources.parse("memory=1MB").memory == 10**6
    assert Resources.parse("memory=2 TB").memory == 2 * 10**12
    assert [Resources.parse(f"gpus={share}").gpus for share in ("0", "0.001", "1")] == [0, 1e-3, 1]
    assert Resources.parse("cpus=1000000").cpus == 10**6
    assert Resources() == Resources(1, 0.0, 0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cpu=2", "unknown resource 'cpu'. Did you mean 'cpus'?"),
        ("cpus", "--resources takes name=value"),
        ("cpus=0", "cpus must be a whole number from 1 to 1,000,000, got '0'"),
        ("cpus=1.5", "got '1.5'"),
        ("cpus=10000000", "got '10000000'"),
        ("cpus=" + "9" * 5000, "a whole number"),
        ("gpus=2", "a share of one card, 0 to 1, such as 0.25; got '2'"),
        ("gpus=nan", "a share of one card"),
        ("gpus=-1", "a share of one card"),
        ("gpus=0.0009", "a share of one card"),
        ("memory=lots", "such as 4GB; got 'lots'"),
        ("memory=0GB", "takes 1MB or more"),
        ("memory=4", "takes 1MB or more, such as 4GB; got '4'"),
        ("cpus=2,gpus=1,cpus=3", "two values of cpus, 2 and 3: give one"),
    ],
)
def test_wrong_resources_are_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("?", r"\?")):
        Resources.parse(text)


@pytest.mark.parametrize("text", ["", "lokal", "local:", "ray:", "ray://host", "slurm:2", ":make"])
def test_an_unknown_engine_lists_the_known_ones(text: str) -> None:
    with pytest.raises(UserError, match=r"unknown engine .*Known: .*local:N.*slurm"):
        Engine.parse(text)


def test_settings_belong_to_an_engine() -> None:
    assert pairs("--engine-set", ["nodelist=n1,n2, time=4h,", "qos=low"]) == {
        "nodelist": "n1,n2",
        "time": "4h",
        "qos": "low",
    }
    with pytest.raises(UserError, match="takes name=value"):
        pairs("--engine-set", ["n1,n2"])
    for text in ("local:0", "local:-1", "local:two", "local:1.5", f"local:{'9' * 5000}"):
        with pytest.raises(UserError, match="local:N must be a whole number"):
            Engine.parse(text)
    with pytest.raises(UserError, match="--engine local takes no --engine-set"):
        Engine.parse("local", None, ["time=4h"])
    with pytest.raises(UserError, match="--engine local does not limit memory"):
        Engine.parse("local:2", Resources(memory=10**9))
    with pytest.raises(UserError, match=r"slurm 'partitoin'\. Did you mean 'partition'"):
        slurm_engine.options(Resources(), {"partitoin": "gpu", "cluster": "local"})
    asked = {"cluster": "local", "time": "4h", "partition": "gpu", "array_parallelism": "8"}
    made = slurm_engine.options(Resources(cpus=2, gpus=1, memory=2**31), asked)
    assert made == {
        "name": "embedbench",
        "cpus_per_task": 2,
        "gpus_per_node": 1,
        "mem_gb": 2,
        "timeout_min": 240,
        "slurm_signal_delay_s": 90,
        "slurm_partition": "gpu",
        "slurm_array_parallelism": 8,
    }
    for given, minutes in (("30m", 30), ("99999m", 99_999), ("2d", 2880)):
        made = slurm_engine.options(Resources(), {"cluster": "local", "time": given})
        assert made["timeout_min"] == minutes
    made = slurm_engine.options(Resources(), {"cluster": "local"})
    assert (made["gpus_per_node"], made["timeout_min"], "mem_gb" in made) == (0, 240, False)
    for wrong in (
        {"time": "100000m"},
        {"time": "4s"},
        {"time": "4"},
        {"time": "-1h"},
        {"cluster": "mine"},
        {"array_parallelism": "0"},
    ):
        with pytest.raises(UserError, match="got"):
            slurm_engine.options(Resources(), {"cluster": "local", **wrong})
    with pytest.raises(UserError, match="--engine-set takes name=value"):  # a line of its script
        Engine.parse("slurm", None, ["cluster=local", "partition=gpu\ntouch here"])
    with pytest.raises(UserError, match="whole cards"):
        slurm_engine.options(Resources(gpus=0.5), {"cluster": "local"})


def test_an_engine_that_is_not_installed_or_has_no_sbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert slurm_engine.list_jobs() == set()
    with pytest.raises(UserError, match="there is no sbatch here"):
        Engine.parse("slurm")
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"^--engine ray needs Ray: .*embedbench-cl\[ray"):
        Engine.parse("ray")


def job(answer: Callable[[], bytes], errors: object = "2.err") -> SimpleNamespace:
    """A job that has ended, as submitit has it."""
    paths = SimpleNamespace(stderr=errors)
    return SimpleNamespace(done=lambda: True, result=answer, job_id="2", paths=paths)


def no_answer() -> bytes:
    from submitit.core.utils import UncompletedJobError

    raise UncompletedJobError("timed-out")


def time_up() -> bytes:
    return pickle.dumps((False, TimeUpError()))


def test_jobs_that_slurm_refuses_or_whose_answer_is_lost() -> None:
    """Each task gets its error, and the executor still takes others; nothing waits for ever."""
    pytest.importorskip("submitit")
    executor: Any
    with Engine.parse("slurm", None, ["cluster=local"]).executor(2) as executor:
        reason = "Batch job submission failed\nsbatch: error: invalid partition"
        executor._jobs.submit = Mock(side_effect=RuntimeError(reason))
        for _ in range(2):
            with pytest.raises(UserError, match=r"\(sbatch: error: invalid partition"):
                executor.submit(int, "3").result(timeout=60)
        executor._jobs.submit = lambda *_: job(lambda: b"no answer")
        with pytest.raises(pickle.UnpicklingError):
            executor.submit(int, "3").result(timeout=60)
        executor._jobs.submit = lambda *_: job(no_answer, executor.folder / "2.err")
        with pytest.raises(LostTaskError, match=rf"See {executor.folder}/2.err"):
            executor.submit(int, "3").result(timeout=60)
    assert executor.folder.is_dir()  # the message names a file in it


class Saves:
    """A task that has saved so much when it is submitted, and after each of its jobs."""

    def __init__(self, *saved: int) -> None:
        self.saved = list(saved)

    def __call__(self) -> None:
        """Do nothing."""

    def progress(self) -> int:
        return self.saved.pop(0)


@pytest.mark.parametrize("answer", [no_answer, time_up])
def test_a_job_that_saved_something_is_no_failed_try(answer: Callable[[], bytes]) -> None:
    """The time of its jobs is over again and again; it fails when two in a row save nothing."""
    pytest.importorskip("submitit")
    executor: Any
    with Engine.parse("slurm", None, ["cluster=local"]).executor(2) as executor:
        answers = [answer] * 5 + [lambda: pickle.dumps((True, "all"))]
        executor._jobs.submit = lambda *_: job(answers.pop(0))
        assert executor.submit(Saves(0, 1, 5, 6, 6, 8)).result(timeout=60) == "all"
        answers = [answer] * 4
        failed = executor.submit(Saves(3, 4, 4, 4))
        with pytest.raises(LostTaskError, match=r"2 times; .* time over before it saved anything"):
            failed.result(timeout=60)
        assert len(answers) == 1


def test_a_job_is_warned_before_its_time_is_over() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        slurm_engine.in_job(os.kill, os.getpid(), signal.SIGUSR2)
        assert ends_soon.is_set()
    finally:
        signal.signal(signal.SIGUSR2, before)
        ends_soon.clear()
    warned = {"1m": 15, "2m": 30, "6m": 90, "2d": 90}
    for given, seconds in warned.items():
        made = slurm_engine.options(Resources(), {"cluster": "local", "time": given})
        assert made["slurm_signal_delay_s"] == seconds


def test_jobs_go_on_after_ctrl_c() -> None:
    pytest.importorskip("submitit")
    said: list[str] = []
    given: Any = (Resources(), {"cluster": "local"}, said.append)
    executor: Any
    with pytest.raises(KeyboardInterrupt), slurm_engine.slurm_executor(*given) as executor:  # noqa: PT012
        left = [SimpleNamespace(done=lambda: False, job_id=f"12_{k}") for k in range(2)]
        executor._jobs.submit = lambda *_: left.pop()
        tasks = [executor.submit(int) for _ in range(2)]
        while len(executor._running) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert not any(task.done() for task in tasks)
    assert said[0].startswith("1 jobs go on")
    assert said[0].endswith("scancel 12")
    with slurm_engine.slurm_executor(*given) as executor:
        pass
    assert (executor.folder.exists(), len(said)) == (False, 1)


def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a `squeue` on the path that runs a line of the shell."""
    (folder / "squeue").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "squeue").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_a_job_is_gone_when_two_looks_at_the_queue_miss_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_engine, "LOOK", 0.0)
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")  # a user's settings would hide what waits
    queue = slurm_engine._Queue()
    squeue(tmp_path, monkeypatch, 'test -z "$SQUEUE_STATES" && echo 7_0 && echo 7_1')
    assert [queue.is_done(job) for job in ("7_0", "7_0", "7_1")] == [False] * 3
    assert queue.is_done("7_2")
    squeue(tmp_path, monkeypatch, "echo 7_1")
    assert [queue.is_done("7_0") for _ in range(2)] == [False, True]
    queue.forget()
    assert [queue.is_done("8") for _ in range(2)] == [False, True]
    queue.forget()
    squeue(tmp_path, monkeypatch, "exit 1")  # no answer says nothing
    assert [queue.is_done("8") for _ in range(3)] == [False] * 3


def test_an_executor_of_other_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_engine_of_others.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def make(tasks, resources, settings):\n"
        "    return ThreadPoolExecutor(min(tasks, int(settings['threads'])))\n"
        "def wrong(tasks, resources, settings):\n"
        "    return 3\n"
        "def fails(tasks, resources, settings):\n"
        "    raise RuntimeError('no cluster today')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    made = Engine.parse("an_engine_of_others:make", None, ["threads=2"])
    with made.executor(5) as executor:
        assert isinstance(executor, ThreadPoolExecutor)
        asked = [executor.submit(time.sleep, 0.05) for _ in range(6)]
    assert not any(f.cancelled() for f in asked)  # what is queued when all is well is done
    last = threading.Event()
    with pytest.raises(ZeroDivisionError), made.executor(5) as executor:  # noqa: PT012
        asked = [executor.submit(last.wait, 2) for _ in range(2)]
        asked += [executor.submit(abs, -n) for n in range(4)]
        asked[-1].add_done_callback(lambda _: last.set())
        raise ZeroDivisionError
    assert [f.cancelled() for f in asked] == [False] * 2 + [True] * 4
    with pytest.raises(UserError, match=r"others:wrong must return a concurrent.futures.Executor"):
        Engine.parse("an_engine_of_others:wrong").executor(1).__enter__()
    with pytest.raises(UserError, match=r"others:fails .*: RuntimeError: no cluster today$"):
        Engine.parse("an_engine_of_others:fails").executor(1).__enter__()
    with pytest.raises(UserError, match="cannot import 'nowhere'"):
        Engine.parse("nowhere:make")


def test_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "cores", lambda: 8)
    monkeypatch.setattr(local_pool, "cards", lambda: 2)
    assert [Engine("local").processes(n) for n in (1, 5, 20)] == [1, 5, 8]
    assert Engine("local", Resources(cpus=3)).processes(20) == 2
    assert Engine("local:12").processes(20) == 12
    assert Engine("local:12", Resources(gpus=0.25)).processes(20) == 8
    assert Engine("local", Resources(gpus=1)).processes(20) == 2
    assert Engine("local").at_most(3).name == "local:3"
    assert Engine("local:12").at_most(3).name == "local:12"
    monkeypatch.setattr(local_pool, "cards", lambda: 0)
    with pytest.raises(UserError, match="this machine has none"):
        Engine.parse("local:2", Resources(gpus=0.25))
    assert Engine("local:1", Resources(gpus=0.25)).processes(20) == 1
    for alone, tasks in (("local:1", 5), ("local:2", 1), ("local:2", 0), ("ray", 0)):
        with Engine(alone).executor(tasks) as executor:
            assert executor is None
    assert Engine("local", Resources(cpus=9)).processes(20) == 1


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (Resources(cpus=4), True),
        (Resources(cpus=5), False),
        (Resources(cpus=2, gpus=1.0), True),
        (Resources(cpus=4, gpus=1.0), False),
        (Resources(memory=100), True),
        (Resources(memory=101), False),
    ],
)
def test_one_living_node_has_all_that_a_task_takes(
    asked: Resources, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster, pretended: what a node does not name it does not have."""
    nodes = [
        {"Alive": True, "Resources": {"CPU": 4.0, "memory": 100.0}},
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0, "memory": 50.0}},
        {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0, "memory": 1e9}},
    ]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=lambda: nodes))
    with nullcontext() if fits else pytest.raises(UserError, match="no node"):
        ray_engine._check_fits(asked)


def test_options_of_ray() -> None:
    made = ray_engine.options(Resources(2, 0.5, 0), {})
    assert (made["num_cpus"], made["num_gpus"], made["memory"]) == (2, 0.5, None)
    assert (made["max_retries"], made["retry_exceptions"]) == (3, False)
    assert ray_engine.options(Resources(memory=7), {})["memory"] == 7
    with pytest.raises(UserError, match="takes no"):
        ray_engine.options(Resources(), {"time": "4h"})


def test_cards_are_taken_in_turn_and_none_holds_more_than_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[int] = []
    monkeypatch.setattr("torch.cuda.set_device", taken.append)
    for share, number in ((0.25, 3), (0.3, 2), (1.0, 4), (0.1, 1)):
        monkeypatch.setattr(local_pool, "cards", lambda number=number: number)
        taken.clear()
        for worker in range(at_once(share, number)):
            monkeypatch.setattr(local_pool, "_worker", worker)
            use_card("cuda")
        held = [taken.count(card) for card in range(number)]
        assert max(held) * share <= 1 + 1e-9
        assert max(held) - min(held) == 0
        assert taken[:number] == list(range(number))
    use_card("cpu")
    monkeypatch.setattr(local_pool, "_worker", None)
    use_card("cuda")  # not in a worker
    assert len(taken) == at_once(share, number)


class OddError(Exception):
    """An error that pickle cannot make again."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def raise_odd() -> None:
    raise OddError(1, 2)


def test_an_error_travels_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner()
    assert unpack(run(pack(int, ("7",), {}))) == 7
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["", "/a"])
    paths, directory, _ = pack(int, (), {})
    assert (paths, directory) == (["/", "/a"], "/")
    for place in (tmp_path, tmp_path / "nowhere"):  # there it stays where it is
        call = pickle.dumps((os.getcwd, (), {}))
        assert unpack(run((["/a", "/b"], str(place), call))) == str(tmp_path)
    assert sys.path == ["", "/a", "/b"]
    with pytest.raises(ValueError, match="'x'"):
        unpack(run(pack(int, ("x",), {})))
    with pytest.raises(RuntimeError, match=r"^OddError: 1 and 2$"):
        unpack(run(pack(raise_odd, (), {})))


def test_jobs_are_short_for_local_processes() -> None:
    def chosen(name: str | None, jobs: int | None, resources: str | None = None) -> Engine:
        return chosen_engine(name, resources, None, threads=2, jobs=jobs)

    assert chosen(None, 3).name == chosen("local:3", None).name
    assert chosen(None, None).name == "local"
    assert chosen(None, None).resources.cpus == 2
    assert chosen("local", None, "cpus=4").resources.cpus == 4
    for other in ("local:2", "local", "ray"):
        with pytest.raises(UserError, match=r"--jobs 3 is short for --engine local:3: give one"):
            chosen(other, 3)


def test_the_device_of_an_engine_elsewhere_is_not_looked_for_here() -> None:
    far = Engine("ray", Resources(gpus=0.5))
    assert [chosen_device(name, far) for name in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
    assert chosen_device("auto", Engine("ray")) == "cpu"


# --- the contract of an executor, by the local one ------------------------------------------------


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with quick_workers(), local_executor(2) as executor:
        yield executor


def test_results_errors_and_many_tasks(pool: Executor) -> None:
    assert pool.submit(divmod, 7, 3).result() == (2, 1)
    assert pool.submit(int, "11", base=2).result() == 3
    assert list(pool.map(abs, range(-20, 0))) == list(range(20, 0, -1))
    failed = pool.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()
    assert pool.submit(os.getpid).result() != os.getpid()
    assert len({f.result() for f in as_completed([pool.submit(os.getpid) for _ in range(9)])}) <= 2


def die(mark: str, times: int) -> int:
    """Kill this process the first `times` times."""
    before = len(list(Path(mark).parent.glob(f"{Path(mark).name}.*")))
    if before < times:
        Path(f"{mark}.{before}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return before


def test_a_lost_process_costs_its_task_a_retry_and_no_other_task_anything(
    pool: Executor, tmp_path: Path
) -> None:
    slow = pool.submit(time.sleep, 0.5)
    once = pool.submit(die, str(tmp_path / "once"), 1)
    always = pool.submit(die, str(tmp_path / "always"), 99)
    others = [pool.submit(abs, -n) for n in range(5)]
    assert slow.result() is None
    assert once.result() == 1
    with pytest.raises(LostTaskError, match="ended 2 times; was it killed, or out of memory"):
        always.result()
    assert [other.result() for other in others] == list(range(5))
    assert len(list(tmp_path.glob("always.*"))) == 2


def test_what_was_not_begun_is_cancelled_when_the_work_is_given_up() -> None:
    futures = []

    def give_up() -> None:
        with quick_workers(), local_executor(1) as executor:
            futures.extend(executor.submit(time.sleep, 0.2) for _ in range(5))
            while not futures[0].running():
                time.sleep(0.01)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        give_up()
    assert [f.cancelled() for f in futures] == [False, True, True, True, True]
