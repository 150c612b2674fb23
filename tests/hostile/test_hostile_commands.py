"""Command lines that are wrong in one or more words."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import victim
from file_helpers import PROVENANCE, make_features, make_samples
from hostile import cases, drawn, judge
from victim import Outcome

from embedbench.files.write_file import write_file

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
def test_command_lines(numbers: list[int], tmp_path: Path) -> None:
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
