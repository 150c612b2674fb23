"""Extraction in shards by Ray, where a node is killed, and by SLURM's jobs."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_images import TINY, images, weights

from embedbench.engines.engine import Engine
from embedbench.extract.pipeline import extract


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A node of one core, to which others can be added."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)  # Ray notes an address there
    node = {"num_cpus": 1, "num_gpus": 0, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # paths of sockets are short
        cluster = Cluster(initialize_head=True, head_node_args={**node, "temp_dir": short})
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        try:
            yield cluster
        finally:
            cluster.shutdown()


@pytest.mark.long
def test_a_node_is_killed(tmp_path: Path, cluster: Any) -> None:
    """The three digests are those of one process."""
    second = cluster.add_node(num_cpus=1, num_gpus=0)
    source, path = str(images(tmp_path / "in", 4200)), weights(tmp_path / "w.safetensors", TINY)
    options: dict[str, Any] = {"backbone": TINY, "weights": path, "size": 32, "threads": 1}
    killed: list[int] = []

    def progress(done: int, total: int) -> None:
        if 0 < done < total and not killed:
            killed.append(done)
            cluster.remove_node(second, allow_graceful=False)

    engine = Engine.parse("ray")
    file = extract(source, tmp_path / "a.h5", engine=engine, progress=progress, **options)
    assert killed
    whole = extract(source, tmp_path / "whole.h5", **options)
    assert file.digests == whole.digests
    assert not list(tmp_path.glob(".*"))


@pytest.mark.long
def test_jobs_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By submitit's local jobs: each loads the model, and writes its blocks beside the file."""
    pytest.importorskip("submitit")
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    source, out = str(images(tmp_path / "in", 1500)), tmp_path / "a.h5"
    options: dict[str, Any] = {"backbone": "pixels", "size": 8, "threads": 1}
    engine = Engine.parse("slurm", settings=["cluster=local"])
    file = extract(source, out, engine=engine, **options)
    whole = extract(source, tmp_path / "whole.h5", **options)
    assert file.digests == whole.digests
