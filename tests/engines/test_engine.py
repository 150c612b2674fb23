"""Engines as the command line names them, and the processes of this machine."""

import logging
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from commands import quick_workers
from file_helpers import says
from leaving import SAID, leave

from embedbench.cli.shared_options import chosen_device, chosen_engine
from embedbench.engines import engine, engine_tasks, local_pool, ray_engine, slurm_engine
from embedbench.engines.engine import Engine, at_once
from embedbench.engines.engine_tasks import LostTaskError, Resources, TimeUpError, ends_soon, pack
from embedbench.engines.local_pool import local_executor, use_card
from embedbench.errors import UserError


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("", Resources(3, 0.0, 0)),
        ("cpus=2, gpus=0.25,memory=1.5GB", Resources(2, 0.25, 1_500_000_000)),
        ("cpus=1000000,memory=1MB", Resources(10**6, 0.0, 10**6)),
        ("gpus=0.001,memory=2 TB", Resources(3, 1e-3, 2 * 10**12)),
        ("gpus=1,memory=300MB", Resources(3, 1.0, 300_000_000)),
        ("gpus=0", Resources(3)),
    ],
)
def test_resources_are_cores_shares_and_bytes(text: str, resources: Resources) -> None:
    assert (Resources.parse(text, cpus=3), Resources.parse("")) == (resources, Resources(1))


@pytest.mark.parametrize("text", ["", "lokal", "local:", "ray:", "ray://host", "slurm:2", ":make"])
def test_an_unknown_engine_lists_the_known_ones(text: str) -> None:
    with pytest.raises(UserError, match=rf"engine '{text}'.* local:N, .*slurm"):
        Engine.parse(text)


def test_settings_are_names_with_values() -> None:
    read = engine_tasks.pairs("--engine-set", ["nodelist=n1,n2, time=4h,", "qos=low", "qos=low"])
    assert read == {"nodelist": "n1,n2", "time": "4h", "qos": "low"}


BAD_INTS = ("0", "-1", "two", "1.5", "1000001", "9" * 5000)
BAD_TIMES, BAD_SIZES = ("100000m", "4s", "4", "-1h"), ("lots", "0.9MB", "4")
BAD_SHARES, ARRAY = ("2", "half", "nan", "0.0009"), "array_parallelism"


@pytest.mark.parametrize(
    ("name", "resources", "settings", "fault"),
    [
        ("local", "cpu=2", "", "resource 'cpu'.* 'cpus'"),
        ("local", "cpus", "", says(what="--resources", got="cpus")),
        *(("local", f"cpus={n}", "", says(what="--resources cpus", got=n)) for n in BAD_INTS),
        *(("local", f"gpus={n}", "", says(what="--resources gpus", got=n)) for n in BAD_SHARES),
        *(("local", f"memory={n}", "", says(what="--resources memory", got=n)) for n in BAD_SIZES),
        ("local", "cpus=2,gpus=1,cpus=3", "", "--resources .*cpus, 2 and 3"),
        ("local:2", "memory=1GB", "", "--engine local .*--resources memory"),
        *((f"local:{n}", "", "", says(what="the N of --engine local:N", got=n)) for n in BAD_INTS),
        ("local", "", "time=4h", "--engine local .*no --engine-set"),
        ("ray", "", "time=4h", "--engine ray .*no --engine-set"),
        ("slurm", "", "n1,n2", says(what="--engine-set", got="n1,n2")),
        ("slurm", "", "cluster=local,qos=a\nb", says(what="--engine-set", got="qos=a\nb")),
        ("slurm", "", "cluster=local,partitoin=gpu", "'partitoin'.* 'partition'"),
        ("slurm", "gpus=0.5", "cluster=local", "--resources gpus=1, not 0.5"),
        ("slurm", "", "cluster=mine", says(what="cluster", got="mine")),
        *(("slurm", "", f"cluster=local,{ARRAY}={n}", says(what=ARRAY, got=n)) for n in BAD_INTS),
        *(("slurm", "", f"cluster=local,time={t}", says(what="time", got=t)) for t in BAD_TIMES),
        ("nowhere:make", "", "", "import 'nowhere'"),
    ],
)
def test_refused(name: str, resources: str, settings: str, fault: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(engine.importlib.util, "find_spec", bool)  # type: ignore[attr-defined]
    how: Any = {"match" if isinstance(fault, str) else "check": fault}
    with pytest.raises(UserError, **how):
        chosen_engine(name, resources, [settings], threads=1, jobs=None)


def test_options_of_slurm_and_of_ray() -> None:
    asked = {"cluster": "local", "time": "4h", "partition": "gpu"}
    asked |= {"array_parallelism": "1000000"}
    plain = {"name": "embedbench", "cpus_per_task": 1, "gpus_per_node": 0}
    plain |= {"timeout_min": 240, "slurm_signal_delay_s": 90}
    more = {"cpus_per_task": 2, "gpus_per_node": 1, "mem_gb": 2}
    more |= {"slurm_partition": "gpu", "slurm_array_parallelism": 10**6}
    assert slurm_engine.options(Resources(), {"cluster": "local"}) == plain
    assert slurm_engine.options(Resources(2, 1, 2**31), asked) == plain | more
    for text, *times in (("1m", 1, 15), ("6m", 6, 90), ("2d", 2880, 90), ("99999m", 99_999, 90)):
        asked = {"cluster": "local", "time": text, "array_parallelism": "1"}
        made = slurm_engine.options(Resources(), asked)
        assert [made["timeout_min"], made["slurm_signal_delay_s"]] == times
    made = {"name": "embedbench", "max_retries": 3, "retry_exceptions": False}
    made |= {"num_cpus": 2, "num_gpus": 0.5, "memory": None}
    assert ray_engine.options(Resources(2, 0.5, 0), {}) == made
    assert ray_engine.options(Resources(memory=7), {})["memory"] == 7


def test_an_engine_that_is_not_installed_or_has_no_sbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert slurm_engine.list_jobs() == set()
    with pytest.raises(UserError, match="no sbatch here"):
        Engine.parse("slurm")
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"^--engine ray .*embedbench-cl\[ray"):
        Engine.parse("ray")


def job(answer: Callable[[], bytes], errors: object = "2.err") -> SimpleNamespace:
    paths = SimpleNamespace(stderr=errors)
    return SimpleNamespace(done=lambda: True, result=answer, job_id="2", paths=paths)


def no_answer() -> bytes:
    from submitit.core.utils import UncompletedJobError

    raise UncompletedJobError("timed-out")


def time_up() -> bytes:
    return pickle.dumps((False, TimeUpError()))


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An executor of jobs that looks at them often; tasks are lost by it."""
    pytest.importorskip("submitit")
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "not made yet"))
    monkeypatch.setattr(slurm_engine, "POLL", 0.01)
    executor: Any
    with Engine.parse("slurm", None, ["cluster=local"]).executor(2) as executor:
        yield executor
    assert executor.folder.is_dir()  # the errors name files in it


def test_jobs_that_slurm_refuses_or_whose_answer_is_lost(jobs: Any) -> None:
    """Each task gets its error, and the executor still takes others; nothing waits for ever."""
    reason = "Batch job submission failed\nsbatch: error: invalid partition"
    jobs._jobs.submit = Mock(side_effect=RuntimeError(reason))
    for _ in range(2):
        with pytest.raises(UserError, match=r"\(sbatch: .* partition\)"):
            jobs.submit(int, "3").result(timeout=60)
    jobs._jobs.submit = lambda *_: job(lambda: b"no answer")
    with pytest.raises(pickle.UnpicklingError):
        jobs.submit(int, "3").result(timeout=60)
    jobs._jobs.submit = lambda *_: job(no_answer, jobs.folder / "2.err")
    with pytest.raises(LostTaskError, match=rf"See {jobs.folder}/2.err"):
        jobs.submit(int, "3").result(timeout=60)


class Saves:
    """What has saved so much when its call is submitted, and after each of the call's jobs."""

    def __init__(self, *saved: int) -> None:
        self.saved = list(saved)

    def progress(self) -> int:
        return self.saved.pop(0)


@pytest.mark.parametrize("answer", [no_answer, time_up])
def test_a_job_that_saved_has_not_failed(jobs: Any, answer: Callable[[], bytes]) -> None:
    """The time of its jobs is over again and again; it fails when two in a row save nothing."""
    answers = [answer] * 5 + [lambda: pickle.dumps((True, "all"))]
    jobs._jobs.submit = lambda *_: job(answers.pop(0))
    assert jobs.submit(str, Saves(0, 0, 5, 6, 6, 8)).result(timeout=60) == "all"
    answers = [answer] * 4
    failed = jobs.submit(str, Saves(3, 4, 4, 4))
    with pytest.raises(LostTaskError, match=r"2 times; .* saved anything"):
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


def test_jobs_go_on_after_ctrl_c() -> None:
    pytest.importorskip("submitit")
    said: list[str] = []
    given: Any = (Resources(), {"cluster": "local"}, said.append)
    executor: Any
    with pytest.raises(KeyboardInterrupt), slurm_engine.slurm_executor(*given) as executor:  # noqa: PT012
        left = [SimpleNamespace(done=lambda: False, job_id=f"12_{k}") for k in range(2)]
        executor._jobs.submit = lambda *_: left.pop()
        assert executor._jobs._executor.parameters["timeout_min"] == 240
        executor._queue._looks += [set[str](), set[str]()]
        tasks = [executor.submit(int) for _ in range(2)]
        while len(executor._running) < 2:
            time.sleep(0.01)
        assert executor._queue._looks == []  # which could not see the new jobs
        raise KeyboardInterrupt
    assert not any(task.done() for task in tasks)
    rest = "and the next run takes what they finish; cancel them with: scancel 12"
    assert said == [f"1 jobs go on, {rest}"]
    with slurm_engine.slurm_executor(*given) as executor:
        executor._jobs.submit = lambda *_: job(lambda: pickle.dumps((True, "waited for")))
        task = executor.submit(int)
    assert task.result(0) == "waited for"
    assert not executor.folder.exists()
    assert len(said) == 1


def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a `squeue` on the path that runs a line of the shell."""
    (folder / "squeue").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "squeue").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_a_job_that_two_looks_miss_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    squeue(tmp_path, monkeypatch, "echo 7_1")
    monkeypatch.setattr(slurm_engine, "LOOK", 1e9)  # the next two looks are far
    assert [queue.is_done("8") for _ in range(3)] == [False] * 3


def test_an_executor_of_other_people(monkeypatch: pytest.MonkeyPatch) -> None:
    others = SimpleNamespace(
        make=lambda n, _, settings: ThreadPoolExecutor(min(n, int(settings["threads"]))),
        wrong=lambda *_: 3,
        fails=Mock(side_effect=RuntimeError("no cluster today")),
    )
    monkeypatch.setitem(sys.modules, "others", others)
    made = Engine.parse("others:make", None, ["threads=2"])
    with made.executor(5) as executor:
        assert isinstance(executor, ThreadPoolExecutor)
        asked = [executor.submit(time.sleep, 0.05) for _ in range(6)]
    assert [f.result(0) for f in asked] == [None] * 6  # what is queued when all is well is done
    last = threading.Event()
    for error in (ZeroDivisionError, KeyboardInterrupt):  # after which nothing is waited for
        last.clear()
        with pytest.raises(error), made.executor(5) as executor:  # noqa: PT012
            asked = [executor.submit(lambda: last.wait(2) and time.sleep(0.2)) for _ in range(2)]
            asked += [executor.submit(abs, -n) for n in range(4)]
            asked[-1].add_done_callback(lambda _: last.set())
            raise error
        assert [f.done() for f in asked] == [error is ZeroDivisionError] * 2 + [True] * 4
        assert [f.cancelled() for f in asked] == [False] * 2 + [True] * 4
    with pytest.raises(UserError, match=r"others:wrong .*Executor, not 3"):
        Engine.parse("others:wrong").executor(1).__enter__()
    with pytest.raises(UserError, match=r"others:fails .*RuntimeError: .* today$"):
        Engine.parse("others:fails").executor(1).__enter__()


def test_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "cores", lambda: 8)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [Engine("local").processes(n) for n in (1, 5, 20)] == [1, 5, 8]
    assert Engine("local", Resources(cpus=3)).processes(20) == 2
    assert [Engine(f"local:{n}").processes(20) for n in (12, 10**6)] == [12, 20]
    assert Engine("local:12", Resources(gpus=0.25)).processes(20) == 8
    assert Engine("local", Resources(gpus=1)).processes(20) == 2
    made = [Engine(name).at_most(3) for name in ("local", "local:12", "ray")]
    assert [(e.name, e.is_local) for e in made] == [("local:3", 1), ("local:12", 1), ("ray", 0)]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(UserError, match=r"^--resources gpus .* none;"):
        Engine.parse("local:2", Resources(gpus=0.25))
    assert Engine("local:1", Resources(gpus=0.25)).processes(20) == 1
    assert Engine("local", Resources(cpus=9)).processes(20) == 1
    for alone, tasks in (("local:1", 5), ("local:2", 1), ("local:2", 0), ("ray", 0)):
        with Engine(alone).executor(tasks) as executor:
            assert executor is None


LOST = {n: type(n, (Exception,), {}) for n in ("NodeDied", "OutOfMemory", "WorkerCrashed")}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Ray, pretended: `tasks` are what was submitted, and nothing runs by itself."""
    ray, errors = Mock(tasks=[]), Mock(**{f"{name}Error": error for name, error in LOST.items()})

    def begin(packed: Any) -> Any:
        ray.tasks.append(Mock(packed=packed, future=Mock(return_value=Future())))
        return ray.tasks[-1]

    ray.remote.return_value.options.return_value.remote = begin
    ray.nodes.return_value = [
        {"Alive": True, "Resources": {"CPU": 4.0, "memory": 100.0}},
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0, "memory": 50.0}},
        {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0, "memory": 1e9}},
    ]
    for name, part in (("", ray), ("._private", ray), (".exceptions", errors)):
        monkeypatch.setitem(sys.modules, f"ray{name}", part)
    return ray


def test_tasks_of_ray(ray: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    with Engine("ray").executor(9) as executor:
        (private,) = tmp_path.iterdir()
        local = {"_temp_dir": str(private), "include_dashboard": False}
        assert ray.init.call_args == call("local", **quiet, **local)
        assert list(environment.values()) == ["0", "0"]  # nothing is sent to Ray's makers
        assert ray.worker.print_to_stdstream("a page", err=1) is None
        good, wrong, *lost, last = [executor.submit(int, x) for x in "7x7777"]
        for task in ray.tasks[:2]:
            task.future().set_result(ray.remote.call_args.args[0](task.packed))
        assert good.result(0) == 7
        with pytest.raises(ValueError, match="'x'"):
            wrong.result(0)
        for future, task, kind in zip(lost, ray.tasks[2:], LOST.values(), strict=False):
            task.future().set_exception(kind())
            with pytest.raises(LostTaskError, match="ended 4 times"):
                future.result(0)
        assert last.running()
        assert not last.done()
        assert ray.wait.called is False
        executor.shutdown()
        assert ray.wait.call_args == call([ray.tasks[-1]], num_returns=1)
        assert not ray.cancel.called
    assert ray.cancel.call_args_list == [call(ray.tasks[-1], force=True)]
    assert ray.shutdown.call_count == 1
    assert list(tmp_path.iterdir()) == []
    environment["RAY_ADDRESS"] = "north:6379"
    for name, address in (("ray", "north:6379"), ("ray://south:1", "ray://south:1")):
        with Engine(name).executor(1):
            assert ray.init.call_args == call(address, **quiet)
    ray.init.side_effect = ConnectionError("no head")
    with pytest.raises(UserError, match=r"^--engine ray: .* north:6379 \(no head\)$"):
        Engine("ray").executor(1).__enter__()


def test_one_living_node_has_all_that_a_task_takes(ray: Mock) -> None:
    for fits in (Resources(cpus=4), Resources(cpus=2, gpus=1.0), Resources(memory=100)):
        ray_engine._check_fits(fits)
    for asked, takes in (
        (Resources(cpus=5), "CPU 5;"),
        (Resources(cpus=4, gpus=0.5), "CPU 4, GPU 0.5;"),
        (Resources(memory=101), "CPU 1, memory 101;"),
    ):
        with pytest.raises(UserError, match=f"^no node .* takes, {takes}"):
            Engine("ray", asked).executor(1).__enter__()
    assert ray.shutdown.call_count == 3


def test_cards_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr("torch.cuda.set_device", taken.append)
    for share, number in ((0.25, 3), (0.3, 2), (1.0, 4), (0.1, 1)):
        monkeypatch.setattr(local_pool, "cards", lambda number=number: number)
        taken.clear()
        for worker in range(at_once(share, number)):
            monkeypatch.setattr(local_pool, "_worker", worker)
            use_card("cuda")
        assert taken == list(range(number)) * int(1 / share)
    taken.clear()
    use_card("cpu")
    monkeypatch.setattr(local_pool, "_worker", None)
    use_card("cuda")  # not in a worker
    assert taken == []


class OddError(Exception):
    """An error that pickle cannot make again."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def raise_odd() -> None:
    raise OddError(1, 2)


def test_an_error_travels_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, unpack = engine_tasks.runner(), engine_tasks.unpack
    assert unpack(run(pack(int, ("7",), {}))) == 7
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["", "/a"])
    paths, directory, _ = pack(int, (), {})
    assert paths == ["/", "/a"]
    assert directory == "/"
    for place in (tmp_path, tmp_path / "nowhere"):  # there it stays where it is
        call = pickle.dumps((os.getcwd, (), {}))
        assert unpack(run((["/a", "/b"], str(place), call))) == str(tmp_path)
    assert sys.path == ["", "/a", "/b"]
    with pytest.raises(ValueError, match="'x'"):
        unpack(run(pack(int, ("x",), {})))
    with pytest.raises(RuntimeError, match=r"^OddError: 1 and 2$"):
        unpack(run(pack(raise_odd, (), {})))


def test_jobs_are_short_for_local_processes() -> None:
    for name, resources, jobs, chosen in (
        (None, None, 3, Engine("local:3", Resources(2))),
        (None, None, None, Engine("local", Resources(2))),
        ("local", "cpus=4", None, Engine("local", Resources(4))),
    ):
        assert chosen_engine(name, resources, None, threads=2, jobs=jobs) == chosen
    for other in ("local:2", "local", "ray"):
        with pytest.raises(UserError, match=r"--jobs 3 .*--engine local:3"):
            chosen_engine(other, None, None, threads=2, jobs=3)


def test_the_device_of_an_engine_elsewhere_is_not_looked_for_here() -> None:
    far = Engine("ray", Resources(gpus=0.5))
    assert [chosen_device(name, far) for name in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
    assert chosen_device("auto", Engine("ray")) == "cpu"


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with quick_workers(), local_executor(2) as executor:
        yield executor


def test_results_errors_and_many_tasks(pool: Executor) -> None:
    assert pool.submit(int, "11", base=2).result() == 3
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "x").result()
    made_by = {each.result() for each in [pool.submit(os.getpid) for _ in range(9)]}
    assert len(made_by - {os.getpid()}) == len(made_by) <= 2


def die(mark: str, times: int) -> int:
    before = len(list(Path(mark).parent.glob(f"{Path(mark).name}.*")))
    if before < times:
        Path(f"{mark}.{before}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return before


def test_a_lost_process_costs_its_task_one_retry_alone(pool: Executor, tmp_path: Path) -> None:
    slow = pool.submit(time.sleep, 0.2)
    once = pool.submit(die, str(tmp_path / "once"), 1)
    always = pool.submit(die, str(tmp_path / "always"), 99)
    others = [pool.submit(abs, -n) for n in range(5)]
    assert slow.result() is None
    assert once.result() == 1
    with pytest.raises(LostTaskError, match="ended 2 times;"):
        always.result()
    assert [other.result() for other in others] == list(range(5))
    assert len(list(tmp_path.glob("always.*"))) == 2


def test_what_was_not_begun_is_cancelled_when_the_work_is_given_up() -> None:
    before = active_children()
    with pytest.raises(ZeroDivisionError), quick_workers(), local_executor(1) as executor:  # noqa: PT012
        futures = [executor.submit(time.sleep, 0.2) for _ in range(5)]
        while not futures[0].running():
            time.sleep(0.01)
        raise ZeroDivisionError
    assert [f.cancelled() for f in futures] == [False, True, True, True, True]
    assert active_children() == before


@pytest.mark.parametrize("how", ["exit", "close", "whim", "parts", "local"])
def test_what_is_no_exception_travels_as_one(pool: Executor, how: str) -> None:
    """It would end a worker, or stop the thread that waits for it."""
    said = re.escape(SAID[how].partition(" (")[0])
    with pytest.raises(Exception, match=said):
        engine_tasks.unpack(engine_tasks.runner()(pack(leave, (how,), {})))
    with pytest.raises(Exception, match=said):
        pool.submit(leave, how).result()
