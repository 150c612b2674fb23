"""Doors that take what others wrote: confidences, cards and states, queries, reports and rows.

Whatever comes, a call gives a value or one sentence, see `hostile_calls.fault`.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from confident_runs import FLOATS, confident_predictions, hinted_run, keep_runs, random_run
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from hostile import cases, drawn
from hostile_calls import fault

from embedbench.config.plain_numbers import plain_number
from embedbench.extract.open_source import open_source
from embedbench.reports.toml_report import read_selections, select
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS

Trial = Callable[[np.random.Generator], Any]


def judged(kind: str, numbers: Sequence[int], trial: Trial) -> None:
    """Run cases; fail with the number and the fault of each that has one."""
    found = []
    for number in numbers:
        said = fault(lambda number=number: trial(drawn(kind, number)))  # type: ignore[misc]
        if said:
            found.append(f"{kind} {number}: {said}")
    assert not found, "\n".join(found)


def one_of(draw: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(draw.integers(len(values)))]


# --- predictions 1.1: what is read as sound gives possible scores ---

NUMBERS = (0, -0.0, 1, -1, 0.5, -0.5, 1e-45, 1e-7, -1e-7, 1e30, -1e30, -3.4e38, np.inf, -np.inf)
TABLES = (*FLOATS, "far_score", "far_logp", "rank", "answer", "within", "y", "group", "eval_set")
SHARES = ("top5_accuracy", "calibration_error")  # in [0, 1]


@pytest.mark.parametrize("numbers", cases(1000, 30))
def test_confidences(numbers: list[int], tmp_path: Path) -> None:
    def trial(draw: np.random.Generator) -> None:
        p = random_run(int(draw.integers(5)))[0] if draw.integers(2) else confident_predictions(3)
        for _ in range(int(draw.integers(1, 3))):
            name = one_of(draw, [n for n in TABLES if getattr(p, n) is not None])
            p = replace(p, **{name: changed(getattr(p, name).copy(), draw)})
        p.save(tmp_path / "p.h5")
        check_scores(load_any(tmp_path / "p.h5"))

    judged("confidences", numbers, trial)


def changed(table: Any, draw: np.random.Generator) -> Any:
    """A table with other values: at one place, at some, or everywhere."""
    share = one_of(draw, (0.0, 0.2, 1.0))
    where = draw.random(table.shape) < share
    where.reshape(-1)[draw.integers(where.size)] = True
    if table.dtype.kind != "f":
        value = int(one_of(draw, (-2, -1, 0, 1, 5, 300, 65_533, 65_534, 65_535, 70_000)))
        table[where] = value % 65_536 if table.dtype.kind == "u" else value
        return table
    how, value = draw.integers(4), np.float32(one_of(draw, NUMBERS))
    keeps = np.isnan(table)  # most faults are behind this one
    with np.errstate(all="ignore"):
        given = (value, table * value, table + value, draw.permutation(table.reshape(-1))[0])[how]
        table = np.where(where, given, table).astype(np.float32)
    return np.where(keeps, np.nan, table).astype(np.float32) if draw.integers(8) else table


def check_scores(p: Any) -> None:
    """Fail where a score is one that no probabilities have."""
    values = {name: metric.curve(p) for name, metric in ANSWER_METRICS.items()}
    for name, curve in values.items():
        known = np.array([]) if curve is None else np.asarray(curve)[~np.isnan(curve)]
        assert np.isfinite(known).all() or name.endswith(("_score", "_energy")), (name, known)
        if name in SHARES:
            assert (known >= 0).all(), (name, known)
            assert (known <= 1 + 1e-6).all(), (name, known)
        if name == "brier_score":
            assert (known >= -1e-4).all(), (name, known)
            assert (known <= 2 + 1e-4).all(), (name, known)
        if name == "nll":
            assert (known >= 0).all(), (name, known)


# --- hfds/: cards, states and rows read nothing outside of their folder ---

FEATURES = Features(text=Value("string"), label=ClassLabel(names=["a", "b"]))
WORDS = (
    "",
    ".",
    "..",
    "/",
    "~",
    "*",
    "**",
    "data",
    "data/*",
    "data/train.parquet",
    "../private/p.parquet",
    "{private}/p.parquet",
    "{private}",
    "../*",
    "../**",
    "data/../../private/*",
    "file://{private}/*",
    "https://127.0.0.1:9/x.parquet",
    "hf://datasets/a/b/c.parquet",
    "zip://a::{private}/p.zip",
    "[.][.]/private/*",
    "data/./train.parquet",
    "\\..\\private",
    "C:\\x",
    "train",
    "test",
    "a\0b",
    "x" * 5000,
    "link",
    "link/*",
    None,
    1,
    -1,
    1.5,
    True,
    [],
    {},
    [[]],
    {"a": {"b": ["c"]}},
)  # fmt: skip


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private folder beside where data sets are made."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "copies")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    (tmp_path / "private").mkdir()
    rows("SECRET").to_parquet(str(tmp_path / "private/p.parquet"))
    rows("SECRET").save_to_disk(str(tmp_path / "private/saved"))
    rows("SECRET").to_csv(str(tmp_path / "private/p.csv"), index=False)
    return tmp_path


def rows(text: str) -> Dataset:
    return Dataset.from_dict({"text": [text] * 4, "label": [0, 1, 0, 1]}, features=FEATURES)


def read_all(folder: Path, options: str = "?text=text") -> None:
    """Read all samples; fail where one is of the private folder."""
    source = open_source(f"hfds/{folder}{options}")
    for i in range(len(source.ids)):
        try:
            content = source.read(i)
        except OSError:  # which extraction puts in words
            continue
        assert not (isinstance(content, bytes) and b"SECRET" in content), "SECRET was read"


@pytest.mark.parametrize("numbers", cases(300, 6))
def test_cards(numbers: list[int], folders: Path) -> None:
    def word(draw: np.random.Generator) -> Any:
        value = one_of(draw, WORDS)
        return value.format(private=folders / "private") if isinstance(value, str) else value

    def trial(draw: np.random.Generator) -> None:
        theirs = folders / "theirs"
        shutil.rmtree(theirs, ignore_errors=True)
        (theirs / "data").mkdir(parents=True)
        rows("public").to_parquet(str(theirs / "data/train.parquet"))
        if draw.integers(4) == 0:
            (theirs / "link").symlink_to(folders / "private")
        files = one_of(
            draw,
            (
                word(draw),
                [word(draw), word(draw)],
                [{"split": word(draw), "path": word(draw)}],
                [{"split": "train", "path": [word(draw), "data/*"]}],
                {"train": word(draw)},
            ),
        )
        config = {"config_name": "default", "data_files": files}
        if draw.integers(4) == 0:
            config[one_of(draw, ("data_dir", "config_name", "sep", "features", "x"))] = word(draw)
        said = {"configs": one_of(draw, ([config], [config], config, [config, config], word(draw)))}
        text = json.dumps(said)  # which is YAML
        if draw.integers(8) == 0:
            at = int(draw.integers(len(text)))
            text = (
                text[:at]
                + one_of(draw, ("&a [*a]", "!!python/object:os.system x", "\t", "{"))
                + text[at:]
            )
        card = one_of(draw, ("README.md", ".huggingface.yaml"))
        (theirs / card).write_text(f"---\n{text}\n---\n" if card == "README.md" else text)
        read_all(theirs)

    judged("cards", numbers, trial)


@pytest.mark.parametrize("numbers", cases(300, 6))
def test_states(numbers: list[int], folders: Path) -> None:
    def trial(draw: np.random.Generator) -> None:
        theirs = folders / "theirs"
        shutil.rmtree(theirs, ignore_errors=True)
        made = rows("public")
        (DatasetDict(train=made) if draw.integers(2) else made).save_to_disk(str(theirs))
        for path in sorted(theirs.rglob("*.json")):
            if draw.integers(2):
                state = json.loads(path.read_text())
                spoil(state, draw, folders / "private")
                path.write_text(json.dumps(state))
        if draw.integers(6) == 0:
            arrow = next(theirs.rglob("*.arrow"))
            data = bytearray(arrow.read_bytes())
            for _ in range(3):
                data[int(draw.integers(len(data)))] ^= int(draw.integers(1, 256))
            arrow.write_bytes(data)
        read_all(theirs)

    judged("states", numbers, trial)


def spoil(state: Any, draw: np.random.Generator, private: Path) -> None:
    """Change a value of a state, at any depth."""
    value = one_of(draw, (*WORDS, "../private/saved", f"{private}/saved/data-00000-of-00001.arrow"))
    value = value.format(private=private) if isinstance(value, str) else value
    at = state
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = one_of(draw, keys)
        if isinstance(at[key], dict | list) and at[key] and draw.integers(3):
            at = at[key]
            continue
        at[key] = value
        return


# --- torch/: queries ---

NAMES = ("cifar10", "dtd", "emnist", "food101", "svhn", "Places365", "caltech101", "os", "", "../x")
QUERIES = (
    "?",
    "&",
    "=",
    "partition=",
    "split=",
    "train=",
    "download=",
    "download=no",
    "root=",
    "x",
    "9" * 5000,
    "-1",
    "١",
    "1_0",
    "1e3",
    "true",
    "None",
    "@",
    "/nowhere",
    "\0",
    "\ud800",
    "é",
    "%00",
    "partition=1",
    "partition=" + "9" * 4000,
    "transform=x",
    "loader=os.system",
    "split=balanced",
)  # fmt: skip


@pytest.mark.parametrize("numbers", cases(500, 20))
def test_torch_queries(numbers: list[int], tmp_path: Path) -> None:
    def trial(draw: np.random.Generator) -> None:
        words = "".join(one_of(draw, QUERIES) for _ in range(int(draw.integers(1, 5))))
        address = f"torch/{one_of(draw, NAMES)}?{words}"
        if "download=" in address:
            address = address.replace("download=true", "download=no").replace("download=yes", "")
        open_source(f"{address}@{tmp_path}")

    judged("torch queries", numbers, trial)


# --- `[report]` in TOML, and rows in CSV ---

VALUES = (
    "[]",
    '""',
    '"x"',
    "1",
    "-1",
    "1.5",
    "true",
    "[[]]",
    "{}",
    "{ a = 1 }",
    '["runs"]',
    '["rows.csv"]',
    '["gone"]',
    '["a\\u0000b"]',
    '["runs", "rows.csv"]',
    '["learner"]',
    '["final_accuracy"]',
    "nan",
    '["max final_accuracy"]',
    '["learner", "learner"]',
    '{ learner = "ncm" }',
    "{ seed = [0, 1] }",
    "{ seed = [] }",
    "{ x = 0xffffffffffffffffffffffff }",
    '"stream"',
    '"seeds"',
    "1979-05-27",
    "inf",
    '"\\u001b[31mred"',
    "9" * 5000,
    "1_000",
    '["bytes.total", "nothing"]',
    '["unknown_auroc_by_score"]',
    '"""' + "x" * 3000 + '"""',
    "{ learner = { a = [ { b = 1 } ] } }",
)  # fmt: skip
KEYS = ("runs", "title", "where", "rows", "columns", "metrics", "over", "x", "a.b", '""')


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reported")
    keep_runs(folder / "runs", {n: [hinted_run(s, 1.0) for s in (0, 1)] for n in ("ncm", "mlp")})
    (folder / "rows.csv").write_text("learner,seed,final_accuracy\nncm,0,0.5\nmlp,0,0.6\n")
    return folder


@pytest.mark.parametrize("numbers", cases(400, 20))
def test_reports_in_toml(numbers: list[int], reported: Path) -> None:
    def trial(draw: np.random.Generator) -> None:
        lines = [one_of(draw, ("[report]", "[report]", "[[report]]", "[reports]", "[report", ""))]
        given = {"runs": '["runs"]'} if draw.integers(4) else {}
        for _ in range(int(draw.integers(0, 4))):
            given[one_of(draw, KEYS)] = one_of(draw, VALUES)
        lines += [f"{key} = {value}" for key, value in given.items()]
        (reported / "r.toml").write_text("\n".join(lines * int(draw.integers(1, 3))))
        select(read_selections(reported / "r.toml"), reported, lambda _: None)

    judged("reports", numbers, trial)


CELLS = (
    "",
    "0",
    "1",
    "-1",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1_0",
    "٠",
    "9" * 5000,
    "true",
    "False",
    "ncm",
    "=1",
    '"',
    '""',
    '"a\nb"',
    "a,b",
    "\0",
    "\r",
    "x" * 200_000,
    "é",
    " 0.5",
    "0x1f",
    "None",
)  # fmt: skip
COLUMNS = ("learner", "seed", "final_accuracy", "sessions", "flags", "stream", "learns", "x", "")


@pytest.mark.parametrize("numbers", cases(500, 20))
def test_rows_in_csv(numbers: list[int], reported: Path) -> None:
    def trial(draw: np.random.Generator) -> None:
        names = ["learner", "seed", "final_accuracy"]
        names += [one_of(draw, COLUMNS) for _ in range(int(draw.integers(0, 3)))]
        lines = [names]
        for seed in range(int(draw.integers(0, 4))):
            lines.append(["ncm", str(seed), "0.5", *[""] * (len(names) - 3)])
            for _ in range(int(draw.integers(0, 3))):
                lines[-1][int(draw.integers(len(names)))] = one_of(draw, CELLS)
        if draw.integers(4) == 0:
            one_of(draw, lines).append("more")
        text = one_of(draw, ("\n", "\r\n", "\r")).join(",".join(line) for line in lines)
        (reported / "bad.csv").write_text(text, encoding="utf-8", newline="")
        (reported / "c.toml").write_text('[report]\nruns = ["bad.csv"]\n')
        (table,) = select(read_selections(reported / "c.toml"), reported, lambda _: None)
        shown = [row["final_accuracy"] for row in table.rows if "final_accuracy" in row]
        given = {0.5, *map(plain_number, CELLS)}
        assert {*shown} <= given or len(lines) > 2, shown

    judged("rows in CSV", numbers, trial)
