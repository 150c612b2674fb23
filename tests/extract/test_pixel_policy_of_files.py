"""Files of pictures: channels, what is said, and what recipe and provenance keep of the policy."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_pictures import row, saved, tiff
from pixel_cases import BLUE, CASES, SHOWN, WHITE, colours, tagged
from scipy.io import wavfile

from embedbench.errors import UserError
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.inspect import card, card_text
from embedbench.files.resumable_file import Partial


def folder(root: Path, **classes: bytes) -> str:
    """A folder with one file a class; each is called PNG, whatever it is."""
    for name, content in classes.items():
        (root / name).mkdir(parents=True)
        (root / name / "0.png").write_bytes(content)
    return str(root)


def test_a_folder_of_all_of_them(tmp_path: Path) -> None:
    """Through the whole pipeline, in an order where the first pictures are grey."""
    for i, (name, (content, _, _)) in enumerate(CASES.items()):
        path = tmp_path / "in" / "ab"[i % 2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    file = extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="none", notify=lambda _: None)
    expected = [colours(CASES[name[2:]][1]) for name in file.sample_ids]
    np.testing.assert_array_equal(file.images(), expected)
    counts = file.provenance["pictures"]
    rules = [rule for _, _, touched in CASES.values() for rule in touched]
    assert {rule: counts[rule] for rule in {*rules}} == {rule: rules.count(rule) for rule in rules}


def test_a_refused_picture_is_named(tmp_path: Path) -> None:
    source = folder(
        tmp_path / "in", a=tiff(1, 32, 1, struct.pack("<f", 1), number=3), b=CASES["grey.png"][0]
    )
    with pytest.raises(UserError, match=r"a/0\.png of in cannot be used \(floating-point pixels"):
        extract(source, tmp_path / "a.h5", backbone="none", notify=lambda _: None)


def test_options_of_images_are_refused_for_sounds(tmp_path: Path) -> None:
    file = io.BytesIO()
    wavfile.write(file, 16_000, np.zeros(16_000, np.int16))
    for name in "ab":
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "0.wav").write_bytes(file.getvalue())
    with pytest.raises(UserError, match="--alpha and --orientation are for images"):
        extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="log-mel", alpha="black")


def test_the_first_picture_is_turned_before_its_size_is_taken(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a=tagged(6, "PNG"), b=tagged(8, "PNG"))
    file = extract(source, tmp_path / "a.h5", backbone="none", notify=lambda _: None)
    expected = np.stack([SHOWN[6], SHOWN[8]])[..., None]
    np.testing.assert_array_equal(file.images(), expected)


def test_rows_of_datasets_are_what_it_shows(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["x", "y"])}
    )
    contents = [tagged(value, "PNG") for value in (2, 3, 4, 1)]
    rows = {"image": [{"bytes": c, "path": None} for c in contents], "label": [0, 1, 0, 1]}
    (tmp_path / "set").mkdir()
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(str(tmp_path / "set/train.parquet"))
    source = f"hfds/{tmp_path / 'set'}"
    file = extract(source, tmp_path / "a.h5", backbone="none", notify=lambda _: None)
    shown = [np.asarray(made[i]["image"])[..., None] for i in range(4)]
    np.testing.assert_array_equal(file.images(), shown)


# --- grey or colour: not by the first picture alone ---


@pytest.mark.parametrize(
    ("first", "then", "channels"),
    [
        ("grey.png", "rgb.png", 3),
        ("rgb.png", "grey.png", 3),
        ("grey.png", "palette.png", 3),
        ("grey.png", "cmyk.tif", 3),
        ("grey.png", "la.png", 3),
        ("la.png", "grey.png", 3),
        ("grey.png", "one_bit.png", 1),
        ("grey.png", "deep.png", 1),
        ("deep.png", "grey_key.png", 1),
        ("one_bit.png", "deep.pgm", 1),
    ],
)
def test_channels_of_a_mixed_folder(tmp_path: Path, first: str, then: str, channels: int) -> None:
    source = folder(tmp_path / "in", a=CASES[first][0], b=CASES[then][0])
    file = extract(source, tmp_path / "a.h5", backbone="none", notify=lambda _: None)
    expected = np.stack([colours(CASES[name][1]) for name in (first, then)])[..., :channels]
    np.testing.assert_array_equal(file.images(), expected)


def test_greys_are_stored_in_colour_on_a_ground_of_colour(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a=CASES["grey.png"][0], b=CASES["grey_key.png"][0])
    options: dict[str, Any] = {"backbone": "none", "alpha": "#0000ff", "notify": lambda _: None}
    file = extract(source, tmp_path / "a.h5", **options)
    np.testing.assert_array_equal(file.images()[1], colours([BLUE, 8, BLUE, 0]))


# --- what is said, and what the file keeps ---


WHITE_DRAWING = saved(row("RGBA", (*WHITE, 255), (*WHITE, 0), (*WHITE, 99), (*WHITE, 9)), "PNG")


def told(source: str, out: Path, **options: Any) -> tuple[EmbeddingFile, list[str]]:
    """The pixel file of a folder, and what was said on its pictures."""
    said: list[str] = []
    file = extract(source, out, backbone="none", notify=said.append, **options)
    return file, [line for line in said if " pictures" in line]


def test_pictures_of_one_colour_are_named(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a=WHITE_DRAWING, b=CASES["rgba.png"][0])
    _, said = told(source, tmp_path / "a.h5")
    assert said[0] == "in: of 2 pictures, 2 have transparent pixels: laid on white."
    assert said[1].startswith("in: 1 pictures are nearly one colour after that (a/0.png)")


def test_on_black_a_white_drawing_is_seen(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a=WHITE_DRAWING, b=CASES["rgba.png"][0])
    file, _ = told(source, tmp_path / "a.h5", alpha="black")
    assert file.provenance["pictures"]["nearly_uniform"] == 0


def test_nothing_is_said_of_usual_pictures(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a=CASES["rgb.png"][0], b=CASES["opaque_rgba.png"][0])
    assert told(source, tmp_path / "a.h5")[1] == []


PLAIN = {  # the preprocessing of pixel files before there was a policy
    "layout": "height, width, channels",
    "color": "Pillow convert: alpha is dropped",
    "channels": "RGB",
}
ON_GROUND = PLAIN | {"color": "Pillow convert"}


@pytest.mark.parametrize(
    ("name", "options", "recipe"),
    [
        ("opaque_rgba.png", {}, PLAIN),
        ("frames.gif", {}, PLAIN),
        ("deep_rgb.png", {}, PLAIN),
        ("rgba.png", {}, ON_GROUND | {"pixel_policy": {"alpha": "on white"}}),
        ("rgba.png", {"alpha": "#FFFFFF"}, ON_GROUND | {"pixel_policy": {"alpha": "on white"}}),
        ("rgba.png", {"alpha": "black"}, ON_GROUND | {"pixel_policy": {"alpha": "on black"}}),
        ("rgba.png", {"alpha": "drop"}, PLAIN),
        ("opaque_rgba.png", {"alpha": "black", "orientation": "keep"}, PLAIN),
    ],
)
def test_a_recipe_has_the_rules_that_touched_a_picture(
    tmp_path: Path, name: str, options: dict[str, str], recipe: dict[str, Any]
) -> None:
    source = folder(tmp_path / "in", a=CASES[name][0], b=CASES["rgb.png"][0])
    assert told(source, tmp_path / "a.h5", **options)[0].provenance["preprocessing"] == recipe


@pytest.mark.parametrize(
    ("orientation", "rules"), [("turn", {"turned": "by EXIF"}), ("keep", None)]
)
def test_a_recipe_has_what_was_turned(
    tmp_path: Path, orientation: str, rules: dict[str, str] | None
) -> None:
    source = folder(tmp_path / "in", a=tagged(3, "PNG"), b=tagged(1, "PNG"))
    file, _ = told(source, tmp_path / "a.h5", orientation=orientation)
    assert file.provenance["preprocessing"].get("pixel_policy") == rules


def test_inspect_shows_the_counts(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a=tagged(3, "PNG"), b=tagged(1, "PNG"))
    file, _ = told(source, tmp_path / "a.h5")
    (line,) = [x for x in card_text(card(file)).splitlines() if x.startswith("pictures")]
    assert line.split(maxsplit=1)[1] == "turned 1 (alpha white, orientation turn)"


def test_counts_and_recipe_are_of_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last of three blocks has a transparent picture; workers make the same file."""
    monkeypatch.setattr(Partial, "BLOCK", 4)
    root = tmp_path / "in" / "a"
    root.mkdir(parents=True)
    for i in range(11):
        (root / f"{i:02d}.png").write_bytes(CASES["rgba.png" if i == 10 else "rgb.png"][0])
    file, _ = told(str(tmp_path / "in"), tmp_path / "a.h5", batch_size=4)
    assert file.provenance["pictures"]["alpha"] == 1
    assert file.provenance["preprocessing"]["pixel_policy"] == {"alpha": "on white"}


def test_work_of_another_policy_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second block is damaged; what was begun on white does not go on with black."""
    monkeypatch.setattr(Partial, "BLOCK", 4)
    root = tmp_path / "in" / "a"
    root.mkdir(parents=True)
    for i in range(8):
        (root / f"{i}.png").write_bytes(CASES["rgba.png"][0])
    (root / "7.png").write_bytes(b"damaged")
    options: dict[str, Any] = {"backbone": "none", "batch_size": 4}
    with pytest.raises(UserError, match=r"7\.png"):
        extract(str(tmp_path / "in"), tmp_path / "a.h5", **options)
    with pytest.raises(UserError, match="unfinished work of another job"):
        extract(str(tmp_path / "in"), tmp_path / "a.h5", alpha="black", **options)
