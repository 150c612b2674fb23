"""The claims of the papers: `claims.toml`, read and checked."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from embedbench.config.json_records import ABSENT, JsonRecord

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
    theirs: tuple[str, ...]
    elsewhere: tuple[str, ...]
    ours: tuple[str, ...]
    matters: float
    command: tuple[str, ...]
    after_look: bool = False
    arithmetic: bool = False
    one: bool = False
    needs: str = ""
    fitted: tuple[str, ...] = ()
    parts: tuple[ClaimPart, ...] = ()


@dataclass(frozen=True)
class ClaimedPaper(JsonRecord):
    """What the claims of a paper share; `claims.toml` says what the fields mean."""

    theirs: tuple[str, ...]
    elsewhere: tuple[str, ...]
    ours: tuple[str, ...]
    matters: float
    command: tuple[str, ...]
    unit: str
    commands: dict[str, str]


@dataclass(frozen=True)
class ClaimFile(JsonRecord):
    """The content of `claims.toml`."""

    papers: dict[str, ClaimedPaper]
    claims: tuple[Claim, ...]


@cache
def load_claims() -> ClaimFile:
    """Return the claims that ship with the package; what a claim does not say is its paper's."""
    path = resources.files("embedbench") / "papers" / "claims.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    claims = [data["papers"][claim["paper"]] | claim for claim in data["claims"]]
    return ClaimFile.from_json({**data, "claims": claims}, "claims.toml")
