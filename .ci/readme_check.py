"""Run every command and every line of Python in README.md and the guides, in an empty folder.

The pages are run one after another in the same folder, so that a guide may use the files that the
README made.

`photos/` is made of a few of the emoji that ship, and weights that timm would download are replaced
by random ones, so that no network is needed.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *("README.md", "docs/files.md", "docs/runs.md", "docs/studies.md", "docs/results_as_data.md"),
    *("docs/answers.md", "docs/images.md", "docs/papers.md"),
)
MAKE_DEMO = "embedbench demo"


def main() -> None:
    """Stop at the first example that fails."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"^```(sh|bash|python)\n(.*?)^```", text, re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _photos(Path("photos"))
        _random_weights(Path(folder) / "random.safetensors")
        for language, text in blocks:
            if language == "python":
                _timed("python", lambda text=text: exec(text, {}))
            elif language == "bash":
                for line in text.replace("\\\n", "").splitlines():
                    if line.strip():
                        _timed(line, lambda line=line: _command(line))
            else:  # setting up: the demo is what can be run here
                assert "make demo" in text
                _timed(MAKE_DEMO, lambda: _command(MAKE_DEMO))


def _timed(name: str, run: Any) -> None:
    began = time.perf_counter()
    print(f"-- {name}", flush=True)
    run()
    print(f"-- {time.perf_counter() - began:.1f} s", flush=True)


def _command(line: str) -> None:
    """Run a command in this process, so that it finds the random weights."""
    from embedbench.cli.app import main as embedbench

    words = shlex.split(line, comments=True)
    assert words[0] == "embedbench", f"cannot run {line!r}"
    sys.argv = words
    try:
        embedbench()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{line} ended with {end.code}")


def _photos(root: Path) -> None:
    """Ten images of each of six classes."""
    with zipfile.ZipFile(Path(str(files("embedbench"))) / "assets" / "emoji-noto.zip") as archive:
        by_class: dict[str, list[str]] = {}
        for name in archive.namelist():
            by_class.setdefault(name.split("/")[-2], []).append(name)
        large = [c for c, names in sorted(by_class.items()) if len(names) >= 20][:6]
        for c in large:
            (root / c).mkdir(parents=True)
            for name in by_class[c][:10]:
                (root / c / name.split("/")[-1]).write_bytes(archive.read(name))


def _random_weights(path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    def made(name: str, cfg: dict[str, Any]) -> tuple[Path, str]:
        model = timm.create_model(name, pretrained=False, num_classes=0)
        save_file(model.state_dict(), path)
        return path, "random"

    patch("embedbench.networks.hub.hub_weights", made).start()


if __name__ == "__main__":
    main()
