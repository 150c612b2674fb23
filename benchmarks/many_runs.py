"""Seconds and memory of `load_runs` on many runs.

They are copies of one finished run with other seeds, settings and scores, each with predictions of
its own. A process of its own reads them, so that its peak memory counts nothing else.

    python benchmarks/many_runs.py RUNS [--runs 10000] [--keep DIR]

RUNS is a directory with a finished run, which is the template.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LEARNERS = ("ewc", "mlp", "ncm", "slda", "er")

READ = """
import resource, sys, time
began = time.perf_counter()
from embedbench import load_runs
imported, begun = time.perf_counter(), time.process_time()
runs = load_runs(sys.argv[1])
loaded = time.perf_counter()
cpu = time.process_time()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"import {imported - began:.2f} s")
took = f"{loaded - imported:.2f} s (CPU {cpu - begun:.2f})"
print(f"load_runs of {len(runs):,} runs {took}, peak {peak():.0f} MB")
before = time.perf_counter()
some = runs.where(learner="ewc", seed=[0, 1])
print(f"where {time.perf_counter() - before:.2f} s, {len(some):,} runs, peak {peak():.0f} MB")
before = time.perf_counter()
rows = runs.rows()
print(f"rows {time.perf_counter() - before:.2f} s, {len(rows[0])} columns, peak {peak():.0f} MB")
before = time.perf_counter()
table = runs.table()
print(f"table {time.perf_counter() - before:.2f} s, {len(table):,} values, peak {peak():.0f} MB")
del rows
try:
    import pandas
except ImportError:
    sys.exit()
before = time.perf_counter()
frame = runs.to_pandas()
print(f"to_pandas {time.perf_counter() - before:.2f} s, {frame.shape}, peak {peak():.0f} MB")
"""


def write_many(template: Path, root: Path, number: int) -> None:
    """Write runs from a template: one stream for every thousand, learners with 50 seeds a setting.

    Parameters
    ----------
    template : Path
        The directory of a finished run.
    root : Path
        The directory that gets them.
    number : int
        How many.
    """
    draw = random.Random(0)
    text = (template / "record.json").read_text(encoding="utf-8")
    predictions = (template / "predictions.h5").read_bytes()
    for i in range(number):
        data: dict[str, Any] = json.loads(text)
        learner = LEARNERS[i // 50 % len(LEARNERS)]
        setting = i // (50 * len(LEARNERS)) % 4
        data |= {"learner": learner, "seed": i % 50}
        data["learner_params"] = {**data["learner_params"], "lam": 10.0**setting}
        data["seeds"] = {kind: i % 50 * 4 + k for k, kind in enumerate(data["seeds"])}
        data["metrics"] = {
            name: None if value is None else draw.random()
            for name, value in data["metrics"].items()
        }
        place = root / f"stream-{i // 1000:04d}" / f"{learner}-{setting}" / f"seed-{i % 50}"
        place.mkdir(parents=True)
        (place / "record.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
        (place / "predictions.h5").write_bytes(predictions)


def main() -> None:
    """Write the runs, and read them in another process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--runs", dest="number", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="a directory that keeps the runs")
    asked = parser.parse_args()
    template = min(asked.runs.rglob("record.json")).parent
    with tempfile.TemporaryDirectory() as folder:
        root = asked.keep or Path(folder) / "runs"
        if not root.exists():
            write_many(template, root, asked.number)
        size = (template / "record.json").stat().st_size
        print(f"template {template}: a record of {size:,} bytes", flush=True)
        cache = Path(folder) / "cache"
        environment = {**os.environ, "EMBEDBENCH_CACHE": str(cache)}
        subprocess.run([sys.executable, "-c", READ, str(root)], env=environment, check=True)
        shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__":
    main()
