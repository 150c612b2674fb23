"""Export tables: Markdown and LaTeX of what the terminal prints, CSV of the numbers behind it."""

import csv
import io
import itertools
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .markdown import escape_markdown
from .markdown import table as markdown_table
from .printable_text import printable
from .terminal_text import line, new_table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


TITLE = "bold"  # the style of a line that is the title of the table below it


def export_tables(parts: "Sequence[Text | Table]", form: str) -> tuple[str, list[str]]:
    """Render the tables as "markdown" or "latex"; return the other lines as notes.

    The parts are as `terminal.render_text` takes them. Of several tables each has its title, the
    bold line above it; LaTeX ones begin with the packages that they need, as comments.
    """
    from rich.table import Table

    several = sum(isinstance(part, Table) for part in parts) > 1
    blocks = []
    notes = []
    title = ""
    for part in parts:
        if isinstance(part, Table):
            blocks.append((_markdown if form == "markdown" else tabular)(*table_cells(part), title))
            title = ""
        elif several and part.style == TITLE:
            title = part.plain
        elif part.plain:
            notes.append(part.plain)
    if blocks and form == "latex":
        text = "\n".join(blocks)
        packages = (f"% \\usepackage{{{p}}}" for p, use in _PACKAGES.items() if use in text)
        blocks[0] = "\n".join([*packages, blocks[0]])
    return "\n\n".join(blocks), notes


def table_cells(table: "Table") -> tuple[list[str], list[list[str]], list[bool]]:
    """Headings, rows, and which columns are to the right."""
    heads = [str(column.header) for column in table.columns]
    columns = [[str(cell).replace("\n", " ") for cell in column.cells] for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return heads, rows, [column.justify == "right" for column in table.columns]


def _markdown(heads: list[str], rows: list[list[str]], right: list[bool], title: str) -> str:
    text = markdown_table(
        [escape_markdown(head) for head in heads],
        [[escape_markdown(cell) for cell in row] for row in rows],
        right,
    )
    return f"**{escape_markdown(title)}**\n\n{text}" if title else text


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV: a column for each key, numbers in full, nothing where a value is undefined."""
    keys = dict.fromkeys(itertools.chain(*rows))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_field(key) for key in keys)
    writer.writerows([_field(row.get(key)) for key in keys] for row in rows)
    return text.getvalue().rstrip("\n")


def _field(value: Any) -> str:
    """One value; a text that a spreadsheet would take for a formula gets an apostrophe."""
    text = _text(value)
    return f"'{text}" if isinstance(value, str) and _is_formula(text) else text


def _text(value: Any) -> str:
    """One value as text; "" for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return printable(str(value))


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula.

    Some do so after spaces and invisible characters, and in East Asian locales with signs of full
    width, ＝ ＋ － ＠.

    >>> [_is_formula(text) for text in ("=1", " =1", "\ufeff=1", "\uff1d1", "a=1", "−1", "")]
    [True, True, True, True, False, False, False]
    """
    for character in text:
        if unicodedata.category(character) not in ("Zs", "Cf", "Cc", "Mn"):
            return unicodedata.normalize("NFKC", character)[:1] in ("=", "+", "-", "@")
    return False


def records(data: Any, *path: str) -> list[dict[str, Any]]:
    """Rows of JSON data: what lies in the lists along `path`, with the scalars around it.

    >>> records({"a": 1, "runs": [{"n": 2, "mean": {"x": 0.5}}, {"n": 3}]}, "runs")
    [{'a': 1, 'n': 2, 'mean.x': 0.5}, {'a': 1, 'n': 3}]
    """
    if isinstance(data, list):
        rows: list[dict[str, Any]] = []
        for entry in data:
            rows += records(entry, *path)
        return rows
    if not path:
        return [{k: _joined(v) for k, v in flatten(data).items()}]
    around = {k: v for k, v in data.items() if not isinstance(v, dict | list) and k != "schema"}
    return [around | row for row in records(data[path[0]], *path[1:])]


def pairs(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each value of JSON data, with its name."""
    return [{"name": k, "value": _joined(v)} for k, v in flatten(data).items()]


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by names with dots."""
    result: dict[str, Any] = {}
    for key, value in data.items():
        inside = isinstance(value, Mapping)
        result |= flatten(value, f"{prefix}{key}.") if inside else {prefix + key: value}
    return result


def _joined(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def make_table(rows: Sequence[Mapping[str, Any]]) -> "Table":
    """A table of rows; columns of texts come first."""
    keys = list(dict.fromkeys(itertools.chain(*rows)))
    numbers = [k for k in keys if all(_is_number(row.get(k)) for row in rows)]
    names = [k for k in keys if k not in numbers]
    table = new_table([*names, *numbers], names=len(names))
    for row in rows:
        table.add_row(*(line(_short(row.get(key))) for key in (*names, *numbers)))
    return table


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else _text(value)


# --- LaTeX ---


_PACKAGES = {"booktabs": r"\toprule", "amssymb": r"\checkmark"}  # package → what needs it
_NUMBER = re.compile(r"([−<+]?)([\d,]*\.?\d+)(?: ±([\d,]*\.?\d+))?")
_INDEXED = re.compile("([Α-ΡΣ-Ωα-ρσ-ω])_([a-zA-Z]+)")
# fmt: off
_FORMULAS = {
    "·": r"\cdot", "×": r"\times", "−": "-", "±": r"\pm", "≤": r"\le", "≥": r"\ge",
    "→": r"\to", "✓": r"\checkmark", "∞": r"\infty", "≈": r"\approx", "‖": r"\|",
    "<": "<", ">": ">", "|": "|",
}
# fmt: on
# Between characters that LaTeX joins to another one: --, ``, '', ,,, ?` and !`.
_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=`)(?=`)|(?<=')(?=')|(?<=,)(?=,)|(?<=[?!])(?=`)")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\dots{}",
    **{c: f"${formula}$" for c, formula in _FORMULAS.items()},
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def tabular(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], title: str = ""
) -> str:
    """A table as a tabular without float, caption and label: those are the paper's.

    Columns without an entry are left out; those that hold numbers are to the `right`. The title is
    written above as a comment.
    """
    kept = [i for i in range(len(heads)) if not rows or any(row[i] for row in rows)]
    lines = [
        *([f"% {printable(title)}"] if title else []),
        rf"\begin{{tabular}}{{@{{}}{''.join('lr'[right[i]] for i in kept)}@{{}}}}",
        r"\toprule",
        _latex_row([heads[i] for i in kept]),
        r"\midrule",
        *(_latex_row([row[i] for i in kept]) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _latex_row(cells: Sequence[str]) -> str:
    r"""One row of a table.

    What begins with `[` or `*` would be an argument of the `\\` or `\midrule` before it, which look
    for one over spaces and ends of lines.
    """
    text = " & ".join(map(latex_text, cells)) + r" \\"
    return f"{{}}{text}" if text.lstrip().startswith(("[", "*")) else text


def latex_text(text: str) -> str:
    r"""A text as LaTeX: characters mean themselves; Greek letters and signed numbers are formulas.

    >>> print(latex_text("−35.4 ±1.3"), latex_text("Ω_all"), latex_text("50 %"))
    $-35.4 \pm 1.3$ $\Omega_{\mathrm{all}}$ 50 \%
    """
    plain = printable(text)
    if number := _NUMBER.fullmatch(plain):
        sign, value, half = number.groups(default="")
        formula = f"{sign.replace('−', '-')}{value}" + (rf" \pm {half}" if half else "")
        return f"${formula}$".replace(",", "{,}") if sign or half else value.replace(",", "{,}")
    parts = _INDEXED.split(plain)  # text, letter, index, text, …
    made = ["".join(map(_character, part)) for part in parts]
    for i in range(1, len(parts), 3):
        made[i : i + 2] = [f"${_greek(parts[i])}_{{\\mathrm{{{parts[i + 1]}}}}}$", ""]
    return _LIGATURES.sub("{}", "".join(made))


def _character(character: str) -> str:
    """One character of a text; one that is unknown here stays, for engines that read Unicode."""
    greek = _greek(character)
    return _LATEX.get(character, f"${greek}$" if greek else character)


def _greek(letter: str) -> str:
    """The command of a Greek letter; "" for anything else."""
    name = re.fullmatch("GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)", unicodedata.name(letter, ""))
    if name is None:
        return ""
    command = name[2].lower().replace("lamda", "lambda")
    return f"\\{command.capitalize() if name[1] == 'CAPITAL' else command}"
