"""The engine Ray: tasks on the machines of a cluster, or on this one.

Ray looks after the machines: a task whose node dies is tried again elsewhere, and tasks end with
the process that began them.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from .engine_tasks import LostTaskError, Resources, pack, runner, unpack

RETRIES = 3  # of a task whose process or node ended


def options(resources: Resources, settings: Mapping[str, str]) -> dict[str, Any]:
    """Ray's options of a task; settings are refused, Ray has none."""
    if settings:
        raise UserError("--engine ray takes no --engine-set", "RAY_ADDRESS names a cluster")
    return {
        "name": "embedbench",
        "num_cpus": resources.cpus,
        "num_gpus": resources.gpus,
        "memory": resources.memory or None,
        "max_retries": RETRIES,
        "retry_exceptions": False,
    }


class RayExecutor(Executor):
    """Tasks of Ray, which must be connected.

    After a minute without the head of its cluster Ray ends this process by itself.
    """

    def __init__(self, resources: Resources) -> None:
        import ray

        self._pending: dict[Future[Any], Any] = {}
        self._run = ray.remote(runner()).options(**options(resources, {}))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` on a node that has what it takes."""
        future: Future[Any] = Future()
        ref = self._run.remote(pack(fn, args, kwargs))
        self._pending[future] = ref
        future.set_running_or_notify_cancel()
        ref.future().add_done_callback(lambda made: self._settle(future, made))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the tasks, or end them at once."""
        import ray

        if cancel_futures:
            for ref in list(self._pending.values()):
                ray.cancel(ref, force=True)
        elif wait:
            ray.wait(list(self._pending.values()), num_returns=len(self._pending))

    def _settle(self, future: Future[Any], made: Future[Any]) -> None:
        from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

        self._pending.pop(future, None)
        try:
            future.set_result(unpack(made.result()))
        except (NodeDiedError, OutOfMemoryError, WorkerCrashedError):
            future.set_exception(LostTaskError(RETRIES + 1))
        except BaseException as error:
            future.set_exception(error)


@contextmanager
def ray_executor(name: str, resources: Resources) -> Iterator[Executor]:
    """Connect to Ray, or begin it on this machine; everything ends with this context.

    `ray` is the cluster that RAY_ADDRESS names, or this machine; `ray://HOST:PORT` a cluster
    through Ray's client.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    from ray._private import worker

    worker.print_to_stdstream = lambda *_, **__: None  # a page of state for each lost node
    address = name if "://" in name else os.environ.get("RAY_ADDRESS", "local")
    alone: dict[str, Any] = {}
    private = None
    if address == "local":  # sockets lie there, whose paths are short
        private = Path(tempfile.mkdtemp(prefix="embedbench-ray-"))
        alone = {"_temp_dir": str(private), "include_dashboard": False}
    try:
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **alone)
        except (ConnectionError, ValueError, RuntimeError, ImportError) as error:
            reason = f"Ray cannot be reached at {address} ({error})"
            raise UserError(f"--engine {name}: {reason}") from error
        executor = None
        try:
            _check_fits(resources)
            executor = RayExecutor(resources)
            yield executor
        finally:
            if executor is not None:
                executor.shutdown(cancel_futures=True)
            ray.shutdown()
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)


def _check_fits(resources: Resources) -> None:
    """Refuse tasks that no node of the cluster can run: Ray would wait for one, and say nothing."""
    import ray

    asked = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": resources.memory}
    cluster: Any = ray  # `nodes` has no types
    nodes = [node["Resources"] for node in cluster.nodes() if node["Alive"]]
    if any(all(node.get(name, 0) >= least for name, least in asked.items()) for node in nodes):
        return
    takes = ", ".join(f"{name} {least:.12g}" for name, least in asked.items() if least)
    raise UserError(
        f"no node of the Ray cluster has what a run takes, {takes}", "ask for less (--resources)"
    )
