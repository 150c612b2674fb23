"""Folders and archives of images and sounds with hostile members."""

import io
import os
import shutil
import socket
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hostile import Record, cases, drawn, judge
from PIL import Image
from victim import Outcome, Server

Spoil = Callable[[Path, np.random.Generator], None]


def _image(draw: np.random.Generator, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(draw.integers(0, 255, (12, 12, 3), np.uint8)).save(file, kind)
    return file.getvalue()


def _flipped_images(root: Path, draw: np.random.Generator) -> None:
    for path in list(root.rglob("*.png"))[:3]:
        data = bytearray(path.read_bytes())
        for _ in range(int(draw.integers(1, 9))):
            data[int(draw.integers(len(data)))] = int(draw.integers(256))
        path.write_bytes(data)


def _no_images(root: Path, draw: np.random.Generator) -> None:
    texts = [
        b"",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage",
        b"GIF89a",
        draw.bytes(99),
    ]
    (root / "a" / "bad.png").write_bytes(texts[draw.integers(len(texts))])


def _bomb_image(root: Path, draw: np.random.Generator) -> None:
    data = bytearray(_image(draw))
    data[16:24] = struct.pack(">II", 60000, 60000)
    (root / "a" / "bomb.png").write_bytes(data)


def _sparse(root: Path, _: np.random.Generator) -> None:
    with (root / "a" / "sparse.png").open("wb") as file:
        file.truncate(6 << 30)


def _special(root: Path, draw: np.random.Generator) -> None:
    path = root / "b" / "special.png"
    how = draw.integers(5)
    if how == 0:
        os.mkfifo(path)
    elif how == 1:
        path.symlink_to("/dev/zero")
    elif how == 2:
        path.symlink_to("/dev/random")
    elif how == 3:
        path.symlink_to(path)
    else:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets must be short
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(here)


def _circles(root: Path, _: np.random.Generator) -> None:
    (root / "a" / "one").symlink_to(root)
    (root / "a" / "two").symlink_to(root)


def _names(root: Path, draw: np.random.Generator) -> None:
    for name in ("\x1b[31mred.png", "new\nline.png", "\udcff\udcfe.png", "e\u0301.png", "-x.png"):
        (root / "b" / name).write_bytes(_image(draw))


def _a_sound(root: Path, draw: np.random.Generator) -> None:
    shutil.rmtree(root)
    for folder in ("a", "b"):
        (root / folder).mkdir(parents=True)
        size = int(draw.choice([0, 100, 2**31 - 1, 2**32 - 1]))
        head = b"RIFF" + struct.pack("<I", size) + b"WAVEfmt " + struct.pack(
            "<IHHIIHH", 16, 1, int(draw.choice([0, 1, 65535])), int(draw.choice([0, 16000, 2**31])),
            32000, 2, int(draw.choice([0, 8, 16, 64])),
        )  # fmt: skip
        (root / folder / "s.wav").write_bytes(
            head + b"data" + struct.pack("<I", size) + draw.bytes(64)
        )


def _lists(root: Path, draw: np.random.Generator) -> None:
    texts = [
        "1 ../../../etc/passwd\n",
        "1 /etc/passwd\n",
        "1 a/0.png\n1 a/1.png\n",
        "\xff\n",
        "x\n",
    ]
    for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"):
        text = texts[draw.integers(len(texts))]
        (root / name).write_bytes(text.encode("latin-1"))


def _idx(root: Path, draw: np.random.Generator) -> None:
    for name in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte"):
        (root / name).write_bytes(struct.pack(">IIII", 2051, *draw.integers(0, 2**31, 3)) + b"12")
    for name in ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"):
        (root / name).write_bytes(struct.pack(">II", 2049, int(draw.integers(2**31))) + b"12")


SPOILS: tuple[Spoil, ...] = (
    _flipped_images, _no_images, _bomb_image, _sparse, _special, _circles, _names, _a_sound, _lists,
    _idx,
)  # fmt: skip


def _zipped(root: Path, draw: np.random.Generator) -> Path:
    """The folder as an archive with a hostile member or damaged bytes."""
    path = root.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 20:
                with_name = str(file.relative_to(root)).encode(errors="replace").decode()
                archive.write(file, with_name)
        how = draw.integers(5)
        if how == 0:
            archive.writestr("../../../../tmp/slip.png", _image(draw))
            archive.writestr("/abs.png", _image(draw))
        elif how == 1:
            archive.writestr("a/zeros.png", bytes(300 << 20))
        elif how == 2:
            archive.writestr("a/0.png", _image(draw))  # twice
    data = bytearray(path.read_bytes())
    end = data.rfind(b"PK\x01\x02")
    if how == 3 and end > 0:
        data[end + 8] |= 1  # encrypted
        data[end + 10] = int(draw.choice([8, 99]))  # an unknown method
    elif how == 4:
        for _ in range(20):
            data[int(draw.integers(len(data)))] = int(draw.integers(256))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("numbers", cases(80, 6, batch=20))
def test_sources(
    numbers: list[int], server: Server, tmp_path: Path, record_property: Record
) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("source", number)
        root = tmp_path / f"s{number}"
        for folder in ("a", "b"):
            (root / folder).mkdir(parents=True)
            for k in range(4):
                (root / folder / f"{k}.png").write_bytes(_image(draw))
        SPOILS[number % len(SPOILS)](root, draw)
        source = _zipped(root, draw) if draw.integers(3) == 0 else root
        words = ("extract", source, "--backbone", "pixels", "--size", "8", "--quiet")
        if number % len(SPOILS) == SPOILS.index(_a_sound):
            words = ("extract", source, "--backbone", "log-mel", "--quiet")
        yield server.run(*words, "--out", tmp_path / f"{number}.h5")
        yield server.run(*words, "--out", tmp_path / f"{number}s.h5", "--skip-bad")
        shutil.rmtree(root, ignore_errors=True)

    judge("sources", numbers, trial, record_property)
