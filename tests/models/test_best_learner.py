"""The reference that validation chooses: who wins, equal ones, and where nothing can be chosen."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import says
from toy import class_stream, session

from embedbench.config.fields_added_later import add_missing_fields, identity
from embedbench.errors import UserError
from embedbench.learning import Context, Learner, Seeds, Session, Stop, StreamSpec
from embedbench.models import _best_learner
from embedbench.models.mlp import MLP
from embedbench.models.offline import Offline
from embedbench.runs.stream_runner import run_stream

STREAM = class_stream([[0, 1], [2], [3]], spread=1.0)
BRIEF = MLP(units=6, layers=1, stop=Stop(rule="epochs", epochs=2))


class Fixed(Learner):
    """Answers every sample with the values of its first column, whatever it learned."""

    tags = Offline.tags
    column = 0

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.n_classes = spec.n_classes

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {"epochs": self.column}

    def scores(self, x: torch.Tensor, *, session_id: Any = None) -> torch.Tensor:
        answer = x[:, self.column].long() % self.n_classes
        return torch.nn.functional.one_hot(answer, self.n_classes).float()


def scripted(monkeypatch: pytest.MonkeyPatch, answers: Sequence[Sequence[int]]) -> Any:
    """A stream and the reference whose learners answer its four validation samples so."""
    kinds = [type(f"Fixed{k}", (Fixed,), {"column": k}) for k in range(len(answers))]
    names = ("first", "second", "third")
    monkeypatch.setattr(_best_learner, "MODELS", dict(zip(names, kinds, strict=False)))
    monkeypatch.setattr(Offline, "_start", _start)
    x = np.zeros((8, len(answers)), np.float32)
    x[4:] = np.array(answers).T
    only = session(x, [0, 1, 2, 3] * 2, n_val=4)
    return replace(STREAM, spec=StreamSpec((len(answers),), 4), sessions=(only,), eval_sets=())


def _start(self: Offline, name: str) -> Learner:
    model = Fixed() if name == "mlp" else _best_learner.MODELS[name]()
    model.start(self.spec, self.seeds, self.device)
    return model


def log_of(stream: Any) -> dict[str, Any]:
    learner = Offline(learner="best")
    learner.start(stream.spec, Seeds.of(0), "cpu")
    only = stream.sessions[0]
    y = torch.from_numpy(only.val_y)

    def validate(scores: Any) -> float:
        return float((scores(only.val_x.tensor()).argmax(1) == y).double().mean())

    return learner.learn(only, Context(validate=validate))


# the true classes are 0, 1, 2, 3
@pytest.mark.parametrize(
    ("answers", "best", "accuracies"),
    [
        ([[0, 1, 0, 0], [0, 1, 2, 0], [3, 3, 3, 3]], "second", [0.5, 0.75, 0.25]),
        ([[0, 0, 0, 0], [1, 0, 3, 2], [0, 1, 2, 3]], "third", [0.25, 0.0, 1.0]),
        ([[0, 1, 2, 0], [0, 1, 0, 3], [0, 0, 0, 0]], "first", [0.75, 0.75, 0.25]),  # a tie
        ([[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 3]], "third", [0.25, 0.5, 0.75]),
        ([[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0]], "second", [0.25, 0.5, 0.5]),  # a later tie
    ],
)
def test_the_best_by_validation_answers_and_the_first_of_equal_ones(
    monkeypatch: pytest.MonkeyPatch, answers: Any, best: str, accuracies: list[float]
) -> None:
    log = log_of(scripted(monkeypatch, answers))
    names = ("first", "second", "third")
    assert log == {
        "epochs": names.index(best),  # the log of the best
        "learner": best,
        "validation_accuracy": dict(zip(names, accuracies, strict=True)),
    }


def test_a_network_that_diverged_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = scripted(monkeypatch, [[0, 1, 2, 3], [0, 0, 0, 0]])
    first = _best_learner.MODELS["first"]
    monkeypatch.setattr(first, "learn", lambda *_: {"stopped": "diverged"})
    assert log_of(stream)["learner"] == "second"


@pytest.mark.parametrize("name", ["mlp", "slda", "ranpac"])
def test_the_reference_answers_as_the_one_that_it_chose(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(_best_learner, "MODELS", {name: _best_learner.MODELS[name]})
    best, logs = run_stream(STREAM, Offline(mlp=BRIEF, learner="best"), Seeds.of(3))
    plain, _ = run_stream(STREAM, Offline(mlp=BRIEF, learner=name), Seeds.of(3))
    assert logs[0].log["learner"] == name
    for table, value in vars(plain).items():
        np.testing.assert_array_equal(getattr(best, table), value)


def test_no_test_sample_enters_the_choice() -> None:
    """Other test samples, equal choice: accuracies of validation samples alone."""
    logs = []
    for seed in (0, 1):
        other = class_stream([[0, 1], [2], [3]], spread=1.0, seed=seed)
        stream = replace(STREAM, eval_sets=other.eval_sets)
        learner = Offline(mlp=BRIEF, learner="best")
        logs.append(run_stream(stream.merged() if seed == 0 else STREAM, learner, Seeds.of(0))[1])
    assert logs[0][0].log == logs[1][0].log


def test_a_state_goes_on_as_the_learner_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_best_learner, "MODELS", {"slda": _best_learner.MODELS["slda"]})
    merged = STREAM.merged()
    old, new = (Offline(mlp=BRIEF, learner="best") for _ in range(2))
    for learner in (old, new):
        learner.start(merged.spec, Seeds.of(0), "cpu")
    old.learn(merged.sessions[0], Context(validate=lambda _: 1.0))
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    old.prepare()
    new.prepare()
    x = merged.eval_sets[0].x.tensor()
    torch.testing.assert_close(new.scores(x), old.scores(x))
    assert new.scores_are == "log-likelihoods"
    assert new.footprint() == old.footprint()


def test_a_state_from_before_names_no_learner() -> None:
    merged = STREAM.merged()
    old, new = (Offline(mlp=copy.deepcopy(BRIEF), learner="mlp") for _ in range(2))
    for learner in (old, new):
        learner.start(merged.spec, Seeds.of(0), "cpu")
    old.learn(merged.sessions[0], Context(validate=lambda _: 1.0))
    state = old.state_dict()
    del state["answers"]
    new.load_state_dict(state)
    x = merged.eval_sets[0].x.tensor()
    torch.testing.assert_close(new.scores(x), old.scores(x))


# --- which reference a setting means ---


def test_the_earlier_reference_is_the_mlp_by_its_setting() -> None:
    assert add_missing_fields(Offline, {})["learner"] == "mlp"  # of a record without it
    old = Offline(learner="mlp")
    assert identity(old) == {"mlp": identity(old.mlp)}


def test_who_sets_the_mlp_has_it() -> None:
    assert Offline(mlp=BRIEF).learner == "mlp"


def test_the_default_has_a_place_of_its_own() -> None:
    assert identity(Offline())["learner"] is None


# --- where there is nothing to choose by ---


def without_validation(validation: str) -> Any:
    """STREAM with no validation samples, or with its test samples in their place."""
    sessions = []
    for s, e in zip(STREAM.sessions, STREAM.eval_sets, strict=True):
        empty = s.val_x.select(np.arange(0))
        other = (e.x, e.y) if validation == "test" else (empty, s.val_y[:0])
        sessions.append(replace(s, val_x=other[0], val_y=other[1]))
    return replace(STREAM, sessions=tuple(sessions), validation=validation)


@pytest.mark.parametrize("validation", ["none", "test", "train"])
def test_best_is_refused_without_validation_samples(validation: str) -> None:
    """`train` is a file with one sample a class, of which none can be held out."""
    what = (
        "the reference best is chosen by validation samples, and this stream has none that are no "
        "test samples"
    )
    with pytest.raises(UserError, check=says(what=what)):
        run_stream(without_validation(validation), Offline(learner="best"), Seeds.of(0))


@pytest.mark.parametrize("validation", ["none", "test", "train"])
def test_the_default_is_the_mlp_there(validation: str) -> None:
    stream = without_validation(validation)
    default, logs = run_stream(stream, Offline(), Seeds.of(1))
    plain, mlp_logs = run_stream(stream, Offline(learner="mlp"), Seeds.of(1))
    np.testing.assert_array_equal(default.answer, plain.answer)
    assert logs[0].log == mlp_logs[0].log


@pytest.mark.parametrize("learner", ["best", "ranpac", "slda"])
@pytest.mark.parametrize("spec", [StreamSpec((4,), 3, multilabel=True), StreamSpec((3, 8, 8), 3)])
def test_a_reference_of_vectors_is_refused_elsewhere(spec: StreamSpec, learner: Any) -> None:
    with pytest.raises(
        UserError, check=says(what=f"the reference {learner} takes vectors with one class each")
    ):
        Offline(learner=learner).start(spec, Seeds.of(0), "cpu")


def test_slda_is_left_out_where_samples_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_best_learner, "WIDEST", 5)
    _, logs = run_stream(STREAM, Offline(mlp=BRIEF, learner="best"), Seeds.of(0))
    assert set(logs[0].log["validation_accuracy"]) == {"mlp", "ranpac"}
