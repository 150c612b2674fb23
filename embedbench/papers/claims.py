"""The claims of the papers: `claims.toml`, read and checked."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from embedbench.config.json_types import ABSENT, JsonRecord

Names = str | tuple[str, ...]


@dataclass(frozen=True)
class OtherSide(JsonRecord):
    """What is different in B; `claims.toml` says what the fields mean."""

    table: str = ""
    column: Names = ""
    where: dict[str, Names] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True)
class ClaimPart(JsonRecord):
    """Contrasts of a claim; `claims.toml` says what the fields mean."""

    table: str
    column: Names
    where: dict[str, Names] = field(default_factory=dict)
    since: str = ""
    pool: str = ""
    by: str = "mean"
    minus: OtherSide | None = field(default=None, metadata=ABSENT)
    times: float = 1.0
    above: float | None = field(default=None, metadata=ABSENT)
    below: float | None = field(default=None, metadata=ABSENT)
    within: float | None = field(default=None, metadata=ABSENT)
    around: float = 0.0
    printed: bool = False
    paired: bool = True
    exact: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim(JsonRecord):
    """One claim of a paper; `claims.toml` says what the fields mean."""

    id: str
    paper: str
    says: str
    place: str
    test: str
    threshold: str
    matters: float
    command: tuple[str, ...]
    after_look: bool = False
    arithmetic: bool = False
    one: bool = False
    needs: str = ""
    own: tuple[str, ...] | None = field(default=None, metadata=ABSENT)
    elsewhere: tuple[str, ...] | None = field(default=None, metadata=ABSENT)
    ours: tuple[str, ...] | None = field(default=None, metadata=ABSENT)
    fitted: tuple[str, ...] = ()
    parts: tuple[ClaimPart, ...] = ()


@dataclass(frozen=True)
class ClaimedPaper(JsonRecord):
    """The data of a paper, and the commands that test its claims."""

    own: tuple[str, ...]
    elsewhere: tuple[str, ...]
    ours: tuple[str, ...]
    unit: str
    commands: dict[str, str]


@dataclass(frozen=True)
class ClaimFile(JsonRecord):
    """The content of `claims.toml`."""

    papers: dict[str, ClaimedPaper]
    claims: tuple[Claim, ...]


@cache
def load_claims() -> ClaimFile:
    """Return the claims that ship with the package."""
    path = resources.files("embedbench") / "papers" / "claims.toml"
    return ClaimFile.from_json(tomllib.loads(path.read_text(encoding="utf-8")), "claims.toml")
