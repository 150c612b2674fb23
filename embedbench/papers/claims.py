"""What papers claim: a few lines of Python for each claim, in the `claims.py` of a paper's folder.

A claim is a function of a `ClaimTable` that gives contrasts. The first paragraph of its docstring
is the sentence of the paper, the second what is compared. The printed tables are given as tables of
the same kind, so that a claim is judged on its own paper first.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from embedbench.reports.results import Results

from .claim_numbers import Contrast
from .claim_table import ClaimTable
from .paper_folders import facts, folder_of, names

Threshold = Literal["printed", "derived", "ours", "ours, after a look"]
Contrasts = Callable[[ClaimTable], Iterable[Contrast]]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Parameters
    ----------
    id, says, place, test : str
        Its id; the sentence, its place in the paper, and what is compared.
    contrasts : callable
        The contrasts on a table, each of which must hold.
    commands : sequence of str
        Names of the commands that make the results.
    threshold : str
        Where the thresholds are from: printed; derived from what is printed or said; ours, and if
        stored results were in view when they were set.
    any_one : bool
        One contrast that holds is enough.
    of_print : bool
        About printed numbers alone; no data are needed.
    fitted : sequence of str
        Data that our settings were fitted to, so that holding confirms nothing there.
    controls : sequence of str
        Data made so that it need not hold there; it is not asked of them.
    not_built : str
        Why it cannot be judged.
    """

    id: str
    says: str
    place: str
    test: str
    contrasts: Contrasts
    commands: Sequence[str] = ()
    threshold: Threshold = "derived"
    any_one: bool = False
    of_print: bool = False
    fitted: Sequence[str] = ()
    controls: Sequence[str] = ()
    not_built: str = ""


@dataclass(eq=False)
class PaperClaims:
    """The claims of a paper, and what they share.

    Parameters
    ----------
    name : str
        Of the paper.
    theirs : sequence of str
        The paper's data sets, as its tables call them.
    commands : dict
        The commands behind the claims, by name.
    printed : callable
        The printed tables, one for each of its data sets.
    unit : str
        "" for fractions, "%" for percent.
    trains : bool
        The paper trains a network on images, so that embeddings of its data are another backbone's.
    official : dict
        Its names of its data, by ours and by the table that is about one.
    """

    name: str
    theirs: Sequence[str]
    commands: Mapping[str, str]
    printed: Callable[[], Sequence[ClaimTable]] = tuple
    unit: str = ""
    trains: bool = True
    official: Mapping[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list, init=False)

    def claim(
        self,
        id_: str,
        place: str,
        *commands: str,
        threshold: Threshold = "derived",
        any_one: bool = False,
        of_print: bool = False,
        fitted: Sequence[str] = (),
        controls: Sequence[str] = (),
        not_built: str = "",
    ) -> Callable[[Contrasts], Contrasts]:
        """Add the decorated function as a claim; the fields are those of `Claim`."""

        def add(contrasts: Contrasts) -> Contrasts:
            says, _, test = (inspect.getdoc(contrasts) or "").partition("\n\n")
            self.claims.append(
                Claim(
                    id=id_,
                    says=" ".join(says.split()),
                    place=place,
                    test=" ".join(test.split()),
                    contrasts=contrasts,
                    commands=commands,
                    threshold=threshold,
                    any_one=any_one,
                    of_print=of_print,
                    fitted=fitted,
                    controls=controls,
                    not_built=not_built,
                )
            )
            return contrasts

        return add

    def tables_of_print(self) -> list[ClaimTable]:
        """One table of all printed rows, for claims that are about print alone."""
        rows = [row for table in self.printed() for row in table.rows]
        return [ClaimTable(Results(tuple(rows)))] if rows else []

    @property
    def samples(self) -> frozenset[str]:
        """The known samples digests of its data."""
        return known_samples(self.name)


@cache
def known_samples(name: str) -> frozenset[str]:
    """The samples digests of a paper's data that are known, from its plan."""
    from .reproduction_plan import plan_data

    digests = (data.get("samples_digest") for data in plan_data(facts(name)))
    return frozenset(digest for digest in digests if digest)


def papers_with_claims() -> list[str]:
    """The names of the papers, by year."""
    return sorted((of_paper[0] for of_paper in names().values()), key=lambda name: name[-4:])


def load_claims(name: str) -> PaperClaims:
    """The claims of a paper; nothing slow is imported."""
    module = importlib.import_module(f"{__package__}.{folder_of(name)}.claims")
    result: PaperClaims = module.CLAIMS
    return result
