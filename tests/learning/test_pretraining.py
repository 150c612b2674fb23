"""pretrain: weights from a base session, read by extract and by trunks; the same bytes again."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from file_helpers import says
from safetensors.torch import save_file
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file
from embedbench.learning import pretraining as _pretrain
from embedbench.learning.checkpoint_state import pack_state, unpack_state
from embedbench.learning.image_training import ImageTraining
from embedbench.learning.pretraining import Pretraining, base_session, new_net, pretrain
from embedbench.learning.trunk import image_trunk
from embedbench.networks.paper_networks import timm
from embedbench.networks.weights import load_weights, read_metadata, save_weights
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

SIZE = 16
SHORT = ["--epochs", "2", "--batch-size", "8", "--warmup", "1", "--device", "cpu", "--quiet"]


@pytest.fixture
def stream(pixels: EmbeddingFile) -> Stream:
    return IncrementalClass(base=3).build([pixels], seed=0)


def command(*words: object) -> Result:
    return CliRunner().invoke(app, [str(w) for w in words])


def pretrained(pixels: EmbeddingFile, out: Path, trunk: str, *more: object) -> dict[str, Any]:
    words = ["pretrain", pixels.path, "--protocol", "incremental-class", "--trunk", trunk]
    words += ["--set", "protocol.base=3", "--out", out, "--json", *SHORT, *more]
    made = command(*words)
    assert made.exit_code == 0, (made.output, made.exception)
    told: dict[str, Any] = json.loads(made.stdout)
    return told


@pytest.mark.parametrize(
    ("name", "size", "blocks", "heads", "parameters"),
    [
        ("vit_fscil_patch3_36", 36, 12, 8, 9_522_176),
        # Table 1 of Tang et al.: 11.57 M, less three modules and a classifier
        ("vit_fscil_patch8_96", 96, 12, 8, 9_564_416),
        ("vit_fscil_patch16_224", 224, 12, 8, 9_725_184),
        ("vit_fscil_small_patch16_96", 96, 12, 4, 651_584),
        ("vit_fscil_tiny_patch8_32", 32, 6, 4, 313_536),
    ],
)
def test_the_vits_of_tang_et_al_and_our_smaller_ones(
    name: str, size: int, blocks: int, heads: int, parameters: int
) -> None:
    model = timm.create_model(name, num_classes=0)
    assert len(model.blocks) == blocks
    assert model.blocks[0].attn.num_heads == heads
    assert sum(p.numel() for p in model.parameters()) == parameters
    told = {"input_size": (3, size, size), "mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 1.0}
    told |= {"num_classes": 0, "interpolation": "bicubic"}
    assert told.items() <= model.pretrained_cfg.items()


def test_they_are_listed_and_known_as_trunks() -> None:
    from embedbench.cli.list_entries import entries

    assert {"vit_fscil_patch3_36", "resnet50"} <= {e["name"] for e in entries("backbones")}
    plain = Pretraining("timm:vit_fscil_patch8_96")
    assert plain.epochs == 300
    assert plain.warmup == 5
    assert plain.batch_size == 256
    assert plain.seed == 0
    assert plain.lr == 5e-4
    assert plain.weight_decay == 0.05
    with pytest.raises(UserError, match="unknown trunk 'vit_fscil'"):
        Pretraining("vit_fscil", 1)
    with pytest.raises(UserError, check=says(what="pretrain.epochs", got=0)):
        Pretraining("resnet8", 0)


def test_the_rate_rises_and_falls_in_a_cosine() -> None:
    how = Pretraining("resnet8", epochs=10, lr=1.0, warmup=2)
    rates = [how.rate(step, 5) for step in range(50)]
    assert rates[:11] == pytest.approx([*np.arange(1, 11) / 10, 1.0])
    assert rates[30] == pytest.approx(0.5)  # half way from step 10 to 50
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 0.01
    assert Pretraining("resnet8", epochs=3, warmup=3).rate(14, 5) == pytest.approx(5e-4)


def test_rates_of_steps(stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how = Pretraining("resnet8", epochs=2, batch_size=8, warmup=1)
    asked: list[tuple[int, int]] = []

    def noted(self: Pretraining, step: int, steps_an_epoch: int) -> float:
        asked.append((step, steps_an_epoch))
        return 0.0

    monkeypatch.setattr(Pretraining, "rate", noted)
    state, _ = pretrain(how, stream, device="cpu", checkpoint=tmp_path / "c")
    start = new_net(how.trunk, how.head, stream.spec.input_shape, 3, Seeds.of(0).init).state_dict()
    assert torch.equal(state["conv.weight"], start["0.body.conv.weight"])  # at a rate of 0
    an_epoch = math.ceil(len(stream.sessions[0].x) / 8)
    assert asked == [(step, an_epoch) for step in range(2 * an_epoch)]


def test_the_base_session_alone_is_looked_at(stream: Stream) -> None:
    session = base_session(stream)
    own = stream.sessions[0]
    assert session.x is own.x
    assert session.val_x is own.val_x
    assert len(session.val_x) > 0
    assert sorted(set(session.y.tolist())) == [0, 1, 2]
    turned = replace(own, y=own.y + 1, val_y=own.val_y + 1)  # classes 1 to 3
    np.testing.assert_array_equal(base_session(replace(stream, sessions=(turned,))).y, own.y)
    tested = {int(row) for e in stream.eval_sets for row in rows_of(e.x)}
    assert not tested & {*rows_of(session.x).tolist(), *rows_of(session.val_x).tolist()}
    for wrong, words in (
        (replace(stream, validation="test"), "pretrain .*protocol.validation=test"),
        (replace(stream, spec=replace(stream.spec, multilabel=True)), "pretrain .*one label"),
    ):
        with pytest.raises(UserError, match=words):
            base_session(wrong)


def test_norms_biases_and_position_embeddings_do_not_decay(stream: Stream) -> None:
    how = Pretraining("test_vit", weight_decay=0.5)
    stream = replace(stream, spec=replace(stream.spec, input_shape=(3, 32, 32)))
    net = new_net(how.trunk, how.head, stream.spec.input_shape, 3, 0)
    decayed, spared = _pretrain._optimiser(net, how).param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.5, 0.0)
    names = {id(p): name for name, p in net.named_parameters()}
    kept = {names[id(p)] for p in spared["params"]}
    assert {"0.body.pos_embed", "0.body.cls_token", "0.body.norm.weight", "1.bias"} <= kept
    assert {names[id(p)] for p in decayed["params"]} >= {
        "1.weight",
        "0.body.patch_embed.proj.weight",
    }
    assert len(decayed["params"]) + len(kept) == len(names)


def test_it_learns(stream: Stream, tmp_path: Path) -> None:
    how = Pretraining("resnet8", epochs=8, lr=3e-3, batch_size=8, warmup=1, augment="crop-flip")
    _, told = pretrain(how, stream, device="cpu", checkpoint=tmp_path / "c")
    assert told["train_loss"] < 0.7 < math.log(3)
    assert told["validation_accuracy"] > 0.6
    assert not (tmp_path / "c").exists()  # it took less than a minute
    with pytest.raises(UserError, match=r"diverged in epoch 1; .*--lr 1e\+15"):
        pretrain(replace(how, lr=1e15, warmup=0), stream, device="cpu", checkpoint=tmp_path / "c")
    first, last = {"train_loss": 2.0, "accuracy": 0.5}, {"train_loss": 1.0, "accuracy": math.nan}
    for history, loss, accuracy in (([first, last], 1.0, None), ([last, first], 2.0, 0.5)):
        told = _pretrain._metadata({}, stream, stream.sessions[0], history)
        assert (told["train_loss"], told["validation_accuracy"]) == (loss, accuracy)


def test_extract_and_trunks_read_the_weights(
    pixels: EmbeddingFile, stream: Stream, folder: Path, tmp_path: Path
) -> None:
    out, shape, trunk = tmp_path / "w.safetensors", (3, SIZE, SIZE), "test_resnet"
    told = pretrained(pixels, out, trunk)
    assert read_metadata(out)["digests"] == told["digests"] == stream.digests
    assert (told["classes"], told["samples"]) == (3, len(stream.sessions[0].x))
    made = extract(
        str(folder), tmp_path / "e.h5", backbone=trunk, weights=out, split="0.2", device="cpu"
    )
    assert made.provenance["backbone"]["weights_sha256"] == told["sha256"]
    assert made.provenance["preprocessing"]["input_size"] == [*shape]
    x, rows = stream.sessions[0].x.tensor(), rows_of(stream.sessions[0].x)
    with torch.inference_mode():
        own, other = (
            image_trunk(trunk, shape, ImageTraining(weights=w))[0].eval()(x).numpy()
            for w in (str(out), "")
        )
    np.testing.assert_allclose(made.read()[rows], own, atol=1e-4 * abs(own).max())
    assert abs(other - own).max() > 0.1 * abs(own).max()


def test_foreign_weights_tell_nothing(tmp_path: Path) -> None:
    path, a = tmp_path / "w.safetensors", {"a": torch.zeros(2)}
    assert read_metadata(path) == {}
    path.write_bytes(b"nothing")
    assert read_metadata(path) == {}
    save_file(a, path, metadata={"format": "pt"})
    assert read_metadata(path) == {}
    save_weights(path, a, {"z": 1, "b": [0.1]})
    save_weights(other := tmp_path / "o.safetensors", a, {"b": [0.1], "z": 1})
    assert path.read_bytes() == other.read_bytes()
    assert read_metadata(path) == {"z": 1, "b": [0.1]}
    with pytest.raises(UserError, match="does not fit"):
        load_weights(torch.nn.Linear(2, 2), path, {"architecture": "linear"}, channels=3)
    for text, words in (("{", "not JSON"), ("[]", "an object, .*list")):
        save_file(a, path, metadata={"embedbench": text})
        with pytest.raises(UserError, match=words):
            read_metadata(path)
    good = {"input_size": [3, 1, 4096], "mean": [0.0] * 3, "std": [1.0] * 3, "crop_pct": 1.0}
    good |= {"crop_mode": "center", "interpolation": "bicubic"}
    save_weights(path, a, {"shown": {**good, "architecture": [1]}})
    assert read_metadata(path) == {"shown": good}
    sizes = [3, 8, 4097], [3, 0, 8], [3, 8], [], [1, 8, 8]
    wrong: list[tuple[str, Any]] = [("mean", [0, math.inf, 0]), ("mean", [0]), ("std", [1, 0, 1])]
    wrong += [("std", [1]), ("std", [1, 1, math.inf]), *(("input_size", size) for size in sizes)]
    wrong += [("crop_pct", 0), ("crop_pct", 1.01), ("crop_mode", "x"), ("interpolation", "x")]
    for key, value in wrong:
        save_weights(path, a, {"shown": {**good, key: value}})
        with pytest.raises(UserError, match="preprocessing"):
            read_metadata(path)


def saved(stream: Stream, place: Path, seed: int = 0, **more: Any) -> bytes:
    how = Pretraining("resnet8", epochs=3, batch_size=8, warmup=1, seed=seed)
    state, told = pretrain(how, stream, device="cpu", checkpoint=place / "c", **more)
    save_weights(place / "w.safetensors", state, told)
    return (place / "w.safetensors").read_bytes()


def test_the_same_seed_the_same_bytes(stream: Stream, tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = saved(stream, tmp_path)
    torch.manual_seed(2)
    assert first == saved(stream, tmp_path) != saved(stream, tmp_path, seed=1)


def stopper(after: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    return progress


def test_interrupted_work_goes_on_to_the_same_bytes(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, epochs = saved(stream, tmp_path), list[int]()
    clock = itertools.count(0, 30).__next__  # half a minute an epoch: a minute is over after two
    monkeypatch.setattr(_pretrain, "time", SimpleNamespace(monotonic=clock))
    with pytest.raises(KeyboardInterrupt):
        saved(stream, tmp_path, progress=stopper(2))
    held = (tmp_path / "c").read_bytes()
    assert saved(stream, tmp_path, progress=lambda done, _: epochs.append(done)) == whole
    assert epochs == [2, 3]  # it did not begin anew
    (tmp_path / "c").write_bytes(pack_state({**unpack_state(held, "cpu"), "net": {}}))
    with pytest.raises(UserError, match=r"/c is damaged \(RuntimeError\)"):
        saved(stream, tmp_path)
    (tmp_path / "c").write_bytes(held[:-100])
    with pytest.raises(UserError, match=r"damaged, .* --overwrite"):
        saved(stream, tmp_path)
    (tmp_path / "c").write_bytes(held)
    with pytest.raises(UserError, match=r"\(another settings\).* --overwrite"):
        saved(stream, tmp_path, seed=1)
    with pytest.raises(KeyboardInterrupt):
        saved(stream, tmp_path, 1, overwrite=True, progress=stopper(0))


def test_the_command(
    pixels: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pretrain, "EVERY", 0.0)  # it leaves no checkpoint
    out = tmp_path / "new" / "w.safetensors"
    told = pretrained(pixels, out, "resnet8", "--seed", 3)
    assert told["settings"]["seed"] == 3
    order = Seeds.of(3).order
    assert told["digests"] == IncrementalClass(base=3).build([pixels], seed=order).digests
    assert sorted(p.name for p in out.parent.iterdir()) == ["w.safetensors"]
    image_trunk("resnet8", (3, 24, 24), ImageTraining(weights=str(out)))  # they fit
    words = ["pretrain", pixels.path, "--protocol", "incremental-class", "--trunk", "resnet8"]
    assert "is there already" in str(command(*words, "--out", out, *SHORT).exception)
    first = out.read_bytes()
    assert command(*words, "--out", out, *SHORT, "--overwrite").exit_code == 0
    assert out.read_bytes() != first  # another base session


def test_what_is_wrong_is_said(pixels: EmbeddingFile, tmp_path: Path) -> None:
    x, out = np.ones((len(pixels.labels), 2), np.float32), ("--out", tmp_path / "w.safetensors")
    write_file(tmp_path / "e.h5", pixels.samples, x, {})
    for path, words, sentence in (
        (pixels.path, ("--out", "w.pth"), "a name that ends with .safetensors"),
        (pixels.path, (*out, "--set", "lr=1"), "unknown setting 'lr'"),
        (tmp_path / "e.h5", out, "holds embeddings"),
    ):
        usual = ("--trunk", "resnet8", "--protocol", "fscil", "--quiet")
        made = command("pretrain", path, *usual, *words)
        assert isinstance(made.exception, UserError)
        assert sentence in str(made.exception)
