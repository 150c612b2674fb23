"""Build the wheel, install it into an empty environment, and use it from an empty directory.

With a folder, as `make release` calls it, the files of a release are left there: sdist, wheel, and
their SHA-256. Then the demo is run in the empty environment, too.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("extract", "models", "protocols")  # beside the package, linked into it

# Runs in the empty environment: every module of the project, and the files that ship with it.
CHECK = """
import importlib, pathlib, sys
import embedbench
home = pathlib.Path(embedbench.__file__).parent
assert home.is_relative_to(sys.prefix), f"{home} is not the installed package"
assert not home.is_symlink() and not (home / "models").is_symlink()
for name in sys.argv[1:]:
    importlib.import_module(name)
assert (home / "py.typed").is_file()
assets = [p.name for p in (home / "assets").iterdir()]
assert len(assets) >= 3, assets
assert len(list((home / "assets" / "presets").glob("*.toml"))) >= 10, "no presets"
papers = {path.parent.name for path in (home / "papers").glob("*/paper.py")}
assert papers == {path.parent.name for path in (home / "papers").glob("*/paper.toml")}, papers
assert (home / "zoo" / "zoo.toml").is_file()
print(f"{len(sys.argv) - 1} modules and {len(assets)} assets")
"""


def modules() -> list[str]:
    """Every module of the project by its import name; `__main__` is run instead."""
    package = ROOT / "embedbench"
    files = [
        p.relative_to(ROOT) for p in package.rglob("*.py") if p.resolve().is_relative_to(package)
    ]
    files += [
        Path("embedbench", room, p.name) for room in ROOMS for p in (ROOT / room).glob("*.py")
    ]
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    return sorted(names - {"embedbench.__main__"})


def main(release: Path | None = None) -> None:
    """Fail with the first step that does."""
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # or modules long deleted go into the wheel
    with tempfile.TemporaryDirectory() as folder:
        dist, env, empty = (Path(folder) / name for name in ("dist", "env", "empty"))
        empty.mkdir()
        _run(sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT))
        _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir()))
        (wheel,) = dist.glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        venv.create(env, with_pip=True)
        bin_ = env / "bin"
        _run(str(bin_ / "python"), "-m", "pip", "install", "--quiet", str(wheel))
        _run(str(bin_ / "python"), "-c", CHECK, *modules(), cwd=empty)
        _run(str(bin_ / "embedbench"), "--help", cwd=empty)
        _run(str(bin_ / "python"), "-m", "embedbench", "list", cwd=empty)
        left = [p.name for p in empty.iterdir()]
        if left:
            sys.exit(f"importing and --help left files behind: {left}")
        if release:
            _run(str(bin_ / "embedbench"), "demo", "--quiet", cwd=empty)
            _keep(dist, release)


def _keep(dist: Path, release: Path) -> None:
    """Copy the files, with their sums as `sha256sum -c` reads them."""
    shutil.copytree(dist, release, dirs_exist_ok=True)
    names = sorted(path.name for path in dist.iterdir())
    sums = [f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (release / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")


def _run(*command: str, cwd: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} … failed:\n{done.stdout}{done.stderr}")
    if "build" not in command:
        print(done.stdout, end="", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
