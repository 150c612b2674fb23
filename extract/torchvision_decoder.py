"""Decode JPEG and PNG by torchvision instead of Pillow, after the same checks of the header."""

import torch
import torchvision
from PIL import Image

from embedbench.errors import UserError

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
