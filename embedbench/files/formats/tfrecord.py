"""TFRecord files of tf.train.SequenceExample, read without TensorFlow.

**Source** A TFRecord file is a row of records: the length as an unsigned little-endian 64-bit
integer, the masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data (TensorFlow's
``tfrecord`` format; CRC-32C as in RFC 3720, masked by a rotation and a constant). The data is a
protocol buffer: a varint key (field number · 8 + wire type), the value, and so on. A
``SequenceExample`` holds the context (field 1) and the feature lists (field 2), each a map (field
1) from a name (1) to a value (2); a ``Feature`` is one of a list of bytes (1), floats (2) or 64-bit
integers (3), whose values are field 1.

**Departs** Lists of floats are passed over: AudioSet's two, the start and end of a clip, are not
needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError

_TOGETHER = 1024  # records whose checksums are computed side by side
_VARINT, _EIGHT_BYTES, _WITH_LENGTH, _FOUR_BYTES = 0, 1, 2, 5  # wire types


class Record(NamedTuple):
    """One record: its file, its first byte there, its length as written, its data, both sums."""

    path: Path
    offset: int
    length: bytes
    data: bytes
    sums: tuple[int, int]


def records(paths: Iterable[Path]) -> Iterator[Record]:
    """Yield all records of files, in order, each after its two checksums were found right.

    Raises
    ------
    UserError
        A file ends within a record, or a checksum is wrong.
    """
    return _verified(_walk(paths))


def records_at(places: Iterable[tuple[Path, int]]) -> Iterator[Record]:
    """Yield the records at (file, first byte), as ``records`` does."""
    return _verified(_fetch(places))


def _walk(paths: Iterable[Path]) -> Iterator[Record]:
    for path in paths:
        size = path.stat().st_size
        with path.open("rb") as file:
            while file.tell() < size:
                yield _read(file, path, size)


def _fetch(places: Iterable[tuple[Path, int]]) -> Iterator[Record]:
    for path, offset in places:
        with path.open("rb") as file:
            file.seek(offset)
            yield _read(file, path, path.stat().st_size)


def _read(file: BinaryIO, path: Path, size: int) -> Record:
    offset = file.tell()
    head = file.read(12)
    length = int.from_bytes(head[:8], "little")
    if len(head) < 12 or offset + 12 + length + 4 > size:
        raise UserError(
            f"{path} ends within the record at byte {offset}: it is cut short, or no TFRecord "
            "file; fetch it again."
        )
    data = file.read(length)
    sums = int.from_bytes(head[8:], "little"), int.from_bytes(file.read(4), "little")
    return Record(path, offset, head[:8], data, sums)


def _verified(found: Iterator[Record]) -> Iterator[Record]:
    while batch := list(islice(found, _TOGETHER)):
        stated = np.array([record.sums for record in batch], np.uint32).T.ravel()
        sums = masked(crc32c([r.length for r in batch] + [r.data for r in batch]))
        wrong = np.flatnonzero(sums != stated)
        if len(wrong):
            bad = batch[int(min(wrong % len(batch)))]
            raise UserError(
                f"{bad.path}: the record at byte {bad.offset} does not match its checksum; fetch "
                "the file again."
            )
        yield from batch


def _table() -> NDArray[np.uint32]:
    """Return what a byte does to the state: 256 remainders by the Castagnoli polynomial."""
    state = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        state[:] = (state >> 1) ^ (state & 1) * np.uint32(0x82F63B78)
    return state


_TABLE = _table()


def crc32c(texts: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return the CRC-32C of each of one or more texts.

    The texts stand side by side, longest first, and a step takes one byte of each, so that NumPy
    does for a thousand texts what would take Python a step a byte.

    >>> [hex(value) for value in crc32c([b"123456789", b""])]
    ['0xe3069283', '0x0']
    """
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    lengths = np.array([len(texts[i]) for i in order])
    columns = np.zeros((lengths[0], len(texts)), np.uint8)
    for place, i in enumerate(order):
        columns[: len(texts[i]), place] = np.frombuffer(texts[i], np.uint8)
    # how many texts have a byte number 0, 1, …
    reach = np.searchsorted(-lengths, -np.arange(len(columns)), side="left")
    state = np.full(len(texts), 0xFFFFFFFF, np.uint32)
    for column, count in zip(columns, reach.tolist(), strict=True):
        part = state[:count]
        part[:] = _TABLE[(part ^ column[:count]) & 0xFF] ^ (part >> 8)
    out = np.empty_like(state)
    out[order] = ~state
    return out


def masked(sums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return checksums as TFRecord files hold them: rotated right by 15 bits, plus a constant."""
    rotated = (sums >> np.uint32(15)) | (sums << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def sequence_example(data: bytes) -> tuple[dict[str, list[Any]], dict[str, list[list[Any]]]]:
    """Return the context and the feature lists of a SequenceExample, by name.

    A feature is a list of bytes or of integers (of none where it holds floats); a feature list is
    a list of features.

    Raises
    ------
    ValueError
        The data is no such message.
    """
    context: dict[str, list[Any]] = {}
    lists: dict[str, list[list[Any]]] = {}
    try:
        for number, part in _fields(data):
            if number == 1:
                context |= {name: _feature(value) for name, value in _entries(part)}
            elif number == 2:
                lists |= {
                    name: [_feature(value) for n, value in _fields(features) if n == 1]
                    for name, features in _entries(part)
                }
    except (IndexError, KeyError) as error:
        raise ValueError("a message that ends too early") from error
    return context, lists


def _entries(message: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the entries of a map."""
    for number, entry in _fields(message):
        if number == 1:
            parts = dict(_fields(entry))
            yield parts[1].decode(), parts.get(2, b"")


def _feature(message: bytes) -> list[Any]:
    for kind, values in _fields(message):
        if kind == 1:
            return [value for number, value in _fields(values) if number == 1]
        if kind == 3:  # packed into one value or not, the varints stand one after another
            return _varints(b"".join(value for number, value in _fields(values) if number == 1))
    return []


def _varints(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of each field of a message, the value as the bytes that hold it."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        start = at
        wire = key & 7
        if wire == _WITH_LENGTH:
            size, start = _varint(message, at)
            at = start + size
        elif wire == _VARINT:
            _, at = _varint(message, at)
        elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if wire == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire}, which protocol buffers no longer have")
        if at > end:
            raise IndexError
        yield key >> 3, message[start:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that starts at a byte, 7 bits a byte from the lowest, and its end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
