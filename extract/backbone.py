"""The contract of a backbone: images, sounds or texts in, embeddings out; and image decoders."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torchvision
from PIL import Image
from torch import nn

from embedbench.array_types import Array
from embedbench.errors import UserError

from .source import Content

# --- decoders ---


PILLOW, TORCHVISION = "pil", "torchvision"
DECODERS = (PILLOW, TORCHVISION)
_SAME = {  # what torchvision decodes as Pillow does: 8 bits a value, grey or colour
    "JPEG": ("L", "RGB"),
    "PNG": ("L", "LA", "P", "RGB", "RGBA"),
}
_END, _SCAN = b"\xff\xd9", b"\xff\xda"  # markers of a JPEG


def decoder_recipe(decoder: str, device: torch.device) -> dict[str, str]:
    """Return what `preprocessing` says of a decoder: nothing of Pillow, so that recipes stay."""
    if decoder == PILLOW:
        return {}
    if not all(hasattr(torchvision.io, name) for name in ("decode_image", "decode_jpeg")):
        raise UserError(
            f"torchvision {torchvision.__version__} has no decoders any more; take 0.29, or leave "
            "out --decoder."
        )
    return {"decoder": "torchvision.io" + (", JPEG by nvJPEG" if device.type == "cuda" else "")}


def by_torchvision(image: Image.Image, content: bytes, device: torch.device) -> Image.Image:
    """Return an image with the pixels that torchvision decodes; on a CUDA device by nvJPEG.

    The header of the image was checked by `open_image`. Other formats than JPEG and PNG, images of
    more than 8 bits a value and those of four inks are returned as they are, for Pillow.
    """
    if image.mode not in _SAME.get(image.format or "", ()):
        return image
    reads = torchvision.io  # its names may go one day; `decoder_recipe` has looked at them
    mode = reads.ImageReadMode.GRAY if image.mode in ("L", "LA") else reads.ImageReadMode.RGB
    data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    try:
        if image.format == "JPEG" and device.type == "cuda":
            if content.rfind(_END) < content.rfind(_SCAN):  # a card may fill the rest with grey
                raise UserError("the file is truncated")
            pixels = reads.decode_jpeg(data, mode=mode, device=device).cpu()
        else:
            pixels = reads.decode_image(data, mode=mode)
    except torch.OutOfMemoryError as error:
        raise MemoryError from error
    except RuntimeError as error:
        raise UserError(f"torchvision cannot decode it ({_reason(error)})") from error
    if pixels.dtype != torch.uint8:
        return image
    if tuple(pixels.shape[1:]) != (image.height, image.width):
        raise UserError("its header gives two sizes")
    rows = pixels.permute(1, 2, 0).contiguous().numpy()  # (3 or 1, H, W) -> (H, W, 3 or 1)
    return Image.fromarray(rows if rows.shape[2] == 3 else rows[..., 0])


def _reason(error: RuntimeError) -> str:
    """Return what torchvision says, without the path of its source code."""
    return str(error).partition("\n")[0].rpartition(".cpp:")[2].partition(", ")[2] or "damaged"


# --- backbones ---


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# Backbones that are no models, and why they take no weights, layers or half precision.
OURS = {
    "pixels": "pixels are raw values",
    "none": "none keeps the images as they are",
    "log-mel": "log-mel is a formula",
}


def arithmetic_of(asked: str, device: torch.device) -> tuple[str, str]:
    """Return the arithmetic that is taken for `--dtype`, and a remark where it is another one.

    A CPU without units for half precision computes it many times slower than float32. `!` behind
    the name insists on it.
    """
    dtype = asked.removesuffix("!")
    if dtype == "float32" or asked != dtype or device.type != "cpu" or fast_on_cpu(dtype):
        return dtype, ""
    return "float32", (
        f"this processor has no units for {dtype}, which would be many times slower than float32; "
        f"float32 is taken (--dtype {dtype}! insists)."
    )


def fast_on_cpu(dtype: str) -> bool:
    """Whether oneDNN, which torch computes with on a CPU, has kernels for half precision here."""
    probe = {"bfloat16": "_is_mkldnn_bf16_supported", "float16": "_is_mkldnn_fp16_supported"}[dtype]
    try:
        return bool(getattr(torch.ops.mkldnn, probe)())
    except (AttributeError, RuntimeError):  # a torch without oneDNN
        return False


class Backbone(ABC):
    """A function from images, sounds or texts to rows of tables.

    `prepare` takes one sample a call, `forward` one batch. Both may run in several threads at once,
    so they change nothing of the backbone. A row depends on its sample alone. docs/plugins.md shows
    one from outside.

    Attributes
    ----------
    backbone : dict
        What computes, for the provenance; part of the recipe. `name`, `weights_id`,
        `weights_sha256`, `layer`, `pooling`, and `library` and `library_version`, which are filled
        in for one from outside.
    preprocessing : dict
        What `prepare` does to a sample, for the provenance; part of the recipe.
    takes : str
        `images`, which `prepare` gets opened, or `sounds` or `texts`, of which it gets the bytes of
        a file.
    device : device
        Where `forward` computes.
    dtype : str
        Of the arithmetic: `float32`, `bfloat16` or `float16`; `uint8` for images themselves.
    decoder : str
        One of `DECODERS`; set from outside.
    """

    backbone: dict[str, Any]
    preprocessing: dict[str, Any]
    takes: str = "images"
    device = torch.device("cpu")
    dtype = "float32"
    decoder = PILLOW

    @abstractmethod
    def prepare(self, content: Content) -> Array:
        """Return one sample as `forward` takes it, such as an image as (H, W, C) bytes.

        The shape is the same for every sample. Damaged content raises an error of its reader.
        """

    @abstractmethod
    def forward(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return `features` and `layers/NAME`, each (n, D), of n prepared samples."""

    def precision(self, batch: Array) -> float | None:
        """Return the smallest cosine to float32 over rows and tables; None for float32 itself."""
        return None


class Network(Backbone):
    """A backbone that is a network of torch; half precision is by autocast."""

    @abstractmethod
    def tables(self, batch: Array, dtype: str) -> dict[str, torch.Tensor]:
        """Return the tables of a batch, computed in `arithmetic(dtype)`."""

    def forward(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return the embeddings of a batch, on the device, in their stored type."""
        stored = torch.float32 if self.dtype == "float32" else torch.float16
        return {name: rows.to(stored) for name, rows in self.tables(batch, self.dtype).items()}

    def precision(self, batch: Array) -> float | None:
        """Return the smallest cosine of half precision to float32 over rows and tables."""
        if self.dtype == "float32":
            return None
        exact = self.tables(batch, "float32")
        cosines = [
            nn.functional.cosine_similarity(rows.float(), exact[name]).min().item()
            for name, rows in self.forward(batch).items()
        ]
        return min(cosines)

    def arithmetic(self, dtype: str) -> AbstractContextManager[object]:
        """The context in which a type of arithmetic is used."""
        if dtype == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[dtype])
