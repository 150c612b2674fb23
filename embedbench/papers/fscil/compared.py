"""Printed rows of methods beside ours, on the paper's data or on files that replace them."""

from collections.abc import Callable, Mapping, Sequence

from embedbench.papers.published import DRAWN, FIXED, PaperTable, Value
from embedbench.scores.mean_intervals import Stat

from .figures import measure
from .printed import COLUMNS, HEADS, TITLES, misprints, printed_rows, row_name
from .runs import OFFICIAL, FSCILRuns

# The data set of every printed table of methods.
TABLES = {
    "1": "mini-imagenet",
    "2": "cub200",
    "3": "cifar100",
    "4": "cifar100",
    "5": "mini-imagenet",
    "6": "mini-imagenet",
    "A5": "cifar100",
    "A6": "mini-imagenet",
    "A7": "cifar100",
    "A8": "cub200",
}
# The paper's rows, and our learners.
OURS = {
    "none": "prototype",
    "Vit-Baseline": "prototype",
    "all losses": "fr",
    "Ensemble": "fr",
    "Ours": "fr",
    "YourSelf (Ours)": "fr",
    "+YourSelf (Ours)": "fr",
    "NC-FSCIL": "nc-fscil",
    "C-FSCIL": "c-fscil",
    "ALICE": "alice",
}
# Rows of Tables 4 and A8, under the paper's weights; the middle rows of Table 5 have other losses.
LOSSES = {"cos_nov": "fr-paper-cos", "cr": "fr-paper-cr"}
# Rows of Table 6: FR's layers in the paper, and ours by their place among the file's.
LAYERS = ("8", "9", "10")
SUMMARY = {"mean": "novel_accuracy", "aacc": "aacc", "gacc": "gacc"}
NAMES = {"none": "ViT baseline", "cos_nov": "L_cos + L_NovCE", "cr": "… + L_CR"}
NOTE = (
    "our rows: the learners that we have, on embeddings; the paper's networks were trained on the "
    "base session"
)


def compare_rows(runs: FSCILRuns) -> list[PaperTable]:
    """Printed rows beside our learners' results, for every table that a file can be held to."""
    tables = []
    for name, data in runs.data.items():
        for number, official in TABLES.items():
            if data.official in (None, official):
                tables.append(_of_runs(runs, name, number))
    return [table for table in tables if table.rows]


def printed_tables() -> list[PaperTable]:
    """Every table of methods without ours."""
    return [_beside(number, lambda *_: None) for number in TABLES]


def _variants(number: str, layers: Sequence[str] = ()) -> dict[str, str]:
    """Our runs by the names of a table's printed rows.

    Parameters
    ----------
    layers : sequence of str
        The layers of FR's modules; Table 6 has ours if they are as many as the paper's.
    """
    if number in ("4", "A8"):
        return {**OURS, **LOSSES}
    if number == "6" and len(layers) == len(LAYERS):
        pairs = zip(LAYERS, layers, strict=True)
        kinds = {"Raw": "raw", "Recti": "recti"}
        return OURS | {f"{a}-{k}": f"{b}-{kinds[k]}" for a, b in pairs for k in kinds}
    return OURS


def _of_runs(runs: FSCILRuns, name: str, number: str) -> PaperTable:
    stands_in = runs.data[name].official is None

    def ours(variant: str, what: str) -> Stat | None:
        numbers = measure(runs, name, variant, [what]) if runs.of(name, variant) else None
        return numbers[0].ours if numbers else None

    layers = runs.layers(name) if number == "6" else ()
    table = _beside(number, ours, variants=_variants(number, layers), stands_in=stands_in)
    table.rows = [row for row in table.rows if any(v.ours for v in row[1].values())]
    table.of = table.name
    if stands_in:
        table.name += f" · {name}"
        table.data = f"{name} for {OFFICIAL[TABLES[number]]}"
    table.notes.append(NOTE)
    return table


def _beside(
    number: str,
    ours: Callable[[str, str], Stat | None],
    *,
    variants: Mapping[str, str] = OURS,
    stands_in: bool = False,
) -> PaperTable:
    """The printed means of a table, and ours by variant and number."""
    title = f"{TITLES[number].removesuffix(', percent')}: runs, percent"
    columns = [k for k in COLUMNS if k in printed_rows(number)[0]]
    head = HEADS["layer"] if number == "6" else HEADS["method"]
    heads = [COLUMNS[k] for k in columns]
    table = PaperTable(f"{number}, runs", title, (head,), heads, method=head, unit="%")
    wrong = misprints(number)
    for row in printed_rows(number):
        method = row_name(row)
        variant = variants.get(method)
        values = {
            COLUMNS[k]: Value(
                row[k],
                ours(variant, SUMMARY[k]) if variant else None,
                2,
                stands_in,
                made=FIXED if variant and variant.endswith(("prototype", "-raw")) else DRAWN,
                **wrong.get((method, k), {}),
            )
            for k in columns
        }
        table.rows.append(((NAMES.get(method, method),), values))
    return table
