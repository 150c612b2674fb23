"""Sources of images and sounds that were made to do harm; each builder needs a few milliseconds.

Every one puts one bad file or member called `bad` beside three good ones.
"""

import gzip
import io
import os
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.io import wavfile


def image(
    form: str = "PNG", size: tuple[int, int] = (6, 5), value: int = 0, **options: Any
) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (value, value, 7)).save(out, form, **options)
    return out.getvalue()


def split_of(source: Any) -> list[int]:
    split: list[int] = source.split.tolist()
    return split


def sound(value: int = 0) -> bytes:
    out = io.BytesIO()
    wavfile.write(out, 16000, np.full(16000, value, np.int16))
    return out.getvalue()


def good(root: Path, suffix: str = ".png") -> Path:
    """Three good images or sounds in two classes."""
    for number, name in enumerate(("cat/1", "cat/2", "dog/3")):
        path = root / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(value=number) if suffix == ".png" else sound(number))
    return root


def png(chunks: bytes = b"", size: tuple[int, int] = (6, 5)) -> bytes:
    """A PNG with other chunks before its pixels, whose header names a size."""
    data = image()
    head = struct.pack(">II", *size) + data[24:29]
    return data[:8] + chunk(b"IHDR", head) + chunks + data[33:]


def chunk(name: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def progressive(scans: int) -> bytes:
    """A progressive JPEG whose last scan is repeated."""
    data = image("JPEG", (32, 32), progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * scans + data[-2:]


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(name + struct.pack("<I", len(data)) + data for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def form(channels: int = 1, rate: int = 16000, align: int = 2, bits: int = 16) -> bytes:
    return struct.pack("<HHIIHH", 1, channels, rate, rate * align, align, bits)


EPS = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n"
    b"(/tmp/hostile) (w) file closefile showpage\n%%EOF\n"
)
PCM = bytes(32000)

# Bytes under the name of an image or a sound, and a part of the reason that is given.
BYTES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty.png": (lambda: b"", "not an image"),
    "eps.png": (lambda: EPS, "not an image"),
    "bomb.png": (lambda: png(size=(50000, 50000)), "at most 52,428,800"),
    "between-warning-and-error.png": (lambda: png(size=(11000, 11000)), "at most 52,428,800"),
    "thin.png": (lambda: png(size=(1, 9999)), "200 times"),
    "long-chunk.png": (lambda: png(chunk(b"abCd", bytes(51_000))), "too many chunks"),
    "chunks.png": (lambda: png(chunk(b"abCd") * 1000), "too many chunks"),
    "truncated.png": (lambda: image()[:-30], "truncated"),
    "scans.jpg": (lambda: progressive(500), "a JPEG of 5"),
    "text.ppm": (lambda: b"P3\n2 2\n255\n" + b"#\n" * 1000 + b"1 " * 12, "written as text"),
    "size.wav": (lambda: riff((b"fmt ", form()), (b"data", b""))[:-4] + b"\xff" * 4, "no sound"),
    "cut.wav": (lambda: sound()[:-9], "cut short"),
    "channels.wav": (lambda: riff((b"fmt ", form(channels=0)), (b"data", PCM)), "not a WAV"),
    "rate.wav": (lambda: riff((b"fmt ", form(rate=0)), (b"data", PCM)), "0 samples a second"),
    "chunks.wav": (
        lambda: riff(*[(b"junk", b"")] * 20000, (b"fmt ", form()), (b"data", PCM)),
        "too many chunks",
    ),
    "png.wav": (image, "not a WAV"),
}


def unix_socket(path: Path) -> None:
    """The name of a socket has at most 107 bytes, so it is given from its directory."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.fchdir(before)
        os.close(before)


def sparse(path: Path) -> None:
    """A hole of 4 TB."""
    with path.open("wb") as file:
        file.truncate(2**42)


PLACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "fifo": (os.mkfifo, "not a regular file"),
    "socket": (unix_socket, "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "link-to-nothing": (lambda path: path.symlink_to("gone"), "a link to nothing"),
    "link-to-itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "sparse": (sparse, "4,398,046,511,104 bytes"),
}


def archive(path: Path, *members: tuple[str, bytes], **options: Any) -> bytes:
    """Write good members and bad ones; `options` are those of the bad."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for number, name in enumerate(("cat/1.png", "cat/2.png", "dog/3.png")):
            file.writestr(name, image(value=number))
        for name, data in members:
            file.writestr(name, data, **options)
    return path.read_bytes()


def patched(path: Path, content: bytes = b"", **fields: int) -> None:
    """Change fields of the bad member, in its local header and in the directory."""
    data = bytearray(archive(path, ("cat/bad.png", content or image())))
    # field: (format, offset in the local header, offset in the directory's entry)
    places = {"flags": ("<H", 6, 8), "method": ("<H", 8, 10), "size": ("<I", 22, 24)}
    local, entry = data.rindex(b"PK\3\4"), data.rindex(b"PK\1\2")
    for field, value in fields.items():
        form, in_header, in_entry = places[field]
        struct.pack_into(form, data, local + in_header, value)
        struct.pack_into(form, data, entry + in_entry, value)
    path.write_bytes(data)


MEMBERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "encrypted": (lambda path: patched(path, flags=1), "encrypted"),
    "strongly-encrypted": (lambda path: patched(path, flags=0x41), "encrypted"),
    "patch": (lambda path: patched(path, flags=0x20), "patch of another"),
    "method": (lambda path: patched(path, method=99), "compression method 99"),
    "bzip2": (
        lambda path: archive(path, ("cat/bad.png", image()), compress_type=zipfile.ZIP_BZIP2),
        "compression method 12",
    ),
    "large": (lambda path: patched(path, size=2**32 - 2), "4,294,967,294 bytes"),
    "larger-than-it-says": (lambda path: patched(path, size=20), "Bad CRC-32"),
    "above": (lambda path: archive(path, ("../bad.png", image())), "leads out"),
    "above-inside": (lambda path: archive(path, ("cat/../../bad.png", image())), "leads out"),
    "absolute": (lambda path: archive(path, ("/cat/bad.png", image())), "leads out"),
    "long": (lambda path: archive(path, (f"cat/bad{'x' * 60000}.png", image())), "60,011 bytes"),
    "deep": (lambda path: archive(path, ("a/" * 40 + "bad.png", image())), "40 folders deep"),
    "twice": (
        lambda path: archive(path, ("cat/bad.png", image()), ("cat/./bad.png", EPS)),
        "more than once",
    ),
}


def not_utf8(path: Path) -> None:
    data = archive(path, ("cat/bäd.png", image()))
    path.write_bytes(data.replace("bäd.png".encode(), b"b\xff\xfed.png"))


def overlapping(path: Path) -> None:
    """Two entries of the directory for the same bytes, as in bombs of a few kilobytes."""
    data = bytearray(archive(path, ("cat/bad.png", image())))
    entries = [at for at in range(len(data)) if data[at : at + 4] == b"PK\1\2"]
    data[entries[1] + 42 : entries[1] + 46] = data[entries[0] + 42 : entries[0] + 46]
    path.write_bytes(data)


def version(path: Path) -> None:
    """A member that only a later version of the format can unpack."""
    data = bytearray(archive(path, ("cat/bad.png", image())))
    data[data.rindex(b"PK\1\2") + 6] = 99
    path.write_bytes(data)


def idx(root: Path, *, declared: int = 3, there: int = 3) -> None:
    """MNIST's four files; the training images name a number that may not be there."""
    root.mkdir()
    for part, count, held in (("train", declared, there), ("t10k", 3, 3)):
        head = struct.pack(">4I", 0x803, count, 2, 2)
        (root / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(4 * held)))
        head = struct.pack(">2I", 0x801, count)
        (root / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(head + bytes(held)))


def cub(root: Path, first: str = "cat/1.png", *, names: bytes = b"1 cat\n2 dog\n") -> None:
    """CUB-200-2011's lists, whose first image lies where one likes."""
    good(root / "images")
    (root / "classes.txt").write_bytes(names)
    paths = [first, "cat/2.png", "dog/3.png"]
    lists = {
        "images": [f"{i} {path}" for i, path in enumerate(paths)],
        "image_class_labels": ["0 1", "1 1", "2 2"],
        "train_test_split": ["0 1", "1 0", "2 1"],
    }
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("\n".join(lines))


WHOLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a-fifo": (os.mkfifo, "not a regular file"),
    "a-link-to-itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "a-link-to-nothing": (lambda path: path.symlink_to("gone"), "a link to nothing"),
    "an-empty-folder": (lambda path: path.mkdir(), "no image"),
    "text": (lambda path: path.write_text("PK\3\4"), "neither a folder"),
    "names-that-are-not-utf8": (not_utf8, "(UnicodeDecodeError"),
    "members-that-overlap": (overlapping, "members overlap"),
    "a-later-version": (version, "a zip archive"),
    "idx-of-a-terabyte": (lambda path: idx(path, declared=2**32 - 1), "cut short"),
    "idx-that-is-short": (lambda path: idx(path, there=2), "cut short"),
    "idx-that-is-long": (lambda path: idx(path, there=3 * 10**6), "cut short"),
    "cub-names": (lambda path: cub(path, names=b"1 c\xfft\n"), "file in UTF-8"),
}

BAD = {name: reason for name, (_, reason) in (BYTES | PLACES | MEMBERS).items()}


def spoil(name: str, root: Path) -> None:
    """Make a source of three good samples and a bad one, or one of `WHOLE`."""
    if whole := (MEMBERS | WHOLE).get(name):
        whole[0](root)
    elif name in PLACES:
        PLACES[name][0](good(root) / "cat/bad.png")
    else:
        suffix = Path(name).suffix
        good(root, ".wav" if suffix == ".wav" else ".png")
        (root / f"cat/bad{suffix}").write_bytes(BYTES[name][0]())
