"""Files of weights as timm publishes them, with a classifier: each family of its registry."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from embedbench.errors import UserError
from embedbench.networks import weights
from embedbench.networks.paper_networks import timm

# Words in names of small models, the smallest first; the test needs no more than a small one.
SMALL = [
    "test",
    "femto",
    "atto",
    "pico",
    "nano",
    "zepto",
    "xxt",
    "xxs",
    "xtiny",
    "xt",
    "_t_",
    "tiny",
    "t0",
    "mini",
    "xs",
    "s0",
    "18",
    "small",
    "_s",
    "_m0",
    "b0",
    "050",
]
LARGE = ("giant", "gigantic", "huge", "large", "enormous", "xxl", "_xl", "_l", "7b", "3b", "1b")
# Classifiers of several parts: a norm, or more than one layer; and families whose function that
# converts checkpoints takes them alone.
SEVERAL_PARTS = (
    *("levit_128s", "repvit_m0_9", "efficientvit_m0", "shvit_s1", "iformer_t", "caformer_s18"),
    *(
        "densenet121",
        "regnetx_002",
        "vgg11",
        "efficientformer_l1",
        "deit_tiny_distilled_patch16_224",
    ),
)


def size_of(name: str) -> tuple[int, int, str]:
    """A key that sorts small models to the front, by their names."""
    place = next((i for i, word in enumerate(SMALL) if word in name), len(SMALL))
    return len(SMALL) + 1 if any(word in name for word in LARGE) else place, len(name), name


def families() -> list[str]:
    """One small model of each module of timm that has models."""
    listed = (timm.list_models(module=module) for module in timm.list_modules())
    return [min(names, key=size_of) for names in listed if names]


def load_by_names(name: str, **more: torch.Tensor) -> None:
    """Load the published parameters of a model, without their values, into its backbone."""
    with torch.device("meta"):
        build: Any = timm.create_model
        published, body = build(name), build(name, num_classes=0)
    state = {**published.state_dict(), **more}
    weights.fit_state(state, body, Path("w.pth"), dict(body.pretrained_cfg), channels=3)


@pytest.mark.parametrize("name", SEVERAL_PARTS)
def test_a_classifier_may_have_several_parts(name: str) -> None:
    load_by_names(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", families())
def test_every_family_takes_its_published_weights(name: str) -> None:
    load_by_names(name)


@pytest.mark.parametrize("key", ["head.extra.weight", "stages.9.weight", "heads.bn.weight"])
def test_what_no_model_of_timm_has_is_refused(key: str) -> None:
    with pytest.raises(UserError, match=rf"0 of its parameters .* 1 unknown .*first: {key}"):
        load_by_names("levit_128s", **{key: torch.empty(1, device="meta")})


def test_rows_are_those_of_timm_without_the_classifier(tmp_path: Path) -> None:
    torch.manual_seed(0)
    build: Any = timm.create_model
    published = build("efficientvit_m0").eval()
    state = {key: value.contiguous().clone() for key, value in published.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    body = build("efficientvit_m0", num_classes=0).eval()
    x = torch.randn(2, 3, 224, 224)
    cfg = dict(body.pretrained_cfg)
    weights.load_weights(body, tmp_path / "w.safetensors", cfg, channels=3)
    with torch.inference_mode():
        expected = published.forward_head(published.forward_features(x), pre_logits=True)
        assert torch.equal(body(x), expected)
