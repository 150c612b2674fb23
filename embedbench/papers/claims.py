"""What papers claim: a few lines of Python for each claim, in the `claims.py` of a paper's folder.

A claim is a function of a `ClaimTable` that gives contrasts. The first paragraph of its docstring
is the sentence of the paper, the second what is compared.
"""

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from embedbench.reports.contrasts import Contrast
from embedbench.reports.results import Results

from .claim_table import ClaimTable
from .paper_folders import folder_of, names

Threshold = Literal["printed", "derived", "ours", "ours, after a look"]
Contrasts = Callable[[ClaimTable], Iterable[Contrast]]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Parameters
    ----------
    id, place, says, test : str
        Its id, its place in the paper, the sentence, and what is compared.
    contrasts : callable
        The contrasts on a table, each of which must hold.
    threshold : str
        Where the thresholds are from: printed; derived from what is printed or said; ours, and if
        stored results were in view when they were set.
    after_look : bool
        Stored results were in view when the question was chosen: that it is asked, or of which
        learners, columns and sessions. Then the counts that leave out what is ours leave it out.
    any_one, of_print : bool
        One contrast that holds is enough; it is about printed numbers alone.
    fitted, controls : tuple of str
        Data that our settings were fitted to, so that holding confirms nothing there; data where it
        need not hold, which are not asked.
    """

    id: str
    place: str
    says: str
    test: str
    contrasts: Contrasts
    threshold: Threshold = "derived"
    after_look: bool = False
    any_one: bool = False
    of_print: bool = False
    fitted: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()


@dataclass(eq=False)
class PaperClaims:
    """The claims of a paper.

    Parameters
    ----------
    theirs : sequence of str
        The paper's data sets, as its tables call them.
    printed : callable
        The printed tables, one for each of its data sets.
    unit : str
        "" for fractions, "%" for percent.
    trains : bool
        The paper trains a network on images, so that embeddings of its data are another backbone's.
    official : dict
        Its names of its data, by ours and by the table that is about one.
    remark : str
        What holds for all runs of the paper, for the page.
    """

    name: str
    theirs: Sequence[str]
    printed: Callable[[], Sequence[ClaimTable]] = tuple
    unit: str = ""
    trains: bool = True
    official: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""
    claims: list[Claim] = field(default_factory=list, init=False)

    def claim(self, id_: str, place: str, **more: Any) -> Callable[[Contrasts], Contrasts]:
        """Add the decorated function as a claim; `more` are fields of `Claim`."""

        def add(contrasts: Contrasts) -> Contrasts:
            says, _, test = (inspect.getdoc(contrasts) or "").partition("\n\n")
            sentence, compared = (" ".join(text.split()) for text in (says, test))
            self.claims.append(Claim(id_, place, sentence, compared, contrasts, **more))
            return contrasts

        return add

    def tables_of_print(self) -> list[ClaimTable]:
        """One table of all printed rows, for claims that are about print alone."""
        rows = itertools.chain(*[table.rows for table in self.printed()])
        return [ClaimTable(Results(tuple(rows)))]


def papers_with_claims() -> list[str]:
    """The names of the papers, by year."""
    return sorted((of_paper[0] for of_paper in names().values()), key=lambda name: name[-4:])


def load_claims(name: str) -> PaperClaims:
    """The claims of a paper; nothing slow is imported."""
    module = importlib.import_module(f"{__package__}.{folder_of(name)}.claims")
    result: PaperClaims = module.CLAIMS
    return result
