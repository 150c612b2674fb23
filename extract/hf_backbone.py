"""Backbones from Hugging Face's transformers: of images, of sounds, of texts.

Loading runs no code of the model's folder (`trust_remote_code` is off) and reads no pickle: its
weights must be safetensors.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.networks.published_weights import model_folder
from embedbench.networks.weights import file_sha256

from .backbone import Network
from .hf_inputs import LOCAL, ImageInputs, Inputs, SoundInputs, TextInputs
from .intermediate_layers import parse_layers
from .source import Content

JOINT, TOKEN, POOLED, MEAN = (
    "the model's projection into the space that it shares with other kinds",
    "class token after the final norm",
    "the model's pooled output",
    "mean over tokens",
)
WEIGHTS = "model.safetensors"
_PROCESSORS = {"images": "image processor", "sounds": "feature extractor", "texts": "tokenizer"}


class HfBackbone(Network):
    """A model of transformers without its head.

    The embedding of a sample is, whichever comes first:

    1. its place in a space shared by several kinds, if the model has one (CLIP, SigLIP, CLAP);
    2. for images, the class token after the final norm, if there is one (ViT, DINOv2, DINOv3);
    3. for images and sounds, the model's pooled output, if it has one (ConvNeXt, ResNet, AST);
    4. the mean over the tokens of the last layer that are of the sample (BERT, wav2vec 2.0, and the
       encoder of Whisper or T5).

    Intermediate layers are the class token, or the mean over tokens or positions, after each block,
    without the final norm.

    Parameters
    ----------
    name : str
        A folder that `save_pretrained` wrote, or a name on the hub: `org/name` or
        `org/name@revision`.
    holds : str
        What samples are: `images`, `sounds` or `texts`.
    layers, dtype, size, device : sequence of str, str, int or None, device
        As in `pipeline.extract`; by default 512 tokens, or as many as the model takes, or 10 s.
    """

    def __init__(
        self,
        name: str,
        holds: str,
        *,
        layers: Sequence[str],
        dtype: str,
        size: int | None,
        device: torch.device,
    ) -> None:
        self.takes, self.dtype, self.device = holds, dtype, device
        transformers = _library()
        folder, weights_id = model_folder(name)
        model, missing = _loaded(folder, name)
        self.joint = _joint(model, holds)
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        self.model = model.to(device)
        self.inputs = self._opened(folder, name, size)
        self.token = holds == "images" and any(
            key.endswith("embeddings.cls_token") for key, _ in model.named_parameters()
        )
        output = self._example()
        pooled = holds != "texts" and output.get("pooler_output") is not None
        self.rule = JOINT if self.joint else TOKEN if self.token else POOLED if pooled else MEAN
        _check_missing(missing, name, self.rule)
        states = output.get("hidden_states") or ()
        self.numbers = parse_layers(layers, "block", max(0, len(states) - 1)) if layers else []
        how = "class token" if self.token else "mean over tokens or positions"
        self.backbone = {
            "name": weights_id.partition("@")[0],
            "library": "transformers",
            "library_version": transformers.__version__,
            "weights_id": weights_id,
            "weights_sha256": _weights_digest(folder),
            "architecture": type(model).__name__,
            "layer": "final embedding",
            "pooling": self.rule,
            "layers": {f"block-{i}": f"{how} after the block" for i in self.numbers},
        }
        self.preprocessing = self.inputs.recipe

    def _opened(self, folder: Path, name: str, size: int | None) -> Inputs:
        """Open the processor of what the samples are."""
        config = self.model.config
        try:
            if self.takes == "images":
                return ImageInputs(folder, size)
            if self.takes == "sounds":
                return SoundInputs(folder, size)
            config = getattr(config, "text_config", config)
            known = getattr(config, "vocab_size", 0)
            longest = getattr(config, "max_position_embeddings", None)
            return TextInputs(folder, size, known, longest, whole=self.joint is not None)
        except UserError:
            raise
        except Exception as error:  # transformers raises many kinds of errors
            raise UserError(
                f"hf:{name} takes no {self.takes}: it has no {_PROCESSORS[self.takes]} that can be "
                f"opened ({_reason(error)})."
            ) from error

    def prepare(self, content: Content) -> Array:
        """Return one sample as its processor makes it."""
        return self.inputs.prepare(content)

    def tables(self, batch: Array, dtype: str) -> dict[str, torch.Tensor]:
        """Return the embedding and the layers of a batch."""
        parts = []
        with torch.inference_mode(), self.arithmetic(dtype):
            for given, mask in self.inputs.groups(batch):
                here = {key: value.to(self.device) for key, value in given.items()}
                at = None if mask is None else mask.to(self.device)
                parts.append(self._pooled(self._run(here, hidden=bool(self.numbers)), at))
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _pooled(self, output: dict[str, Any], mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
        pooled = self.rule in (JOINT, POOLED)
        tokens = None if pooled else self._of_tokens(output["last_hidden_state"], mask)
        out = {"features": output["pooler_output"].flatten(1) if tokens is None else tokens}
        for i in self.numbers:
            out[f"layers/block-{i}"] = self._of_tokens(output["hidden_states"][i + 1], mask)
        return out

    def _of_tokens(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Class token, or mean over the tokens (n, T, d) or positions (n, d, H, W)."""
        if states.ndim == 4:
            return states.float().mean((2, 3))
        if self.token:
            return states[:, 0]
        return mean_over_tokens(states.float(), mask)

    def _run(self, given: dict[str, torch.Tensor], *, hidden: bool) -> dict[str, Any]:
        run = self.joint or self.model
        output = run(**given, output_hidden_states=hidden, return_dict=True)
        return {"pooler_output": output} if isinstance(output, torch.Tensor) else dict(output)

    def _example(self) -> dict[str, Any]:
        """The output of the model for a small sample, with all layers."""
        ((given, _),) = self.inputs.groups(self.inputs.example()[None])
        here = {key: value.to(self.device) for key, value in given.items()}
        try:
            with torch.inference_mode():
                return self._run(here, hidden=True)
        except Exception as error:  # a model may want other arguments
            raise UserError(
                f"the model takes no {self.takes} alone ({_reason(error)}); choose another one."
            ) from error


def mean_over_tokens(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mean (n, d) of states (n, T, d) over the tokens of the sample.

    `mask` (n, M) is 1 where the input is of the sample; M may be a multiple of T, where a model
    makes one token of several inputs. None: all are.
    """
    if mask is None:
        return states.mean(1)
    tokens = states.shape[1]
    places = torch.arange(tokens, device=mask.device) * mask.shape[1] // tokens
    weights = mask[:, places].to(states.dtype).unsqueeze(2)  # (n, T, 1)
    return (states * weights).sum(1) / weights.sum(1)


def _library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UserError(
            "--backbone hf: needs transformers; install it with pip install embedbench-cl[hf]."
        ) from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def _loaded(folder: Path, name: str) -> tuple[Any, list[str]]:
    """Return the model in float32, and the names of weights that its file lacks."""
    from transformers import AutoModel

    if (folder / "adapter_config.json").exists():
        raise UserError(
            f"hf:{name} is an adapter to another model; merge the two, and save them as one."
        )
    if not any((folder / file).is_file() for file in (WEIGHTS, f"{WEIGHTS}.index.json")):
        raise UserError(
            f"hf:{name} has no {WEIGHTS}; models in other formats can run code when they are read: "
            "save it again with save_pretrained."
        )
    options: dict[str, Any] = {**LOCAL, "use_safetensors": True, "dtype": torch.float32}
    options |= {"output_loading_info": True, "attn_implementation": "sdpa"}
    try:
        try:
            model, info = AutoModel.from_pretrained(folder, **options)
        except ValueError:  # this model has no attention of torch's kind
            options["attn_implementation"] = "eager"
            model, info = AutoModel.from_pretrained(folder, **options)
    except Exception as error:  # transformers raises many kinds of errors
        raise UserError(f"hf:{name} cannot be loaded ({_reason(error)}).") from error
    return model.eval(), sorted(info["missing_keys"])


def _joint(model: Any, holds: str) -> Any:
    """The function into a space that texts share with another kind; None if there is none."""
    texts = getattr(model, "get_text_features", None)
    others = {
        "images": getattr(model, "get_image_features", None),
        "sounds": getattr(model, "get_audio_features", None),
    }
    if texts is None or not any(others.values()):
        return None
    return texts if holds == "texts" else others[holds]


def _check_missing(missing: Sequence[str], name: str, rule: str) -> None:
    """Refuse weights that would be drawn at random; a pooler that is not used may be missing."""
    needed = [key for key in missing if rule in (JOINT, POOLED) or "pooler" not in key.split(".")]
    if needed:
        raise UserError(
            f"hf:{name} lacks {len(needed)} weights of the model (first: {needed[0]}), which would "
            "be random numbers; choose a complete one."
        )


def _weights_digest(folder: Path) -> str:
    """SHA-256 of the file of weights; of several files, of their names and digests as JSON."""
    if (folder / WEIGHTS).is_file():
        return file_sha256(folder / WEIGHTS)
    index = json.loads((folder / f"{WEIGHTS}.index.json").read_text(encoding="utf-8"))
    names = sorted({str(name) for name in index["weight_map"].values()})
    if any("/" in name for name in names):
        raise UserError(f"{folder} has weights in another folder; give a model that is in one.")
    parts = {name: file_sha256(folder / name) for name in names}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
