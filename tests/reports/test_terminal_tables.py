"""What reports come out as: tables, JSON, the HTML page; and records as the grid writes them."""

import base64
import json
import math
import pkgutil
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from confident_runs import hinted_run, keep_runs
from plan_runs import plan
from protocol_files import make_file
from report_records import HEX, keep, make

from embedbench.config.describe_settings import parameters
from embedbench.errors import UserError
from embedbench.reports.html_report import page_heading, render, write_html
from embedbench.reports.learner_colours import styles_in
from embedbench.reports.score_figures import trade_off
from embedbench.reports.tables_from_runs import collect, csv_rows, to_json
from embedbench.reports.terminal_tables import print_tables, table_text
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores.metrics_by_library import audit
from embedbench.scores.number_text import amount, format_signed


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four learners, the longest name and the largest intervals that a table meets; two streams."""
    place = tmp_path_factory.mktemp("runs")
    for name in ("mlp", "geppnet-stm", "a-learner-with-a-long-name"):
        finals = [0.1, 0.5 - len(name) / 1000, 0.9]
        keep(place, *(make(name, seed=s, final=final) for s, final in enumerate(finals)))
    keep(place, make("chance"))
    keep(place, make(final=0.2, digests={"features": "2" * 64}), stream="stream-2")
    return place


@pytest.fixture(scope="module")
def whole(root: Path) -> str:
    write_html(collect(root), root / "page.html", "runs")
    return (root / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(root: Path) -> list[Any]:
    return collect(root)


IN_A_TERMINAL = """\
incremental-class · toy.h5
4 classes · 3 sessions · 300 training samples at first, then 100 a session ·
validation from training data · accuracy per sample · offline (α_ideal): mlp on
all data at once, 90.0 %
verdict: nothing is decided: mlp has the highest mean, 49.9 % accuracy (offline:
90.0 %, chance: 25.0 %); geppnet-stm and a-learner-with-a-long-name may be
level; no difference to the best under 1.4 points could have been seen with 3
seeds
            accuracy %     behind by
learner   n    ± seeds        (95 %) Ω_base Ω_new  Ω_all  AF %  MB learn s flags
mlp       3       49.9           0.0  0.554 0.700  0.499  40.1 2.0     6.0 K
                 ±99.4               ±1.104       ±0.994 ±99.4
geppnet-s 3       49.6           0.3  0.551 0.700  0.496  40.4 2.0     6.0 K
tm               ±99.4 (−1.2 to 2.2) ±1.104       ±0.994 ±99.4
a-learner 3       49.1           0.8  0.546 0.700  0.491  40.9 2.0     6.0 K
-with-a-l        ±99.4 (−2.2 to 4.9) ±1.105       ±0.994 ±99.4
ong-name
chance    –       80.0             –  0.889 0.700  0.800  10.0 2.0     6.0

behind by: mean paired difference to the best, and in brackets the 95 % interval
of the distance to whichever row is the best (an end may be that to another
one), over 3 seeds alone: above 0 a row is behind, else it may be level; 5 % for
each row, with normal residuals
fewer than 5 seeds: in half of the rows no difference under 1.4 points can be
seen
K  collapsed: a run has under half of what the row's median has above chance: a
steady row beside such a one is called behind too often [mlp 1 of 3: seed 0;
geppnet-stm 1 of 3: seed 0; a-learner-with-a-long-name 1 of 3: seed 0]

incremental-class · toy.h5
"""


def test_tables_fit_a_terminal(rows: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    text = table_text(rows, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(IN_A_TERMINAL)
    print_tables(rows)  # piped: plain, and one line a row
    text = capsys.readouterr().out
    assert "\x1b" not in text
    row = next(x for x in text.splitlines() if x.startswith("geppnet-stm"))
    head = next(x for x in text.splitlines() if x.startswith("learner"))
    assert "  0.551 ±1.104  0.700" in row in table_text(rows, width=len(head)).splitlines()
    assert "\x1b" in table_text(rows, width=100, colour=True)


def test_which_classes_the_loss_uses_is_stated(tmp_path: Path) -> None:
    for loss in ("all", "mine"):  # of a protocol of other people
        keep(tmp_path / loss, make(protocol_params={"loss": loss}))
    ours, theirs = (table_text(collect(tmp_path / loss)) for loss in ("all", "mine"))
    assert "the stream (protocol.loss=all)" in ours
    assert "loss over" not in theirs


def test_label_sets_have_a_table_of_their_own(tmp_path: Path) -> None:
    for seed in range(3):
        made = make(seed=seed)
        score = {"R": made["R"], "pooled": made["pooled"], "metrics": made["metrics"]}
        curves = {"superclass_pw_js": [0, 0, 0.25], "labels_predicted": [1, 1, 1.5 + seed / 10]}
        of = {"pw_js": score | {"curves": curves}, "js": score, "exact_match": score}
        keep(tmp_path, made | {"score": "pw_js", "curves": curves, "by_score": of})
    rows = collect(tmp_path)
    heads, mlp = table_text(rows).split("\n\n")[1].splitlines()
    assert "pw-JS %" in heads
    assert re.split("  +", mlp)[1:] == [*["80.0"] * 3, "25.0", "–", "1.60 ±0.25", "–"]
    text = render(rows, "runs")
    assert '<th scope="col">superclass pw-JS %</th>' in text
    assert "<td>1.60 ±0.25</td>" in text
    title = trade_off(rows, styles_in(rows), 3.25).axes[0].get_title(loc="left")
    assert title == "pw-JS (%) · bars: 95 % over seeds"


def test_one_run_has_no_plus_minus(tmp_path: Path) -> None:
    made = make(final=0.8)
    keep(tmp_path / "all", made)
    text = table_text(collect(tmp_path / "all"))
    assert "±" not in text
    assert "no verdict" not in text
    assert re.search(r"mlp +1 +80\.0 +– +0\.889 +0\.700 +0\.800 +10\.0 +2\.0 +6\.0", text)
    # Ω of streaming takes the place of Ω_all
    made["reference"] |= {"so_far": True}
    made["metrics"] |= {"omega_all": 1.25, "omega_streaming": 0.875}
    keep(tmp_path / "streaming", made)
    text = table_text(collect(tmp_path / "streaming", metrics=["omega_streaming"]))
    assert text.splitlines()[3].count("Ω_streaming") == 1
    assert "Ω_all" not in text
    assert re.search(r"mlp +1 +80\.0 +– +0\.889 +0\.700 +0\.875", text)


def test_what_waits_for_references_is_open_and_what_no_run_has_is_no_column(tmp_path: Path) -> None:
    made = make()
    made["reference"] |= {"source": "missing", "ideal": {}, "offline_runs": ["references/o"]}
    made["metrics"] |= dict.fromkeys(("omega_base", "omega_new", "omega_all"))
    keep(tmp_path, made)
    rows = collect(tmp_path)
    heads, mlp = table_text(rows).splitlines()[3:5]
    assert "AIA" not in heads
    assert to_json(rows)["tables"][0]["ideal"] is None
    assert mlp.split() == ["mlp", "1", "80.0", "–", *["open"] * 3, "10.0", "2.0", "6.0"]


@pytest.mark.parametrize(
    ("reference", "is_open"),
    [
        ({"source": "missing", "offline_runs": ["references/o"]}, True),
        ({"source": "missing", "offline_runs": []}, False),  # a run without references
        ({"source": "runs", "offline_runs": ["references/o"]}, False),  # undefined with them, too
    ],
)
def test_only_what_waits_for_references_is_open(
    reference: dict[str, Any], is_open: bool, tmp_path: Path
) -> None:
    made = make()
    made["reference"] |= {"ideal": {}, **reference}
    made["metrics"]["omega_all"] = None
    keep(tmp_path, made)
    assert collect(tmp_path)[0].is_open("omega_all") == is_open


def test_tables_of_one_title_say_what_differs(tmp_path: Path) -> None:
    for base in (2, 5):
        keep(tmp_path, make(protocol_params={"base": base}), stream=f"stream-{base}")
    text = table_text(collect(tmp_path))
    titles = sorted(line for line in text.splitlines() if line.startswith("incremental"))
    assert [title.rpartition(" · ")[2] for title in titles] == ["base=2", "base=5"]
    keep(tmp_path / "one", make())
    assert "base=" not in table_text(collect(tmp_path / "one"))


def test_the_footer_says_what_the_columns_are_in_five_lines(tmp_path: Path) -> None:
    """A table with every column that a short heading names."""
    for name, steps, final in (("mlp", 7, 0.8), ("ewc", 9, 0.7)):
        for seed in range(2):
            made = make(name, seed, final)
            made["metrics"] |= {"average_incremental_accuracy": 0.8, "average_accuracy": 0.1}
            for session in made["sessions"]:
                session["log"] |= {"steps": steps, "epochs": steps}
            keep(tmp_path, made)
    rows = collect(tmp_path)
    wide, narrow = (table_text(rows, width=width).split("\n\n")[-1] for width in (120, 60))
    assert len(wide.splitlines()) <= 5
    assert max(map(len, narrow.splitlines())) <= 60
    assert re.findall(r"(\S+) +(\S+) +2\.0", table_text(rows)) == [("7.0", "21.0"), ("9.0", "27.0")]
    assert " ".join(wide.split()) == (
        "accuracy: of all test samples, at the end (A_last) · AIA: average incremental accuracy, "
        "over sessions (A_avg) · ± half-width of the 95 % t-interval over n seeds · no ±: equal in "
        "all runs · Ω_base, Ω_all: score on the first session, on all so far / offline · "
        "Ω_new: score on each new session · AA: average accuracy of sessions at the end · "
        "AF: average forgetting, from a session's best · passes: over the data · steps: of the "
        "optimiser · MB: held at the end · formulas: embedbench list metrics"
    )


def test_the_footer_says_where_omega_new_is_a_share(tmp_path: Path) -> None:
    said = []
    for normalise, preset in ((True, "kemker_table"), (True, "kemker_eq"), (False, "kemker_table")):
        about = make()["reference"] | {"normalise_new": normalise, "preset": preset}
        place = tmp_path / f"{normalise}-{preset}"
        keep(place, make(reference=about))
        said.append("Ω_new of permutations" in table_text(collect(place)))
    assert said == [True, False, False]


def test_amounts() -> None:
    """The digits change at 100, 1, .095 and .0005."""
    values = (1234.5, 100, 99.99, 1, 0.999, 0.095, 0.0949, 0.0005, 0.0004, 0, math.nan)
    texts = ["1,234", "100", "100.0", "1.0", "1.00", "0.10", "0.095", "0.001", "<0.001", "0", "–"]
    assert list(map(amount, values)) == texts
    assert (format_signed(-0.04, 1), format_signed(-1.25, 1)) == ("0.0", "−1.2")


def test_json_round_trip(tmp_path: Path) -> None:
    keep(tmp_path, make(seed=0, final=0.6), make(seed=1, final=0.8))
    keep(tmp_path, make("ewc", flags=["nan"]))
    made = to_json(collect(tmp_path))
    printed = json.loads(json.dumps(made, allow_nan=False))
    assert printed == made
    (table,) = printed["tables"]
    mlp, ewc = table.pop("rows")
    about = {"protocol": "incremental-class", "protocol_params": {"base": 2}, "files": ["toy.h5"]}
    about |= {"place": "stream-1", "title": "incremental-class · toy.h5", "sessions": 3}
    about |= {"score": "accuracy", "validation": "train", "ideal": 0.9, "notes": []}
    about["chance"] = 0.25
    digests = {key: HEX[key] for key in ("recipe", "features")}
    assert table == about | {"digests": digests, "verdict": table["verdict"]}
    for name, value in (("final_accuracy", [0.6, 0.8]), ("fwt", [None, None])):
        assert mlp["metrics"][name]["values"] == value
    assert mlp["metrics"]["fwt"]["mean"] is None
    row = {"learner": "mlp", "label": "mlp", "params": make()["learner_params"], "n": 2}
    row |= {"runs": ["0", "1"], "left_out": [], "candidates": None, "flags": {}, "passes": None}
    row |= {"commands": [make(seed=s)["command"] for s in (0, 1)], "footprint": make()["footprint"]}
    row |= {"measurements": 2, "over": "seeds"}
    rest = {name: mlp[name] for name in ("metrics", "seconds", "verdict")}
    assert mlp == row | rest | {"steps": 301.5}
    assert ewc["n"] == 0
    assert ewc["left_out"] == ["0"]
    assert ewc["flags"] == {"nan": ["0"]}
    # as CSV: steps of seeds 0 and 1 are 3 · 100 and 3 · 101
    mlp, ewc = csv_rows(made)
    keys = ("stream", "learner", "n", "steps", "passes", "seconds.learn", "bytes.total")
    title = "incremental-class · toy.h5"
    assert [mlp[k] for k in keys] == [title, "mlp", 2, 301.5, None, 6, 2_000_000]
    assert (mlp["flags"], ewc["flags"]) == ("", "nan")
    assert page_heading([Path("/a/b/runs"), Path("/runs")]) == "b/runs, runs"


def test_the_page_is_whole_and_loads_nothing(whole: str) -> None:
    assert not re.search(r"://|@import|url\(|<script|<link", whole)
    ids, links = (re.findall(rf' {key}="(.*?)"', whole) for key in ("id", "href"))
    assert (ids, links) == (["stream-1", "stream-2"], ["#stream-1", "#stream-2"])
    # heat maps and three curves a stream, costs where there are several
    figures = re.findall(r'<img .*?src="data:image/svg\+xml;base64,(.*?)"', whole)
    assert len(figures) == whole.count("src=") == 2 + 2 * 3 + 1
    for figure in figures:
        drawing = ElementTree.fromstring(base64.b64decode(figure))
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_says_what_the_table_says(whole: str) -> None:
    page = re.sub(r"<((?:meta|img)[^>]*)>", r"<\1/>", whole.removeprefix("<!doctype html>"))
    text = " ".join("".join(ElementTree.fromstring(page).itertext()).split())  # all tags close
    for part in (
        *("49.9 %", "49.9 ±99.4", "0.554", "chance1.50.5261.5", "d" * 64, '{"stop": {"rule": "pat'),
        "offline (α_ideal): mlp on all data at once, 90.0 %",
        "embedbench run toy.h5 --out RUNS --learner geppnet-stm --seed 2",
        "AF average forgetting, from a session's best",
    ):
        assert part in text


def test_the_page_begins_with_the_verdict(rows: list[Any], whole: str) -> None:
    verdict = to_json(rows)["tables"][0]["verdict"]
    parts = ["<h2>", f'<p class="verdict">verdict: {verdict}</p>', "<table>"]
    parts += ["<figcaption>All sessions so far", "Final score against cost", "<details>"]
    places = [whole.index(part) for part in parts]
    assert places == sorted(places)
    folded = [whole.index(p) for p in ("R[i, j]", "Memory by kind", "Run it again", "fisher MB")]
    assert min(folded) > whole.index("<details>")
    # within and across sessions stand side by side
    values = re.findall(r"<td[^>]*>([\d.]+) ±", whole[whole.index(">within_accuracy<") :])
    assert values[:2] == ["49.9", "74.9"]


def test_a_refused_report_leaves_the_old_page(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp"), make("ewc", digests={"train": "9" * 64}))
    (tmp_path / "page.html").write_text("old")
    with pytest.raises(UserError, match="train digest"):
        write_html(collect(tmp_path), tmp_path / "page.html", "runs")
    assert (tmp_path / "page.html").read_text() == "old"
    with pytest.raises(UserError, match="cannot write"):
        write_html([], tmp_path / "no" / "page.html", "runs")


def test_real_records_are_reported_and_documented(tmp_path: Path) -> None:
    file = make_file(tmp_path, (8,) * 4, test=(4,) * 4).path
    items = ["offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=1"]
    cells = plan([str(file)], "incremental-class", ["ncm"], [0, 1], items)
    assert run_grid(cells, tmp_path / "runs").failed == []
    ncm, chance = collect(tmp_path / "runs")
    assert ncm.n == "=2"
    assert chance.learner == "chance"
    write_html([ncm, chance], tmp_path / "page.html", "runs")
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")
    things = [pkgutil.resolve_name(name) for name in re.findall(r"auto\w+:: (\S+)", page)]
    told = "".join(thing.__doc__ for thing in things)
    documented = set(re.findall(r"`([\w.\[\]]+)`", told)).union(*map(parameters, things))
    data = ncm.used[0].to_json()
    inner = {k for key in ("seeds", "digests", "reference", "environment") for k in data[key]}
    assert {*data, *inner, *data["sessions"][0]} <= documented
    assert set(to_json([ncm])["tables"][0]["rows"][0]) <= documented


def test_a_page_says_what_other_libraries_would_print(tmp_path: Path) -> None:
    """Means over the runs of a learner, by the definitions of `score --audit`."""
    answers = [hinted_run(seed, 2) for seed in (4, 5)]
    keep_runs(tmp_path, {"ncm": answers})
    text = re.sub(r"<[^>]+>", " ", render(collect(tmp_path), "runs"))
    finals = [audit(p)[1]["value"] for p in answers]
    expected = f"accuracy: final, per sample {100 * np.mean(finals):.1f} Avalanche: StreamAccuracy"
    assert expected in " ".join(text.split())


def test_the_page_has_marks_beside_names_where_a_narrow_screen_shows_them(whole: str) -> None:
    assert re.search(r">mlp <b class=\"mark\">K</b>", whole)


def test_the_page_draws_a_dot_and_a_bar_for_each_row_that_is_not_the_best(whole: str) -> None:
    first = whole[whole.index('id="stream-1"') : whole.index('id="stream-2"')]
    ranks = first[first.index('<div class="ranks"') :]
    assert (ranks.count('class="dot"'), ranks.count('class="bar"')) == (3, 2)


def test_every_heading_of_the_page_is_explained_below_its_table(whole: str) -> None:
    listed = whole[whole.index('<ul class="columns"') : whole.index("</ul>")]
    named = set(re.findall(r"<b>(.*?)</b>", listed))
    assert {"accuracy", "Ω_base, Ω_all", "Ω_new", "AF", "MB"} <= named


def test_a_legend_needs_a_table() -> None:
    assert table_text([]).strip() == ""
