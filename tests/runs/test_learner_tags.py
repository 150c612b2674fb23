"""What `list learners` says of each learner is what its class says, and what the runner does."""

import dataclasses
from typing import Any

import pytest

from embedbench.checks import learner_check_tools as tools
from embedbench.checks.blob_streams import FEW, as_images, blobs, family_blobs
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import Learner, Tags, learner_words
from embedbench.runs.learner_and_protocol_names import ALIASES, learner_class, our_learners
from embedbench.runs.learner_tags import learners_with, listed_words
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream

OURS = [name for name in our_learners() if name not in ALIASES]


@pytest.mark.parametrize("name", our_learners())
def test_listed_words_are_those_of_the_class(name: str) -> None:
    assert listed_words()[name] == tuple(learner_words(learner_class(name)))


def test_every_tag_has_a_word() -> None:
    plain = Tags().words(sessions=False)
    for field in dataclasses.fields(Tags):
        other = Tags(**{field.name: not field.default})
        assert other.words(sessions=False) != plain, field.name
    assert Tags().words(sessions=True) == ["sessions"]


class TaughtError(Exception):
    """A learner was taught by one of its methods; its text is the name."""


def teach(monkeypatch: pytest.MonkeyPatch, name: str, stream: Stream) -> str:
    """How the runner teaches a learner this stream: by its "learn" or "observe", or "refused"."""
    cls = learner_class(name)

    def taught_by(method: str) -> Any:
        def raise_it(*_: Any) -> None:
            raise TaughtError(method)

        return raise_it

    for method in ("learn", "observe"):
        if getattr(cls, method) is not getattr(Learner, method):
            monkeypatch.setattr(cls, method, taught_by(method))
    try:
        run_stream(stream, tools.small(cls), Seeds.of(0))
    except TaughtError as taught:
        return str(taught)
    except UserError:
        return "refused"
    raise AssertionError("it was not taught")


def stream_for(name: str, **changed: Any) -> Stream:
    """A stream with all that a learner needs, and then some of it changed."""
    tags = dataclasses.replace(learner_class(name).tags, offline=False)
    return dataclasses.replace(blobs(tags, FEW, 8), **changed)


@pytest.mark.parametrize("name", OURS)
def test_batches_and_sessions(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    words = listed_words()[name]
    by = "observe" if "batches" in words else "learn"
    assert teach(monkeypatch, name, stream_for(name)) == by
    by = "learn" if {"sessions", "all sessions at once"} & {*words} else "refused"
    assert teach(monkeypatch, name, stream_for(name, observe_batch=0)) == by


@pytest.mark.parametrize("name", OURS)
def test_images(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    tags = dataclasses.replace(learner_class(name).tags, needs_layers=False, offline=False)
    stream = as_images(blobs(tags, FEW, 8))
    if "needs layers" in listed_words()[name]:  # which images have not
        stream = dataclasses.replace(
            stream, spec=dataclasses.replace(stream.spec, layers={"middle": (12, 24)})
        )
    taught = teach(monkeypatch, name, stream) != "refused"
    assert taught == ("images" in listed_words()[name])


@pytest.mark.parametrize("name", OURS)
def test_label_sets(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    tags = dataclasses.replace(learner_class(name).tags, offline=False)
    stream = dataclasses.replace(family_blobs(tags, 24), observe_batch=8)
    taught = teach(monkeypatch, name, stream) != "refused"
    assert taught == ("label sets" in listed_words()[name])


@pytest.mark.parametrize("name", OURS)
def test_layers_and_session_ids(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    words, stream = listed_words()[name], stream_for(name)
    hidden = dataclasses.replace(stream.spec, reveals_session_id=False)
    refused = teach(monkeypatch, name, dataclasses.replace(stream, spec=hidden)) == "refused"
    assert refused == ("needs session ids" in words)
    flat = dataclasses.replace(stream.spec, layers={})
    refused = teach(monkeypatch, name, dataclasses.replace(stream, spec=flat)) == "refused"
    assert refused == ("needs layers" in words)


@pytest.mark.parametrize("name", OURS)
def test_exemplars(name: str) -> None:
    cls = learner_class(name)
    settings = {"memory": Memory(total=4)} if name == "lwf" else {}  # which keeps none by default
    learner, stream = tools.small(cls, **settings), blobs(cls.tags, FEW, 12)
    tools.teach(learner, stream)
    kept = learner.footprint().get("samples", 0)
    assert (kept > 0) == ("exemplars" in listed_words()[name])


def test_learners_with_all_of_some_words() -> None:
    assert learners_with("needs session ids") == ["pathnet"]
    both = learners_with("batches", "label sets")
    assert {"agem", "er"} <= {*both}
    assert "er-infinite" not in both  # another name of er
    assert "icarl" not in both


def test_a_refusal_says_what_the_learner_takes_and_who_takes_the_stream() -> None:
    stream = family_blobs(learner_class("ncm").tags, 24)
    with pytest.raises(UserError) as refusal:
        run_stream(stream, learner_class("ncm")(), Seeds.of(0))
    assert "take a learner of label sets: agem, bic, chance, er, " in str(refusal.value)
    assert "(NCM: batches; embedbench list learners has those of all)" in str(refusal.value)
