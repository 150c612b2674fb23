"""What a release says of itself agrees in all places."""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import yaml

from embedbench.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def test_version_and_licence_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == citation["version"] == __version__
    assert project["license"] == citation["license"]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_make_demo_installs_the_package_alone() -> None:
    """`make test` adds the tools; torch may come from an index of its own."""
    commands = {
        goal: subprocess.run(
            ["make", "--dry-run", "--always-make", goal, "TORCH_INDEX=URL"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout
        for goal in ("demo", "test")
    }  # fmt: skip
    for made in commands.values():
        assert "pip install --quiet --index-url URL torch torchvision\n" in made
        assert "pip install --quiet -e .\n" in made
    assert [".[dev]" in commands[goal] for goal in ("demo", "test")] == [False, True]


SCRIPT = "import embedbench, embedbench.models.ncm, models; print(embedbench.Session, models.WHOSE)"


def test_what_is_on_the_path_is_the_package_alone(tmp_path: Path) -> None:
    """From the clone's parent, with what an editable installation adds to the path."""
    (tmp_path / "embedbench").symlink_to(ROOT)
    (tmp_path / "models.py").write_text("WHOSE = 'mine'\n")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"]["find"]["where"] == ["src"]
    script = "import sys; sys.path.append('embedbench/src'); import embedbench, models"
    script += "; print(embedbench.__version__, models.__file__, sep=chr(10))"
    done = _python(Path(sys.executable), tmp_path, script, "-S")  # without any installed package
    assert done.stdout.splitlines() == [__version__, str(tmp_path / "models.py")], done.stderr
    done = _python(Path(sys.executable), tmp_path, script, "-S", "-P")  # only src/ is left
    assert "No module named 'models'" in done.stderr


@pytest.mark.long
def test_a_script_beside_the_clone_after_pip_install(tmp_path: Path) -> None:
    """Needs a package index, for setuptools."""
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "build", "_build", "runs", "tests")
    shutil.copytree(ROOT, tmp_path / "embedbench", symlinks=True, ignore=ignored)
    (tmp_path / "models.py").write_text("WHOSE = 'mine'\n")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "-e", str(tmp_path / "embedbench")]
    subprocess.run([str(python), *install], check=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "ours.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    done = _python(python, tmp_path, SCRIPT)
    assert "Session'> mine" in done.stdout, done.stderr
    done = _python(python, tmp_path, "import embedbench; print(embedbench.__file__)")
    assert done.stdout.startswith(str(tmp_path / "embedbench" / "src"))


def _python(
    python: Path, folder: Path, script: str, *options: str
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [str(python), *options, "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
