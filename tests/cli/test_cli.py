"""The command line: names, exit codes, what goes to which stream, and what bad input is told."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from embedbench.cli import app

ASSETS = Path(str(files("embedbench"))) / "assets"
WEIGHTS = str(ASSETS / "tf_efficientnet_lite0.fp16.safetensors")
USUAL = {"--protocol": "incremental-class", "--out": "runs", "--device": "cpu", "--jobs": "1"}
ONE_EPOCH = ["--set", "offline.mlp.stop.epochs=1"]


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Call = Callable[..., Done]


@pytest.fixture
def call(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Run one command in the folder of bad and good things, in this process."""

    def run(*words: str) -> Done:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["embedbench", *words])
        code: int | str | None = 0
        try:
            app.main()
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        assert isinstance(code, int | None)
        return Done(code or 0, out, err)

    monkeypatch.chdir(place)
    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small things to point commands at, most of them broken."""
    place = tmp_path_factory.mktemp("cli")
    _sources(place)
    _photos(place)
    from embedbench.files.import_features import import_file

    for name in ("toy", "twin"):
        import_file(place / f"{name}.npz", place / f"{name}.h5")
    _broken_files(place)
    (place / "list.csv").write_text("00000,train\n00001,trian\n")
    (place / "order.txt").write_text("cat\ndog\n")
    (place / "text.txt").write_text("not data\n")
    (place / "taken.npz").write_text("")
    (place / "taken.html").write_text("")
    (place / "nothing").mkdir()
    (place / "junk.pth").write_bytes(b"junk")
    (place / "not_a_learner.py").write_text("class NotALearner:\n    pass\n")
    return place


def _sources(place: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.normal(size=(3, 4)) * 3)[y] + rng.normal(size=(60, 4))
    names = np.array(["cat", "dog", "owl"])
    ids = np.array([f"s{i:02d}" for i in range(60)])
    nan, twice, straddling = x.copy(), ids.copy(), ids.copy()
    nan[7, 2] = np.nan
    twice[9] = twice[8]
    straddling[1] = straddling[0]
    where = np.where(np.arange(60) % 4 == 1, "test", "train")

    def save(name: str, **arrays: Any) -> None:
        np.savez(place / f"{name}.npz", **arrays)

    x = x.astype(np.float32)
    save("toy", features=x, labels=y, classes=names)
    save("twin", features=x + np.float32(0.1), labels=y, classes=names)
    save("unlabelled", features=x)
    save("nan", features=nan.astype(np.float32), labels=y)
    save("beyond", features=x, labels=y, classes=names[:2])
    save("twice", features=x, labels=y, sample_ids=twice)
    save("straddling", features=x, labels=y, sample_ids=straddling, split=where)
    save("objects", features=np.array([object()] * 60), labels=y)
    save("all-train", features=x, labels=y, split=np.array(["train"] * 60))
    digits = place / "digits"
    digits.mkdir()
    for part, n in (("train", 4), ("t10k", 2)):
        head = bytes([0, 0, 8, 3]) + b"".join(v.to_bytes(4, "big") for v in (n, 28, 28))
        (digits / f"{part}-images-idx3-ubyte").write_bytes(head + b"\0" * 100)  # cut short
        labels = bytes([0, 0, 8, 1]) + n.to_bytes(4, "big") + bytes(n)
        (digits / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


def _photos(place: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (place / "photos" / name).mkdir(parents=True)
        for i in range(4):
            pixels = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / "photos" / name / f"{i}.png")
    shutil.copytree(place / "photos", place / "corrupt")
    half = (place / "corrupt" / "dog" / "2.png").read_bytes()[:300]
    (place / "corrupt" / "dog" / "2.png").write_bytes(half)
    (place / "loose").mkdir()
    shutil.copy(place / "photos" / "cat" / "0.png", place / "loose" / "0.png")


def _broken_files(place: Path) -> None:
    whole = (place / "toy.h5").read_bytes()
    with h5py.File(place / "toy.h5") as file:
        offset = file["features"].id.get_offset()
    flipped = bytearray(whole)
    flipped[offset + 40] ^= 1
    (place / "flipped.h5").write_bytes(bytes(flipped))
    (place / "cut.h5").write_bytes(whole[:-300])
    shutil.copy(place / "toy.h5", place / "future.h5")
    with h5py.File(place / "future.h5", "a") as file:
        file.attrs["format_version"] = "9.0"
    with h5py.File(place / "foreign.h5", "w") as file:
        file["x"] = np.zeros(3)
    (place / ".begun.h5.partial").mkdir()


def _run(*words: str, file: str = "toy.h5", learner: str = "ncm") -> list[str]:
    """The command with these words; an option among them goes over the usual one."""
    kept = [word for pair in USUAL.items() if pair[0] not in words for word in pair]
    return ["run", file, "--learner", learner, *kept, *ONE_EPOCH, *words]


def _extract(*words: str, source: str = "photos", backbone: str = "pixels") -> list[str]:
    return ["extract", source, "--backbone", backbone, "--out", "new.h5", "--device", "cpu", *words]


# id: (command, what the sentence must hold: what came, and what was expected or can be done)
BAD_INPUT: dict[str, tuple[list[str], str]] = {
    "misspelt learner": (_run(learner="nmc"), "unknown learner 'nmc'. Did you mean 'ncm'?"),
    "learners without commas": (_run("slda"), "commas between them: --learner ncm,slda"),
    "a protocol's setting without its prefix": (
        _run("--set", "step=4"),
        "unknown setting 'step'. Did you mean 'protocol.step'?",
    ),
    "misspelt protocol": (
        _run("--protocol", "incremental-clas"),
        "unknown protocol 'incremental-clas'. Did you mean 'incremental-class'?",
    ),
    "misspelt setting": (
        _run("--set", "ewc.lamm=3", learner="ewc"),
        "unknown setting of ewc 'lamm'. Did you mean 'lam'?",
    ),
    "setting of a learner that does not run": (
        _run("--set", "ewc.lam=3"),
        "unknown setting 'ewc.lam'",
    ),
    "setting of the wrong type": (
        _run("--set", "ewc.lam=much", learner="ewc"),
        "ewc.lam must be float | None, got 'much'",
    ),
    "setting without a value": (_run("--set", "lam"), "--set takes name=value"),
    "runs kept in a file": (
        ["run", "toy.h5", "--out", "taken.npz", "--learner", "ncm", "--protocol", "permutation"],
        "taken.npz is a file; --out takes a directory",
    ),
    "no learner named": (_run(learner=","), "--learner names no learner"),
    "setting out of range": (
        _run("--set", "ewc.units=0", learner="ewc"),
        "ewc.units must be at least 1, got 0",
    ),
    "setting out of range of a learner without layers": (
        _run("--set", "fel.lr=-1", learner="fel"),
        "fel.lr must be above 0, got -1.0",
    ),
    "misspelt optimiser": (
        _run("--set", "fel.optimiser=adem", learner="fel"),
        "unknown fel.optimiser 'adem'. Did you mean 'adam'?",
    ),
    "misspelt preset": (_run("--preset", "kemkr"), "Did you mean 'kemker'?"),
    "tuning on test data": (
        _run("--tune", "lr=0.1,0.2", "--set", "protocol.validation=test", learner="mlp"),
        "its test data, on which nothing may be tuned",
    ),
    "seeds upside down": (_run("--seeds", "4-0"), "give the lower number first"),
    "two kinds of seeds": (_run("--seed", "1", "--seeds", "0-4"), "not both"),
    "more base classes than there are": (
        _run("--set", "protocol.base=7"),
        "base must be between 1 and 2 of the 3 classes, got 7",
    ),
    "order file that is not there": (_run("--order", "odrer.txt"), "there is no file 'odrer.txt'"),
    "order file that lacks a class": (
        _run("--order", "order.txt"),
        "order.txt must hold each of the 3 classes once; it holds 2",
    ),
    "learner module that is not there": (_run(learner="no.such:Mine"), "cannot import 'no.such'"),
    "learner that is none": (
        _run(learner="not_a_learner:NotALearner"),
        "'not_a_learner:NotALearner' is not a subclass of embedbench's Learner",
    ),
    "device that is not there": (_run("--device", "cuda:99"), "try --device cpu"),
    "file that is not there": (
        _run(file="toi.h5"),
        "there is no file toi.h5; make it with `embedbench extract`",
    ),
    "file whose extraction was interrupted": (
        _run(file="begun.h5"),
        "unfinished work lies in .begun.h5.partial: run the same extract again",
    ),
    "file of another format": (_run(file="toy.npz"), "make one of it with `embedbench import`"),
    "HDF5 of another program": (_run(file="foreign.h5"), "not an embedding file"),
    "file of a later version": (
        _run(file="future.h5"),
        "format version 9.0, and this embedbench reads 1.0 and 1.1; install",
    ),
    "file with one flipped bit": (
        _run(file="flipped.h5"),
        "rows 0-59 of features do not match their checksums; copy or extract it again",
    ),
    "file cut short": (_run(file="cut.h5"), "cut.h5 is damaged or incomplete"),
    "npz without labels": (
        ["import", "unlabelled.npz", "--out", "new.h5"],
        "must hold 'features' and 'labels', and it holds features",
    ),
    "NaN in the features": (
        ["import", "nan.npz", "--out", "new.h5"],
        "row 7 of features (sample '00007') holds NaN",
    ),
    "label out of range": (
        ["import", "beyond.npz", "--out", "new.h5"],
        "label 2 of sample '00002' (row 2) is out of range: there are 2 leaf classes",
    ),
    "one id twice": (["import", "twice.npz", "--out", "new.h5"], "'s08'"),
    "a sample in train and test": (
        ["import", "straddling.npz", "--out", "new.h5"],
        "sample 's00' is in train (row 0) and in test (row 1); keep each sample in one split",
    ),
    "pickled objects": (["import", "objects.npz", "--out", "new.h5"], "save plain numeric"),
    "IDX file cut short": (["import", "digits", "--out", "new.h5"], "cut short; fetch it again"),
    "misspelt split in a list file": (
        ["import", "toy.npz", "--out", "new.h5", "--split", "list.csv"],
        "list.csv, line 2: expected sample_id,train|val|test",
    ),
    "test fraction above 1": (_extract("--split", "1.5"), "must lie between 0 and 1, not 1.5"),
    "group that is no key": (
        ["import", "toy.npz", "--out", "new.h5", "--group", "speaker"],
        "'speaker'",
    ),
    "output that is there": (
        ["import", "toy.npz", "--out", "toy.h5"],
        "toy.h5 exists; choose another name, or replace it with --overwrite",
    ),
    "export that is there": (["export", "toy.h5", "--out", "taken.npz"], "--overwrite"),
    "title without a page": (["report", "runs", "--title", "x"], "add --html FILE"),
    "report that is there": (["report", "runs", "--html", "taken.html"], "--overwrite"),
    "output folder that is not there": (
        ["extract", "photos", "--backbone", "pixels", "--out", "no/such/new.h5"],
        "there is no directory no/such; make it first",
    ),
    "source that is not there": (_extract(source="fotos"), "there is no file or folder 'fotos'"),
    "images outside class folders": (_extract(source="loose"), "lies in no class folder"),
    "corrupt image": (
        _extract(source="corrupt"),
        "dog/2.png of corrupt cannot be used (image file is truncated); repair or remove it, or "
        "leave it out with --skip-bad",
    ),
    "misspelt backbone": (_extract(backbone="resnet500"), "Did you mean 'resnet50"),
    "weights that are not there": (
        _extract("--weights", "none.pth", backbone="resnet18"),
        "there is no file of weights none.pth",
    ),
    "weights that are none": (
        _extract("--weights", "junk.pth", backbone="resnet18"),
        "junk.pth cannot be read as weights",
    ),
    "weights of another model": (
        _extract("--weights", WEIGHTS, backbone="resnet18"),
        "does not fit resnet18",
    ),
    "layer that the backbone lacks": (
        _extract("--weights", WEIGHTS, "--layers", "9", backbone="tf_efficientnet_lite0"),
        "unknown layer '9'; this backbone has stage-0 to stage-4",
    ),
    "arithmetic that is none": (_extract("--dtype", "float8"), "one of float32, bfloat16, float16"),
    "nothing to report": (["report", "nothing"], "expected finished runs"),
    "nothing to score": (["score", "runz"], "there is no directory runz"),
    "a file for runs": (["report", "toy.h5"], "is a file, not a directory of runs; `runs merge`"),
    "nothing to list": (["list", "learnrs"], "Did you mean 'learners'?"),
    "nothing to check": (["check", "nmc"], "Did you mean 'ncm'?"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_sentence_and_exit_code_2(case: str, call: Call) -> None:
    words, expected = BAD_INPUT[case]
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
        (["--jsn"], "no such option: --jsn"),
        (["lst"], "no such command 'lst'"),
        (_run("--seed", "-1"), "invalid value for '--seed'"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(words: list[str], said: str, call: Call) -> None:
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"embedbench: {said}")
    assert done.err.endswith(" --help\n")
    assert done.err.count("\n") == 1


# The command line of the first release, on which scripts rely.
OPTIONS = {
    "extract": "--backbone --out --weights --layers --dtype --size --split --group --device "
    "--skip-bad --overwrite",
    "import": "--out",
    "export": "--out",
    "inspect": "--json",
    "order": "--kind --out --seed --sessions --base --overwrite --json",
    "verify": "--json",
    "diff": "--json",
    "show": "--protocol --seed --seeds --set --order --export --features --out --overwrite --json",
    "run": "--protocol --learner --seed --seeds --vary --set --order --trunk --weights --augment "
    "--shard --jobs --device --checkpoint --out --json",
    "pretrain": "--protocol --trunk --epochs --out --set --seed --device --overwrite --json",
    "score": "--audit --update --json",
    "report": "--html --title --compare --by --bridge --metric --figure --out --width --json",
    "list": "--json",
    "check": "--json",
    "reproduce": "--table --data --out --seeds --set --jobs --json",
    "demo": "",
    "push": "--licence --runs --parquet --private --overwrite --json",
    "runs": "",
}


@pytest.mark.parametrize("command", OPTIONS)
def test_commands_and_options_that_scripts_rely_on(command: str) -> None:
    import typer

    group = typer.main.get_command(app.app)
    commands = group.commands  # type: ignore[attr-defined]  # the app has several: a group
    assert set(OPTIONS) == set(commands)
    known = {name for p in commands[command].params for name in p.opts}
    assert set(OPTIONS[command].split()) <= known


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "backbones"],
        ["list", "incremental-class"],
        ["list", "kemker"],
        ["inspect", "toy.h5"],
        ["verify", "toy.h5"],
    ],
)
def test_looking_around_does_not_import_torch(words: list[str], place: Path) -> None:
    """The commands that must answer at once, and the names that pages import before any work."""
    code = (
        "import sys; from embedbench.cli.app import main\n"
        "import embedbench.api; from embedbench.learning import Footprint, Learner, Tags\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code or 0\n"
        "else: code = 0\n"
        "slow = {'torch', 'timm', 'sklearn', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=place, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["runs", "status", "--help"]])
def test_help_imports_nothing_slow(words: list[str], place: Path) -> None:
    """Some are imported by typer alone, to read values: pydantic takes as long as all the rest."""
    slow = {"torch", "numpy", "rich", "pydantic", "concurrent.futures", "importlib.metadata"}
    code = (
        "import sys; from embedbench.cli.app import main\n"
        "try: main()\n"
        f"finally: print({slow} & set(sys.modules) or 'none', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=place, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.strip()) == (0, "none")
    assert done.stdout.startswith("Usage:")


def test_version(call: Call) -> None:
    done = call("--version")
    assert (done.code, done.out, done.err) == (0, "embedbench 0.1.0\n", "")


@pytest.mark.parametrize("kind", ["learners", "protocols", "metrics", "backbones"])
def test_list_names_everything_with_a_summary(kind: str, call: Call) -> None:
    found = json.loads(call("list", kind, "--json").out)
    text = call("list", kind).out.splitlines()
    assert [line.split()[0] for line in text] == [f["name"] for f in found]
    assert all(f["summary"] for f in found)
    known = {"learners": "ewc", "protocols": "permutation", "metrics": "omega_all"}
    assert known.get(kind, "vit_base_patch16_224") in {f["name"] for f in found}


def test_options_take_dashes_and_underscores(call: Call) -> None:
    words = ["extract", "corrupt", "--backbone=pixels", "--out", "kept.h5", "--overwrite"]
    for option in ("--skip-bad", "--skip_bad"):
        done = call(*words, option)
        assert done.code == 0, done.err
        assert done.out == "kept.h5: 7 samples of 1728 features\n"
        assert "dog/2.png" in done.err
    assert call("extract", "photos", "--backbone", "pixels", "--skip_bda").code == 2


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
    assert found[1]["damage"] == []
    assert found[3] == found[4]
    assert [r["learner"] for r in found[3]["tables"][0]["rows"]] == ["ncm"]
    assert all(run["agrees"] for run in found[5])
    over = "ncm held up to 0.00 MB, over the budget of 1e-05 MB"
    assert found[3]["over_budget"] == [over]
    assert over in ends[3].err
    assert "kept" not in ends[3].err
    assert "kept" in ends[4].err


def test_verify_says_which_rows_and_ends_with_1(call: Call) -> None:
    done = call("verify", "flipped.h5")
    assert (done.code, done.err) == (1, "")
    assert "rows 0 to 59 of features" in done.out
    damage = json.loads(call("verify", "flipped.h5", "--json").out)["damage"]
    assert len(damage) == 1
    assert call("verify", "toy.h5").out == "sound\n"


def test_a_failed_cell_ends_with_1_and_keeps_the_others(call: Call, place: Path) -> None:
    (place / "moody.py").write_text(
        "from dataclasses import dataclass\nfrom embedbench.models.ncm import NCM\n"
        "@dataclass\nclass Moody(NCM):\n"
        "    def observe(self, x, y):\n        raise ZeroDivisionError('not today')\n"
    )
    done = call(*_run("--out", "moody-runs", "--json", learner="moody:Moody,ncm"))
    assert done.code == 1
    assert done.err == "failed: moody:Moody seed 0: ZeroDivisionError: not today\n"
    found = json.loads(done.out)
    assert [f["learner"] for f in found["failed"]] == ["moody:Moody"]
    assert [r["learner"] for r in found["tables"][0]["rows"]] == ["ncm"]


def test_interruption_is_exit_code_130_without_a_traceback(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("embedbench.files.embedding_file.verify", interrupted)
    done = call("verify", "toy.h5")
    assert done.code == 130
    assert done.out == ""
    assert done.err == (
        "embedbench: interrupted; a run or an extraction goes on by the same command\n"
    )
    assert "Traceback" not in done.err
