"""Every requirement has a lower bound, every extra tests of its own, and the lock is one."""

import re
import tomllib
from pathlib import Path

import pytest
import try_versions
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = [
    requirement
    for listed in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for requirement in map(Requirement, listed)
    if requirement.name != PROJECT["name"]
]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
LOCKED = [Requirement(line) for line in LINES if not line.startswith("#")]


def plain(name: str) -> str:
    """The name of a package as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name.lower())


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: r.name)
def test_every_requirement_has_a_lower_bound(requirement: Requirement) -> None:
    assert any(bound.operator == ">=" for bound in requirement.specifier)


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: r.name)
def test_what_is_required_is_locked_within_its_bounds(requirement: Requirement) -> None:
    (version,) = (
        bound.version
        for locked in LOCKED
        if plain(locked.name) == plain(requirement.name)
        for bound in locked.specifier
    )
    assert requirement.specifier.contains(version)


def test_every_extra_is_tried_alone() -> None:
    assert set(try_versions.TESTS) == try_versions.extras()


@pytest.mark.parametrize("extra", sorted(try_versions.TESTS))
def test_the_tests_of_an_extra_are_there(extra: str) -> None:
    missing = [
        path for path in try_versions.TESTS[extra] if not (ROOT / path.partition("::")[0]).is_file()
    ]
    assert not missing
