"""The pixel policy: what every image becomes on its way to a backbone or into a pixel file.

Pillow opens a dozen kinds of pixels, and converts some of them in ways that nobody means: it drops
transparency, clips 16 bits at 255, and leaves a photograph on its side. `PixelPolicy.apply` is the
one place where an image of any source becomes eight bits of grey or RGB. docs/images.md has the
rules as a table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from PIL import Image, ImageColor

from embedbench.array_types import Array
from embedbench.errors import UserError

Colour = tuple[int, int, int]

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
NAMED = {WHITE: "white", BLACK: "black"}
BITS, PHOTOMETRIC, ORIENTATION, PLANES = 258, 262, 274, 284  # tags of TIFF, one also of EXIF
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
FAINT = 8  # levels of 255: a picture whose colours all deviate by less shows nearly nothing
GREY = ("1", "L")
DEEP_GREY = ("I;16", "I;16L", "I;16B", "I;16N")
WITH_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")
NAMES = 100  # most pictures that are named in the provenance

# What may be noted of a picture, in words for "N pictures …". The first three are in the recipe of
# a file that has such pictures; under all others a file is what Pillow alone makes of it.
RULES = {
    "alpha": "have transparent pixels: laid on {ground}",
    "turned": "are turned as their EXIF says",
    "depth": "have greys of more than 8 bits: scaled to 8",
    "alpha_dropped": "have transparent pixels: transparency is dropped, as --alpha drop asks",
    "not_turned": "have an EXIF tag that turns them: not followed, as --orientation keep asks",
    "turned_by_pillow": "are TIFFs that Pillow turns as their tag says",
    "exif_unread": "have EXIF that cannot be read: not turned",
    "colour_depth": "have colours of 16 bits: Pillow brings them to 8",
    "converted": "are CMYK, LAB, HSV or YCbCr: Pillow converts them",
    "profile": "have a colour profile other than sRGB: it is ignored",
    "frames": "have several frames or pages: the first is taken",
}
UNIFORM = "nearly_uniform"


@dataclass(frozen=True)
class Picture:
    """An image as the policy gives it.

    Parameters
    ----------
    image : Image
        Of mode `L` or `RGB`.
    touched : tuple of str
        The rules of `RULES` that it met, and `UNIFORM` where one of them left nearly one colour.
    """

    image: Image.Image
    touched: tuple[str, ...]


@dataclass(frozen=True)
class PixelPolicy:
    """What becomes of transparency and orientation; all other rules are fixed.

    Parameters
    ----------
    ground : (int, int, int) or None
        The colour that transparent pixels are laid on; None: transparency is dropped, so that
        hidden colours are shown.
    turn : bool
        Turn pictures as their EXIF says.
    """

    ground: Colour | None = WHITE
    turn: bool = True

    @classmethod
    def chosen(cls, alpha: str, orientation: str) -> Self:
        """Return the policy of the options `--alpha` and `--orientation`.

        >>> PixelPolicy.chosen("#fff", "keep")
        PixelPolicy(ground=(255, 255, 255), turn=False)
        """
        if orientation not in ("turn", "keep"):
            raise UserError("--orientation", expected="turn or keep", got=orientation)
        if alpha == "drop":
            return cls(None, orientation == "turn")
        return cls(_colour(alpha), orientation == "turn")

    @property
    def alpha(self) -> str:
        """The ground in a word: `white`, `black`, `#rrggbb`, or `drop`."""
        if self.ground is None:
            return "drop"
        return NAMED.get(self.ground) or "#{:02x}{:02x}{:02x}".format(*self.ground)

    def facts(self) -> dict[str, str]:
        """Return the policy as plain JSON."""
        return {"alpha": self.alpha, "orientation": "turn" if self.turn else "keep"}

    def is_grey(self, image: Image.Image) -> bool:
        """Whether an opened image becomes grey; its header says it, and no pixel is decoded.

        It has one channel and no second one for transparency. Where only its pixels would tell,
        as of RGB and of palettes, it counts as a colour picture.
        """
        if image.mode not in (*GREY, *DEEP_GREY, "I"):
            return False
        key = image.info.get("transparency")
        return key is None or self.ground is None or len(set(self.ground)) == 1

    def apply(self, image: Image.Image) -> Picture:
        """Return an opened image as eight bits of grey (`L`) or `RGB`.

        Raises
        ------
        UserError
            Its numbers have no range from which eight bits could be made, or Pillow reads them
            wrongly.
        """
        _refuse_unreadable(image)
        raw = _raw_mode(image)
        touched = _header_rules(image)
        image.load()
        if image.mode in (*DEEP_GREY, "I"):
            plain = _scaled(image, raw)
            touched.append("depth")
        else:
            plain = _converted(image)
        alpha = _alpha(image, raw)
        if alpha is not None and self.ground is None:
            touched.append("alpha_dropped")
        elif alpha is not None and self.ground is not None:
            touched.append("alpha")
            plain = _lay(plain, alpha, self.ground)
        if {"alpha", "alpha_dropped", "depth"} & set(touched) and _is_faint(plain):
            touched.append(UNIFORM)
        turn, unread = _turn(image)
        if unread:
            touched.append("exif_unread")
        if turn is not None:
            touched.append("turned" if self.turn else "not_turned")
            plain = plain.transpose(turn) if self.turn else plain.copy()
        if plain is not image:
            plain.info = {}  # else a backbone that obeys EXIF turns it again
        return Picture(plain, tuple(touched))

    def recipe(self, preprocessing: dict[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the preprocessing of a file, with the rules that changed one of its pictures.

        A rule that touched no picture is left out. So files of opaque, upright pictures of eight
        bits have the recipe that they had before there was a policy, and so has `--alpha drop`
        with `--orientation keep`.
        """
        rules = {
            "alpha": f"on {self.alpha}",
            "turned": "by EXIF",
            "depth": "greys of 16 bits: value / 257, rounded",
        }
        used = {name: text for name, text in rules.items() if counts.get(name)}
        if not used:
            return preprocessing
        made = {**preprocessing, "pixel_policy": used}
        if "alpha" in used and isinstance(colour := made.get("color"), str):
            made["color"] = colour.removesuffix(": alpha is dropped")
        return made

    def entry(self, counts: Mapping[str, int], uniform: Sequence[str]) -> dict[str, Any]:
        """Return the provenance's entry on pictures: the policy, and how many each rule touched."""
        numbers = {rule: counts.get(rule, 0) for rule in (*RULES, UNIFORM)}
        first = {f"{UNIFORM}_first": list(uniform[:NAMES])} if uniform else {}
        return {"policy": self.facts(), **numbers, **first}

    def remarks(
        self, name: str, n: int, counts: Mapping[str, int], uniform: Sequence[str]
    ) -> Iterator[str]:
        """Yield sentences on the rules that touched pictures of a source with n samples."""
        said = [
            f"{counts[rule]:,} {text.format(ground=self.alpha)}"
            for rule, text in RULES.items()
            if counts.get(rule)
        ]
        if said:
            yield f"{name}: of {n:,} pictures, {'; '.join(said)}."
        if uniform:
            names = ", ".join(uniform[:3]) + (", …" if len(uniform) > 3 else "")
            yield (
                f"{name}: {len(uniform):,} pictures are nearly one colour after that ({names}); "
                "look at them, or try another ground, such as --alpha black."
            )


DEFAULT = PixelPolicy()


def _colour(text: str) -> Colour:
    """Return an opaque colour by its name or `#rrggbb`."""
    try:
        parts: tuple[int, ...] = ImageColor.getrgb(text)
    except ValueError:
        parts = ()
    if len(parts) != 3:  # unknown, or with an opacity of its own
        raise UserError("--alpha", expected="white, black, a colour or drop", got=text)
    return parts[0], parts[1], parts[2]


# --- what the header says; it is read before the pixels, which some readers forget it after ---


def _raw_mode(image: Image.Image) -> str:
    """Return how the pixels lie in the file, as Pillow calls it; empty of an image without one."""
    tiles = getattr(image, "tile", None)
    if not tiles:
        return ""
    given = tiles[0][3]
    raw = given[0] if isinstance(given, tuple) else given
    return raw if isinstance(raw, str) else ""


def _header_rules(image: Image.Image) -> list[str]:
    """Return the rules that an image meets by its header alone."""
    met = []
    if _has_deep_colour(image):
        met.append("colour_depth")
    if image.mode in ("CMYK", "LAB", "HSV", "YCbCr"):
        met.append("converted")
    profile = image.info.get("icc_profile")
    if profile and b"sRGB" not in bytes(profile).replace(b"\0", b""):
        met.append("profile")
    if getattr(image, "is_animated", False):
        met.append("frames")
    if _tiff_tags(image).get(ORIENTATION) in TURNS:
        met.append("turned_by_pillow")
    return met


def _has_deep_colour(image: Image.Image) -> bool:
    """Whether the file has more than eight bits of each colour."""
    if image.mode in (*DEEP_GREY, "I", "F"):
        return False
    if image.format != "PPM":
        return "16" in _raw_mode(image)
    tiles = getattr(image, "tile", None)
    given = tiles[0][3] if tiles else None
    return isinstance(given, tuple) and isinstance(given[-1], int) and given[-1] > 255


def _turn(image: Image.Image) -> tuple[Image.Transpose | None, bool]:
    """Return how a loaded image is to be turned, and whether its EXIF cannot be read."""
    try:
        value = image.getexif().get(ORIENTATION)
    except Exception:  # damaged EXIF: Pillow's reader raises errors of many kinds
        return None, True
    return (TURNS.get(value) if isinstance(value, int) else None), False


def _refuse_unreadable(image: Image.Image) -> None:
    """Raise UserError for pixels of which no eight bits can be made."""
    if image.mode == "F":
        raise UserError("floating-point pixels, whose range no file states; scale them to 8 bits")
    # Pillow brings PGM of more than 8 bits, and in early versions PNG of 16, to 0 to 65535 in I
    if image.mode == "I" and image.format not in ("PNG", "PPM"):
        raise UserError("32-bit or signed pixels, whose range no file states; scale them to 8 bits")
    tags = _tiff_tags(image)
    if tags.get(PLANES) == 2 and max(tags.get(BITS, (8,))) > 8:
        raise UserError("planes of more than 8 bits, which Pillow misreads; save it as one plane")


def _tiff_tags(image: Image.Image) -> Mapping[int, Any]:
    tags: Mapping[int, Any] = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    return tags


# --- pixels ---


def _scaled(image: Image.Image, raw: str) -> Image.Image:
    """Return greys of more than eight bits as eight, rounded.

    Their range is that of the file, 65535 of 16 bits and 4095 of 12, whatever the largest value of
    a picture is: so equal values of two pictures stay equal.
    """
    most = 4095 if raw.startswith("I;12") else 65535
    values = np.asarray(image).astype(np.uint32)
    if _tiff_tags(image).get(PHOTOMETRIC) == 0:  # white is zero; Pillow turns 8 bits round alone
        values = most - values
    return Image.fromarray(((values * 255 + most // 2) // most).astype(np.uint8))


def _converted(image: Image.Image) -> Image.Image:
    """Return the colours of an image of eight bits as `L` or `RGB`; transparency is not in them."""
    if image.mode in ("RGBa", "La"):  # colours that are multiplied with their opacity
        image = image.convert("RGBA" if image.mode == "RGBa" else "LA")
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        image = image.convert("RGBA")  # else Pillow warns that RGB has no place for opacities
    return image.convert("L" if image.mode in ("1", "LA") else "RGB")


def _alpha(image: Image.Image, raw: str) -> Image.Image | None:
    """Return the opacity of a loaded image, 0 to 255; None if every pixel is opaque."""
    key = image.info.get("transparency")
    if image.mode in WITH_ALPHA:
        alpha = image.getchannel(len(image.getbands()) - 1)
    elif image.mode == "P":
        if key is None and not (image.palette and image.palette.mode.endswith("A")):
            return None
        alpha = image.convert("RGBA").getchannel("A")
    elif key is not None and image.mode in (*GREY, *DEEP_GREY, "I", "RGB"):
        alpha = Image.fromarray(_opaque(image, raw, key).astype(np.uint8) * 255)
    else:
        return None
    least, _ = alpha.getextrema()
    return None if least == 255 else alpha


def _opaque(image: Image.Image, raw: str, key: Any) -> Array:
    """Return which pixels (height, width) have not the one transparent colour of the image.

    The file has that colour in its own depth: Pillow spreads greys of 2 and 4 bits to 8 and keeps
    the upper eight of colours of 16 bits, but leaves the key as it is.
    """
    if raw in ("L;2", "L;4"):
        key *= 85 if raw == "L;2" else 17
    if raw == "RGB;16B":
        key = [part >> 8 for part in key]
    values = np.asarray(image.convert("L") if image.mode == "1" else image)
    other = np.not_equal(values, np.asarray(key))
    return np.asarray(other.any(axis=2) if other.ndim == 3 else other)


def _lay(plain: Image.Image, alpha: Image.Image, ground: Colour) -> Image.Image:
    """Return colours on a ground: colour · opacity + ground · (1 - opacity), rounded."""
    grey = plain.mode == "L" and len(set(ground)) == 1
    canvas = Image.new("L" if grey else "RGB", plain.size, ground[0] if grey else ground)
    canvas.paste(plain if grey else plain.convert("RGB"), mask=alpha)
    return canvas


def _is_faint(plain: Image.Image) -> bool:
    """Whether an image shows nearly one colour: no channel deviates by `FAINT` levels."""
    counts = np.reshape(plain.histogram(), (-1, 256))  # (channels, levels)
    levels = np.arange(256)
    means = counts @ levels / counts.sum(axis=1)
    variances = counts @ levels**2 / counts.sum(axis=1) - means**2
    return bool(variances.max() < FAINT**2)
