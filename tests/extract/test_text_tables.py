"""Tables of texts: every value as it is written, and what is no table is refused."""

import csv
import io
import json
from pathlib import Path

import pandas
import pytest

from embedbench.errors import UserError
from embedbench.extract.open_source import open_source
from embedbench.extract.source import Source
from embedbench.extract.text_tables import as_number, read_text_tables


def table(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def opened(root: Path, name: str, content: str | bytes) -> Source:
    return open_source(str(table(root, name, content)))


def labels(source: Source) -> list[str]:
    return [source.classes[label] for label in source.labels]


def texts(source: Source) -> list[str]:
    read = [source.read(i) for i in range(len(source.ids))]
    return [content.decode() for content in read if isinstance(content, bytes)]


WORDS = ["None", "null", "NA", "N/A", "nan", "NaN", "NULL", "<NA>", "#N/A", "n/a", "-nan", "cat"]


@pytest.mark.parametrize("label", WORDS)
def test_a_class_may_be_called_as_others_write_nothing(tmp_path: Path, label: str) -> None:
    assert labels(opened(tmp_path, "t.csv", f"text,label\na,{label}\nb,x\n")) == [label, "x"]


def test_such_classes_are_said(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.csv", "text,label\na,NA\nb,None\nc,x\n")
    assert "class 'NA' is a name here, and no missing value; class 'None' is" in source.remark


def test_an_empty_cell_is_a_missing_label(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.csv", "text,label\na,1\nb,\nc,2\n")
    assert (labels(source), texts(source)) == (["1", "2"], ["a", "c"])
    assert "left out 1 samples without a label" in source.remark


NUMBERS = ["01", "1", "001", "1.0", "+1", "1e3", "0x1", "١"]


@pytest.mark.parametrize("written", NUMBERS)
def test_a_label_of_digits_is_its_text(tmp_path: Path, written: str) -> None:
    assert labels(opened(tmp_path, "t.csv", f"text,label\na,{written}\nb,x\n")) == [written, "x"]


def test_labels_of_one_number_are_said(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.csv", "text,label\na,01\nb,1\nc,001\n")
    assert "'001' and '01' and '1' look alike and are kept apart" in source.remark


def test_labels_in_two_unicode_forms_are_one(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.csv", "text,label\na,caf\u00e9\nb,cafe\u0301\nc,x\n")
    assert labels(source) == ["caf\u00e9", "caf\u00e9", "x"]


TEXTS = ["NA", "null", "007", "1.50", " lead", "trail ", "True", "2020-01-01", "é", "😀", "\u00a0"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_does_not_change(tmp_path: Path, text: str) -> None:
    assert texts(opened(tmp_path, "t.csv", f"text,label\n{text},x\nb,y\n")) == [text, "b"]


ODD = {
    "quotes": 'text,label\n"he said ""yes"", then",x\n',
    "line break": 'text,label\n"two\nlines",x\n',
    "Windows' line break": 'text,label\r\n"two\r\nlines",x\r\n',
    "empty lines": "text,label\n\na,x\n\n",
    "no last line break": "text,label\na,x",
    "byte order mark": "\ufefftext,label\na,x\n",
    "an index": ",text,label\n0,a,x\n",
    "an apostrophe": "text,label\nit's,x\n",
}


@pytest.mark.parametrize("what", ODD)
def test_a_table_reads_as_pandas_reads_texts(tmp_path: Path, what: str) -> None:
    path = table(tmp_path, "t.csv", ODD[what])
    expected = pandas.read_csv(path, dtype=str, keep_default_na=False)["text"].tolist()
    assert texts(open_source(str(path))) == expected


def test_old_line_breaks_of_a_mac(tmp_path: Path) -> None:
    assert texts(opened(tmp_path, "t.csv", "text,label\ra,x\rb,y\r")) == ["a", "b"]


def test_tabs_part_a_tsv(tmp_path: Path) -> None:
    assert texts(opened(tmp_path, "t.tsv", 'text\tlabel\na, "b"\tx\n')) == ['a, "b"']


def test_a_long_text_is_read(tmp_path: Path) -> None:
    long = "word " * 100_000
    limit = csv.field_size_limit()
    assert texts(opened(tmp_path, "t.csv", f"text,label\n{long},x\n")) == [long]
    assert csv.field_size_limit() == limit


REFUSED = {
    "Windows' encoding": ("text,label\ncafé,x\n".encode("cp1252"), r"not UTF-8 \(byte 0xe9\)"),
    "UTF-16": ("text,label\ncafé,x\n".encode("utf-16"), r"not UTF-8 \(byte 0xff\)"),
    "a comma without quotes": (b"text,label\na, b,x\n", "line 2 has 3 values"),
    "a value too few": (b"text,label\na,x\nb\n", "line 3 has 1 values"),
    "a letter behind a quote": (b'text,label\n"a"b,x\n', "line 2, ',' expected"),
    "an open quote": (b'text,label\n"a,x\n', "unexpected end"),
    "two columns of one name": (b"text,label,text\na,x,b\n", "two columns 'text'"),
    "semicolons": (b"text;label\na;x\n", "parts its columns by ';'"),
    "nothing": (b"", "is empty; its first line"),
    "a header alone": (b"text,label\n", "no row of values"),
    "no header": (b"good,x\nbad,y\n", "which column of .* is the label"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_guessed_is_refused(tmp_path: Path, what: str) -> None:
    content, sentence = REFUSED[what]
    with pytest.raises(UserError, match=sentence):
        opened(tmp_path, "t.csv", content)


def test_an_empty_text_is_bad(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.csv", "text,label\n,x\na,y\n")
    with pytest.raises(UserError, match="it is empty"):
        source.read(0)


# A line of a file is counted as editors count it, the names of columns and empty lines too.
HOLES = 'text,label,time\n\n"two\nlines",x,1\nb,y,{time}\n{text},z,3\nd,{label},4\n'


def with_hole(tmp_path: Path, **holes: str) -> Source:
    return opened(tmp_path, "t.csv", HOLES.format(**{"time": 2, "text": "c", "label": "x"} | holes))


def test_the_line_of_an_empty_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^it is empty, line 6"):
        with_hole(tmp_path, text="").read(2)


def test_the_line_of_a_text_is_that_of_the_file_after_a_split(tmp_path: Path) -> None:
    text = "text,label,split\na,x,test\nb,y,train\n,x,test\n"
    source = opened(tmp_path, "t.csv", text)
    with pytest.raises(UserError, match=r"^it is empty, line 4"):
        source.read(2)  # test/00001


def test_the_line_of_a_missing_number_is_named(tmp_path: Path) -> None:
    said = r"'time' of .* has 1 rows without a value \(first line 5\); .*t\.csv\?time='"
    with pytest.raises(UserError, match=said):
        with_hole(tmp_path, time="")


def test_the_first_line_without_a_label_is_named(tmp_path: Path) -> None:
    said = "left out 1 samples without a label (first line 7)"
    assert said in with_hole(tmp_path, label="").remark


def test_the_file_of_a_line_is_named_where_there_are_several(tmp_path: Path) -> None:
    for name in ("train-0.csv", "train-1.csv"):
        table(tmp_path, name, "text,label\na,x\n,y\n")
    source = open_source(f"hfds/{tmp_path}")
    with pytest.raises(UserError, match=r"^it is empty, line 3 of train-1\.csv"):
        source.read(3)


def test_a_line_and_an_entry_of_json_are_named(tmp_path: Path) -> None:
    lines = '\n{"text": "a", "label": "x"}\n{"label": "y"}\n'
    with pytest.raises(UserError, match=r"^it is empty, line 3"):
        opened(tmp_path, "t.jsonl", lines).read(1)
    rows = '[{"text": "a", "label": "x"},\n\n{"label": "y"}]'
    with pytest.raises(UserError, match=r"^it is empty, entry 2"):
        opened(tmp_path, "t.json", rows).read(1)


def test_samples_without_a_split_are_not_called_train(tmp_path: Path) -> None:
    said = opened(tmp_path, "t.csv", "text,label\na,x\nb,y\n").remark
    assert "2 classes; 2 samples; no official split; --split decides" in said


def test_groups_are_texts_and_times_numbers(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.csv", "text,label,group,time\na,x,01,1\nb,y,1,2.5\n")
    columns = {name: values.tolist() for name, values in source.columns.items()}
    assert columns == {"group": ["01", "1"], "time": [1.0, 2.5]}


def test_a_time_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'time' of .* rows without a value"):
        opened(tmp_path, "t.csv", "text,label,time\na,x,1\nb,y,NA\n")


def test_what_a_column_can_be_read_as(tmp_path: Path) -> None:
    text = "a,b,c,d,e\n1,1.5,x,NA,\n-2,1e3,NA,3,\n"
    kinds = read_text_tables([table(tmp_path, "t.csv", text)]).kinds
    assert kinds == {"a": "whole", "b": "real", "c": "text", "d": "whole", "e": ""}


# --- JSON ---


def json_lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


STRINGS = ["None", "01", "2020-01-01", "2020-01-01T00:00:00Z", "1e3", "true", ""]


@pytest.mark.parametrize("value", STRINGS)
def test_a_string_of_json_stays_one(tmp_path: Path, value: str) -> None:
    rows = json_lines({"text": value, "label": f"l{value}"}, {"text": "b", "label": "x"})
    source = opened(tmp_path, "t.jsonl", rows)
    assert (texts(source), labels(source)) == ([value, "b"], [f"l{value}", "x"])


def test_null_and_a_lacking_key_are_missing(tmp_path: Path) -> None:
    rows = json_lines({"text": "a", "label": None}, {"text": "b"}, {"label": "x", "text": "c"})
    assert texts(opened(tmp_path, "t.jsonl", rows)) == ["c"]


@pytest.mark.parametrize("name", ["t.json", "t.ndjson"])
def test_json_of_other_suffixes(tmp_path: Path, name: str) -> None:
    rows = [{"text": "a", "label": "01"}, {"text": "b", "label": "1"}]
    content = json.dumps(rows) if name == "t.json" else json_lines(*rows)
    assert labels(opened(tmp_path, name, content)) == ["01", "1"]


BAD_JSON = {
    "an open object": ('{"text": "a"\n', "cannot be read as JSON .*line 1"),
    "a number": ("1\n", "line 1 is no object"),
    "nothing": ("\n", "no row of values"),
    "two types": (json_lines({"text": "a", "label": 1}, {"text": "b", "label": "1"}), "the label"),
}


@pytest.mark.parametrize("what", BAD_JSON)
def test_json_that_is_no_table(tmp_path: Path, what: str) -> None:
    content, sentence = BAD_JSON[what]
    with pytest.raises(UserError, match=sentence):
        opened(tmp_path, "t.jsonl", content)


def test_half_of_a_character_is_bad(tmp_path: Path) -> None:
    source = opened(tmp_path, "t.jsonl", '{"text": "a\\ud800", "label": "x"}\n')
    with pytest.raises(UserError, match="half of a character"):
        source.read(0)


# --- several files, numbers ---


def test_tables_of_other_columns_do_not_join(tmp_path: Path) -> None:
    paths = [table(tmp_path, "a.csv", "a,b\n1,2\n"), table(tmp_path, "b.csv", "a,c\n1,2\n")]
    with pytest.raises(UserError, match=r"has the columns a, c, and .* a, b"):
        read_text_tables(paths)


def test_tables_join_by_names_in_any_order(tmp_path: Path) -> None:
    paths = [table(tmp_path, "a.csv", "a,b\n1,2\n"), table(tmp_path, "b.csv", "b,a\n3,4\n")]
    assert read_text_tables(paths).columns == {"a": ["1", "4"], "b": ["2", "3"]}


NUMBERS_READ = [
    *(("2.5", 2.5), (" 3 ", 3.0), (3, 3.0), ("x", None), ("nan", None), (float("nan"), None)),
    *(("1_0", None), ("٣", None), ("inf", None), ("1e999", None), (10**400, None)),
]


@pytest.mark.parametrize(("value", "number"), NUMBERS_READ)
def test_a_value_as_a_number(value: object, number: float | None) -> None:
    assert as_number(value) == number


def test_quotes_of_our_own_writer_come_back(tmp_path: Path) -> None:
    """Any text that Python's writer can write is read as it was."""
    odd = ['"', '""', ",", "a\n", "\r\n", "'", "\\", '",', "\t", ";"]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["text", "label"])
    writer.writerows([text, "x"] for text in odd)
    assert texts(opened(tmp_path, "t.csv", out.getvalue())) == odd
