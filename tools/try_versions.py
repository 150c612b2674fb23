"""Try the project with other versions than those of constraints.txt, each in its own environment.

    make try-newest     the newest of everything, as `pip install` without constraints takes them
    make try-lowest     the lower bounds of pyproject.toml, and what else they need
    make try-extras     each extra alone, with the tests that need it

They take minutes and gigabytes, so they are run when dependencies change and before a release. A
bound in pyproject.toml is one that passed here; constraints.txt is what `try-newest` installed when
it passed last (`build/versions/newest.txt`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "versions"
TOOLS = ("pytest", "pytest-xdist", "hypothesis")  # what any test needs
# The extras, and the tests that skip or fail without them. Others of these files skip what is not
# there. `s3` is tried against a server that moto makes.
TESTS = {
    "audioset": ["tests/files/test_audioset.py"],
    "ray": ["tests/engines/test_ray_engine.py"],
    "s3": ["tests/sharing/test_push_file.py::test_s3"],
    "slurm": ["tests/engines/test_slurm_engine.py", "tests/engines/test_engine.py"],
    "hf": ["tests/extract/test_hf_backbone.py"],
    "audio": ["tests/extract/test_sound_files.py"],
    "datasets": ["tests/extract/test_hub_datasets.py"],
    "parquet": [
        "tests/files/test_import_features_formats.py",
        "tests/files/test_export_features.py",
    ],
    "pandas": ["tests/reports/test_load_results.py"],
    "tensorboard": ["tests/reports/test_trackers.py"],
    "wandb": ["tests/reports/test_trackers.py"],
}
BESIDE = {"s3": ["moto[s3]", "flask", "flask-cors"]}


@dataclass(frozen=True)
class Trial:
    """One environment, what is installed into it, and the tests that are run in it."""

    name: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("-n", "auto", "--dist", "worksteal")


def trials(kind: str) -> list[Trial]:
    """Return what is tried for a word of the command line."""
    if kind == "newest":
        return [Trial(kind, ("-e", ".[dev]"))]
    if kind == "lowest":
        return [Trial(kind, ("-e", ".[dev]"), ("--resolution", "lowest-direct"))]
    out = []
    for extra, tests in TESTS.items():
        packages = ("-e", f".[{extra}]", *TOOLS, *BESIDE.get(extra, ()))
        out.append(Trial(extra, packages, tests=("-m", "not fuzz", *tests)))
    return out


def attempt(trial: Trial, uv: str) -> bool:
    """Install and test; print one line of what came."""
    began = time.perf_counter()
    place = FOLDER / trial.name
    shutil.rmtree(place, ignore_errors=True)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = {**os.environ, "VIRTUAL_ENV": str(place)}
    environment.pop("PYTHONPATH", None)
    installs = [
        [uv, "venv", "--quiet", "--python", python, str(place)],
        [uv, "pip", "install", "--quiet", *trial.options, *trial.packages],
    ]
    for words in installs:
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"{trial.name:<12} cannot be installed: {done.stderr.strip()}", flush=True)
            return False
    frozen = subprocess.run([uv, "pip", "freeze"], env=environment, capture_output=True, text=True)
    lines = [line for line in frozen.stdout.splitlines() if not line.startswith("-e ")]
    place.with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    installed = time.perf_counter() - began
    words = [str(place / "bin" / "python"), "-m", "pytest", *trial.tests]
    tested = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    place.with_suffix(".log").write_text(tested.stdout + tested.stderr, encoding="utf-8")
    last = re.sub(r"\x1b\[\d*m", "", (tested.stdout.splitlines() or ["no output"])[-1])
    print(f"{trial.name:<12} {last}; installed in {installed:.0f} s", flush=True)
    if tested.returncode:
        print(f"{'':<12} see {place.with_suffix('.log').relative_to(ROOT)}", flush=True)
        return False
    shutil.rmtree(place)
    return True


def main() -> None:
    """Try every environment, and end with 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=("newest", "lowest", "extras"))
    parser.add_argument("--only", nargs="*", default=list(TESTS), help="extras")
    asked = parser.parse_args()
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    if uv is None:
        sys.exit("tools/try_versions.py needs uv: pip install uv")
    FOLDER.mkdir(parents=True, exist_ok=True)
    passed = [
        attempt(trial, uv)
        for trial in trials(asked.kind)
        if asked.kind != "extras" or trial.name in asked.only
    ]
    sys.exit(not all(passed))


def extras() -> set[str]:
    """Return the extras of pyproject.toml that a user may want."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {*project["optional-dependencies"]} - {"dev", "docs"}


if __name__ == "__main__":
    main()
