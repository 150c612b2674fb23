"""How a trunk for images is trained: weights, what stands still, augmentation, arithmetic."""

import argparse
import copy
import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Call
from file_helpers import says
from image_files import pixel_file
from safetensors.torch import save_file
from torch import Tensor, nn
from trunk_runs import lively, x_of

from embedbench.checks.blob_streams import as_images, blobs
from embedbench.checks.learner_check_tools import going_on
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning import image_augmentation
from embedbench.learning import trunk as _trunk
from embedbench.learning.image_training import ImageTraining
from embedbench.learning.learner import Learner
from embedbench.learning.network import eval_features, trunk_and_head
from embedbench.learning.optimisers import trainable_parameters
from embedbench.learning.stopping import Stop
from embedbench.learning.trunk import ResNet, Trunk, freeze, image_trunk, list_stages
from embedbench.models.mlp import MLP
from embedbench.runs.learner_and_protocol_names import learner_class, learner_names
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream, StreamSpec

SPEC = StreamSpec((3, 8, 8), 4)
BRIEF = Stop(rule="epochs", epochs=1)
SESSIONS = ((0, 1), (2,))
ONLINE = ("er", "derpp", "agem")
TEACHERS = ("icarl", "lucir", "lwf", "bic")


def learner_of(name: str, **settings: Any) -> Learner:
    """A learner with the smallest residual trunk and one epoch a session."""
    cls = learner_class(name)
    given = {"trunk": "resnet8", "lr": 0.01, **({"lam": 1.0} if name == "ewc" else {})}
    given |= {"stop": BRIEF} if any(f.name == "stop" for f in fields(cls)) else {}
    made: Learner = cls(**given, images=ImageTraining(**settings))
    return made


def stream_of(name: str, n: int = 16) -> Stream:
    return as_images(blobs(learner_class(name).tags, SESSIONS, n, n_val=4))


def taught(name: str, **settings: Any) -> Any:
    learner = learner_of(name, **settings)
    run_stream(stream_of(name), learner, Seeds.of(0))
    return learner


def scores(learner: Any, name: str = "mlp") -> Tensor:
    return torch.as_tensor(learner.scores(stream_of(name).eval_sets[0].x.tensor()))


def saved(path: Path, body: nn.Module, **more: Tensor) -> str:
    save_file({**body.state_dict(), **more}, path)
    return str(path)


@pytest.mark.parametrize(("name", "kind"), [("resnet8", "safetensors"), ("test_resnet", "pth.tar")])
def test_weights_come_back(tmp_path: Path, name: str, kind: str) -> None:
    spec = StreamSpec((3, 32, 32), 4)
    first = trunk_and_head(MLP(trunk=name), spec, 1)
    lively(first)
    body = first[0].get_submodule("body")
    file = tmp_path / f"w.{kind}"
    if kind == "pth.tar":  # a training checkpoint of timm
        more = {"state_dict": {}, "epoch": 3, "args": argparse.Namespace(lr=0.1)}
        torch.save({"state_dict_ema": body.state_dict(), **more}, file)
    else:
        saved(file, body, **{"head.weight": torch.zeros(7, 64)})
    learner = MLP(trunk=name, images=ImageTraining(weights=str(file)))
    second = trunk_and_head(learner, spec, 2)
    x = x_of(5, shape=spec.input_shape)
    assert torch.equal(eval_features(first, x), eval_features(second, x))
    assert not torch.equal(first.head.weight, second.head.weight)
    assert learner.images.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert make(MLP, json.loads(json.dumps(asdict(learner))), name="mlp") == learner


def test_weights_for_colours_serve_images_of_other_channels(tmp_path: Path) -> None:
    """Grey images have the features of the same ones in colour; of several channels the share."""
    images = ImageTraining(weights=saved(tmp_path / "w.safetensors", lively(ResNet(3, 1)).half()))
    one, two, colours, four = (image_trunk("resnet8", (c, 8, 8), images)[0] for c in (1, 2, 3, 4))
    old = colours.get_parameter("body.conv.weight")
    for channels, trunk in ((2, two), (4, four)):
        expected = torch.cat([old, old], dim=1)[:, :channels] * 3 / channels
        torch.testing.assert_close(trunk.get_parameter("body.conv.weight"), expected)
    grey = x_of(4, shape=(1, 8, 8))
    with torch.no_grad():
        torch.testing.assert_close(one.eval()(grey), colours.eval()(grey.expand(-1, 3, -1, -1)))


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    longer, grey, five = (
        saved(tmp_path / f"{name}.safetensors", body)
        for name, body in (("long", ResNet(3, 3)), ("grey", ResNet(1, 1)), ("five", ResNet(5, 1)))
    )

    def refused(match: str, weights: str, trunk: str = "resnet8", c: int = 3, **more: Any) -> None:
        images, spec = ImageTraining(weights=weights, **more), StreamSpec((c, 8, 8), 4)
        with pytest.raises(UserError, match=match):
            trunk_and_head(MLP(trunk=trunk, images=images), spec, 0)

    refused("resnet8: .* 72 unknown", longer)
    refused("not fit resnet32: 60 ", longer, "resnet32")
    refused("resnet8: .* 1 of another", grey)
    image_trunk("resnet8", (5, 8, 8), ImageTraining(weights=five))
    refused(r"resnet8 \(NotImplementedError", five, c=2)
    refused("no file .* none;", "none")
    refused("hub .* 'resnet8'; .*--weights", "hub")
    refused("mlp.images.sha256 says abc…", longer, sha256="abc")
    with pytest.raises(UserError, match=r"images.weights names none"):
        ImageTraining(sha256="abc")


def test_weights_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = lively(image_trunk("test_resnet", (3, 32, 32), ImageTraining())[0].get_submodule("body"))
    file = Path(saved(tmp_path / "w.safetensors", body))
    asked: list[Any] = []

    def hub(name: str, config: dict[str, Any]) -> tuple[Path, str]:
        asked.append(config["hf_hub_id"])
        return file, "id"

    monkeypatch.setattr(_trunk, "hub_weights", hub)
    images, x = ImageTraining(weights="hub"), x_of(3, shape=(3, 32, 32))
    trunk, _ = image_trunk("timm:test_resnet", (3, 32, 32), images)
    with torch.no_grad():
        assert torch.equal(trunk.eval()(x), body.eval()(x))
    assert asked == ["timm/test_resnet.r160_in1k"]


@pytest.mark.parametrize("name", ["er", "lucir", "ewc", "si", "mas"])
def test_what_stands_still_is_as_it_was(name: str) -> None:
    """Parameters and statistics of the first stage; all others are learned, and all are counted."""
    learner: Any = learner_of(name, frozen=1)
    stream = stream_of(name)
    learner.start(stream.spec, Seeds.of(0), "cpu")
    before = copy.deepcopy(learner.net.state_dict())
    with going_on(learner):
        run_stream(stream, learner, Seeds.of(0))
    for key, value in learner.net.state_dict().items():
        _, _, inner = key.partition("body.")
        still = inner.startswith(("conv.", "norm.", "blocks.0."))
        if "num_batches" in key or inner:
            assert torch.equal(value, before[key]) == still, key
    assert all((p.grad is None) >= (not p.requires_grad) for p in learner.net.parameters())
    held = learner.footprint()
    assert held["parameters"] == sum(p.nbytes for p in learner.net.parameters())
    kind = {"ewc": "fisher", "si": "importance", "mas": "importance"}.get(name)
    if kind:
        trained = sum(p.nbytes for p in trainable_parameters(learner.net))
        assert held[kind] == trained < held["parameters"]


@pytest.mark.parametrize(
    ("trunk", "n", "stem"),
    [("resnet8", 3, "conv.weight"), ("test_resnet", 4, "bn1.weight"), ("test_vit", 6, "pos_embed")],
)
def test_stages_are_counted_from_the_input(trunk: str, n: int, stem: str) -> None:
    def made(frozen: int) -> nn.Module:
        images = ImageTraining(frozen=frozen)
        return image_trunk(trunk, (3, 32, 32), images)[0].get_submodule("body")

    groups = list_stages(made(0))
    assert sorted(k for group in groups for k in group) == sorted(dict(made(0).named_parameters()))
    assert len(groups) == n
    assert stem in groups[0]
    for frozen in (*range(n + 1), -1):
        still = {key for key, p in made(frozen).named_parameters() if not p.requires_grad}
        assert still == {k for group in groups[: frozen if frozen >= 0 else None] for k in group}
    with pytest.raises(UserError, check=says(what="images.frozen", got=9)):
        made(9)
    with pytest.raises(UserError, check=says(expected="at least -1", got=-2)):
        ImageTraining(frozen=-2)


def test_a_model_that_tells_no_stages_stands_still_as_a_whole_or_not_at_all() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    freeze("some", body, -1)
    assert not trainable_parameters(body)
    with pytest.raises(UserError, check=says(what="images.frozen", got=1)):
        freeze("some", body, 1)


def test_what_stands_still_is_in_evaluation_mode() -> None:
    """As a whole, with its dropout; also after a batch of one, in a copy, and after answers."""
    one, two = (nn.Sequential(nn.Conv2d(c, 4, 1), nn.BatchNorm2d(4), nn.Dropout()) for c in (3, 4))
    body = nn.Sequential(one.requires_grad_(False), two, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for trunk in (Trunk(body), copy.deepcopy(Trunk(body))):
        for _ in range(2):
            trunk.eval()
            assert not any(m.training for m in trunk.modules())
            trunk.train()
            first, second, *_ = trunk.body.children()
            assert not any(m.training for m in first.modules())
            assert all(m.training for m in (trunk, trunk.body, *second.modules()))
            trunk(x_of(1))
            assert trunk.training
            assert not first.training


@pytest.fixture
def shifted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, Tensor]]:
    """ "crop-flip" adds 100; what goes through a trunk, and whether that is in training."""
    monkeypatch.setitem(image_augmentation.AUGMENTS, "crop-flip", lambda x, _: x + 100)
    seen: list[tuple[bool, Tensor]] = []
    forward: Callable[[Trunk, Tensor], Tensor] = Trunk.forward

    def spy(self: Trunk, x: Tensor) -> Tensor:
        if not torch._C._functorch.is_functorch_wrapped_tensor(x):
            seen.append((self.training, x.detach().clone()))
        return forward(self, x)

    monkeypatch.setattr(Trunk, "forward", spy)
    return seen


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        *((name, 8) for name in (*ONLINE, "gdumb")),
        *((name, 0) for name in ("er", "agem", *TEACHERS, "mlp", "il2m", "ewc", "si", "mas")),
    ],
)
def test_what_is_trained_on_is_augmented_and_nothing_else(
    shifted: list[tuple[bool, Tensor]], name: str, batch: int
) -> None:
    stream = replace(stream_of(name), observe_batch=batch)
    learner: Any = learner_of(name, augment="crop-flip")
    run_stream(stream, learner, Seeds.of(0))
    assert any(training for training, _ in shifted)
    before = torch.zeros(0)
    for training, x in shifted:
        if training:
            assert (x > 50).all()
            before = x
        elif (x > 50).any():  # a teacher, which is shown what the student is
            assert name in TEACHERS
            assert torch.equal(x, before)
    assert any(not training and (x < 50).all() for training, x in shifted)
    if hasattr(learner, "exemplars"):
        assert (learner.exemplars.x < 50).all()


@pytest.mark.parametrize("name", ["mlp", "derpp", "lwf"])
def test_augmentation_has_draws_of_its_own(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Views that are the images themselves change nothing, however much is drawn for them."""
    drawn: list[Tensor] = []

    def same(x: Tensor, generator: torch.Generator) -> Tensor:
        drawn.append(torch.rand(2, generator=generator))
        return x

    monkeypatch.setitem(image_augmentation.AUGMENTS, "crop-flip", same)
    plain, viewed = taught(name), taught(name, augment="crop-flip")
    assert torch.equal(scores(plain), scores(viewed))
    assert len({tuple(d.tolist()) for d in drawn}) == len(drawn) > 1  # sessions and steps differ
    assert torch.equal(drawn[0], torch.rand(2, generator=generator(Seeds.of(0).batches, 0, 1)))


def test_bfloat16_is_the_arithmetic_of_training_alone() -> None:
    body, x = lively(ResNet(3, 1)), x_of(6)
    plain, half = Trunk(copy.deepcopy(body)), Trunk(copy.deepcopy(body), bf16=True)
    found: list[torch.dtype] = []
    conv = half.body.get_submodule("conv")
    assert conv.get_parameter("weight").is_contiguous()  # not channels_last unasked
    conv.register_forward_hook(lambda _m, _x, out: found.append(out.dtype))
    a, b = plain.train()(x), half.train()(x)
    assert found == [torch.bfloat16]
    assert b.dtype == torch.float32
    assert not torch.equal(a, b)
    torch.testing.assert_close(a, b, rtol=0.1, atol=0.1)  # eight bits, a few layers deep
    b.sum().backward()
    assert {p.grad.dtype for p in half.parameters() if p.grad is not None} == {torch.float32}
    half.load_state_dict(plain.state_dict())
    assert torch.equal(plain.eval()(x), half.eval()(x))


def test_learners_train_by_the_arithmetic_that_is_asked_for() -> None:
    plain, half = scores(taught("mlp")), scores(taught("mlp", amp="bf16"))
    assert half.dtype == torch.float32
    assert not torch.equal(plain, half)


def test_the_layout_in_memory_decides_nothing() -> None:
    """But for the order in which convolutions of either layout sum: float32, some ten steps."""
    plain, other = taught("agem"), taught("agem", channels_last=True)
    weight = other.net[0].body.blocks[0].conv1.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()
    given: list[bool] = []
    for trunk in (plain.net[0], other.net[0]):
        hook = trunk.body.register_forward_pre_hook(lambda _, x: given.append(x[0].is_contiguous()))
        trunk.train()(x_of(4))
        hook.remove()
    assert given == [True, False]
    torch.testing.assert_close(scores(plain), scores(other), rtol=1e-2, atol=1e-2)


def test_a_trunk_is_compiled_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a backend that is quick and counts its calls: no C++ compiler needed."""
    backend: list[int] = []

    def counting(graph: Any, _inputs: Any) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            backend.append(1)
            return graph.forward(*given)

        return called

    compiled = functools.partialmethod(nn.Module.compile, backend=counting)
    monkeypatch.setattr(nn.Module, "compile", compiled)
    plain, quick = (
        trunk_and_head(MLP(trunk="resnet8", images=ImageTraining(compile=c)), SPEC, 0)
        for c in (False, True)
    )
    assert list(plain.state_dict()) == list(quick.state_dict())
    x = x_of(4)
    torch.testing.assert_close(plain.eval()(x), quick.eval()(x))
    torch.testing.assert_close(plain.train()(x[:1]), quick.train()(x[:1]))
    assert not backend
    torch.testing.assert_close(plain.train()(x), quick.train()(x))
    n = len(backend)
    assert n
    teacher = copy.deepcopy(quick).eval()
    torch.testing.assert_close(teacher(x), plain.eval()(x))
    assert len(backend) == n
    torch.compiler.reset()


def test_what_cannot_be_compiled_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_graph: Any, _inputs: Any) -> Any:
        raise RuntimeError("there is no compiler")

    compiled = functools.partialmethod(nn.Module.compile, backend=failing)
    monkeypatch.setattr(nn.Module, "compile", compiled)
    with pytest.raises(UserError, match=r"torch.compile .*'failing' .*no compiler"):
        taught("mlp", compile=True)
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="channels"):  # any other error is its own
        image_trunk("resnet8", (3, 8, 8), ImageTraining())[0](x_of(2, shape=(2, 8, 8)))


@pytest.mark.parametrize("trunk", ["mlp", "linear"])
def test_trunks_of_vectors_have_no_such_settings(trunk: str) -> None:
    with pytest.raises(UserError, match=f"er.images .*er.trunk is '{trunk}'"):
        learner_class("er")(trunk=trunk, images=ImageTraining(frozen=-1))


def test_every_learner_with_a_trunk_has_them() -> None:
    fields = {n: learner_class(n).__dataclass_fields__ for n in learner_names()}
    having = {name for name, found in fields.items() if "trunk" in found}
    assert having == {name for name, found in fields.items() if "images" in found}
    assert {*ONLINE, *TEACHERS} <= having


def test_the_command_gives_them_to_all_learners_and_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    pixel_file(tmp_path)
    file = tmp_path / "w.safetensors"
    saved(file, ResNet(3, 1))
    monkeypatch.chdir(tmp_path)
    given = ["run", "p.h5", "--protocol", "incremental-class", "--set", "protocol.sessions=2"]
    given += ["--set", "stop.epochs=1", "--set", "offline.mlp.stop.epochs=1", "--out", "runs"]
    given += ["--jobs", "1", "--quiet", "--weights", "w.safetensors", "--augment", "crop-flip"]
    both = ["--learner", "finetune,er", "--set", "finetune.images.frozen=2"]
    assert call(*given, *both, "--trunk", "resnet8").code == 0
    records = [json.loads(path.read_text()) for path in Path("runs").rglob("record.json")]
    params = {r["learner"]: r["learner_params"] for r in records}
    assert set(params) == {"finetune", "er", "offline", "chance"}
    nets = (params["finetune"], params["er"], params["offline"]["mlp"])
    each = [(p["trunk"], *(p["images"][k] for k in ("weights", "augment", "frozen"))) for p in nets]
    shared = ("resnet8", "w.safetensors", "crop-flip")
    assert each == [(*shared, 2), (*shared, 0), (*shared, 0)]
    assert {p["images"]["sha256"] for p in nets} == {hashlib.sha256(file.read_bytes()).hexdigest()}
    command = next(r["command"] for r in records if r["learner"] == "er")
    assert "er.trunk=resnet8" in command
    assert "mlp.trunk=resnet8" in command  # the reference's
    code, _, err = call(*given, "--learner", "er,ncm", "--trunk", "resnet8")
    assert code == 2
    assert "ncm has no" in err
