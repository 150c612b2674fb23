"""Presets, regimes, and names that carry settings: what the papers say, and runs in one table."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from file_helpers import says
from plan_runs import plan
from protocol_files import make_file
from typer.testing import CliRunner

from embedbench import api
from embedbench.cli import list_entries
from embedbench.cli.app import app
from embedbench.config.named_streams import named_streams
from embedbench.errors import UserError
from embedbench.networks.paper_networks import timm
from embedbench.runs.learner_and_protocol_names import alias_settings, learner_names
from embedbench.studies.presets import about, metric, origin, preset, preset_names
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Key, Study, parse_settings

IMAGES = [name for name in preset_names() if name.endswith("-images")]


def settings(learner: str, name: str | None = None, items: str = "") -> dict[str, Any]:
    protocol = "iirc" if name and name.startswith("iirc") else "incremental-class"
    (cell,) = plan(["file.h5"], protocol, [learner], [0], items.split(), preset=name)
    made: dict[str, Any] = asdict(cell.learner.settings)
    made = made.get("mlp", made)
    for key, value in list(made.items()):
        made |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {}
    return made


IIRC = {
    "lr": 1.0, "weight_decay": 1e-5, "batch_size": 128, "optimiser": "sgd",
    "optimiser_state": "fresh", "stop.rule": "plateau", "stop.monitor": "pw_js",
    "stop.patience": 10, "stop.min_delta": 1e-3, "stop.epochs": 140, "stop.first_epochs": 280,
    "stop.factor": 0.1, "stop.lr_min": 0.0, "stop.rewind": False,
}  # fmt: skip
CIFAR = {**IIRC, "trunk": "resnet32", "images.augment": "crop-flip"}
BIG = {"trunk": "resnet50", "stop.epochs": 100, "stop.first_epochs": 200}
ORDERINGS = {
    "trunk": "resnet32", "lr": 0.1, "weight_decay": 2e-4, "stop.rule": "plateau",
    "stop.epochs": 200, "stop.lr_min": 1e-4, "stop.patience": 9,  # the tenth epoch in a row
}  # fmt: skip
ONLINE = {"trunk": "resnet18_small_images"}
BEST, LAST = {"stop.restore": True}, {"stop.restore": False}


def twenty(select: str) -> dict[str, Any]:
    return {"memory": {"total": None, "per_class": 20, "select": select}}


@pytest.mark.parametrize(
    ("name", "learners", "expected"),
    [
        ("iirc", "mlp finetune joint", IIRC | BEST),
        ("iirc", "offline", IIRC | BEST | {"stop.epochs": 200, "stop.first_epochs": None}),
        ("iirc", "er", IIRC | BEST | twenty("random")),
        ("iirc", "er-infinite", IIRC | BEST | twenty("all")),
        ("iirc", "agem", IIRC | LAST | twenty("random")),
        ("iirc", "icarl icarl-cnn icarl-norm lucir bic", IIRC | LAST | twenty("herding")),
        ("iirc-cifar-images", "finetune ewc", CIFAR | BEST),
        ("iirc-cifar-images", "er", CIFAR | BEST | twenty("random")),
        ("iirc-cifar-images", "icarl-cnn lucir", CIFAR | LAST | twenty("herding")),
        ("iirc-imagenet-images", "finetune er lucir", BIG | {"lr": 0.1}),
        ("iirc-imagenet-images", "icarl-cnn icarl-norm bic agem", BIG | {"lr": 0.5}),
        ("class-orderings-images", "finetune lwf", ORDERINGS),
        ("class-orderings-images", "icarl bic lucir il2m", ORDERINGS | twenty("herding")),
        ("online-images", "er", {**ONLINE, "lr": 0.01, "weight_decay": 1e-4, "batch_size": 64}),
        ("online-images", "er", {"memory.total": 2000, "memory.select": "reservoir"}),
        ("online-images", "gdumb", {**ONLINE, "lr": 0.05, "batch_size": 16, "stop.epochs": 30}),
        ("online-images", "agem", {"lr": 0.1, "optimiser": "plain-sgd", "weight_decay": 1e-4}),
        ("online-images", "derpp", {"lr": 0.03, "optimiser": "plain-sgd", "weight_decay": 0.0}),
        ("pilot", "mlp finetune icarl lwf si", {"stop.rule": "epochs", "stop.epochs": 20}),
        ("pilot", "icarl icarl-cnn", {"memory.total": 2000}),
        ("pilot", "gdumb offline", {"stop.rule": "epochs"}),
        # one pass over the stream, ten images a step, with the momentum that was
        ("online-images", "finetune", {"batch_size": 10, "stop.epochs": 1, "stop.rule": "epochs"}),
        ("online-images", "finetune", {**ONLINE, "optimiser_state": "kept"}),
    ],
)
def test_what_the_papers_say(name: str, learners: str, expected: dict[str, Any]) -> None:
    for learner in learners.split():
        made = settings(learner, name)
        assert {key: made[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("learner", "preset", "items", "expected"),
    [
        ("er", None, "", {"memory.select": "reservoir"}),
        ("er-infinite", None, "", {"memory.select": "all"}),
        ("er-infinite", None, "er-infinite.memory.select=random", {"memory.select": "random"}),
        ("er-infinite", "iirc", "er-infinite.lr=0.3", {"lr": 0.3, "memory.select": "all"}),
        ("icarl", None, "", {"answer": "means", "head": "linear"}),
        ("icarl-cnn", None, "", {"answer": "logits", "head": "linear"}),
        ("icarl-norm", None, "", {"answer": "logits", "head": "cosine"}),
        ("icarl-norm", None, "icarl-norm.head=linear", {"answer": "logits", "head": "linear"}),
    ],
)
def test_what_a_name_brings(learner: str, preset: str | None, items: str, expected: Any) -> None:
    made = settings(learner, preset, items)
    assert {key: made[key] for key in expected} == expected


def test_names_of_classes_from_python_and_in_the_list() -> None:
    made = asdict(api.make_learner("icarl_norm", units=7))
    assert made == asdict(api.make_learner("icarl-norm", units="7"))
    assert made["units"] == 7
    assert made["head"] == "cosine"
    said = {e["name"]: e["summary"] for e in list_entries.entries("learners")}
    assert said["icarl-norm"] == "another name of icarl with answer=logits, head=cosine"
    assert said["finetune"] == "another name of mlp"
    assert said["fel-2012"] == "another name of fel with value=sign"
    assert alias_settings("klda") == {"features": 5000, "gamma": 1e-4, "shrinkage": 1e-6}


def test_presets_set_the_protocol_too() -> None:
    assert preset("class-orderings-images")[Key("protocol", "sessions")] == "10"
    assert preset("class-orderings-images")[Key("protocol", "loss")] == "seen"
    assert preset("online-images")[Key("protocol", "observe_batch")] == "10"
    assert settings("lwf", "class-orderings-images")["stop"]["factor"] == pytest.approx(1 / 3)


def test_every_preset_says_where_its_values_are_from() -> None:
    silent = [name for name in preset_names() if not all(origin(name))]
    assert silent == []


def test_a_preset_of_yours_need_not_say_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('source = "A talk."\n[set]\nlr = 0.1')
    assert origin(str(mine)) == ("A talk.", "", "")


def test_the_list_prints_the_source() -> None:
    text = list_entries.settings_text("presets", "pilot")
    assert "Source: Sun et al. (2023)" in " ".join(text.split())


def test_the_trunk_of_online_learning_has_no_pooling_before_its_stages() -> None:
    model = timm.create_model("resnet18_small_images", num_classes=0)
    assert sum(p.numel() for p in model.parameters()) == 11_168_832
    seen: list[tuple[int, ...]] = []
    model.layer1.register_forward_hook(lambda _, x, y: seen.append(tuple(y.shape)))
    assert model.eval()(torch.zeros(2, *model.pretrained_cfg["input_size"])).shape == (2, 512)
    assert seen == [(2, 64, 32, 32)]
    assert model.conv1.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)


@pytest.mark.parametrize("name", IMAGES)
def test_no_learner_is_refused(name: str) -> None:
    left_out = {"offline", "chance"}
    if preset(name).get(Key("protocol", "validation")) == "none":
        left_out |= {"ewc", "online-ewc", "pathnet"}  # they choose by validation data
    learners = [learner for learner in learner_names() if learner not in left_out]
    protocol = "iirc" if name.startswith("iirc") else "incremental-class"
    cells = plan(["file.h5"], protocol, learners, [0], preset=name)
    trunks = [getattr(cell.learner.settings, "trunk", None) for cell in cells]
    assert len(trunks) == len(learners)
    assert len({*trunks} - {None}) == 1
    assert preset(name)[Key("trunk")] in trunks
    assert "[set]" not in about(name)[1]  # comments alone


def test_the_command_line_is_over_a_preset() -> None:
    made = settings("si", "class-orderings-images", "trunk=resnet8 stop.epochs=3 si.lr=0.2")
    assert made["trunk"] == "resnet8"
    assert made["stop.epochs"] == 3
    assert made["lr"] == 0.2
    assert made["stop.rule"] == "plateau"
    with pytest.raises(UserError, match="unknown preset 'onlin'"):
        settings("er", "onlin")


def study(preset: str, *items: str, **more: Any) -> Study:
    given = {"files": (("a.h5",),), "protocols": ("incremental-class",), "learners": ("er", "slda")}
    return Study(**{**given, **more}, preset=preset, set=parse_settings(items))


def test_the_teaching_is_each_ones_own() -> None:
    names = ("kemker", "pilot", "online", "equal-passes")
    runs = [resolve(study(name, learners=("er",)))[0] for name in names]
    protocols = [run.protocol.settings for run in runs]
    assert [p.loss for p in protocols] == ["all", "seen", "all", "all"]
    assert [p.validation for p in protocols] == ["test", "none", "train", "train"]
    assert [p.scale for p in protocols] == ["auto", "none", "auto", "auto"]
    assert [run.learner.settings.passes for run in runs] == [0, 0, 0, 20]
    assert [run.learner.settings.updates for run in runs] == [10, 10, 1, 10]
    (few,) = resolve(study("equal-passes", "passes=7.5", learners=("er",)))
    assert few.learner.settings.passes == 7.5


@pytest.mark.parametrize("learner", ["exstream", "fearnet", "pathnet"])
def test_a_training_that_is_not_counted_is_refused(learner: str) -> None:
    with pytest.raises(UserError, match=f"{learner} .* training .* equal-passes"):
        resolve(study("equal-passes", learners=(learner,)))
    with pytest.raises(UserError, match=r"eeil\.passes would"):
        resolve(study("equal-passes", learners=("eeil",)))


def test_regimes_are_one_table(tmp_path: Path) -> None:
    path = make_file(tmp_path, [12] * 6, [0] * 6, [6] * 6, apart=4.0).path
    words = [
        "run",
        str(path),
        "--protocol",
        "incremental-class",
        "--order",
        "icarl1993",
        "--jobs=1",
    ]
    words += ["--learner", "ncm,slda", "--seeds", "0-1", "--out", str(tmp_path / "runs")]
    for item in ("references=0", "protocol.base=2", "protocol.step=2"):
        words += ["--set", item]
    for name, first in (
        ("pilot", "As PILOT: all samples, unscaled"),
        ("online", "One pass in batches"),
    ):
        done = CliRunner().invoke(app, [*words, "--preset", name])
        assert done.exit_code == 0, done.output
        assert f"preset {name}: {first}" in done.stderr
    selected = tmp_path / "regimes.toml"
    text = '[report]\nruns = ["runs"]\nrows = ["learner"]\ncolumns = "stream"\nover = "seeds"'
    selected.write_text(text)
    shown = CliRunner().invoke(app, ["report", str(selected)]).stdout
    lines = [line for line in shown.splitlines() if line.startswith(("ncm", "slda"))]
    assert [line.count("[") for line in lines] == [2, 2]


# Kemker et al. (2018), section 3: "mean-per-class accuracy"; PILOT's code divides the right answers
# by the number of samples
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kemker", "class_accuracy"),
        ("kemker-50k", "class_accuracy"),  # which extends it
        ("pilot", "accuracy"),
        ("league", None),
        (None, None),
    ],
)
def test_a_preset_says_the_metric_of_its_paper(name: str | None, expected: str | None) -> None:
    assert metric(name) == expected


def test_a_run_keeps_the_metric_of_its_preset() -> None:
    (spec,) = plan(["file.h5"], "incremental-class", ["mlp"], [0], [], preset="kemker")
    assert (spec.metric, spec.chance_run().metric) == ("class_accuracy", "class_accuracy")


@pytest.fixture
def by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream by name whose papers print the accuracy per class."""
    stream = replace(named_streams()["b0-inc10"], metric="class_accuracy")
    monkeypatch.setitem(named_streams(), "b0-inc10", stream)


@pytest.mark.usefixtures("by_class")
def test_a_run_keeps_the_metric_of_its_stream() -> None:
    (spec,) = plan(["file.h5"], "b0-inc10", ["mlp"], [0], [])
    assert spec.metric == "class_accuracy"


@pytest.mark.usefixtures("by_class")
def test_the_command_of_a_run_says_the_metric_of_its_stream() -> None:
    """The command has the protocol and the settings that the stream's name stands for."""
    (spec,) = plan(["file.h5"], "b0-inc10", ["mlp"], [0], [])
    assert "--metric class_accuracy" in spec.command


@pytest.mark.usefixtures("by_class")
def test_a_metric_of_a_preset_goes_over_that_of_a_stream() -> None:
    (spec,) = plan(["file.h5"], "b0-inc10", ["mlp"], [0], [], preset="pilot")
    assert spec.metric == "accuracy"


def test_a_metric_that_is_named_goes_over_that_of_a_preset() -> None:
    study = Study(
        files=(("file.h5",),),
        protocols=("incremental-class",),
        learners=("ncm",),
        preset="kemker",
        metric="accuracy",
    )
    assert resolve(study)[0].metric == "accuracy"


def test_a_metric_that_is_no_base_score_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "mine.toml").write_text('metric = "class_acuracy"')
    with pytest.raises(UserError, check=says(what="unknown base score", expected="class_accuracy")):
        metric(str(path))
