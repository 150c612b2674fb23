"""The tags of our learners, read from their files: importing them would import torch."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from embedbench.learning.learner import Tags

from .learner_and_protocol_names import ALIASES, our_learners

PACKAGE = Path(__file__).parents[1]
# A class up to the next line that is not indented: its name, its base and its body.
_CLASS = re.compile(r"^class (\w+)\((\w+).*?\):\n((?:[ \t].*\n|\n)+)", re.MULTILINE)
_TAGS = re.compile(r"^    tags: ClassVar\[Tags\] = (Tags\([^)]*\))$", re.MULTILINE)
_LEARN = re.compile(r"^    (?:def learn\(|learn = )", re.MULTILINE)
_NEAR = re.compile(r"^from (\.\w+) import (.+)$", re.MULTILINE)  # of another file of models
CONTRACT = "Learner"  # the class at which tags end


@cache
def listed_words() -> dict[str, tuple[str, ...]]:
    """By the name of each of our learners: what it takes and needs, as `Tags.words` has it."""
    words = {}
    for name in our_learners():
        file = ALIASES.get(name, (name,))[0].replace("-", "_")
        words[name] = _read_words(PACKAGE / "models" / f"{file}.py")
    return words


def learners_with(*words: str) -> list[str]:
    """Names of our learners that have all these words; another name of a learner is left out."""
    listed = listed_words()
    return [name for name in listed if {*words} <= {*listed[name]} and name not in ALIASES]


def _read_words(path: Path) -> tuple[str, ...]:
    """The words of the first public class of a file, which is its learner."""
    bodies = list(_bodies(path))
    tags = next((match[1] for body in bodies if (match := _TAGS.search(body))), "Tags()")
    call = ast.parse(tags, mode="eval").body
    assert isinstance(call, ast.Call)
    given = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    sessions = any(_LEARN.search(body) for body in bodies)
    return tuple(Tags(**given).words(sessions=sessions))


def _bodies(path: Path, name: str = "") -> Iterator[str]:
    """The bodies of a class, by default the first public one, and of the classes above it."""
    text = _text(path)
    for known, base, body in _CLASS.findall(text):
        if known != name and (name or known.startswith("_")):
            continue
        yield body
        if base != CONTRACT:
            yield from _bodies(_home(base, text, path), base)
        return


def _home(name: str, text: str, path: Path) -> Path:
    """The file of a class that the text of a file imports, or has."""
    for module, names in _NEAR.findall(text):
        if name in names.replace(",", " ").split():
            return path.parent / f"{module[1:]}.py"
    toolkit = (PACKAGE / "learning").glob("*.py")
    return next(file for file in toolkit if f"\nclass {name}(" in _text(file))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
