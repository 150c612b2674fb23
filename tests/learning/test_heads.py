"""pretrain with a cosine head and deep supervision: the loss, what is kept, what stays the same."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_files import colour_folder
from torch import Tensor

from embedbench.errors import UserError
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.learning.image_training import ImageTraining
from embedbench.learning.pretraining import (
    AnyNet,
    Pretraining,
    deep_objective,
    get_trunk,
    head_logits,
    new_net,
    pretrain,
    taught_digest,
)
from embedbench.learning.trunk import image_trunk
from embedbench.networks.weights import HEAD, load_head, save_weights
from embedbench.protocols.fscil import FSCIL
from embedbench.streams.stream import Stream

SIZE = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colour_folder(tmp_path_factory.mktemp("images"), "abcd", each=10, size=SIZE)


@pytest.fixture(scope="module")
def pixels(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    out = tmp_path_factory.mktemp("pixels") / "pixels.h5"
    return extract(str(folder), out, backbone="none", size=SIZE, split="0.2", device="cpu")


@pytest.fixture(scope="module")
def stream(pixels: EmbeddingFile) -> Stream:
    return FSCIL(base=3, way=1, shot=1, scale="standard").build([pixels], seed=0)


def how(trunk: str = "test_vit", **more: Any) -> Pretraining:
    given = {"epochs": 2, "batch_size": 8, "warmup": 1, "augment": "none", **more}
    return Pretraining(trunk, **given)


def by_hand(net: AnyNet, x: Tensor, blocks: list[int]) -> list[Tensor]:
    """Class tokens of some blocks of a ViT and of its last, after the final norm."""
    body: Any = get_trunk(net).body
    h = body.norm_pre(body.patch_drop(body._pos_embed(body.patch_embed(x))))
    tokens = []
    for i, block in enumerate(body.blocks):
        h = block(h)
        if i in [*blocks, len(body.blocks) - 1]:
            tokens.append(body.norm(h)[:, 0])
    return tokens


# --- the loss ---


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_each_block_is_classified_by_the_one_norm_and_head(head: str) -> None:
    net = new_net("test_vit", head, (3, SIZE, SIZE), 3, 0)
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 3, SIZE, SIZE, generator=draw), torch.tensor([0, 1, 2, 0, 1])
    objective = deep_objective(net, "1,3")
    assert objective is not None
    expected = torch.zeros((), dtype=torch.float64)
    for phi in by_hand(net, x, [1, 3]):  # three: blocks 1, 3 and 5, the last
        for row, c in zip(phi.double(), y, strict=True):
            if head == "cosine":
                weights = net.theta.double()
                lengths = row.norm() * weights.norm(dim=1)
                logits = 12 * (weights @ row) / lengths
            else:
                logits = net.head.weight.double() @ row + net.head.bias.double()
            expected += (logits.exp().sum().log() - logits[c]) / len(y)
    torch.testing.assert_close(objective(x, y).double(), expected, rtol=1e-5, atol=0)


def test_blocks_are_numbered_as_extract_numbers_layers(
    folder: Path, stream: Stream, tmp_path: Path
) -> None:
    """The layers of the extracted file are what the loss classified."""
    torch.manual_seed(1)
    net = new_net("test_vit", "cosine", (3, SIZE, SIZE), 3, 0)
    weights = tmp_path / "w.safetensors"
    shown = {"input_size": [3, SIZE, SIZE], "mean": [0.0] * 3, "std": [1.0] * 3}
    shown |= {"crop_pct": 1.0, "crop_mode": "center", "interpolation": "bicubic"}
    save_weights(weights, get_trunk(net).body.state_dict(), {"shown": shown})
    words = {"backbone": "test_vit", "weights": weights, "split": "0.2", "device": "cpu"}
    made = extract(str(folder), tmp_path / "e.h5", layers=["1", "3"], **words)
    protocol = FSCIL(base=3, way=1, shot=1, scale="none")
    layered = protocol.build([made], seed=0).sessions[0]
    x = layered.x.tensor()  # final, block-1, block-3
    y = torch.from_numpy(layered.y)
    tables = torch.split(x, x.shape[1] // 3, dim=1)
    losses = [torch.nn.functional.cross_entropy(head_logits(net, t), y) for t in tables]
    expected = torch.stack(losses).sum()
    seen = FSCIL(base=3, way=1, shot=1, scale="none").build(
        [extract(str(folder), tmp_path / "p.h5", backbone="none", size=SIZE, split="0.2")], seed=0
    )
    objective = deep_objective(net, "block-1, 3")
    assert objective is not None
    get_trunk(net).eval()
    found = objective(seen.sessions[0].x.tensor(), y)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


def test_without_blocks_the_loss_is_the_plain_one() -> None:
    assert deep_objective(new_net("test_vit", "linear", (3, SIZE, SIZE), 3, 0), "") is None


@pytest.mark.parametrize("trunk", ["resnet8", "test_resnet"])
def test_a_trunk_without_blocks_is_refused(stream: Stream, tmp_path: Path, trunk: str) -> None:
    with pytest.raises(UserError, match=r"takes blocks of a vision transformer, .* has none"):
        pretrain(how(trunk, deep_supervision="1"), stream, device="cpu", checkpoint=tmp_path / "c")


def test_wrong_settings_are_refused(stream: Stream, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown layer '6'; this backbone has block-0 to block-5"):
        pretrain(how(deep_supervision="1,6"), stream, device="cpu", checkpoint=tmp_path / "c")
    with pytest.raises(UserError, match=r"unknown pretrain\.head 'cosin'"):
        how(head="cosin")


def test_supervised_blocks_come_to_be_classified(stream: Stream, tmp_path: Path) -> None:
    """Deep supervision lowers the loss of an intermediate block; the plain training does not."""
    session = stream.sessions[0]
    x, y = session.x.tensor(), torch.from_numpy(session.y)
    losses = {}
    for blocks in ("", "1"):
        given = how(epochs=8, lr=3e-3, head="cosine", deep_supervision=blocks)
        state, _ = pretrain(given, stream, device="cpu", checkpoint=tmp_path / "c")
        net = new_net("test_vit", "cosine", (3, SIZE, SIZE), 3, 0)
        get_trunk(net).body.load_state_dict(state)
        net.eval()
        with torch.no_grad():
            first = torch.nn.functional.normalize(by_hand(net, x, [1])[0])
        means = torch.stack([first[y == c].mean(0) for c in range(3)])
        losses[blocks] = float(torch.nn.functional.cross_entropy(12 * first @ means.T, y))
    assert losses["1"] < losses[""]


# --- what is kept ---


def kept(pixels: EmbeddingFile, stream: Stream, place: Path, **more: Any) -> Path:
    out = place / "w.safetensors"
    checkpoint = place / "c"
    state, told = pretrain(
        how(**more), stream, device="cpu", checkpoint=checkpoint, samples=pixels.samples
    )
    save_weights(out, state, told)
    (place / "other").touch()
    assert out.stat().st_mode == (place / "other").stat().st_mode  # others may read it, too
    return out


def test_a_cosine_head_lies_with_the_trunk(
    pixels: EmbeddingFile, folder: Path, stream: Stream, tmp_path: Path
) -> None:
    path = kept(pixels, stream, tmp_path, head="cosine")
    weight, about = load_head(path)
    assert weight.shape == (3, 64)
    assert (about.kind, about.scale, about.classes) == ("cosine", 12.0, ("a", "b", "c"))
    assert about.samples == taught_digest(pixels.samples, stream.sessions[0])
    # trunks and extract read the trunk alone
    body, _ = image_trunk("test_vit", (3, SIZE, SIZE), ImageTraining(weights=str(path)))
    made = extract(
        str(folder), tmp_path / "e.h5", backbone="test_vit", weights=path, split="0.2", device="cpu"
    )
    session = stream.sessions[0]
    with torch.inference_mode():
        own = body.eval()(session.x.tensor())
    np.testing.assert_allclose(made.read()[session.ids], own.numpy(), atol=1e-3)


def test_a_linear_head_is_not_kept(pixels: EmbeddingFile, stream: Stream, tmp_path: Path) -> None:
    """The file of a pretraining with earlier settings has the same names and metadata as before."""
    state, told = pretrain(
        how("resnet8"), stream, device="cpu", checkpoint=tmp_path / "c", samples=pixels.samples
    )
    assert HEAD not in state
    assert "head" not in told
    assert told["settings"] == {
        "trunk": "resnet8",
        "epochs": 2,
        "lr": 5e-4,
        "weight_decay": 0.05,
        "batch_size": 8,
        "warmup": 1,
        "augment": "none",
        "seed": 0,
    }
    path = tmp_path / "w.safetensors"
    save_weights(path, state, told)
    with pytest.raises(UserError, match=r"holds no classifier; make one with .* --head cosine"):
        load_head(path)


def test_the_settings_identify_the_work(
    pixels: EmbeddingFile, stream: Stream, tmp_path: Path
) -> None:
    _, told = pretrain(
        how(head="cosine", deep_supervision="1"), stream, device="cpu", checkpoint=tmp_path / "c"
    )
    assert (told["settings"]["head"], told["settings"]["deep_supervision"]) == ("cosine", "1")
    assert math.isfinite(told["train_loss"])


def test_the_digest_is_of_ids_and_names_in_any_order(pixels: EmbeddingFile, stream: Stream) -> None:
    session, samples = stream.sessions[0], pixels.samples
    whole = taught_digest(samples, session)
    turned = replace(session, x=session.x.select(np.arange(len(session.x))[::-1]))
    assert taught_digest(samples, replace(turned, ids=session.ids[::-1])) == whole
    assert taught_digest(samples, replace(session, ids=session.ids[:-1])) != whole
    named = replace(samples, classes=("z", *samples.classes[1:]))
    assert taught_digest(named, session) != whole


def test_damaged_heads_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    good = {"kind": "cosine", "scale": 12.0, "classes": ["a", "b"], "samples": "0"}
    with pytest.raises(UserError, match="there is no file of weights"):
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
        with pytest.raises(UserError, match="does not fit its metadata"):
            load_head(path)
    save_weights(path, {HEAD: torch.ones(2, 4)}, {"head": {**good, "classes": 3}})
    with pytest.raises(UserError, match="classes"):
        load_head(path)
