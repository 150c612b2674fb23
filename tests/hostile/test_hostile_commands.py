"""Command lines that nobody means: each ends with a sentence or a result, not with a traceback.

Some are listed; others are drawn, with one or more wrong words, and run in processes with bounds.
"""

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import victim
from commands import Call
from file_helpers import PROVENANCE, make_features, make_samples
from hostile import cases, drawn, judge
from victim import Outcome

from embedbench.files.write_file import write_file

ROOT = Path(__file__).parents[2]

ESC = "\x1b[31mred\x1b[0m"

HUGE = "9" * 23

LONG = "x" * 5000

RUN = "run toy.h5 --protocol incremental-class --out runs --device cpu --jobs 1 --quiet"

NCM = f"{RUN} --learner ncm"

MLP = f"{RUN} --learner mlp --set stop.epochs=1 --set offline.mlp.stop.epochs=1"

OF = "--protocol incremental-class --learner ncm --device cpu --jobs 1"

# commands as words; a name in brackets is one word with what no shell passes on unharmed
LINES = f"""
{ESC}
[nothing]
inspect [escape]
inspect [long]
inspect [latin]
inspect toy.h5 --map nothing/map.svg
export toy.h5 --out fifo.npz --overwrite
import text.txt --out new.h5
import toy.npz --out fifo --overwrite
import toy.npz --out [long]
import toy.npz --out new.h5 --split nan
import toy.npz --out new.h5 --classes {HUGE}
import toy.npz --out new.h5 --labels runs
order toy.h5 --kind random --out order.json --sessions {HUGE}
order toy.h5 --kind max-confusion --out order.json --base {HUGE}
extract demo --backbone pixels --out new.h5 --device cpu --size {HUGE}
extract demo --backbone tf_efficientnet_lite0 --layers ² --out new.h5 --device cpu
extract [escape] --backbone pixels --out new.h5 --device cpu
{RUN} --learner ncm,,ncm
{RUN} --learner __init__
{RUN} --learner embedbench.learning.learner:Learner
{RUN} --learner broken:Mine
{NCM} --protocol multi-modal
{NCM} --seed {HUGE}
{NCM} --seeds [digits]
{NCM} --set [escape]=1
{NCM} --set seeds.order={HUGE}
{NCM} --set references={HUGE}
{NCM} --set protocol.base={HUGE}
{NCM} --set protocol.val_fraction=nan
{NCM} --tune mlp.lr=0.1
{NCM} --tune-sessions {HUGE}
{NCM} --budget-mb nan
{NCM} --device meta
{NCM} --out [long]
{RUN} --learner mlp --set units=60000 --set layers=50
{MLP} --set mlp.trunk=[long]
{MLP} --set mlp.images.weights=runs
{RUN} --learner er --set memory.total={HUGE}
run toy.h5 toy.h5 --protocol multi-modal --learner ncm --device cpu --out runs
pretrain toy.h5 --protocol fscil --trunk resnet32 --out a.safetensors --lr nan --device cpu
reproduce kemker2018 --seeds {HUGE} --device cpu
demo --out toy.npz
""".strip().splitlines()

STANDS_FOR = {"[nothing]": "", "[escape]": ESC, "[long]": LONG, "[digits]": "1" * 5000}

STANDS_FOR |= {"[latin]": os.fsdecode(b"caf\xe9.h5")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an embedding file, an npz, a text, a pipe, and an empty folder."""
    place = tmp_path_factory.mktemp("hostile")
    shutil.copy(ROOT / "tests" / "golden" / "v1.0.h5", place / "toy.h5")
    np.savez(place / "toy.npz", features=np.eye(6, dtype=np.float32), labels=np.arange(6) % 2)
    (place / "text.txt").write_text("not data\n")
    (place / "broken.py").write_text("class Mine(:\n")
    (place / "runs").mkdir()
    os.mkfifo(place / "fifo")
    os.mkfifo(place / "fifo.npz")
    return place


@pytest.fixture
def in_time() -> Iterator[None]:
    """Turn a hang, such as on a pipe, into an error."""

    def late(*_: object) -> None:
        raise TimeoutError("the command hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("command", LINES)
def test_each_listed_line_ends(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    words = command.split()
    for name, word in STANDS_FOR.items():
        words = [w.replace(name, word) for w in words]
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", list(sys.path))  # a learner from outside adds to it
    code, out, err = call(*words)
    assert code in (0, 1, 2)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err)
    assert "Traceback" not in err
    if code:
        assert re.search(r"^(embedbench: |Usage: |failed: )", err)
        assert len(err) < 6000


WORDS = (
    "", "-", "--", ".", "/proc", "..", "nothing", "\x1b[31mred", "9" * 40, "-1", "nan", "inf",
    "1e400", "a" * 5000, "é\u202e", "0-99999999999", "ewc.lam=1e300", "mlp.layers=100000", "x=y=z",
    "=", "lam=", "ewc.lambda=3", "protocol.base=0", "protocol.base=1e9", "seeds.order=-3",
    "cuda:99", "banana", "pkg.mod:Name", "os:system", "/dev/null", "/dev/zero", "/proc/self/mem",
    "%s%n", "$(id)", "`id`", "mlp,mlp", ",", "mlp.lr=nan", "mlp.stop.epochs=0",
    "references=10000000", "omega=x",
)  # fmt: skip

COMMANDS = (
    "run FILE --protocol incremental-class --learner ncm --out OUT --set protocol.base=2",
    "run FILE --protocol permutation --learner mlp --out OUT --set sessions=2 --set units=8",
    "run FILE --protocol incremental-class --learner ewc --out OUT --tune ewc.lam=1,10 --jobs 1",
    "extract SRC --backbone none --out NEW",
    "extract SRC --backbone pixels --out NEW --size 8 --split 0.3 --skip-bad",
    "import FILE --out NEW",
    "export FILE --out NEW",
    "inspect FILE",
    "verify FILE",
    "diff FILE FILE",
    "order FILE --out NEW",
    "score RUNS",
    "report RUNS --html NEW --compare",
    "report RUNS --by order --metric final_accuracy",
    "list learners",
    "check ncm --device cpu",
    "reproduce nothing --out OUT",
)


@pytest.mark.parametrize("numbers", cases(300, 14))
def test_drawn_command_lines(numbers: list[int], tmp_path: Path) -> None:
    write_file(tmp_path / "a.h5", make_samples(60), make_features(60), PROVENANCE)
    (tmp_path / "src" / "one").mkdir(parents=True)

    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("command", number)
        places = {"FILE": tmp_path / "a.h5", "RUNS": tmp_path, "SRC": tmp_path / "src"}
        places |= {"OUT": tmp_path / f"out-{number}", "NEW": tmp_path / f"new-{number}.h5"}
        words = [str(places.get(w, w)) for w in COMMANDS[number % len(COMMANDS)].split()]
        for _ in range(int(draw.integers(1, 3))):
            at = int(draw.integers(1, len(words) + 1))
            word = WORDS[draw.integers(len(WORDS))]
            how = draw.integers(4)
            if how == 0 and at < len(words):
                del words[at]
            elif how == 1:
                words.insert(at, word)
            elif at < len(words):
                words[at] = word
        yield victim.run(*words, cwd=tmp_path, seconds=20)

    judge("command lines", numbers, trial)
