"""TFRecords: what the tests write byte by byte is read, and no wrong byte passes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tfrecord_files import (
    bytes_feature,
    clip,
    crc,
    entries,
    float_feature,
    framed,
    int_feature,
    masked,
    part,
    varint,
    write_records,
)

from embedbench.errors import UserError
from embedbench.files.formats import tfrecord
from embedbench.files.formats.tfrecord import masked_crc, records, records_at, sequence_example


def test_crc_gives_the_published_values() -> None:
    """RFC 3720, B.4, and the catalogue's check value."""
    texts = [b"123456789", bytes(32), b"\xff" * 32, bytes(range(32)), bytes(range(31, -1, -1)), b""]
    values = [0xE3069283, 0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0x113FDB5C, 0]
    assert [masked_crc(text) for text in texts] == [masked(value) for value in values]
    assert [crc(text) for text in texts] == values


@pytest.mark.parametrize("package", ["google_crc32c", "google.protobuf"])
def test_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    path = write_records(tmp_path / "a", [clip("a", [1])])
    monkeypatch.setitem(sys.modules, package, None)
    uncached = tfrecord._sequence_example.__wrapped__
    monkeypatch.setattr(tfrecord, "_sequence_example", uncached)
    with pytest.raises(UserError, match=r"pip install 'embedbench-cl\[audioset\]'"):
        sequence_example(next(records([path])).data)


def test_records_come_in_order_and_from_their_places(tmp_path: Path) -> None:
    held = {"a": [b"one", b"", b"three" * 60], "empty": [], "b": [b"4", b"five"]}
    paths = [write_records(tmp_path / name, texts) for name, texts in held.items()]
    result = list(records(paths))
    assert [(r.path.name, r.data) for r in result] == [
        (name, text) for name, texts in held.items() for text in texts
    ]
    assert [r.offset for r in result] == [0, 19, 35, 0, 17]  # 16 bytes beside each one's data
    places = [(result[i].path, result[i].offset) for i in (4, 2, 0)]
    assert [r.data for r in records_at(places)] == [b"five", b"three" * 60, b"one"]


def test_every_wrong_bit_is_noticed(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.tfrecord", framed(b"first one") + framed(b"second")
    rng = np.random.default_rng(0)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"a\.tfrecord.* record at byte \d+.* fetch"):
            list(records([path]))
    path.write_bytes(whole)
    assert len(list(records([path]))) == 2


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.tfrecord", framed(b"first one") + framed(b"second")
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        if end == 25:  # the end of the first record
            assert [r.data for r in records([path])] == [b"first one"]
            continue
        with pytest.raises(UserError, match=r"ends within the record at byte (0|25): it is cut"):
            list(records([path]))


def test_sequence_example() -> None:
    frames = [bytes([i]) * 128 for i in range(3)]
    context, lists = sequence_example(clip("äbc-_", [1, 522, 300], frames))
    assert context["video_id"] == ["äbc-_".encode()]
    assert context["labels"] == [1, 522, 300]
    assert lists == {"audio_embedding": [[frame] for frame in frames]}


def test_fields_in_other_forms() -> None:
    """What protocol buffers allow: lists not packed, unknown fields, parts that come twice."""
    labels = {"labels": int_feature([7, 2**40], packed=False), "none": b"", "x": float_feature(1)}
    unknown = varint(9 * 8 + 0) + varint(300) + varint(9 * 8 + 1) + bytes(8)
    unknown += varint(9 * 8 + 5) + bytes(4) + part(9, b"later")
    second = {"video_id": bytes_feature(b"v", b"w")}
    context, lists = sequence_example(unknown + part(1, entries(labels)) + part(1, entries(second)))
    assert context == {"labels": [7, 2**40], "none": [], "x": [], "video_id": [b"v", b"w"]}
    assert lists == {}


@pytest.mark.parametrize("seed", range(3))
def test_garbage_is_a_value_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = clip("video", [1, 2], [bytes(16)] * 2)
    refused = 0
    for _ in range(300):
        data = bytearray(whole[: rng.integers(len(whole) + 1)])
        for at in rng.integers(0, max(len(data), 1), 2):
            data[at : at + 1] = rng.bytes(1)
        try:
            sequence_example(bytes(data))
        except ValueError:
            refused += 1
    assert refused > 100
