"""TFRecords written byte by byte, as the formats' descriptions say."""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path


def divided(byte: int) -> int:
    """Eight steps of the reflected polynomial division."""
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [divided(byte) for byte in range(256)]


def crc(data: bytes) -> int:
    """CRC-32C, a byte a step."""
    state = 0xFFFFFFFF
    for byte in data:
        state = (state >> 8) ^ TABLE[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


def masked(value: int) -> bytes:
    rotated = (value >> 15) | (value << 17 & 0xFFFFFFFF)
    return struct.pack("<I", (rotated + 0xA282EAD8) % 2**32)


def framed(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + masked(crc(length)) + data + masked(crc(data))


def write_records(path: Path, examples: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(framed(data) for data in examples))
    return path


def varint(value: int) -> bytes:
    out = []
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def part(number: int, data: bytes) -> bytes:
    """A field of a message, with its length."""
    return varint(number * 8 + 2) + varint(len(data)) + data


def bytes_feature(*values: bytes) -> bytes:
    return part(1, b"".join(part(1, value) for value in values))


def float_feature(value: float) -> bytes:
    return part(2, part(1, struct.pack("<f", value)))


def int_feature(values: Sequence[int], *, packed: bool = True) -> bytes:
    if packed:
        return part(3, part(1, b"".join(varint(value) for value in values)))
    return part(3, b"".join(varint(1 * 8 + 0) + varint(value) for value in values))


def entries(features: dict[str, bytes]) -> bytes:
    """A map from names to messages."""
    return b"".join(part(1, part(1, k.encode()) + part(2, v)) for k, v in features.items())


def clip(video: str, labels: Sequence[int], frames: Sequence[bytes] = (bytes(128),) * 10) -> bytes:
    """A record of AudioSet."""
    context = {
        "video_id": bytes_feature(video.encode()),
        "start_time_seconds": float_feature(30),
        "end_time_seconds": float_feature(40),
        "labels": int_feature(labels),
    }
    lists = {"audio_embedding": b"".join(part(1, bytes_feature(frame)) for frame in frames)}
    return part(1, entries(context)) + part(2, entries(lists))
