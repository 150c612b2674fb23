"""The reference that validation chooses: who wins, equal ones, and where nothing can be chosen."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import says
from protocol_files import make_file, make_flipped_file
from toy import class_stream, context, session

from embedbench.config.fields_added_later import add_missing_fields, identity
from embedbench.errors import UserError
from embedbench.files.raw_pixels import FLIPPED
from embedbench.files.write_file import write_file
from embedbench.learning import Context, Learner, Seeds, Session, Stop, StreamSpec
from embedbench.models import _best_learner
from embedbench.models._best_learner import Candidates, deal_groups, fifths
from embedbench.models.mlp import MLP
from embedbench.models.offline import Offline
from embedbench.models.ranpac import RanPAC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.mixture import Mixture
from embedbench.protocols.permutation import Permutation
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

STREAM = class_stream([[0, 1], [2], [3]], spread=1.0)
BRIEF = MLP(units=6, layers=1, stop=Stop(rule="epochs", epochs=2))


class Fixed(Learner):
    """Answers every sample with the value in its column, whatever it learned."""

    tags = Offline.tags
    column = 0

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.n_classes, self.device = spec.n_classes, device

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {"lesson": len(session.y)}

    def scores(self, x: torch.Tensor, *, session_id: Any = None) -> torch.Tensor:
        answer = x[:, self.column].long()
        return torch.nn.functional.one_hot(answer, self.n_classes).float()


class Diverged(Fixed):
    """Its answers are right where any are."""

    def scores(self, x: torch.Tensor, *, session_id: Any = None) -> torch.Tensor:
        scores = super().scores(x)
        scores[:, -1] = torch.nan
        return scores


NAMES = ("first", "second", "third")


def choose(
    monkeypatch: pytest.MonkeyPatch, right: Sequence[int], n_val: int = 3, kind: Any = Fixed
) -> tuple[Any, dict[str, Any]]:
    """The choice between learners that answer so many of the first samples right, of 20 + n_val."""
    monkeypatch.setattr(_best_learner, "MODELS", dict.fromkeys(NAMES[: len(right)]))
    y = np.arange(20 + n_val) % 4
    x = np.stack([np.where(np.arange(len(y)) < k, y, (y + 1) % 4) for k in right], axis=1)

    def start(name: str) -> Any:
        learner = (kind if name == "first" else Fixed)()
        learner.column = NAMES.index(name)
        learner.start(StreamSpec((len(right),), 4), Seeds.of(0), "cpu")
        return learner

    return Candidates(start, session(x, y, n_val=n_val), context(), "cpu").best()


@pytest.mark.parametrize(
    ("right", "chosen", "judged"),
    [
        ((10, 15, 5), "second", (0.5, 0.75, 0.25)),
        ((1, 0, 20), "third", (0.05, 0.0, 1.0)),
        ((15, 15, 5), "first", (0.75, 0.75, 0.25)),  # the first of equal ones
        ((5, 10, 10), "second", (0.25, 0.5, 0.5)),
        ((0, 0, 0), "first", (0.0, 0.0, 0.0)),
    ],
)
def test_few_validation_samples_leave_the_choice_to_the_training_samples(
    monkeypatch: pytest.MonkeyPatch, right: Sequence[int], chosen: str, judged: Sequence[float]
) -> None:
    """Every one of the 20 is answered once, by a learner of others; the last one learns all."""
    model, log = choose(monkeypatch, right)
    assert model.column == NAMES.index(chosen)
    assert log == {
        "lesson": 20,
        "learner": chosen,
        "judged": dict(zip(NAMES, judged, strict=True)),
        "judged_samples": 20,
    }


def test_enough_validation_samples_choose_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The four last samples: the second learner has two of them right, the first none."""
    monkeypatch.setattr(_best_learner, "ENOUGH", 4)
    _, log = choose(monkeypatch, (20, 22), n_val=4)
    assert log == {
        "lesson": 20,
        "learner": "second",
        "judged": {"first": 0.0, "second": 0.5},
        "judged_samples": 4,
    }


def test_a_network_that_diverged_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = choose(monkeypatch, (20, 1), kind=Diverged)
    assert log["judged"] == {"first": 0.0, "second": 0.05}


def test_a_fifth_has_every_class_as_evenly_as_it_goes() -> None:
    """Ten samples of one class, two of another, one of a third."""
    y = np.array([0] * 10 + [1, 1, 2])
    only = session(np.arange(13.0)[:, None], y)
    held = [part for _, _, part in fifths(only)]
    assert [np.bincount(part, minlength=3)[0] for part in held] == [2] * 5
    assert [len(part) for part in held] == [3, 3, 3, 2, 2]


def test_no_learner_answers_a_sample_that_it_learned() -> None:
    only = session(np.arange(13.0)[:, None], np.arange(13) % 3)
    shown = [(set(rest.x.numpy()[:, 0]), set(x.numpy()[:, 0])) for rest, x, _ in fifths(only)]
    assert [rest & x for rest, x in shown] == [set()] * 5


def test_every_sample_is_answered_once() -> None:
    only = session(np.arange(13.0)[:, None], np.arange(13) % 3)
    answered = np.concatenate([x.numpy()[:, 0] for _, x, _ in fifths(only)])
    np.testing.assert_array_equal(np.sort(answered), np.arange(13.0))


def test_a_single_sample_leaves_the_first_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_best_learner, "MODELS", {"mlp": MLP, "ranpac": RanPAC})
    only = session(np.ones((2, 3)), [0, 0], n_val=1)

    def start(name: str) -> Learner:
        model = copy.deepcopy(BRIEF) if name == "mlp" else RanPAC(projections=4)
        model.start(StreamSpec((3,), 2), Seeds.of(0), "cpu")
        return model

    assert Candidates(start, only, context(), "cpu").best()[1]["learner"] == "mlp"


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


def judged_rows(monkeypatch: pytest.MonkeyPatch, stream: Stream) -> list[int]:
    """The rows whose answers `best` counts for one learner, in the order of the table."""
    rows: list[int] = []
    count = _best_learner.count_right

    def watched(model: Learner, x: Any, y: Any, device: str) -> int:
        rows.extend(rows_of(x).tolist())
        return count(model, x, y, device)

    monkeypatch.setattr(_best_learner, "MODELS", {"slda": _best_learner.MODELS["slda"]})
    monkeypatch.setattr(_best_learner, "count_right", watched)
    run_stream(stream, Offline(mlp=BRIEF, learner="best"), Seeds.of(0))
    return sorted(rows)


def test_few_validation_samples_judge_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each training sample is judged once; no validation and no test sample is."""
    taught = np.concatenate([rows_of(session.x) for session in STREAM.sessions])
    assert judged_rows(monkeypatch, STREAM) == sorted(taught.tolist())


def test_enough_validation_samples_alone_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_best_learner, "ENOUGH", 16)
    held = np.concatenate([rows_of(session.val_x) for session in STREAM.sessions])
    assert judged_rows(monkeypatch, STREAM) == sorted(held.tolist())


# --- samples that are held out together ---


def grouped(y: Sequence[int], together: Sequence[int]) -> Session:
    only = session(np.arange(float(len(y)))[:, None], y)
    return replace(only, together=np.array(together))


def test_the_fifths_of_single_samples_are_as_before() -> None:
    """By hand from the draws of NumPy: class 0 is dealt first, class 1 goes on where it ended."""
    y = np.array([0] * 7 + [1] * 4)
    zeros, ones = (np.random.default_rng(0).permutation(n) for n in (7, 4))
    expected = np.zeros(11, int)
    expected[zeros] = [0, 1, 2, 3, 4, 0, 1]
    expected[7 + ones] = [2, 3, 4, 0]
    assert deal_groups(session(np.zeros((11, 1)), y)).tolist() == expected.tolist()


def test_a_group_is_in_one_fifth() -> None:
    """Twelve images with their copies, of three classes; and no other sample shares its fifth."""
    number = np.repeat(np.arange(12), 2)
    fold = deal_groups(grouped(number % 3, number))
    assert (fold[0::2] == fold[1::2]).all()
    assert np.bincount(fold).tolist() == [6, 6, 4, 4, 4]


def test_a_group_of_two_classes_is_in_one_fifth() -> None:
    number = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    fold = deal_groups(grouped([0, 1] * 6, number))
    assert (fold[0::2] == fold[1::2]).all()
    assert sorted(fold[0::2].tolist()) == [0, 0, 1, 2, 3, 4]


def test_one_group_alone_leaves_nothing_to_judge() -> None:
    assert list(fifths(grouped([0, 1, 0, 1], [7, 7, 7, 7]))) == []


def test_those_that_are_left_keep_their_groups() -> None:
    for rest, _, _ in fifths(grouped([0] * 10, [4, 4, 1, 1, 9, 9, 3, 3, 8, 8])):
        assert rest.together is not None
        pairs = rest.x.numpy()[:, 0].astype(int) // 2  # the number of the pair
        assert rest.together.tolist() == np.array([4, 1, 9, 3, 8])[pairs].tolist()


@pytest.mark.parametrize(
    "protocol",
    [IncrementalClass(sessions=2), Permutation(sessions=2), Mixture(sessions=2)],
    ids=lambda p: p.name,
)
def test_no_mirrored_sample_is_judged(tmp_path: Path, protocol: Protocol) -> None:
    """Of a file with flipped copies no learner is taught the mirror of what it answers."""
    file = make_flipped_file(tmp_path, [20] * 4, [0] * 4, [2] * 4)
    (whole,) = protocol.build([file], seed=0).merged().sessions
    names = [id_.removesuffix(FLIPPED) for id_ in file.sample_ids.tolist()]
    for rest, x, _ in fifths(whole):
        taught = {names[row] for row in rows_of(rest.x)}
        assert not taught & {names[row] for row in rows_of(x)}


def test_no_group_is_judged_by_its_own_samples(tmp_path: Path) -> None:
    file = make_file(tmp_path, [20] * 4, [0] * 4, [2] * 4)
    speaker = np.arange(len(file.labels)) % 9
    path = file.path.with_name("grouped.h5")
    columns = {"group": np.array([f"speaker {n}" for n in speaker])}
    made = write_file(path, file.samples, file.read(), file.provenance, columns=columns)
    (whole,) = IncrementalClass(sessions=2).build([made], seed=0).merged().sessions
    parts = list(fifths(whole))
    assert len(parts) == 5
    for rest, x, _ in parts:
        assert not {*speaker[rows_of(rest.x)]} & {*speaker[rows_of(x)]}


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
    assert set(logs[0].log["judged"]) == {"mlp", "ranpac"}
