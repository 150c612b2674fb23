"""Backbones from Hugging Face's transformers: of images, of sounds, of texts.

Loading runs no code of the model's folder (`trust_remote_code` is off) and reads no pickle: its
weights must be safetensors.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from embedbench.array_types import Array
from embedbench.errors import UserError, import_extra
from embedbench.networks.published_weights import model_folder
from embedbench.networks.weights import file_sha256
from embedbench.storage.regular_files import explain_errors

from .backbone import Network
from .log_mel_backbone import resample
from .sound_files import read_sound
from .source import Content, open_image
from .timm_backbone import parse_layers

JOINT, TOKEN, POOLED, MEAN = (
    "the model's projection into the space that it shares with other kinds",
    "class token after the final norm",
    "the model's pooled output",
    "mean over tokens",
)
WEIGHTS = "model.safetensors"


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
        transformers = import_extra("transformers", "hf", "--backbone hf:")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
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
        if self.joint:
            self.rule = JOINT
        elif self.token:
            self.rule = TOKEN
        else:
            self.rule = POOLED if pooled else MEAN
        # what its file lacks would be drawn at random; a pooler that is not used may be missing
        pooling = self.rule in (JOINT, POOLED)
        needed = [key for key in missing if pooling or "pooler" not in key.split(".")]
        if needed:
            raise UserError(
                f"hf:{name} lacks {len(needed)} weights of the model (first: {needed[0]}), which "
                "would be random numbers",
                "choose a complete one",
            )
        states = output.get("hidden_states") or ()
        self.numbers = parse_layers(layers, "block", len(states) - 1)  # the first is the input
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
        # the same weights may be read with other heads or norms
        self.also_decides = {"configuration": file_sha256(folder / "config.json")}

    def _opened(self, folder: Path, name: str, size: int | None) -> "Inputs":
        """Open the processor of what the samples are."""
        with explain_errors(f"hf:{name} takes no {self.takes}: its processor cannot be opened"):
            if self.takes == "images":
                return ImageInputs(folder, size)
            if self.takes == "sounds":
                return SoundInputs(folder, size)
            config = getattr(self.model.config, "text_config", self.model.config)
            known = getattr(config, "vocab_size", None)
            longest = getattr(config, "max_position_embeddings", None)
            return TextInputs(folder, size, known, longest, whole=self.joint is not None)

    def prepare(self, content: Content) -> Array:
        """Return one sample as its processor makes it."""
        return self.inputs.prepare(content)

    def preparer(self) -> Callable[[Content], Array] | None:
        """Return what prepares an image or a sound; texts take no time worth a process."""
        return None if isinstance(self.inputs, TextInputs) else self.inputs.prepare

    def tables(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return the embedding and the layers of a batch."""
        parts = []
        with torch.inference_mode(), self.arithmetic():
            for given, mask in self.inputs.groups(batch):
                here = {key: self.on_device(value) for key, value in given.items()}
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
        failed = f"the model takes no {self.takes} alone"  # it may want other arguments
        with explain_errors(failed, "choose another one"), torch.inference_mode():
            return self._run(here, hidden=True)


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


def _loaded(folder: Path, name: str) -> tuple[Any, list[str]]:
    """Return the model in float32, and the names of weights that its file lacks."""
    from transformers import AutoModel

    if not any((folder / file).is_file() for file in (WEIGHTS, f"{WEIGHTS}.index.json")):
        raise UserError(
            f"hf:{name} has no {WEIGHTS}",
            "models in other formats can run code when they are read: save it again with "
            "save_pretrained",
        )
    options: dict[str, Any] = {**LOCAL, "use_safetensors": True, "dtype": torch.float32}
    with explain_errors(f"hf:{name} cannot be loaded"):
        model, info = AutoModel.from_pretrained(folder, output_loading_info=True, **options)
    return model.eval(), sorted(info["missing_keys"])


def _joint(model: Any, holds: str) -> Any:
    """The function into a space that texts share with another kind; None if there is none."""
    names = {"texts": "text", "images": "image", "sounds": "audio"}
    into = {kind: getattr(model, f"get_{name}_features", None) for kind, name in names.items()}
    return into[holds] if into["texts"] and (into["images"] or into["sounds"]) else None


def _weights_digest(folder: Path) -> str:
    """SHA-256 of the file of weights; of several files, of their names and digests as JSON."""
    if (folder / WEIGHTS).is_file():
        return file_sha256(folder / WEIGHTS)
    index = json.loads((folder / f"{WEIGHTS}.index.json").read_text(encoding="utf-8"))
    names = sorted({str(name) for name in index["weight_map"].values()})
    if any("/" in name for name in names):
        raise UserError(f"{folder} has weights in another folder", "give a model that is in one")
    parts = {name: file_sha256(folder / name) for name in names}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# --- inputs through the model's own processors ---
#
# Each class has the processor's configuration (`recipe`), one sample as an array of a fixed shape
# (`prepare`), a small one (`example`), and the groups of a batch that go through the model at once
# (`groups`), as arguments and mask (n, T): 1 where tokens or frames are of the sample; None: all.


SECONDS, TOKENS = 10, 512  # used of a sound, of a text, if nothing else is asked for
TEXT_BYTES = 2**20  # most of a text
_VOCABULARY = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model"),
    "sentencepiece.bpe.model",
)

Tensors = dict[str, torch.Tensor]


class ImageInputs:
    """Images, as the model's image processor makes them."""

    def __init__(self, folder: Path, size: int | None) -> None:
        from transformers import AutoImageProcessor

        if size is not None:
            raise UserError("the processor of this model decides the size of images", "drop --size")
        self.processor = AutoImageProcessor.from_pretrained(folder, **LOCAL, backend="pil")
        self.recipe = _recipe(self.processor)
        wide = Image.new("RGB", (96, 64))
        high = Image.new("RGB", (64, 96))
        made = [self.processor(image, return_tensors="np") for image in (wide, high)]
        shapes = {np.shape(one["pixel_values"]) for one in made}
        if any(set(one) != {"pixel_values"} for one in made) or len(shapes) > 1:
            raise UserError(
                "the processor of this model makes images of several shapes, or tiles",
                "choose a model of a fixed size",
            )

    def prepare(self, content: Content) -> Array:
        """Return (C, H, W) values, resized, cropped and normalised."""
        image = open_image(content).convert("RGB")
        return np.asarray(self.processor(image, return_tensors="np")["pixel_values"][0], np.float32)

    def example(self) -> Array:
        """Return a black image."""
        return self.prepare(Image.new("RGB", (64, 64)))

    def groups(self, batch: Array) -> list[tuple[Tensors, torch.Tensor | None]]:
        """Return the images (n, C, H, W) as one group."""
        return [({"pixel_values": torch.from_numpy(batch)}, None)]


class TextInputs:
    """Texts as tokens: the first `size`, padded at the end to the longest of a batch.

    With `whole` they are padded to `size`, because SigLIP reads the last place.
    """

    def __init__(
        self, folder: Path, size: int | None, known: int | None, longest: int | None, *, whole: bool
    ) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
        if known and len(self.tokenizer) > known:
            raise UserError(
                f"the tokenizer of this model has {len(self.tokenizer):,} tokens, and the model "
                f"knows {known:,}; they do not belong together"
            )
        most = min(self.tokenizer.model_max_length, longest or TOKENS)
        if size is not None and size > most:
            raise UserError(
                f"this model takes at most {most:,} tokens", f"give --size {most} or less"
            )
        self.tokens = size or min(most, TOKENS)
        self.pad = self.tokenizer.pad_token_id or 0
        self.whole = whole
        self.masked = "attention_mask" in self.tokenizer.model_input_names
        self.turn = threading.Lock()  # a tokenizer keeps its settings in itself
        files = {name: folder / name for name in _VOCABULARY if (folder / name).is_file()}
        self.recipe = {
            "library": "transformers",
            "tokenizer": type(self.tokenizer).__name__,
            "tokens": self.tokens,
            "longer": "cut at the end",
            "padded": "to the longest of a batch" if not whole else "to the most tokens",
            "sha256": {name: file_sha256(path) for name, path in files.items()},
        }

    def prepare(self, content: Content) -> Array:
        """Return (tokens,) numbers of tokens, -1 behind the end."""
        text = read_text(content)
        with self.turn:
            taken = self.tokenizer(text, truncation=True, max_length=self.tokens)["input_ids"]
        if not taken:
            raise ValueError("a text without a token")
        row = np.full(self.tokens, -1, np.int64)
        row[: len(taken)] = taken
        return row

    def example(self) -> Array:
        """Return a text of one token."""
        row = np.full(self.tokens, -1, np.int64)
        row[0] = 0
        return row

    def groups(self, batch: Array) -> list[tuple[Tensors, torch.Tensor | None]]:
        """Return the texts as one group of equal lengths."""
        longest = self.tokens if self.whole else (batch >= 0).sum(axis=1).max()
        ids = torch.from_numpy(batch[:, :longest])
        mask = (ids >= 0).long()
        given = {"input_ids": ids.masked_fill(mask == 0, self.pad)}
        return [(given | {"attention_mask": mask} if self.masked else given, mask)]


class SoundInputs:
    """Sounds: the first seconds, the mean of the channels, at the rate of the model.

    Sounds that the model's feature extractor brings to one length go through the model at once, all
    others one by one, because padding changes what some models answer.
    """

    def __init__(self, folder: Path, size: int | None) -> None:
        from transformers import AutoFeatureExtractor

        self.extractor = AutoFeatureExtractor.from_pretrained(folder, **LOCAL)
        self.rate: int = self.extractor.sampling_rate  # images' have none
        self.seconds = size or SECONDS
        most = getattr(self.extractor, "nb_max_samples", None)  # longer: cut at random places
        if most is not None and self.seconds * self.rate > most:
            raise UserError(f"this model takes sounds of at most --size {most // self.rate}.")
        self.recipe = {
            **_recipe(self.extractor),
            "channels": "mean",
            "resampling": "scipy.signal.resample_poly",
            "seconds": self.seconds,
            "longer": "cut at the end",
        }

    def prepare(self, content: Content) -> Array:
        """Return (seconds · rate,) samples, NaN behind the end."""
        sound = resample(*read_sound(content, self.seconds + 1), self.rate)
        sound = sound[: self.seconds * self.rate]
        row = np.full(self.seconds * self.rate, np.nan, np.float32)
        row[: len(sound)] = sound
        return row

    def example(self) -> Array:
        """Return a second of silence."""
        return np.zeros(self.rate, np.float32)

    def groups(self, batch: Array) -> list[tuple[Tensors, torch.Tensor | None]]:
        """Return the sounds as one group, if all have one length, or each by itself."""
        made = [
            self.extractor(
                row[~np.isnan(row)],
                sampling_rate=self.rate,
                return_tensors="pt",
                return_attention_mask=True,
            )
            for row in batch
        ]
        if len({tuple(value.shape for value in one.values()) for one in made}) == 1:
            made = [{key: torch.cat([one[key] for one in made]) for key in made[0]}]
        return [
            (
                {key: value for key, value in one.items() if key != "attention_mask"},
                one.get("attention_mask"),
            )
            for one in made
        ]


Inputs = ImageInputs | TextInputs | SoundInputs
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def read_text(content: Content) -> str:
    """Return a text from its bytes; ValueError if they are not UTF-8, or too many."""
    if not isinstance(content, bytes):
        raise ValueError("an image, not a text")
    if len(content) > TEXT_BYTES:
        raise ValueError(f"{len(content):,} bytes of text; at most {TEXT_BYTES:,} are possible")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8; convert it first") from error


def _recipe(processor: Any) -> dict[str, Any]:
    """A processor's configuration as plain JSON, without paths."""
    values = json.loads(json.dumps(processor.to_dict(), default=str))
    named = {key: value for key, value in values.items() if not key.startswith("_")}
    filters = ("mel_filters", "mel_filters_slaney", "window")  # follow from the others
    return {
        "library": "transformers",
        "processor": type(processor).__name__,
        **{key: value for key, value in named.items() if key not in filters},
    }
