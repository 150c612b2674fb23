"""What is a sample below a folder or in an archive, and how the rest is said."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hostile_sources import image, sound
from PIL import Image

from embedbench.errors import UserError
from embedbench.extract.content_kinds import content_kind
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.extract.sound_files import read_sound
from embedbench.extract.source import open_image


def put(root: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def packed(root: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(root / "in.zip", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return root / "in.zip"


def written(form: str, subtype: str | None = None) -> bytes:
    """Half a second of noise."""
    out = io.BytesIO()
    noise = 0.1 * np.random.default_rng(0).normal(size=24000).astype(np.float32)
    soundfile.write(out, noise, 48000, format=form, subtype=subtype)
    return out.getvalue()


# --- images by content ---

READ = {
    "cat.jfif": "JPEG",
    "cat": "JPEG",
    "cat.JPE": "JPEG",
    "cat.jif": "JPEG",
    "cat.jpg_large": "JPEG",
    "cat.apng": "PNG",
    "cat.1": "PNG",
    "cat.dib": "BMP",
    "cat.pnm": "PPM",
    "cat.giff": "GIF",
    "cat.pic": "WEBP",
    "0001_tiff": "TIFF",
}


@pytest.mark.parametrize("name", READ)
def test_an_image_is_read_whatever_its_suffix(tmp_path: Path, name: str) -> None:
    """Its pixels are those that Pillow reads."""
    content = image(READ[name], value=90)
    source = open_source(str(put(tmp_path, {f"a/{name}": content})))
    assert source.ids == (f"a/{name}",)
    expected = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    assert np.array_equal(np.asarray(open_image(source.read(0)).convert("RGB")), expected)


# Contents that are no image of a format that is read, or that only begin like one.
NOT_READ = {
    "a.avif": image("AVIF"),
    "a.jp2": image("JPEG2000"),
    "a.tga": image("TGA"),
    "a.ico": image("ICO"),
    "a.qoi": image("QOI"),
    "raw.nef": image("TIFF"),  # of a camera: what Pillow would read is a preview
    "slide.svs": image("TIFF"),
    "a.heic": b"\0\0\0\x18ftypheic" + bytes(40),
    "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "a.eps": b"%!PS-Adobe-3.0 EPSF-3.0",
    "README": b"BMW, P5 and PNG are no images here",
    "utf16": "a text".encode("utf-16"),
    "movie.avi": b"RIFF\x10\0\0\0AVI LIST",
    "movie.ogv": b"OggS" + bytes(24) + b"\x80theora",
    "empty": b"",
    "labels.txt": image(),  # a text, it says
}


@pytest.mark.parametrize("name", NOT_READ)
def test_other_files_are_counted(tmp_path: Path, name: str) -> None:
    source = open_source(str(put(tmp_path, {"a/1.png": image(), f"a/{name}": NOT_READ[name]})))
    suffix = os.path.splitext(name)[1] or "without a suffix"
    assert source.left_out == (f"1 files that are not read as images: 1 {suffix} (first a/{name})",)


MIXED = {
    "cat/1.png": image(value=1),
    "cat/2.heic": b"x",
    "cat/3.heic": b"x",
    "owl/1.HEIC": b"x",
    "owl/1.xml": b"<a/>",
    "cat/Thumbs.db": b"x",
    ".DS_Store": b"x",
    ".net/1.png": image(value=2),
}


def takers() -> list[Any]:
    return [pytest.param(put, id="folder"), pytest.param(packed, id="zip")]


@pytest.mark.parametrize("make", takers())
def test_what_is_left_out_is_said(tmp_path: Path, make: Callable[..., Path]) -> None:
    """Suffixes with their numbers, a class that is empty now, hidden files."""
    source = open_source(str(make(tmp_path, MIXED)))
    hidden = ".net" if make is put else ".net/1.png"
    assert source.ids == ("cat/1.png",)
    assert source.left_out == (
        "4 files that are not read as images: 3 .heic, 1 .xml (first cat/2.heic)",
        "folders without a sample: owl",
        f"hidden files, folders and litter: .DS_Store, {hidden}, cat/Thumbs.db",
    )


def test_of_folders_without_a_sample_ten_are_named(tmp_path: Path) -> None:
    names = [f"n{i:02}" for i in range(12)]
    files = {"cat/1.png": image(), **{f"{name}/1.xml": b"<a/>" for name in names}}
    said = open_source(str(put(tmp_path, files))).left_out[1]
    assert said == f"folders without a sample: {', '.join(names[:10])} and 2 more"


@pytest.mark.parametrize("make", takers())
def test_nothing_is_said_where_nothing_is_left_out(
    tmp_path: Path, make: Callable[..., Path]
) -> None:
    assert open_source(str(make(tmp_path, {"a/1.png": image()}))).left_out == ()


def test_a_source_without_samples_says_what_it_holds(tmp_path: Path) -> None:
    put(tmp_path, {"a/1.heic": b"x", "b/2.heic": b"x"})
    with pytest.raises(UserError, match=r"no image .*, but 2 \.heic \(first a/1\.heic\)"):
        open_source(str(tmp_path))


def test_links_to_what_is_read_already_are_said(tmp_path: Path) -> None:
    put(tmp_path, {"a/1.png": image()})
    (tmp_path / "b").symlink_to("a")
    (said,) = open_source(str(tmp_path)).left_out
    assert said == "links to folders that are read under another name: b"


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    put(tmp_path, {"a/1.png": image()})
    os.mkfifo(tmp_path / "a/fifo")
    (tmp_path / "a/gone").symlink_to("nowhere")
    (said,) = open_source(str(tmp_path)).left_out
    assert said.startswith("2 files that are not read as images: 2 without a suffix")


def test_an_encrypted_member_of_another_suffix_is_counted(tmp_path: Path) -> None:
    archive = packed(tmp_path, {"a/1.png": image(), "a/2.jfif": image("JPEG")})
    data = bytearray(archive.read_bytes())
    data[data.rindex(b"PK\1\2") + 8] |= 1
    archive.write_bytes(data)
    assert "1 .jfif" in open_source(str(archive)).left_out[0]


# --- names in archives ---


def renamed(root: Path, name: bytes) -> Path:
    """Write an archive whose one member has a name that is not marked as UTF-8."""
    stand_in = "x" * len(name)
    archive = packed(root, {stand_in: image()})
    archive.write_bytes(archive.read_bytes().replace(stand_in.encode(), name))
    return archive


def test_names_as_macos_packs_them(tmp_path: Path) -> None:
    assert open_source(str(renamed(tmp_path, "café/1.png".encode()))).classes == ("café",)


def test_names_in_an_unknown_encoding_are_said(tmp_path: Path) -> None:
    source = open_source(str(renamed(tmp_path, "café/1.png".encode("cp1252"))))
    assert "names in no encoding that is known" in source.remark


# --- sounds by content ---

SOUNDS = {
    "1.opus": ("OGG", "OPUS"),
    "1.oga": ("OGG", "VORBIS"),
    "1.aiff": ("AIFF", "PCM_16"),
    "1.AIF": ("AIFF", "PCM_24"),
    "1.aifc": ("AIFF", "FLOAT"),
    "1.au": ("AU", "PCM_16"),
    "1.snd": ("AU", "FLOAT"),
    "1": ("FLAC", None),
    "1.mpga": ("MP3", None),
    "1.rf64": ("RF64", None),
    "1.wav_old": ("WAV", None),
}


@pytest.mark.parametrize("name", SOUNDS)
def test_a_sound_is_read_whatever_its_suffix(tmp_path: Path, name: str) -> None:
    """Its samples are those that soundfile reads."""
    content = written(*SOUNDS[name])
    source = open_source(str(put(tmp_path, {f"a/{name}": content})))
    rate, samples = read_sound(source.read(0), 10)
    expected, expected_rate = soundfile.read(io.BytesIO(content), dtype="float32")
    assert source.holds == "sounds"
    assert rate == expected_rate
    assert np.array_equal(samples, expected)


@pytest.mark.parametrize("form", ["AIFF", "AU"])
def test_a_sound_that_is_cut_short_is_bad(form: str) -> None:
    content = written(form)
    with pytest.raises(ValueError, match="cut short"):
        read_sound(content[: len(content) // 2], 10)


def test_a_bad_sound_is_called_so_without_an_address() -> None:
    with pytest.raises(ValueError, match="libsndfile reads: ") as caught:
        read_sound(b"OggS" + bytes(60), 10)
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize("rate", range(16))
def test_an_mpeg_frame_has_a_bit_rate(rate: int) -> None:
    """1 to 14 are 32 to 320 kbit/s in layer III of MPEG-1; 0 is free, 15 forbidden."""
    frame = bytes([0xFF, 0xFB, rate << 4, 0])
    assert content_kind(frame, "") == ("sounds" if 1 <= rate <= 14 else "")


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\xff\xfb\x90\x00", True),  # MPEG-1, layer III
        (b"\xff\xf3\x90\x00", True),  # MPEG-2
        (b"\xff\xe3\x90\x00", True),  # MPEG-2.5
        (b"\xff\xeb\x90\x00", False),  # no version has the number 1
        (b"\xff\xfd\x90\x00", True),  # layer II
        (b"\xff\xff\x90\x00", False),  # layer I
        (b"\xff\xf9\x90\x00", False),  # no layer
        (b"\xff\xfb\x98\x00", True),  # 32 kHz
        (b"\xff\xfb\x9c\x00", False),  # no rate has the number 3
        (b"\xff\xdb\x90\x00", False),  # no eleven bits
        (b"\xfe\xfb\x90\x00", False),
        (b"\xff\xfb\x90", False),
    ],
)
def test_bits_of_an_mpeg_frame(head: bytes, found: bool) -> None:
    assert content_kind(head, "") == ("sounds" if found else "")


def test_sounds_that_are_not_read_are_counted(tmp_path: Path) -> None:
    files = {"a/1.wav": sound(), "b/1.m4a": b"\0\0\0\x20ftypM4A " + bytes(40)}
    assert open_source(str(put(tmp_path, files))).left_out == (
        "1 files that are not read as sounds: 1 .m4a (first b/1.m4a)",
        "folders without a sample: b",
    )


# --- the line that an extraction prints ---


def lines(source: Path, out: Path, **options: Any) -> tuple[list[str], list[str]]:
    """Return what `notify` and `inform` are told."""
    notify, inform = list[str](), list[str]()
    options |= {"notify": notify.append, "inform": inform.append, "split": "0.5"}
    extract(str(source), out, backbone="pixels", size=2, overwrite=True, **options)
    return notify, inform


def three(root: Path) -> Path:
    return put(root, {f"{c}/{i}.png": image(value=9 * i) for c in "ab" for i in (1, 2)})


def test_an_extraction_says_what_it_took(tmp_path: Path) -> None:
    _, inform = lines(three(tmp_path / "in"), tmp_path / "a.h5")
    assert len(inform) == 1
    assert inform[0].startswith("took 4 images of 2 classes; split (0.5 in test by hash of stem")


def test_what_is_left_out_is_a_message(tmp_path: Path) -> None:
    put(three(tmp_path / "in"), {"a/note.xyz": b"x"})
    notify, inform = lines(tmp_path / "in", tmp_path / "a.h5")
    assert inform == []
    assert "left out 1 files that are not read as images: 1 .xyz" in notify[0]


def test_a_class_without_a_good_sample_is_named(tmp_path: Path) -> None:
    put(three(tmp_path / "in"), {"owl/1.png": b"<html>"})
    notify, _ = lines(tmp_path / "in", tmp_path / "a.h5", skip_bad=True)
    assert "left out 1 images that cannot be used, first owl/1.png; no sample is left of owl." in (
        notify
    )
