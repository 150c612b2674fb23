"""Run every command and every line of Python in README.md and docs/, in an empty folder.

The pages are run one after another in the same folder, so that a page may use the files that the
README made. What cannot run here says so: a block by its first line, `# needs: SLURM`, a page by a
sentence, `*Commands on this page need: …*`. The notebooks of docs/tutorials are run by the build of
the site.

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
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
FIRST = ("README.md", "docs/concepts.md")  # they make what other pages use
# Pages whose commands and Python a test runs, because they are a package or parts of one script.
TESTED = {
    "docs/add_a_learner.md": "tests/checks/test_plugins_page.py",
    "docs/plugins.md": "tests/checks/test_plugins_page.py",
    "docs/specification/predictions.md": "tests/scores/test_predictions_page.py",
}
FENCE = re.compile(r"^```([\w{}-]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"(#!.*\n)?# needs: \S")  # a script begins with `#!`, or it is none
COMMAND = re.compile(r"^(embedbench|python|pip|import|from) \S", re.MULTILINE)
LANGUAGES = ("sh", "bash", "python")
PAGE_NEEDS = re.compile(r"^\*Commands on this page need: .+\*$", re.MULTILINE)
MAKE_DEMO = "embedbench demo"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page that has commands or Python; `needs`: it is not run here."""

    page: str
    language: str
    text: str
    needs: bool

    def commands(self) -> list[str]:
        """The commands, each on one line."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]


def pages() -> list[str]:
    """The README and every page of docs/, in the order in which they are run."""
    made = ("_build", "reference", "results", "tutorials")
    found = sorted((ROOT / "docs").rglob("*.md"))
    names = [str(p.relative_to(ROOT)) for p in found if p.relative_to(ROOT).parts[1] not in made]
    return [*FIRST, *(name for name in names if name not in FIRST)]


def blocks(page: str) -> list[Block]:
    """What a page asks the reader to run."""
    text = (ROOT / page).read_text(encoding="utf-8")
    whole = PAGE_NEEDS.search(text) is not None
    return [
        Block(page, language, body, whole or NEEDS.match(body) is not None)
        for language, body in FENCE.findall(text)
        if language in LANGUAGES or COMMAND.search(body)
    ]


def main() -> None:
    """Stop at the first example that fails; say at the end what ran and what did not."""
    began = time.perf_counter()
    all_blocks = [block for page in pages() if page not in TESTED for block in blocks(page)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _photos(Path("photos"))
        _random_weights(Path(folder) / "random.safetensors")
        for block in all_blocks:
            if not block.needs:
                _run(block)
    ran = [block for block in all_blocks if not block.needs]
    marked = [block for block in all_blocks if block.needs]
    print(
        f"ran {_counted(ran)} in {time.perf_counter() - began:.0f} s; marked with what they need: "
        f"{_counted(marked)}; run by tests: {_counted([b for p in TESTED for b in blocks(p)])}"
    )


def _counted(some: list[Block]) -> str:
    commands = sum(len(block.commands()) for block in some if block.language != "python")
    lines = sum(len(block.text.splitlines()) for block in some if block.language == "python")
    return f"{commands} commands and {lines} lines of Python"


def _run(block: Block) -> None:
    if block.language == "python":
        code = compile(block.text, block.page, "exec", dont_inherit=True)  # no __future__ of ours
        _timed(f"Python of {block.page}", lambda: exec(code, {}))
    elif block.language == "bash":
        for line in block.commands():
            _timed(line, lambda line=line: _command(line))
    else:  # setting up: the demo is what can be run here
        assert "make demo" in block.text
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
    with ExitStack() as stack:
        if words[-2] == ">":
            file = stack.enter_context(open(words[-1], "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(file))
            words = words[:-2]
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

    patch("embedbench.networks.published_weights.hub_weights", made).start()


if __name__ == "__main__":
    main()
