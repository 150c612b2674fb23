"""Tables to paste: Markdown, LaTeX, CSV."""

import csv
import io
import math
from typing import Any

import pytest

from embedbench.text import markdown, table_export
from embedbench.text.table_export import csv_text, export_tables, latex_text, make_table, pairs
from embedbench.text.terminal_text import line, new_table


def _parts(tables: int) -> list[Any]:
    parts: list[Any] = []
    for i in range(tables):
        table = new_table(["learner", "Ω_all"])
        table.add_row(line("a|b_c"), line("−35.4\n±1.3"))
        parts += [line(f"title {i}", "bold"), table, line(f"note {i}"), line("")]
    return parts


def test_markdown_escapes_names_and_puts_numbers_to_the_right() -> None:
    text, notes = export_tables(_parts(1), "markdown")
    assert text.splitlines() == [
        r"| learner | Ω\_all |",
        "| --- | ---: |",
        r"| a\|b\_c | −35.4 ±1.3 |",
    ]
    assert notes == ["title 0", "note 0"]


def test_latex_has_formulas_and_booktabs() -> None:
    text, _ = export_tables(_parts(1), "latex")
    assert text.splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{@{}lr@{}}",
        r"\toprule",
        r"learner & $\Omega_{\mathrm{all}}$ \\",
        r"\midrule",
        r"a$|$b\_c & $-35.4 \pm 1.3$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_column_without_entries_is_left_out() -> None:
    made = table_export.tabular(["name", "flags"], [["a_b", ""]], [False, False])
    assert made.splitlines()[0] == r"\begin{tabular}{@{}l@{}}"
    assert "flags" not in made
    empty = table_export.tabular(["name", "n"], [], [False, True]).splitlines()
    assert (empty[0], empty[2]) == (r"\begin{tabular}{@{}lr@{}}", r"name & n \\")
    assert export_tables([line("x")], "latex") == ("", ["x"])


@pytest.mark.parametrize(
    ("cell", "latex"),
    [
        ("35.4 ±1.3", r"$35.4 \pm 1.3$"),
        ("1,234 ±1,000", r"$1{,}234 \pm 1{,}000$"),
        ("−0.2", "$-0.2$"),
        ("0.2", "0.2"),
        ("1,234", "1{,}234"),
        ("50 %", r"50 \%"),
        ("a&b #1 {x} ~^\\", r"a\&b \#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("α_ideal → τ_n x", r"$\alpha_{\mathrm{ideal}}$ $\to$ $\tau_{\mathrm{n}}$ x"),
        ("<.01", "$<.01$"),
        ("λΣ ά_x ς_x", r"$\lambda$$\Sigma$ ά\_x ς\_x"),
        ("run --order", "run -{}-order"),
        ("Řeka ½", "Řeka ½"),
        ("\x1b[31mred\n", "[31mred "),
        (r"\input{secret}", r"\textbackslash{}input\{secret\}"),
    ],
)
def test_latex_cells(cell: str, latex: str) -> None:
    assert latex_text(cell) == latex


def test_of_several_tables_each_has_its_title_and_packages_are_named_once() -> None:
    parts = _parts(2)
    parts[1].add_row(line("✓"), line("1"))
    tables = [line.split("\n") for line in export_tables(parts, "latex")[0].split("\n\n")]
    packages = [r"% \usepackage{booktabs}", r"% \usepackage{amssymb}"]
    assert [table[:3] for table in tables] == [
        [*packages, "% title 0"],
        ["% title 1", r"\begin{tabular}{@{}lr@{}}", r"\toprule"],
    ]
    text, notes = export_tables([*parts, parts[1]], "markdown")  # the last has no title
    assert [part for part in text.split("\n\n") if part[0] != "|"] == ["**title 0**", "**title 1**"]
    assert notes == ["note 0", "note 1"]


def test_csv_is_exact_and_holds_no_formula() -> None:
    third = 1 / 3
    rows = [{"name": "=1+1", "x": third, "n": -2}, {"name": "-a, b", "x": math.nan, "ok": True}]
    read = list(csv.DictReader(io.StringIO(csv_text(rows))))
    assert read[0] == {"name": "'=1+1", "x": repr(third), "n": "-2", "ok": ""}
    assert read[1] == {"name": "'-a, b", "x": "", "n": "", "ok": "true"}
    assert float(read[0]["x"]) == third
    assert csv_text([{"@x": "\x1b+"}]).splitlines() == ["'@x", "'+"]


def test_rows_of_nested_data() -> None:
    data = {"schema": "s/1", "of": [{"t": "a", "in": [{"m": {"x": 1}, "v": [1, 2]}]}, {"in": []}]}
    assert table_export.records(data, "of", "in") == [{"t": "a", "m.x": 1, "v": "1 2"}]
    assert pairs({"a": {"b": 1}}) == [{"name": "a.b", "value": 1}]


def test_a_table_of_rows_has_texts_first() -> None:
    text, _ = export_tables(
        [make_table([{"n": 1, "ok": True, "who": "x"}, {"n": -0.12345, "who": None}])], "markdown"
    )
    assert text.splitlines() == [
        "| ok | who | n |",
        "| --- | --- | ---: |",
        "| true | x | 1 |",
        "|  |  | −0.1235 |",
    ]


def test_texts_as_markdown() -> None:
    codes = [markdown.code(text) for text in ("a", "a`", "``a`b", "", "a|b")]
    assert codes == ["`a`", "`` a` ``", "``` ``a`b ```", "` `", "`a¦b`"]
    links = [markdown.link(text) for text in ("https://a.org/x?y=1#z", "ftp://a", "https://a_b c")]
    assert links == ["<https://a.org/x?y=1#z>", "ftp://a", r"https://a\_b c"]
    assert markdown.block("sh", ["a```b", "c\x1b"]) == "```sh\na'''b\nc\n```"
    assert markdown.table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("first", "latex"),
    [
        ("[12] iCaRL", "{}[12] iCaRL"),
        ("*ours", "{}*ours"),
        ("  [2", "{}  [2"),
        ("a[1]*", "a[1]*"),
    ],
)
def test_a_row_is_no_argument_of_the_command_before_it(first: str, latex: str) -> None:
    text = table_export.tabular([first, "n"], [["a", "1"], [first, "2"]], [False, True])
    assert text.splitlines()[2:] == [
        rf"{latex} & n \\",
        r"\midrule",
        r"a & 1 \\",
        rf"{latex} & 2 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_row_that_begins_with_an_empty_cell() -> None:
    text = table_export.tabular(["", "n"], [["", "[1]"], ["a", "*"]], [False, False])
    assert r" & [1] \\" in text.splitlines()


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a---b", "a-{}-{}-b"),
        ("``x''", "`{}`x'{}'"),
        ("really?`no!`", "really?{}`no!{}`"),
        ("a,,b", "a,{},b"),
    ],
)
def test_latex_joins_no_characters(text: str, latex: str) -> None:
    assert latex_text(text) == latex


@pytest.mark.parametrize(
    "text",
    ["=1+1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20x", "\ufe621", " =1", "\u200b=1", "\ufeff=1",
     "\u00a0@x", "\u3000+1", "\u2060-1"],
)  # fmt: skip
def test_what_a_spreadsheet_may_take_for_a_formula(text: str) -> None:
    ((cell,),) = list(csv.reader(io.StringIO(csv_text([{"a": text}]))))[1:]
    assert cell == f"'{text}"


@pytest.mark.parametrize("text", ["\t=1+1", "\r=1+1", "\n=1"])
def test_a_formula_after_a_tab_or_the_end_of_a_line(text: str) -> None:
    ((cell,),) = list(csv.reader(io.StringIO(csv_text([{"a": text}]))))[1:]
    assert cell == f"' {text[1:]}"


@pytest.mark.parametrize("text", ["a=1", "−35.4", "ncm", "Ω", "(=1)"])
def test_other_texts_are_as_they_are(text: str) -> None:
    ((cell,),) = list(csv.reader(io.StringIO(csv_text([{"a": text}]))))[1:]
    assert cell == text


def test_a_table_that_no_spreadsheet_opens_has_no_apostrophes() -> None:
    _, ((text,),), _ = table_export.table_cells(make_table([{"what": "-9.1"}]))
    assert text == "-9.1"
