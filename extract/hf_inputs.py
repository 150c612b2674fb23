"""Inputs for Hugging Face's backbones: images, sounds or texts, through their own processors.

Each class has the processor's configuration for the provenance (`recipe`), one sample as an array
whose shape is always the same (`prepare`), a small one (`example`), and the groups of a batch that
go through the model at once, as arguments and mask (`groups`): the mask (n, T) is 1 where tokens or
frames are of the sample; None: all are.
"""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.networks.weights import file_sha256

from .log_mel_backbone import resample
from .sound_files import read_sound
from .source import Content, open_image

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
            raise UserError("the processor of this model decides the size of images; drop --size.")
        self.processor = AutoImageProcessor.from_pretrained(folder, **LOCAL, backend="pil")
        self.recipe = _recipe(self.processor)
        wide, high = (Image.new("RGB", size) for size in ((96, 64), (64, 96)))
        made = [self.processor(image, return_tensors="np") for image in (wide, high)]
        shapes = {np.shape(one["pixel_values"]) for one in made}
        if any(set(one) != {"pixel_values"} for one in made) or len(shapes) > 1:
            raise UserError(
                "the processor of this model makes images of several shapes, or tiles; choose a "
                "model of a fixed size."
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
        self, folder: Path, size: int | None, known: int, longest: int | None, *, whole: bool
    ) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
        if known and len(self.tokenizer) > known:
            raise UserError(
                f"the tokenizer of this model has {len(self.tokenizer):,} tokens, and the model "
                f"knows {known:,}; they do not belong together."
            )
        most = min(self.tokenizer.model_max_length, longest or TOKENS)
        if size is not None and size > most:
            raise UserError(
                f"this model takes at most {most:,} tokens; give --size {most} or less."
            )
        self.tokens = size or min(most, TOKENS)
        self.pad, self.whole = self.tokenizer.pad_token_id or 0, whole
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
        rate = getattr(self.extractor, "sampling_rate", None)
        if not isinstance(rate, int):
            raise UserError("this model has no feature extractor of sounds; give it no sounds.")
        self.rate, self.seconds = rate, size or SECONDS
        most = getattr(self.extractor, "nb_max_samples", None)  # longer: cut at random places
        if most is not None and self.seconds * rate > most:
            raise UserError(
                f"this model takes at most {most // rate} seconds; give --size {most // rate}."
            )
        self.recipe = {
            **_recipe(self.extractor),
            "channels": "mean",
            "resampling": "scipy.signal.resample_poly",
            "seconds": self.seconds,
            "longer": "cut at the end",
        }

    def prepare(self, content: Content) -> Array:
        """Return (seconds · rate,) samples, NaN behind the end."""
        if not isinstance(content, bytes):
            raise ValueError("an image, not a sound")
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
