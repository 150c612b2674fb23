"""What a release says of itself agrees in all places."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from embedbench.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def test_version_and_licence_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == citation["version"] == __version__
    assert project["license"] == citation["license"]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_what_is_on_the_path_is_the_package_alone(tmp_path: Path) -> None:
    """From the clone's parent, with what an editable installation adds to the path."""
    (tmp_path / "embedbench").symlink_to(ROOT)
    (tmp_path / "models.py").write_text("WHOSE = 'mine'\n")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"]["find"]["where"] == ["src"]
    script = "import sys; sys.path.append('embedbench/src'); import embedbench, models"
    script += "; print(embedbench.__version__, models.__file__, sep=chr(10))"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # without any installed package; then without the folder, where only src/ is left
    alone, only_src = (
        subprocess.run(
            [sys.executable, *options, "-c", script],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )
        for options in (["-S"], ["-S", "-P"])
    )  # fmt: skip
    assert alone.stdout.splitlines() == [__version__, str(tmp_path / "models.py")], alone.stderr
    assert "No module named 'models'" in only_src.stderr
