"""pretrain with a cosine head and deep supervision: the loss, what is kept, what stays the same."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch.nn.functional import cross_entropy, normalize

from embedbench.errors import UserError
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.learning import pretraining
from embedbench.learning.image_training import ImageTraining
from embedbench.learning.network import CosineNet
from embedbench.learning.trunk import image_trunk
from embedbench.networks.weights import HEAD, load_head, read_metadata, save_weights
from embedbench.protocols.fscil import FSCIL
from embedbench.streams.stream import Stream

SIZE = 16


@pytest.fixture(scope="module")
def stream(pixels: EmbeddingFile) -> Stream:
    return FSCIL(base=3, way=1, shot=1, scale="standard").build([pixels], seed=0)


def how(trunk: str = "test_vit", **more: Any) -> pretraining.Pretraining:
    given = {"epochs": 2, "batch_size": 8, "warmup": 1, "augment": "none", **more}
    return pretraining.Pretraining(trunk, **given)


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_the_one_head_classifies_each_block_as_extract_numbers_layers(
    head: str, folder: Path, pixels: EmbeddingFile, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    net = pretraining.new_net("test_vit", head, (3, SIZE, SIZE), 3, 0)
    weights = tmp_path / "w.safetensors"
    shown = {"input_size": [3, SIZE, SIZE], "mean": [0.0] * 3, "std": [1.0] * 3}
    shown |= {"crop_pct": 1.0, "crop_mode": "center", "interpolation": "bicubic"}
    save_weights(weights, pretraining.get_trunk(net).body.state_dict(), {"shown": shown})
    words = {"backbone": "test_vit", "weights": weights, "split": "0.2", "device": "cpu"}
    made = extract(str(folder), tmp_path / "e.h5", layers=["1", "3"], **words)
    protocol = FSCIL(base=3, way=1, shot=1, scale="none")
    layered, seen = (protocol.build([f], seed=0).sessions[0] for f in (made, pixels))
    x, y = layered.x.tensor(), torch.from_numpy(layered.y)  # final, block-1, block-3
    tables = torch.split(x, x.shape[1] // 3, dim=1)
    if isinstance(net, CosineNet):
        angles = [normalize(t) @ normalize(net.theta).T for t in tables]
        losses = [cross_entropy(12 * cosines, y) for cosines in angles]
    else:
        losses = [cross_entropy(t @ net.head.weight.T + net.head.bias, y) for t in tables]
    objective = pretraining.deep_objective(net, "block-1, 3")
    pretraining.get_trunk(net).eval()
    found = objective(seen.x.tensor(), y)
    torch.testing.assert_close(found, torch.stack(losses).sum(), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("trunk", "blocks", "words"),
    [
        ("resnet8", "1", "vision transformer"),
        ("test_resnet", "1", "vision transformer"),
        ("test_vit", "1,6", "layer '6'; .*block-0 to block-5"),
    ],
)
def test_blocks_that_are_not_there_are_refused(
    stream: Stream, tmp_path: Path, trunk: str, blocks: str, words: str
) -> None:
    given = how(trunk, deep_supervision=blocks)
    with pytest.raises(UserError, match=words):
        pretraining.pretrain(given, stream, device="cpu", checkpoint=tmp_path / "c")


def kept(pixels: EmbeddingFile, stream: Stream, place: Path, **more: Any) -> Path:
    out = place / "w.safetensors"
    given = {"device": "cpu", "checkpoint": place / "c", "samples": pixels.samples}
    save_weights(out, *pretraining.pretrain(how(**more), stream, **given))
    (place / "other").touch()
    assert out.stat().st_mode == (place / "other").stat().st_mode  # others may read it, too
    return out


def test_a_cosine_head_is_kept(pixels: EmbeddingFile, stream: Stream, tmp_path: Path) -> None:
    path = kept(pixels, stream, tmp_path, head="cosine")
    weight, about = load_head(path)
    assert weight.shape == (3, 64)
    assert about.kind == "cosine"
    assert about.scale == 12.0
    assert about.classes == ("a", "b", "c")
    assert about.samples == pretraining.taught_digest(pixels.samples, stream.sessions[0])
    image_trunk("test_vit", (3, SIZE, SIZE), ImageTraining(weights=str(path)))  # the trunk alone


def test_a_linear_head_is_not_kept(pixels: EmbeddingFile, stream: Stream, tmp_path: Path) -> None:
    """The file of a pretraining with earlier settings has the same names and metadata as before."""
    path = kept(pixels, stream, tmp_path, trunk="resnet8")
    with safe_open(path, "pt") as file:
        assert HEAD not in file.keys()  # noqa: SIM118  # it is no dict
    told = read_metadata(path)
    assert "head" not in told
    new = ("head", "deep_supervision")
    assert told["settings"] == {k: v for k, v in vars(how("resnet8")).items() if k not in new}
    with pytest.raises(UserError, match="--head cosine"):
        load_head(path)


def test_deep_supervision_is_of_the_work(stream: Stream, tmp_path: Path) -> None:
    hows = (how(lr=1e-9, head="cosine", deep_supervision=blocks) for blocks in ("", "1"))
    given: dict[str, Any] = {"device": "cpu", "checkpoint": tmp_path / "c"}
    plain, deep = (pretraining.pretrain(one, stream, **given)[1] for one in hows)
    assert "deep_supervision" not in plain["settings"]
    assert (deep["settings"]["head"], deep["settings"]["deep_supervision"]) == ("cosine", "1")
    assert deep["train_loss"] > 0.1 + plain["train_loss"]  # one more cross-entropy


def test_the_digest_is_of_ids_and_names_in_any_order(pixels: EmbeddingFile, stream: Stream) -> None:
    session, samples = stream.sessions[0], pixels.samples
    whole = pretraining.taught_digest(samples, session)
    turned = replace(session, x=session.x.select(np.arange(len(session.x))[::-1]))
    assert pretraining.taught_digest(samples, replace(turned, ids=session.ids[::-1])) == whole
    assert pretraining.taught_digest(samples, replace(session, ids=session.ids[:-1])) != whole
    named = replace(samples, classes=("z", *samples.classes[1:]))
    assert pretraining.taught_digest(named, session) != whole


def test_damaged_heads_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    good = {"kind": "cosine", "scale": 12.0, "classes": ["a", "b"], "samples": "0"}
    with pytest.raises(UserError, match=f"no file .*{path}"):
        load_head(path)
    nan = torch.full((2, 4), math.nan)
    for weight, about in (
        ({HEAD: torch.ones(3, 4)}, good),
        ({HEAD: torch.ones(2)}, good),
        ({HEAD: nan}, good),
        ({"other": torch.ones(2, 4)}, good),
        ({HEAD: torch.ones(2, 4)}, {**good, "kind": "linear"}),
    ):
        save_weights(path, weight, {"head": about})
        with pytest.raises(UserError, match="fit its metadata"):
            load_head(path)
    save_weights(path, {HEAD: torch.ones(2, 4)}, {"head": {**good, "classes": 3}})
    with pytest.raises(UserError, match="classes"):
        load_head(path)
