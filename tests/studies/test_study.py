"""Studies: the product of a study file's lists, options over it, and the same command as a file."""

import inspect
import itertools
import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from file_helpers import says
from plan_runs import plan
from protocol_files import make_file
from typer.testing import CliRunner

from embedbench.cli import app, run
from embedbench.errors import UserError
from embedbench.runs.run_spec import RunSpec
from embedbench.scores import record_files
from embedbench.studies.presets import FOLDER, about, preset, preset_names
from embedbench.studies.resolve import check_study, grids, resolve
from embedbench.studies.study import Key, Study
from embedbench.studies.study_file import read_study, read_toml, study_text

ROOT = Path(__file__).resolve().parents[2]
LEAGUE = ROOT / "docs" / "studies" / "league.toml"
COMMAND = ["e.h5", "--protocol", "incremental-class", "--learner", "ewc,ncm"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUN: Any = typer.main.get_command(app.app).commands["run"]  # type: ignore[attr-defined]
OPTIONS = inspect.signature(run.StudyOptions).parameters


def asked(*words: str) -> Study:
    with RUN.make_context("run", [*words, "--out", "runs"]) as ctx:
        given = {name: value for name, value in ctx.params.items() if name in OPTIONS}
        return run.StudyOptions(**given).study()


def cells(*words: str) -> list[RunSpec]:
    return resolve(asked(*words))


def tuned(*words: str) -> dict[str, Any]:
    study = asked(*words)
    return {name: dict(grid) for name, grid in grids(study, study.tune).items()}


def write(text: str, name: str = "study.toml") -> str:
    Path(name).write_text(text)
    return name


def made(cell: RunSpec) -> dict[str, Any]:
    return asdict(cell.learner.settings)


WHOLE = """
files = ["a.h5", ["b.h5", "c.h5"]]
protocols = ["incremental-class"]
learners = ["ncm", "slda", "ewc"]
seeds = "0-1"
preset = "league"
threads = 2

[set]
references = 0
protocol.sessions = 3
lam = 3
ewc.lam = 1e2
"ewc,offline.mlp".units = 7

[grid]
protocol.order = ["natural", "random"]
slda.shrinkage = [1e-4, 0.5, 0.9]
"""


def test_a_study_is_a_product() -> None:
    """Two streams × two orders × (ncm, three slda, ewc) × two seeds."""
    every = cells("--config", write(WHOLE))
    assert len(every) == 2 * 2 * (1 + 3 + 1) * 2 == len({*every})
    assert {c.files for c in every} == {("a.h5",), ("b.h5", "c.h5")}
    assert {made(c)["shrinkage"] for c in every if c.learner.name == "slda"} == {1e-4, 0.5, 0.9}
    (ewc, *_) = (c for c in every if c.learner.name == "ewc")
    assert (made(ewc)["lam"], made(ewc)["units"], made(ewc)["batch_size"]) == (100.0, 7, 64)
    assert asdict(ewc.offline.settings)["mlp"]["units"] == 7
    assert ewc.references == 0
    assert ewc.command == (
        "embedbench run a.h5 --protocol incremental-class --out runs --preset league --threads 2 "
        "--set references=0 --set protocol.sessions=3 --set offline.mlp.units=7 "
        "--set protocol.order=natural --learner ewc --seed 0 --set lam=3 --set ewc.lam=1e2 "
        "--set ewc.units=7"
    )


OF_FILES = """
files = ["a.h5", "b.h5"]
protocols = ["incremental-class"]
learners = ["ewc", "slda"]

[set]
ewc.lam = 3

[set-of."b.h5"]
ewc.lam = 7
slda.shrinkage = 0.5
protocol.sessions = 4
"""


def of_files(*words: str) -> dict[str, dict[str, Any]]:
    """The settings of the learner of the runs, by file."""
    return {c.files[0]: made(c) for c in cells("--config", write(OF_FILES), *words)}


def test_settings_of_a_file_go_over_those_of_all() -> None:
    each = of_files("--learner", "ewc")
    assert {name: settings["lam"] for name, settings in each.items()} == {"a.h5": 3, "b.h5": 7}


def test_settings_of_a_file_may_be_the_protocols() -> None:
    each = {c.files[0]: c.protocol.settings for c in cells("--config", write(OF_FILES))}
    assert asdict(each["b.h5"])["sessions"] == 4


def test_set_goes_over_the_settings_of_a_file() -> None:
    each = of_files("--learner", "ewc", "--set", "ewc.lam=1")
    assert {name: settings["lam"] for name, settings in each.items()} == {"a.h5": 1, "b.h5": 1}


def test_settings_of_a_file_that_is_left_out_go() -> None:
    assert asked("c.h5", "--config", write(OF_FILES)).set_of == {}


def test_settings_of_learners_that_are_left_out_go_from_files() -> None:
    study = asked("--config", write(OF_FILES), "--learner", "slda")
    assert {*study.set_of["b.h5"]} == {Key.parse("slda.shrinkage"), Key.parse("protocol.sessions")}


def test_the_command_in_a_record_has_the_settings_of_its_file() -> None:
    written = write(OF_FILES)
    for cell in cells("--config", written):
        assert cells(*shlex.split(cell.command)[2:]) == [cell]


def test_settings_of_a_file_are_written_with_the_study() -> None:
    study = read_study(Path(write(OF_FILES)))
    assert read_study(Path(write(study_text(study), "again.toml"))) == study


def test_settings_of_no_file_of_the_study_are_refused() -> None:
    study = replace(read_study(Path(write(OF_FILES))), files=(("a.h5",),))
    with pytest.raises(UserError, check=says(what="unknown file of set-of", got="b.h5")):
        check_study(study)


@pytest.mark.parametrize("text", ["set-of = 3", "[set-of]\n'a.h5' = 3"])
def test_settings_of_files_that_are_no_tables_are_refused(text: str) -> None:
    with pytest.raises(UserError, check=says(expected="a table")):
        read_study(Path(write(text)))


def test_the_command_in_a_record_makes_the_same_cell() -> None:
    for cell in cells("--config", write(WHOLE))[::7]:
        assert cells(*shlex.split(cell.command)[2:]) == [cell]


def test_settings_of_the_protocols_and_a_grid_over_them() -> None:
    text = """
    files = "e.h5"
    protocols = ["incremental-class", "mixture"]
    learners = "ncm"
    [set]
    protocol.sessions = 4
    [grid]
    protocol.loss = ["all", "seen"]
    """
    with pytest.raises(UserError, match="protocol 'loss'"):  # mixture has none
        cells("--config", write(text))
    every = cells("--config", "study.toml", "--protocol", "incremental-class")
    said = [asdict(c.protocol.settings) for c in every]
    assert [(s["sessions"], s["loss"]) for s in said] == [(4, "all"), (4, "seen")]


LISTS = """
files = "e.h5"
protocols = ["incremental-class"]
learners = "ncm"
"""


def test_a_setting_of_a_protocol_may_be_a_list() -> None:
    text = f'{LISTS}[set]\nprotocol.sessions = [10, 5, 5]\nprotocol.classes = ["a", "b, c"]'
    (cell,) = cells("--config", write(text))
    settings = asdict(cell.protocol.settings)
    assert (settings["sessions"], settings["classes"]) == ("10,5,5", 'a,"b, c"')


def test_a_grid_over_lists() -> None:
    text = f'{LISTS}[grid]\nprotocol.sessions = [[10, 5, 5], "10,10", 4]'
    every = cells("--config", write(text))
    assert [asdict(c.protocol.settings)["sessions"] for c in every] == ["10,5,5", "10,10", 4]


def test_a_stream_by_name_in_a_file() -> None:
    text = LISTS.replace("incremental-class", "b50-inc10") + "[set]\nprotocol.loss = 'all'"
    (cell,) = cells("--config", write(text))
    settings = asdict(cell.protocol.settings)
    assert cell.protocol.name == "incremental-class"
    assert [settings[name] for name in ("base", "step", "order", "loss")] == [
        50, 10, "icarl1993", "all",
    ]  # fmt: skip


def test_options_go_over_the_file() -> None:
    config = ["--config", write(WHOLE)]
    assert {c.files for c in cells(*config, "x.h5", "y.h5")} == {("x.h5", "y.h5")}
    assert {c.seed for c in cells(*config, "--seed", "7")} == {7}
    assert len(cells(*config, "--order", "size")) == len(cells(*config)) // 2
    assert len(cells(*config, "--set", "protocol.order=size")) == len(cells(*config)) // 2
    flagged = cells(*config, "--set", "slda.shrinkage=0.3", "--seed", "0", "--order", "size")
    assert [made(c)["shrinkage"] for c in flagged if c.learner.name == "slda"] == [0.3, 0.3]
    # learners that are left out leave their settings behind
    for left in ("ncm", "ncm,slda"):
        assert {c.learner.name for c in cells(*config, "--learner", left)} == {*left.split(",")}
    assert asked(*config).threads == 2
    assert asked(*config, "--threads", "1").threads == 1
    with pytest.raises(UserError, match="name a protocol"):
        cells("--config", write("learners = 'ewc'"), "e.h5")


def test_what_is_tuned_by_a_file_and_by_options() -> None:
    text = 'files="e.h5"\nprotocols="permutation"\nlearners="ewc,slda"\n[tune]\newc.lam=[1, 1e2]\n'
    config = ["--config", write(text + "slda.shrinkage = [0.1, 0.2]")]
    ewc, slda = {"lam": ("1", "1e2")}, {"shrinkage": ("0.1", "0.2")}
    assert tuned(*config) == {"ewc": ewc, "slda": slda}
    assert tuned(*config, "--set", "ewc.lam=5") == {"slda": slda}
    assert tuned(*config, "--learner", "slda") == {"slda": slda}
    assert tuned(*config, "--tune", "ewc.lam=3,4")["ewc"] == {"lam": ("3", "4")}
    both = tuned(*config, "--tune", "ewc.lam=3,4", "--set", "ewc.lam=5")
    assert both["ewc"] == {"lam": ("3", "4")}  # as without a file: what is tuned is chosen
    write(text + "[grid]\newc.lam = [1, 2]")
    with pytest.raises(UserError, match="ewc has both"):
        cells(*config)


def test_a_command_line_is_saved_as_a_file_that_makes_the_same_cells() -> None:
    words = [*COMMAND, "--set", "ewc.stop.epochs=3", "--set", "lr=.5", "--seeds", "0-1"]
    words += ["--tune", "ewc.lam=1,1e2", "--budget-mb", "5.5", "--threads", "2"]
    words += ["--order", 'a"\\é😀\x7f.txt', "--tune-seeds", "7"]
    words += ["--name", 'ewc=EWC, λ "large"']
    for extra, error in (([], None), ([], UserError), (["--overwrite"], None)):
        command = ["run", *words, "--out", "runs", "--save-config", "saved.toml", *extra]
        done = CliRunner().invoke(app.app, command)
        assert type(done.exception) is (error or type(None))
    assert not Path("runs").exists()
    assert asked("--config", "saved.toml") == asked(*words)
    assert asked("--config", "saved.toml", "--seeds", "3").seeds == (3,)


def test_numbers_keep_their_text() -> None:
    texts = ["1e4", "1E-3", "0.10", "-0.0", "true", "inf"]
    write("[set]\n" + "\n".join(f"s{i} = {text}" for i, text in enumerate(texts)))
    assert [*read_study(Path("study.toml")).set.values()] == texts


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("protocol = 'x'", {"match": "key 'protocol'.* 'protocols'"}),
        ("out = 'runs'", {"match": "key 'out'"}),
        ("a = ", {"match": r"not TOML \(Invalid value"}),
        ("a = " + "[" * 100_000, {"match": "is not TOML"}),
        ("[set]\n" + "a." * 500_000 + "b = 1", {"match": "over 20 parts"}),
        ("['a'" + ' . "\\"b"' * 20 + "]", {"match": "over 20 parts"}),
        ("seeds = 1979-05-27", {"match": "datetime", "check": says(what="study.toml: seeds")}),
        ("learners = [['a']]", {"check": says(what="study.toml: learners", got=["a"])}),
        ("set = 1", {"check": says(what="study.toml: set", got=1)}),
        ("[set]\na = [1]", {"match": "None is", "check": says(what="study.toml: set.a", got=[1])}),
        ("[grid]\na = []", {"check": says(what="study.toml: grid.a", got=())}),
        ("[tune]\na = ['1,2']", {"check": says(what="study.toml: tune.a", got=("1,2",))}),
        ("threads = 0", {"match": "1,024", "check": says(what="study.toml: threads", got="0")}),
        ("tune-sessions = 0", {"match": "tune-sessions .* 1,000,000", "check": says(got="0")}),
        ("budget-mb = nan", {"check": says(what="study.toml: budget-mb", got="nan")}),
        ("budget-mb = 1000000001", {"match": "budget-mb .* 1e9", "check": says(got="1000000001")}),
        ("budget-mb = 1\n[grid]\newc.lam = [1]", {"match": "with no grid"}),
        ("#" * 2**20 + "#", {"match": r"study\.toml .* 1,048,576"}),
        ("[set]\newc.lamda = 1", {"match": "ewc 'lamda'.* 'lam'"}),
        ("[set]\nsi.c = 1", {"match": r"setting 'si\.c'"}),
        ("[grid]\nsi.c = [1, 2]", {"match": r"tune 'si\.c'"}),
        ("[set]\nlr = 0x" + "f" * 6000, {"check": says(what="study.toml: set.lr")}),
        (f'[set]\n"{"a," * 10_000}b" = {{c=1}}', {"match": "set .* 10,000 keys"}),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, refusal: Any) -> None:
    with pytest.raises(UserError, **refusal) as caught:
        cells(*COMMAND, "--config", write(text))
    assert len(str(caught.value)) < 500


def test_the_least_and_the_most_that_a_study_takes() -> None:
    study = read_study(Path(write("threads = 1\nbudget-mb = 0\ntune-sessions = 1000000")))
    assert study.threads == 1
    assert study.budget_mb == 0
    assert study.tune_sessions == 10**6
    assert read_study(Path(write("budget-mb = 1000000000"))).budget_mb == 1e9
    values = tuple(map(str, range(50_000)))
    study = Study(files=(("e.h5",), ("f.h5",)), protocols=("permutation",), learners=("slda",))
    study = replace(study, grid={Key("slda", "shrinkage"): values})
    check_study(study)  # one seed, though none is given
    for grid in (
        {Key("slda", "shrinkage"): (*values, "1")},
        {Key("protocol", "base"): values, Key("protocol", "step"): values},
    ):
        with pytest.raises(UserError, match="more than 100,000 runs"):
            check_study(replace(study, grid=grid))


@pytest.mark.parametrize("key", ["learners", "protocols"])
def test_a_files_code_needs_leave(key: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "planted.py").write_text("raise SystemExit('planted code ran')")
    write(f"{key} = 'planted:Name'")
    for read in (lambda: asked("--config", "study.toml"), lambda: read_study(Path("study.toml"))):
        with pytest.raises(UserError, match=r"'planted:Name'.* --allow-code"):
            read()
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", os.getcwd())])
    with pytest.raises(UserError, match="cannot import 'planted'"):
        asked(*COMMAND, "--config", "study.toml", "--allow-code")


def test_installed_code_may_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the installed module that runs, whatever the working directory has."""
    code = "from dataclasses import dataclass\nfrom embedbench.models.ncm import NCM\n"
    code += "@dataclass\nclass Mine(NCM):\n    floor: int = 1\n"
    (site := folder / "site").mkdir()
    (site / "installed_one.py").write_text(code)
    (here := folder / "here").mkdir()
    (here / "installed_one.py").write_text("raise SystemExit('planted code ran')")
    monkeypatch.chdir(here)
    paths = [p for p in sys.path if p not in ("", str(here))]
    monkeypatch.setattr(sys, "path", [*paths, str(site)])
    write("learners = 'installed_one:Mine'\n[set.'installed_one:Mine']\nfloor = 3")
    words = ["e.h5", "--protocol", "permutation", "--config", "study.toml", "--allow-code"]
    (cell,) = cells(*words)
    assert made(cell)["floor"] == 3
    assert os.getcwd() not in sys.path


MINE = """from dataclasses import dataclass
from embedbench.models.ncm import NCM

@dataclass
class Mine(NCM):
    floor: int = 1
"""


def beside(folder: Path, study: str, module: str = "beside_one") -> Path:
    """A study file that names a learner beside it, in a folder that is not the working one."""
    (folder / "study").mkdir()
    (folder / "study" / f"{module}.py").write_text(MINE)
    path = folder / "study" / "study.toml"
    path.write_text(study)
    return path


@pytest.fixture
def own_path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`sys.path` of this test alone, without the working directory."""
    paths = [p for p in sys.path if p not in ("", os.getcwd())]
    monkeypatch.setattr(sys, "path", paths)
    return paths


def test_a_learner_beside_the_study_file(folder: Path, own_path: list[str]) -> None:
    text = "learners = 'beside_one.py:Mine'\n[set.'beside_one.py:Mine']\nfloor = 3\n"
    study = beside(folder, f"{text}[names]\n'beside_one.py:Mine' = 'Ours'")
    words = ["e.h5", "--protocol", "permutation", "--config", str(study), "--allow-code"]
    (cell,) = cells(*words)
    assert cell.learner.name == "beside_one:Mine"  # as --learner would name it
    assert made(cell)["floor"] == 3
    assert asked(*words).names == {"beside_one:Mine": "Ours"}
    assert own_path[-1] == str(study.parent)  # the last: it hides nothing that is installed


def test_a_learner_beside_the_study_file_needs_leave(folder: Path, own_path: list[str]) -> None:
    study = beside(folder, "learners = 'beside_two.py:Mine'", "beside_two")
    with pytest.raises(UserError, match=r"'beside_two.py:Mine'.* --allow-code"):
        read_study(study)
    assert "beside_two" not in sys.modules


@pytest.mark.parametrize(
    ("name", "says_so"),
    [
        ("gone.py:Mine", "gone.py, which is not beside it"),
        ("../beside_three.py:Mine", "the name of a .py file beside it"),
        ("json.py:Mine", "a module 'json' is there already"),
        ("beside_three:Mine", r"write beside_three.py:Mine for the file beside the study"),
    ],
)
def test_what_is_not_beside_the_study_file(
    name: str, says_so: str, folder: Path, own_path: list[str]
) -> None:
    study = beside(folder, f"learners = '{name}'", "beside_three")
    (study.parent / "json.py").write_text(MINE)
    with pytest.raises(UserError, match=says_so):
        read_study(study, allow_code=True)


def test_presets_that_ship() -> None:
    assert {"kemker", "league", "iirc", "fr-short"} <= {*preset_names()}
    for name in preset_names():
        assert preset(name)
        assert 20 < len(about(name)[0]) < 100
        assert (FOLDER / f"{name}.toml").read_text().splitlines()[0] == f"# {about(name)[0]}"


def test_a_preset_of_yours() -> None:
    write('preset = "kemker"\n[set]\nstop.patience = 3\n[set."mlp,ewc"]\nunits = 5', "my.toml")
    both = [*COMMAND, "--preset", "my.toml", "--set", "ewc.lam=2"]
    ewc, ncm = cells(*both)
    assert ncm.learner.name == "ncm"
    assert (made(ewc)["units"], made(ewc)["lam"]) == (5, 2.0)
    assert made(ewc)["stop"]["patience"] == 0  # with the learner's name in kemker: over one without
    assert ewc.references == 5
    assert "--preset my.toml" in ewc.command
    assert asdict(ewc.protocol.settings)["validation"] == "test"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("preset = 'my.toml'", {"match": r"my\.toml extends itself"}),
        ("files = 'e.h5'", {"match": r"my\.toml: .* 'files'.* --config"}),
        ("[set]\nlrr = 1", {"match": r"my\.toml 'lrr'.* 'lr'"}),
        ("[set]\nreferences = 1001", {"match": "references .* 1,000,", "check": says(got="1001")}),
        ("set = 3", {"check": says(what="my.toml: [set]", got=3)}),
    ],
)
def test_a_wrong_preset(text: str, refusal: Any) -> None:
    write(text, "my.toml")
    with pytest.raises(UserError, **refusal):
        cells(*COMMAND, "--preset", "my.toml")
    with pytest.raises(UserError, match=r"none\.toml cannot"):
        cells(*COMMAND, "--preset", "none.toml")


def test_a_setting_with_the_learners_name_goes_over_one_without() -> None:
    for items in itertools.permutations(["lr=0.1", "ewc.lr=0.2"]):
        ewc, mlp = plan(["e.h5"], "incremental-class", ["ewc", "mlp"], [0], items, preset="league")
        assert (made(ewc)["lr"], made(mlp)["lr"]) == (0.2, 0.1)


def test_the_league_is_a_study_file() -> None:
    text = (ROOT / "docs" / "league.md").read_text(encoding="utf-8").replace("\\\n", " ")
    (line, *_) = (x for x in text.splitlines() if x.startswith("embedbench run emoji.h5"))
    config, words = ["--config", str(LEAGUE)], shlex.split(line)[2:]

    def key(cell: RunSpec) -> Any:  # commands differ in the order of settings
        return (cell.files, cell.protocol, cell.learner, cell.seeds, cell.offline, cell.references)

    mine = cells(*config)
    assert len(mine) == 18 * 3
    assert [key(c) for c in mine] == [key(c) for c in cells(*words)]

    def numbers(*words: str) -> dict[str, list[float]]:
        return {
            f"{name}.{setting}": list(map(float, values))
            for name, grid in tuned(*words).items()
            for setting, values in grid.items()
        }

    assert numbers(*config) == numbers(*words)
    assert len(numbers(*config)) == 10


def test_settings_that_are_changed_later_are_as_if_they_were_given() -> None:
    run, _ = cells(*COMMAND)
    assert run.preset == "kemker_table"
    assert run.references == 1
    given, _ = cells(*COMMAND, "--set", "ewc.stop.epochs=3", "--set", "ewc.lam=2")
    assert run.with_settings(**{"stop.epochs": "3", "lam": 2}) == given != run
    given, _ = cells(*COMMAND, "--set", "offline.mlp.units=9")
    assert run.with_offline(**{"mlp.units": "9"}) == given != run
    slda = run.with_offline(learner="slda")
    assert [one.omega_reference for one in (run, given, slda)] == ["best", None, "slda"]
    assert run.with_offline(learner="mlp").omega_reference is None
    assert replace(slda, references=0).omega_reference is None
    with pytest.raises(UserError, match="ewc 'lamb'"):
        run.with_settings(lamb=3)


def test_a_run_with_a_search_and_a_budget_has_what_was_chosen(folder: Path) -> None:
    make_file(folder, [12] * 4, [0] * 4, [3] * 4, width=6, name="e.h5")
    items = ["protocol.sessions=2", "units=4", "stop.rule=epochs", "stop.epochs=1"]
    items += ["er.memory.total=6", "offline.mlp.stop.epochs=1", "er.units=5", "references=0"]
    words = ["--config", write('[grid]\nprotocol.order = ["natural", "size"]'), *COMMAND[:3]]
    words += ["--learner", "er,mlp", "--out", "runs", "--quiet", "--device", "cpu", "--jobs", "1"]
    words += ["--tune", "mlp.lr=0.1,0.01", "--tune-sessions", "1", "--budget-mb", "0.01"]
    words += [word for item in items for word in ("--set", item)]
    done = CliRunner().invoke(app.app, ["run", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    records = [record_files.load(place) for place in record_files.find(Path("runs"))]
    er, mlp = ([r for r in records if r.learner == name] for name in ("er", "mlp"))
    assert len(er) == len(mlp) == 2
    for record in er:
        chosen = record.learner_params["memory"]["total"]
        assert chosen != 6
        last = " --set er.memory.total=6 --set er.units=5 --set er.memory.total="
        assert record.command.endswith(f"{last}{chosen}")
    for record in mlp:
        assert record.tuning is not None
        assert record.tuning["seeds"] == [100, 101, 102]  # the table has others
        assert record.tuning["sessions"] == 1
        assert record.command.endswith(f" --set mlp.lr={record.tuning['chosen']['lr']}")


def test_toml_may_write_a_number_with_underscores(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("x = 1_000.5\n", encoding="utf-8")
    assert read_toml(path) == {"x": "1000.5"}
