"""The pixel policy: every kind of pixels becomes the eight bits that were worked out by hand."""

import struct

import numpy as np
import pytest
from file_helpers import says
from odd_pictures import row, saved, tiff
from PIL import Image, ImageCms, ImageOps, PngImagePlugin
from pixel_cases import (
    CASES,
    CLEAR,
    GREEN,
    ON_WHITE,
    RAMP,
    RED,
    SHOWN,
    STORED,
    WHITE,
    Row,
    colours,
    tagged,
)

from embedbench.errors import UserError
from embedbench.extract.pipeline import extract
from embedbench.extract.pixel_policy import DEFAULT, PixelPolicy, _is_faint
from embedbench.extract.source import open_image


@pytest.mark.parametrize("name", CASES)
def test_pixels_on_white(name: str) -> None:
    content, pixels, _ = CASES[name]
    image = DEFAULT.apply(open_image(content)).image
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), colours(pixels))


@pytest.mark.parametrize("name", CASES)
def test_rules_that_touch_a_picture(name: str) -> None:
    content, _, rules = CASES[name]
    assert set(DEFAULT.apply(open_image(content)).touched) == rules


# --- pixels of which no eight bits can be made ---


REFUSED = {
    "int16": tiff(4, 16, 1, RAMP, number=2),
    "int32": tiff(2, 32, 1, RAMP, number=2),
    "uint32": tiff(2, 32, 1, RAMP),
    "float32": tiff(2, 32, 1, struct.pack("<2f", 0, 1), number=3),
    "pfm": b"Pf\n2 1\n-1.0\n" + struct.pack("<2f", 0, 1),
    "planes of 16 bits": tiff(1, 16, 2, RAMP[:6], samples=3, planes=2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_pixels_without_a_range_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"whose range no file states|which Pillow misreads"):
        DEFAULT.apply(open_image(REFUSED[name]))


def test_planes_of_8_bits_are_read() -> None:
    planes = open_image(tiff(1, 8, 2, bytes([1, 3, 5]), samples=3, planes=2))
    assert np.asarray(DEFAULT.apply(planes).image).tolist() == [[[1, 3, 5]]]


# --- forms that Pillow opens and no file of ours has, and lossy ones ---


@pytest.mark.parametrize(
    ("image", "pixels"),
    [
        (row("PA", (0, 255), (0, 0), (0, 128), (0, 255)), [0, 255, 127, 0]),
        (row("RGBa", (100, 50, 0, 128), (0, 0, 0, 0)), [(227, 177, 127), WHITE]),
        (row("RGBX", (1, 2, 3, 0)), [(1, 2, 3)]),
        (row("HSV", (0, 255, 255)), [RED]),
        (row("I;16B", 129), [1]),
        (row("I;16L", 129), [1]),
    ],
    ids=lambda value: getattr(value, "mode", ""),
)
def test_images_of_a_source_that_opens_them_itself(image: Image.Image, pixels: Row) -> None:
    made = DEFAULT.apply(image).image.convert("RGB")
    np.testing.assert_array_equal(np.asarray(made), colours(pixels))


def test_a_palette_with_opacities() -> None:
    image = row("P", 0, 1)
    image.putpalette([*RED, 255, *GREEN, 0], "RGBA")
    made = DEFAULT.apply(image).image
    np.testing.assert_array_equal(np.asarray(made), colours([RED, WHITE]))


def test_lab_is_converted() -> None:
    """White, black and a grey; the converter of colours rounds by itself."""
    content = saved(row("LAB", (255, 128, 128), (0, 128, 128)), "TIFF")
    made = DEFAULT.apply(open_image(content)).image
    np.testing.assert_allclose(np.asarray(made), colours([255, 0]), atol=1)


def test_inks_of_a_jpeg_are_not_inverted() -> None:
    """Adobe's JPEGs hold CMYK upside down; cyan stays cyan."""
    content = saved(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), "JPEG", quality=95)
    made = np.asarray(DEFAULT.apply(open_image(content)).image, int)
    assert np.abs(made - (0, 255, 255)).max() <= 2


# --- the ground ---


@pytest.mark.parametrize(
    ("alpha", "pixels"),
    [
        ("white", ON_WHITE),
        ("black", [RED, (0, 0, 0), (0, 0, 128), (0, 0, 0)]),
        ("#00ff00", [RED, GREEN, (0, 127, 128), (0, 254, 0)]),
        ("drop", [pixel[:3] for pixel in CLEAR]),
    ],
)
def test_a_ground_and_none(alpha: str, pixels: Row) -> None:
    image = PixelPolicy.chosen(alpha, "turn").apply(open_image(CASES["rgba.png"][0])).image
    np.testing.assert_array_equal(np.asarray(image), colours(pixels))


def test_greys_on_a_ground_of_colour() -> None:
    image = PixelPolicy.chosen("red", "turn").apply(open_image(CASES["grey_key.png"][0])).image
    np.testing.assert_array_equal(np.asarray(image), colours([RED, 8, RED, 0]))


@pytest.mark.parametrize("word", ["", "none", "#12", "#ffffff80", "rgba(1,2,3,4)", "5"])
def test_what_is_no_colour_is_refused(word: str) -> None:
    with pytest.raises(UserError, check=says(what="--alpha", got=word)):
        extract("demo", "a.h5", alpha=word)


def test_a_wrong_orientation_is_refused() -> None:
    with pytest.raises(UserError, check=says(what="--orientation", got="left")):
        extract("demo", "a.h5", orientation="left")


# --- orientation ---


@pytest.mark.parametrize("value", SHOWN)
@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF"])
def test_pictures_are_turned_as_their_tag_says(value: int, form: str) -> None:
    content = tagged(value, form, **({"lossless": True} if form == "WEBP" else {}))
    made = DEFAULT.apply(open_image(content)).image
    np.testing.assert_array_equal(np.asarray(made.convert("L")), SHOWN[value])


@pytest.mark.parametrize("value", SHOWN)
def test_photographs_are_turned(value: int) -> None:
    large = np.kron(STORED, np.ones((16, 16), np.uint8))  # a JPEG's blocks
    exif = Image.Exif()
    exif[0x0112] = value
    content = saved(Image.fromarray(large), "JPEG", exif=exif, quality=95)
    made = np.asarray(DEFAULT.apply(open_image(content)).image)
    np.testing.assert_allclose(made[8::16, 8::16], SHOWN[value], atol=3)


def test_a_picture_is_turned_once() -> None:
    """The image that a backbone gets has no tag left that it could obey."""
    made = DEFAULT.apply(open_image(tagged(6, "PNG"))).image
    np.testing.assert_array_equal(np.asarray(ImageOps.exif_transpose(made)), SHOWN[6])


def test_a_kept_picture_has_no_tag_left() -> None:
    made = PixelPolicy.chosen("white", "keep").apply(open_image(tagged(6, "PNG"))).image
    np.testing.assert_array_equal(np.asarray(ImageOps.exif_transpose(made)), STORED)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_who_turned_is_noted(form: str) -> None:
    touched = DEFAULT.apply(open_image(tagged(3, form))).touched
    assert touched == (("turned",) if form == "PNG" else ("turned_by_pillow",))


def test_orientation_in_xmp_is_obeyed() -> None:
    text = b'<x:xmpmeta><rdf:Description tiff:Orientation="3"/></x:xmpmeta>'
    content = saved(Image.fromarray(STORED), "PNG", pnginfo=_text("XML:com.adobe.xmp", text))
    made = DEFAULT.apply(open_image(content)).image
    np.testing.assert_array_equal(np.asarray(made), SHOWN[3])


def _text(key: str, value: bytes) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    info.add_itxt(key, value.decode())
    return info


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_a_tag_without_meaning_turns_nothing(value: int) -> None:
    made = DEFAULT.apply(open_image(tagged(value, "PNG")))
    assert made.touched == ()
    assert np.asarray(made.image).tolist() == STORED.tolist()


def test_exif_that_is_damaged_turns_nothing() -> None:
    content = saved(Image.fromarray(STORED), "PNG", exif=b"Exif\0\0nonsense")
    assert DEFAULT.apply(open_image(content)).touched == ("exif_unread",)


def test_profiles_other_than_srgb_are_noted() -> None:
    wide = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    usual = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    touched = [
        DEFAULT.apply(open_image(saved(row("RGB", RED), "PNG", icc_profile=profile))).touched
        for profile in (wide, usual)
    ]
    assert touched == [("profile",), ()]


@pytest.mark.parametrize(
    ("names", "listed"), [("abc", "3 pictures .*(a, b, c)"), ("abcd", "4 pictures .*(a, b, c, …)")]
)
def test_three_pictures_of_one_colour_are_all_named(names: str, listed: str) -> None:
    (said,) = DEFAULT.remarks("in", 9, {}, list(names))
    counted, _, named = listed.partition(" .*")
    assert f"{counted} are nearly one colour after that {named}" in said


def test_a_hundred_pictures_of_one_colour_are_named_in_the_file() -> None:
    names = [f"{i}.png" for i in range(101)]
    entry = DEFAULT.entry({"alpha": 101, "nearly_uniform": 101}, names)
    assert entry["nearly_uniform"] == 101
    assert entry["nearly_uniform_first"] == names[:100]
    assert "nearly_uniform_first" not in DEFAULT.entry({"alpha": 101}, [])


@pytest.mark.parametrize(("other", "faint"), [(115, True), (116, False)])
def test_a_picture_is_nearly_one_colour_below_eight_levels(other: int, faint: bool) -> None:
    """Of 100 and 116 the standard deviation is 8."""
    picture = Image.fromarray(np.array([[100, other]], np.uint8))
    assert _is_faint(picture) is faint
