"""classifier.base=FILE: a pretrained head, matched by names, identified by content, refused."""

import copy
import json
import pickle
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_files import samples
from numpy.typing import NDArray
from plan_runs import plan
from torch.nn.functional import normalize

from embedbench.api import build_stream
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.write_file import write_file
from embedbench.learning.base_session_prototypes import Classifier, KnownFile
from embedbench.learning.learner import Context
from embedbench.learning.pretraining import taught_digest
from embedbench.learning.prototypes import Prototypes
from embedbench.models.fr import FR
from embedbench.models.prototype import Prototype
from embedbench.networks.weights import HEAD, file_sha256, save_weights
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import pretrained_head, run_stream

WIDTH, BASE = 5, 4
NAMES = ("cat", "dog", "elk", "fox", "gnu", "hen")
FSCIL = {"base": BASE, "way": 1, "shot": 2}
SAMPLES = replace(samples(), classes=NAMES, parents=np.full(6, -1))
HEAD_NAMES = ("fox", "cat", "elk", "dog")  # not in the order of the classes


@dataclass
class Made:
    weights: Path
    file: Path
    head: NDArray[np.float32]

    def stream(self, **more: Any) -> Any:
        return build_stream(self.file, "fscil", **{**FSCIL, "scale": "none", **more})

    def learner(self) -> Prototype:
        return Prototype(classifier=Classifier(base=str(self.weights)))


def embeddings(path: Path, sha256: str, width: int = WIDTH) -> Path:
    x = np.random.default_rng(2).normal(size=(84, width)).astype(np.float32)
    made = {"backbone": {"name": "test_vit", "weights_sha256": sha256}}
    layer = {"block-1": x[:, ::-1].copy()}
    write_file(path, SAMPLES, x, made, layers=layer, overwrite=True)
    return path


def pretrained(place: Path, **other: Any) -> Made:
    """Files as `pretrain` and `extract` would make them; `other` changes the metadata."""
    head = np.random.default_rng(3).normal(size=(BASE, WIDTH)).astype(np.float32)
    file = embeddings(place / "e.h5", "0" * 64)
    about = {"kind": "cosine", "scale": 12.0, "classes": list(HEAD_NAMES)}
    about["samples"] = taught_digest(SAMPLES, build_stream(file, "fscil", **FSCIL).sessions[0])
    weights = place / "w.safetensors"
    save_weights(weights, {HEAD: torch.from_numpy(head)}, {"head": {**about, **other}})
    embeddings(file, file_sha256(weights))
    return Made(weights, file, head)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return pretrained(tmp_path)


def test_rows_are_matched_by_the_names_of_classes(made: Made) -> None:
    for scale in ("none", "l2"):
        rows = pretrained_head(made.learner(), made.stream(scale=scale))
        np.testing.assert_array_equal(rows, made.head[[HEAD_NAMES.index(n) for n in NAMES[:BASE]]])
    for base in ("means", "trained"):
        learner = Prototype(classifier=Classifier(base=base))
        assert pretrained_head(learner, made.stream()) is None


@pytest.mark.parametrize("kind", ["prototype", "fr"])
def test_base_classes_answer_by_the_head_and_novel_ones_by_means(made: Made, kind: str) -> None:
    classifier = Classifier(base=str(made.weights))
    learner: Any = Prototype(classifier=classifier)
    if kind == "fr":
        few = {"epochs": 1, "epoch_samples": 20, "batch_classes": 2, "batch_samples": 2}
        learner = FR(classifier=classifier, **few)
    stream = made.stream()
    run_stream(stream, learner, Seeds.of(0))
    rows = learner.prototypes.rows
    expected = torch.from_numpy(made.head[[HEAD_NAMES.index(n) for n in NAMES[:BASE]]])
    torch.testing.assert_close(rows[:BASE], normalize(expected))
    shots = stream.sessions[1].x.tensor()[:, :WIDTH]
    torch.testing.assert_close(rows[BASE], normalize(shots.mean(0), dim=0))


def test_a_base_class_that_comes_again_keeps_its_row(made: Made) -> None:
    session = made.stream(layers="none").sessions[0]
    classifier = Classifier(base=str(made.weights))
    rows = Prototypes(6, WIDTH, WIDTH, "cpu")
    ctx = Context(validate=lambda _: 0.0, head=made.head)
    rows.add(session, classifier, 0, ctx)
    before = rows.rows.clone()
    rows.add(session, classifier, 0, ctx)
    torch.testing.assert_close(rows.rows, before)
    torch.testing.assert_close(rows.rows[:BASE], normalize(torch.from_numpy(made.head)))


def test_without_the_runner_it_is_refused(made: Made) -> None:
    session = made.stream(layers="none").sessions[0]
    with pytest.raises(UserError, match=r"classifier\.base .* runner alone"):
        Prototypes(6, WIDTH, WIDTH, "cpu").add(session, Classifier(base=str(made.weights)))


def test_the_content_identifies_it_and_the_path_does_not(made: Made, tmp_path: Path) -> None:
    copied = tmp_path / "copy.safetensors"
    shutil.copy(made.weights, copied)
    one, two = (Classifier(base=str(path)) for path in (made.weights, copied))
    assert one == two
    assert json.loads(json.dumps(asdict(one)))["base"] == f"sha256:{file_sha256(made.weights)}"
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), replace(one, epochs=3)):
        assert isinstance(again.base, KnownFile)
        assert again.base.checked() == made.weights
    places, streams = [], StreamCache()
    for path in (made.weights, copied, None):
        items = ["protocol.base=4", "protocol.way=1", "protocol.scale=none"]
        items += [] if path is None else [f"classifier.base={path}"]
        (spec,) = plan([str(made.file)], "fscil", ["prototype"], [0], items)
        places.append(make_task(spec, tmp_path, streams).place)
    assert places[0] == places[1] != places[2]


def test_a_record_can_be_read_without_the_file(made: Made) -> None:
    settings = json.loads(json.dumps(asdict(made.learner())))
    learner = make(Prototype, settings, name="prototype")
    assert asdict(learner) == settings
    with pytest.raises(UserError, match=r"classifier\.base is sha256:.* path"):
        run_stream(made.stream(), learner, Seeds.of(0))


FINAL = r"drop protocol\.embedding, .*protocol\.scale=none"
OTHER = "other classes or"
NOT_MADE = r"did not make e\.h5"


@pytest.mark.parametrize(
    ("change", "settings", "says"),
    [
        (id, {"embedding": "block-1"}, FINAL),
        (id, {"scale": "standard"}, FINAL),
        (id, {"base": 3}, OTHER),
        (id, {"val_fraction": 0.4}, OTHER),
        (lambda made: pretrained(made.file.parent, classes=list(NAMES[1:5])), {}, OTHER),
        (lambda made: embeddings(made.file, ""), {}, NOT_MADE),
        (lambda made: embeddings(made.file, "1" * 64), {}, NOT_MADE),
        (lambda made: embeddings(made.file, file_sha256(made.weights), WIDTH + 1), {}, NOT_MADE),
    ],
)
def test_others_are_refused(made: Made, change: Any, settings: dict[str, Any], says: str) -> None:
    change(made)
    with pytest.raises(UserError, match=says):
        run_stream(made.stream(**settings), made.learner(), Seeds.of(0))


def test_a_stream_without_its_file_or_with_a_changed_one_is_refused(made: Made) -> None:
    learner, stream = made.learner(), made.stream()
    with pytest.raises(UserError, match=r"w\.safetensors .* one file"):
        pretrained_head(learner, replace(stream, origin=None))
    made.weights.write_bytes(made.weights.read_bytes() + b" ")
    with pytest.raises(UserError, match=r"w\.safetensors has changed"):
        pretrained_head(learner, stream)


def test_wrong_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"classifier\.base 'mean'.* 'means'"):
        Classifier(base="mean")
    with pytest.raises(UserError, match=r"no file .*none\.safetensors"):
        Classifier(base=str(tmp_path / "none.safetensors"))
