"""The command line: names, exit codes, what goes to which stream, and what bad input is told."""

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import h5py
import numpy as np
import pytest
import typer
from commands import Call
from PIL import Image
from protocol_files import make_file
from report_records import keep, make

from embedbench.cli import app, demo, list_entries, reproduce_paper, shared_options
from embedbench.cli.extract import BackboneOptions, _from_zoo
from embedbench.engines.engine import Engine
from embedbench.files.import_features import import_file
from embedbench.files.provenance import UserMetadata
from embedbench.papers import paper_folders
from embedbench.papers.reproduction_plan import make_plan
from embedbench.zoo.zoo_entries import zoo_rows

USUAL = {"--protocol": "incremental-class", "--out": "runs", "--device": "cpu", "--jobs": "1"}
ONE_EPOCH = ["--set", "offline.mlp.stop.epochs=1"]


@pytest.fixture
def call(place: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> Call:
    """Run one command in the folder of bad and good things."""
    monkeypatch.chdir(place)
    return call


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small things to point commands at, most of them broken."""
    place, rng, y = tmp_path_factory.mktemp("cli"), np.random.default_rng(0), np.arange(60) % 3
    x = ((rng.normal(size=(3, 4)) * 3)[y] + rng.normal(size=(60, 4))).astype(np.float32)
    ids = np.array([f"s{i:02d}" for i in range(60)])
    twice, straddling = ids.copy(), ids.copy()
    twice[9], straddling[1] = twice[8], straddling[0]
    where, toy = np.where(np.arange(60) % 4 == 1, "test", "train"), {"features": x, "labels": y}
    for name, arrays in {
        "toy": toy | {"classes": np.array(["cat", "dog", "owl"])},
        "twin": toy | {"features": x + np.float32(0.1)},
        "twice": toy | {"sample_ids": twice},
        "straddling": toy | {"sample_ids": straddling, "split": where},
    }.items():
        np.savez(place / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    for name in ("toy", "twin"):
        import_file(place / f"{name}.npz", place / f"{name}.h5")
    for name in ("cat", "dog"):
        (place / "photos" / name).mkdir(parents=True)
        for i in range(4):
            pixels = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / "photos" / name / f"{i}.png")
    shutil.copytree(place / "photos", place / "corrupt")
    half = (place / "corrupt" / "dog" / "2.png").read_bytes()[:300]
    (place / "corrupt" / "dog" / "2.png").write_bytes(half)
    with h5py.File(place / "toy.h5") as file:
        offset = file["features"].id.get_offset()
    flipped = bytearray((place / "toy.h5").read_bytes())
    flipped[offset + 40] ^= 1
    (place / "flipped.h5").write_bytes(bytes(flipped))
    (place / "taken.npz").touch()
    (place / ".begun.h5.partial").mkdir()
    keep(place / "made", make(seed=0), make(seed=1))
    return place


def _run(*words: str, file: str = "toy.h5", learner: str = "ncm") -> list[str]:
    """The command with these words; an option among them goes over the usual one."""
    kept = [word for pair in USUAL.items() if pair[0] not in words for word in pair]
    return ["run", file, "--learner", learner, *kept, *ONE_EPOCH, *words]


def _extract(source: str) -> list[str]:
    return ["extract", source, "--backbone", "pixels", "--out", "new.h5", "--device", "cpu"]


# Command, what the sentence must hold: what came, and what was expected or can be done. What is
# wrong inside files, sources, settings and protocols is tested where it is noticed.
BAD_INPUT: list[tuple[list[str], str]] = [
    (_run(learner="nmc"), "unknown learner 'nmc'. Did you mean 'ncm'?"),
    (_run("slda"), "there is no file slda"),
    (_run("--set", "step=4"), "unknown setting 'step'. Did you mean 'protocol.step'?"),
    (_run("--set", "ewc.lam=3"), "unknown setting 'ewc.lam'"),
    (_run("--set", "ewc.lam=much", learner="ewc"), "ewc.lam must be float | None, got 'much'"),
    *((_run("--set", "lam"), "--set must be name=value"), (_run(learner=","), "name a learner")),
    (_run("--protocol", "b9-inc9"), "unknown stream of the zoo 'b9-inc9'"),
    (_run("--out", "taken.npz"), "taken.npz is a file; --out takes a directory"),
    (_run("--seeds", "4-0"), "the lower number first"),
    (_run("--device", "cuda:99"), "try --device cpu"),
    (_run(file="begun.h5"), ".begun.h5.partial: run the same extract again"),
    (_run(file="toy.npz"), "`embedbench import`"),
    (_run(file="flipped.h5"), "rows 0-59 of features do not match"),
    (["import", "twice.npz", "--out", "new.h5"], "'s08'"),
    (["import", "straddling.npz", "--out", "new.h5"], "'s00' is in train (row 0) and in test (row"),
    (["import", "toy.npz", "--out", "new.h5", "--group", "speaker"], "'speaker'"),
    (["import", "toy.npz", "--out", "toy.h5"], "toy.h5 exists; choose another name"),
    (["import", "toy.npz", "--out", "no/such/new.h5"], "there is no directory no/such"),
    (["export", "toy.h5", "--out", "taken.npz"], "--overwrite"),
    (["report", "runs", "--html", "taken.npz"], "--overwrite"),
    (_extract("corrupt"), "dog/2.png of corrupt cannot be used (image file is truncated)"),
    *((["score", "runz"], "no directory runz"), (["check", "nmc"], "Did you mean 'ncm'?")),
    (["score", "photos"], "expected finished runs (record.json) under photos, found none"),
    (["order", "toy.h5", "--kind", "natural", "--out", "photos"], "photos is a directory"),
]


@pytest.mark.parametrize(("words", "expected"), BAD_INPUT)
def test_bad_input_gets_one_sentence(words: list[str], expected: str, call: Call) -> None:
    done = call(*words)
    assert done.code == 2
    assert done.out == ""
    assert re.fullmatch(r"embedbench: [^\n]+\n", done.err), done.err
    assert expected in done.err
    assert not Path("new.h5").exists()
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["extract"], "missing argument 'source'"),
        (["import", "toy.npz"], "missing option '--out'"),
        (["inspect", "toy.h5", "--jsn"], "no such option: --jsn"),
        *((["--jsn"], "no such option: --jsn"), (["lst"], "no such command 'lst'")),
        (_run("--threads", "-1"), "invalid value for '--threads'"),
        (_run("--checkpoint", "inf"), "invalid value for '--checkpoint': inf is not a finite"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(words: list[str], said: str, call: Call) -> None:
    done = call(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"embedbench: {said}")
    assert done.err.endswith(" --help\n")
    assert done.err.count("\n") == 1


# The command line of the first release, on which scripts rely.
OPTIONS = {
    "extract": "--backbone --out --weights --layers --dtype --size --split --group --device "
    "--skip-bad --overwrite",
    **dict.fromkeys(("import", "export"), "--out"),
    **dict.fromkeys(("inspect", "verify", "diff", "list", "check"), "--json"),
    **dict.fromkeys(("demo", "runs"), ""),
    "order": "--kind --out --seed --sessions --base --overwrite --json",
    "show": "--protocol --seed --seeds --set --order --export --features --out --overwrite --json",
    "run": "--protocol --learner --seed --seeds --set --order --trunk --weights --augment "
    "--shard --jobs --device --checkpoint --out --json",
    "pretrain": "--protocol --trunk --epochs --out --set --seed --device --overwrite --json",
    "rank": "--out --set --seeds --regime --data --jobs --json",
    "score": "--audit --update --json",
    "report": "--html --compare --by --bridge --metric --figure --out --width --json",
    "reproduce": "--table --data --out --seeds --set --jobs --json",
    "push": "--licence --private --overwrite --json",
}
# Options that count as given where they are not: all others are off, empty or 0.
DEFAULTS = {
    "extract": {
        "dtype": "float32",
        "alpha": "white",
        "orientation": "turn",
        "normalise": "none",
        "device": "auto",
    },
    "order": {"sessions": 10},
    "pretrain": {"epochs": 300, "lr": 5e-4, "weight_decay": 0.05, "batch_size": 256, "warmup": 5}
    | {"augment": "timm", "head": "linear", "device": "auto"},
    "run": {"checkpoint": 60.0},
    "reproduce": {"seeds": "0-2", "threads": 1, "device": "auto"},
    "rank": {"out": Path("floor-runs"), "regime": "pilot"},
    "report": {"width": "column"},
    "check": {"device": "cpu"},
    "demo": {"out": Path("runs/demo")},
}


def test_commands_options_and_defaults_that_scripts_rely_on() -> None:
    group = typer.main.get_command(app.app)
    commands = group.commands  # type: ignore[attr-defined]  # the app has several: a group
    assert commands.keys() == OPTIONS.keys()
    for name, options in OPTIONS.items():
        assert {*options.split()} <= {o for p in commands[name].params for o in p.opts}, name
    every = commands | commands["runs"].commands
    defaults = {n: {p.name: p.default for p in c.params if p.default} for n, c in every.items()}
    assert {name: given for name, given in defaults.items() if given} == DEFAULTS


# Names that pages import before any work, commands that must answer at once, and what is slow;
HELP = ("--version", "--help", "run --help", "runs status --help")
LOOK = ("list", "list backbones", "list incremental-class", "list kemker", "inspect toy.h5")
AT_ONCE = {
    "help": ("sys", HELP, "torch numpy concurrent.futures"),
    "looking around": (
        "embedbench.api, embedbench.learning.Footprint",
        (*LOOK, "verify toy.h5"),
        "torch timm sklearn scipy matplotlib",
    ),
    "names": (
        "sys",
        ("list",),
        "torch embedbench.reports.load_results embedbench.files.remote.download_cache",
    ),
    "tables": ("sys", ("report made",), "torch matplotlib jinja2"),
    "a page": ("sys", ("report made --html page.html",), "torch matplotlib.pyplot"),
}
PROGRAM = """
import sys, pkgutil
from embedbench.cli.app import main
names, commands, slow = {}
for name in names.split(", "): pkgutil.resolve_name(name)
for words in commands:
    sys.argv = ["embedbench", *words.split()]
    try: main()
    except SystemExit as end: assert not end.code, words
    imported = {{*slow.split()}} & {{*sys.modules}}
    assert not imported, (words, imported)
"""


@pytest.mark.parametrize("case", AT_ONCE)
def test_what_answers_at_once_imports_nothing_slow(case: str, place: Path) -> None:
    words = [sys.executable, "-c", PROGRAM.format(AT_ONCE[case])]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.removeprefix("wrote page.html\n") == ""
    assert "incremental-class" in done.stdout or "Usage:" in done.stdout


def test_list_names_everything_with_a_summary(call: Call) -> None:
    for kind, name in (("learners", "ewc"), ("metrics", "omega_all"), ("backbones", "resnet50")):
        found = json.loads(call("list", kind, "--json").out)
        names = [f["name"] for f in found]
        assert [line.split()[0] for line in call("list", kind).out.splitlines()] == names
        assert all(f["summary"] for f in found)
        assert name in names
    assert json.loads(call("list", "zoo", "--json").out) == zoo_rows()
    every = json.loads(call("list", "--json").out)
    assert list(every) == [kind for kind in list_entries.KINDS if kind not in list_entries.LONG]
    assert re.findall(r"^(\w+):$", call("list").out, re.MULTILINE) == list(every)


@pytest.mark.parametrize("room", ["models", "protocols"])
def test_summaries_of_learners_and_protocols_are_those_of_their_classes(room: str) -> None:
    kind = {"models": "learners", "protocols": "protocols"}[room]
    summaries = {row["name"]: row["summary"] for row in list_entries.entries(kind)}
    for path in sorted((list_entries.PACKAGE / room).glob("[!_]*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        classes = [n for n in body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
        said = (ast.get_docstring(classes[0]) or "").partition("\n")[0]
        assert summaries[path.stem.replace("_", "-")] == said


def test_what_was_written_is_said(call: Call) -> None:
    done = call("import", "toy.npz", "--out", "again.h5")
    assert done[:2] == (0, "again.h5: 60 samples of 4 features\n")
    assert done[2].startswith("took 60 samples of 3 classes; split (0.3 in test by hash of sample)")
    done = call(*_extract("photos"), "--size", "6", "--engine", "local:1", "--out", "own.h5")
    assert done.out == "own.h5: 8 samples of 108 features\n"


def test_names_of_the_zoo_fill_in_what_is_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    given, stated = {"split": None, "group": "parent"}, UserMetadata(url="mine")
    how = BackboneOptions(backbone="zoo:efficientnet-lite0")
    source, made, said = _from_zoo("zoo:emoji@e", how, given, stated)
    assert source == "e"
    assert given == {"split": "0.3", "group": "parent"}
    assert made.backbone == "tf_efficientnet_lite0"
    assert made.weights == Path("shipped")
    assert said.licence == "Apache-2.0 and CC-BY-4.0"
    assert said.url == "mine"
    assert _from_zoo("e", replace(how, weights=Path("w")), given, stated)[1].weights == Path("w")
    assert capsys.readouterr().err.splitlines()[:2] == [
        "the zoo's source: e --split 0.3 --group stem; licence Apache-2.0 and CC-BY-4.0",
        "the zoo's backbone: tf_efficientnet_lite0",
    ]


def test_a_source_that_exists_is_no_name_of_the_zoo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo:emoji").mkdir()
    how = BackboneOptions(backbone="pixels")
    assert _from_zoo("zoo:emoji", how, {}, UserMetadata())[0] == "zoo:emoji"


@pytest.mark.parametrize("name", ["known:x", "hf:/datasets/x.h5", "a?@[1].h5"])
def test_a_file_that_exists_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also where it is named again: an absolute path reads as no name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    assert shared_options.here(name).resolve() == tmp_path / name
    assert shared_options.data_here([name, f"n={name}"])[0] != "known:x"


def test_names_of_data_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_options, "here", lambda name: Path("got") / name[-1])
    items = ["a.h5", "b=c.h5", "known:x", "d=known:y"]
    assert shared_options.data_here(items) == ["a.h5", "b=c.h5", "got/x", "d=got/y"]


def test_a_failed_experiment_of_a_paper_ends_with_1(call: Call) -> None:
    paper = paper_folders.paper("iirc")
    runs = Mock(data={}, seeds=[0], out=Path(), failed=["mlp: why"])
    with pytest.raises(typer.Exit) as end:
        reproduce_paper._present(["iirc"], paper, runs, [], "json")
    failed = json.loads(Path(f"{paper.stem}.json").read_text())["failed"]
    assert end.value.exit_code == 1
    assert failed == ["mlp: why"]
    planned = json.loads(call("reproduce", "iirc", "--plan", "--json").out)
    assert planned == make_plan("iirc", "0-2", 3)


def test_json_is_all_there_is_on_stdout(call: Call) -> None:
    run = _run("--out", "json-runs", "--json", "--budget-mb", "1e-5")
    commands = [
        ["inspect", "toy.h5", "--json"],
        ["verify", "toy.h5", "--json"],
        ["diff", "toy.h5", "twin.h5", "--json"],
        run,
        run,  # once more: every cell is there and kept
        ["score", "json-runs", "--json"],
        ["report", "json-runs", "--json"],
    ]
    ends = [call(*words) for words in commands]
    found = [json.loads(done.out) for done in ends]
    assert [done.code for done in ends] == [0] * len(commands)
    assert found[0]["shape"] == [60, 4]
    assert ends[1].out == '{\n "file": "toy.h5",\n "damage": []\n}\n'
    assert found[3] == found[4]
    assert [r["learner"] for r in found[3]["tables"][0]["rows"]] == ["ncm", "chance"]
    assert all(run["agrees"] for run in found[5])
    assert "kept" not in ends[3].err
    assert "kept" in ends[4].err


def test_verify_says_which_rows_and_ends_with_1(call: Call) -> None:
    done = call("verify", "flipped.h5")
    assert done.code == 1
    assert done.err == ""
    assert "rows 0 to 59 of features" in done.out
    assert len(json.loads(call("verify", "flipped.h5", "--json").out)["damage"]) == 1
    assert call("verify", "toy.h5").out == "sound\n"


def test_a_failed_cell_ends_with_1_and_keeps_the_others(call: Call, place: Path) -> None:
    (place / "moody.py").write_text(
        "from dataclasses import dataclass\nfrom embedbench.models.ncm import NCM\n"
        "@dataclass\nclass Moody(NCM):\n"
        "    def observe(self, x, y):\n        raise ZeroDivisionError('not today')\n"
    )
    done = call(*_run("--out", "moody-runs", "--json", learner="moody:Moody,ncm"))
    assert done.code == 1
    at_once, in_the_end = done.err.splitlines()
    assert at_once == ("moody:Moody seed 0 failed, 2 runs are left: ZeroDivisionError: not today")
    assert in_the_end == "failed: moody:Moody seed 0: ZeroDivisionError: not today"
    found = json.loads(done.out)
    assert [f["learner"] for f in found["failed"]] == ["moody:Moody"]
    assert [r["learner"] for r in found["tables"][0]["rows"]] == ["ncm", "chance"]


def test_interruption_is_exit_code_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("embedbench.files.embedding_file.verify", interrupted)
    sentence = "embedbench: interrupted; a run or an extraction goes on by the same command\n"
    assert call("verify", "toy.h5") == (130, "", sentence)


def test_the_images_of_the_demo_are_class_folders(tmp_path: Path) -> None:
    images = tmp_path / "demo" / "images"
    n = demo.unpack(images)
    counts = {folder.name: len(list(folder.iterdir())) for folder in images.iterdir()}
    assert (sorted(counts), sum(counts.values())) == (sorted(demo.CLASSES), n)
    assert max(counts.values()) == counts["country-flag"] == demo.MOST
    assert min(counts.values()) >= 20


def test_the_demo_goes_from_images_to_a_page(call: Call, tmp_path: Path) -> None:
    extract = Mock(side_effect=lambda _, to, **how: make_file(to.parent, (6,) * 4, name=to.name))
    streams = (("incremental-class", ("protocol.base=2",)),)
    small: dict[str, Any] = {"SEEDS": (0,), "LEARNERS": ("ncm",), "STREAMS": streams}
    small |= {
        "SETTINGS": ONE_EPOCH[1:],
        "unpack": lambda _: 7,
        "Engine": lambda name: Engine(f"{name}:1"),
    }
    with patch("embedbench.extract.pipeline.extract", extract), patch.multiple(demo, **small):
        done = call("demo", "--out", tmp_path)
        assert call("demo", "--out", tmp_path, "--quiet")[::2] == (0, "")
    assert re.sub(r"\d+ s in", "9 s in", done.err).splitlines() == [
        f"1/3  images to embeddings: 7 emoji in {tmp_path}/images through EfficientNet-Lite0",
        *("2/3  embeddings to streams, learners learn", "3/3  predictions to scores", "9 s in all"),
    ]
    assert re.findall("^(ncm +1|chance +–) ", done.out, re.MULTILINE) == [
        "ncm      1",
        "chance   –",
    ]
    page, how = tmp_path / "report.html", extract.call_args.kwargs
    told = f"\n\nreport: {page.as_uri()}\n\n{demo.NEXT.format(runs=tmp_path / 'runs')}\n"
    assert done.out.endswith(told)
    assert "<table>" in page.read_text()
    given = (how["weights"], how["split"], how["stratify"], extract.call_count)
    assert given == ("shipped", "0.3", True, 1)
