"""AudioSet: the choice of classes worked by hand, and a whole import of a small one.

Records are written byte by byte, as the formats' descriptions say.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from file_helpers import refusal

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.formats import audioset as reader
from embedbench.files.import_features import import_file
from embedbench.files.sample_metadata import TEST, TRAIN


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32)


def framed(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


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


def part(number: int, *data: bytes) -> bytes:
    """A field of a message, once for each of these, with its length."""
    return b"".join(varint(number * 8 + 2) + varint(len(each)) + each for each in data)


def bytes_feature(*values: bytes) -> bytes:
    return part(1, part(1, *values))


def int_feature(values: Sequence[int]) -> bytes:
    return part(3, part(1, b"".join(map(varint, values))))


FLOAT = part(2, part(1, struct.pack("<f", 30)))


def entries(features: dict[str, bytes]) -> bytes:
    """A map from names to messages."""
    return part(1, *(part(1, k.encode()) + part(2, v) for k, v in features.items()))


def clip(video: str, labels: Sequence[int], frames: Sequence[bytes] = (bytes(128),) * 10) -> bytes:
    """A record of AudioSet."""
    context = {"video_id": bytes_feature(video.encode()), "labels": int_feature(labels)}
    times = dict.fromkeys(("start_time_seconds", "end_time_seconds"), FLOAT)
    lists = {"audio_embedding": part(1, *map(bytes_feature, frames))}
    return part(1, entries(context | times)) + part(2, entries(lists))


INDICES, QUALITY = "class_labels_indices.csv", "qa_true_counts.csv"


def write_metadata(
    directory: Path,
    labels: Sequence[str],
    children: Mapping[str, Sequence[str]],
    restrictions: Mapping[str, list[str]],
    quality: Mapping[str, tuple[int, int]],
) -> None:
    """Write the three files; names are made of ids, and what is not rated is rated 10 of 10."""
    ids = dict.fromkeys([*labels, *children, *(c for cs in children.values() for c in cs)])
    ontology = [
        {"id": mid, "child_ids": children.get(mid, []), "restrictions": restrictions.get(mid, [])}
        for mid in ids
    ]
    rated = {mid: quality.get(mid, (10, 10)) for mid in labels}
    names = [f'{i},{mid},"The {mid}, sound"' for i, mid in enumerate(labels)]
    counts = [f"{mid},{n},{true}" for mid, (n, true) in rated.items() if n >= 0]
    (directory / INDICES).write_text("\n".join(["index, mid, display_name", *names]))
    (directory / QUALITY).write_text("\n".join(["label_id,num_rated,num_true", *counts]))
    (directory / "ontology.json").write_text(json.dumps(ontology))


LABELS = (
    *("animal", "dog", "bark", "cat", "bell", "engine", "music", "song", "human"),
    *("poor", "good", "black", "unrated"),
)


# labels of the clips -> training and eval clips
CLIPS = {
    ("animal", "dog", "bark"): (300, 0),  # one line of the ontology: counts for all three
    ("animal", "cat"): (400, 0),
    ("animal", "dog", "cat"): (20, 0),  # for animal; dog and cat could be taken side by side
    ("dog", "cat"): (50, 0),  # for neither
    ("bell",): (250, 43),  # just enough
    ("engine",): (250, 42),  # not enough
    ("good",): (249, 500),  # of eval no more than 43 count
    ("music", "song"): (293, 0),
    ("human", "song"): (10, 0),
    ("music", "poor", "black"): (7, 0),  # neither of the other two can be taken
    ("poor",): (1000, 1000),
    (): (5, 5),
}
COUNTS = {
    "animal": (720, 0),
    "cat": (400, 0),
    "song": (303, 0),
    "dog": (300, 0),
    "bark": (300, 0),
    "music": (300, 0),
    "bell": (250, 43),
    "engine": (250, 42),
    "good": (249, 500),
    "human": (10, 0),
}


def test_classes_are_taken_by_count_unless_related(tmp_path: Path) -> None:
    write_metadata(
        tmp_path,
        LABELS,
        children={
            "root": ["animal", "thing"],
            "animal": ["dog", "cat"],
            "dog": ["bark"],
            "thing": ["bell", "engine"],
            "music": ["song"],
            "human": ["song"],  # with two parents
        },
        restrictions={"root": ["abstract"], "black": ["blacklist"]},
        quality={"poor": (90, 63), "good": (90, 64), "unrated": (-1, 0)},  # 70 % is not above it
    )
    ontology = reader.read_ontology(tmp_path)
    assert ontology.eligible == set(LABELS) - {"poor", "black", "unrated"}
    assert ontology.names["bell"] == "The bell, sound"
    assert {name: ontology.related[name] for name in ("animal", "dog", "song", "root", "good")} == {
        "animal": {"root", "dog", "cat", "bark"},
        "dog": {"root", "animal", "bark"},  # cat is a sibling
        "song": {"music", "human"},
        "root": {"animal", "dog", "bark", "cat", "thing", "bell", "engine"},
        "good": set(),
    }
    numbered = {tuple(LABELS.index(name) for name in names): n for names, n in CLIPS.items()}
    assert reader.count_clips(ontology, numbered) == COUNTS
    # good has most clips but too few to train on; cat, dog and bark belong to animal, music to song
    assert reader.choose_classes(ontology, COUNTS, 3) == ["animal", "song", "bell"]
    assert reader.choose_classes(ontology, COUNTS, 2) == ["animal", "song"]
    assert "only 3 of" in refusal(reader.choose_classes, ontology, COUNTS, 4)
    same = dict.fromkeys(ontology.eligible, (300, 0))
    # animal < bark < bell < cat < dog < engine < good < human < music < song
    expected = ["animal", "bell", "engine", "good", "human", "music"]
    for counts in (same, dict(reversed(same.items()))):
        assert reader.choose_classes(ontology, counts, 6) == expected


# A whole import: bell 317 + 70 clips count, animal 305, siren 280 + 20.
SMALL = ("siren", "dog", "animal", "bell", "poor", "rare")


def frames_of(video: str, n: int = 10) -> list[bytes]:
    seed = int.from_bytes(video.encode(), "little")
    return [row.tobytes() for row in np.random.default_rng(seed).integers(0, 256, (n, 128), "u1")]


def names(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i:03d}" for i in range(n)]


@pytest.fixture(scope="module")
def audioset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("audioset")
    write_metadata(root, SMALL, {"animal": ["dog"]}, {}, {"poor": (10, 7)})
    made: dict[str, list[bytes]] = {}

    def add(place: str, prefix: str, n: int, *labels: str, frames: int = 10) -> None:
        indices = [SMALL.index(label) for label in labels]
        clips = [clip(video, indices, frames_of(video, frames)) for video in names(prefix, n)]
        made.setdefault(place, []).extend(clips)

    add("bal_train/aa", "bell-a", 10, "bell")
    add("unbal_train/aa", "bell-u", 300, "bell")
    add("unbal_train/aa", "bell-p", 7, "poor", "bell")  # poor cannot be taken
    add("eval/aa", "bell-e", 70, "bell")
    add("unbal_train/bb", "dog", 300, "animal", "dog")
    add("unbal_train/bb", "animal", 5, "animal")
    add("unbal_train/bb", "siren", 280, "siren", frames=12)
    add("eval/bb", "siren-e", 20, "siren")
    add("unbal_train/bb", "both", 30, "siren", "bell")
    add("unbal_train/bb", "short", 9, "rare", frames=9)
    add("unbal_train/cc", "rare", 40, "rare")
    for place, examples in made.items():
        write_records(root / f"{place}.tfrecord", examples)
    return root


def by_hash(videos: Sequence[str]) -> list[str]:
    return sorted(videos, key=lambda video: hashlib.sha256(video.encode()).hexdigest())


def ids(file: EmbeddingFile, label: int, split: int) -> list[str]:
    return [str(v) for v in file.sample_ids[(file.labels == label) & (file.split == split)]]


@pytest.fixture(autouse=True)
def _three_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "N_CLASSES", 3)  # of the paper's 100


def test_import(audioset: Path, tmp_path: Path) -> None:
    file = import_file(audioset, tmp_path / "a.h5")
    # in the order of class_labels_indices.csv, not of the counts
    assert file.classes == ("The siren, sound", "The animal, sound", "The bell, sound")
    assert file.parents.tolist() == [-1, -1, -1]
    # siren: 20 of eval are too few, 23 of the others make them up to 43; clips of both are out
    siren = by_hash(names("siren", 280))
    assert ids(file, 0, TEST) == by_hash(names("siren-e", 20)) + siren[:23]
    assert ids(file, 0, TRAIN) == siren[23:]
    # animal: nothing in eval
    animal = by_hash(names("dog", 300) + names("animal", 5))
    assert (ids(file, 1, TEST), ids(file, 1, TRAIN)) == (animal[:43], animal[43:])
    # bell: 62 of the 70 of eval, 300 of the 317 others; no clip of eval to train on
    bell = by_hash(names("bell-a", 10) + names("bell-u", 300) + names("bell-p", 7))
    assert ids(file, 2, TEST) == by_hash(names("bell-e", 70))[:62]
    assert ids(file, 2, TRAIN) == bell[:300]
    x = file.read()
    assert x.shape == (257 + 43 + 262 + 43 + 300 + 62, 1280)
    for row in (0, 300, 700):
        frames = np.frombuffer(b"".join(frames_of(str(file.sample_ids[row]), 12)[:10]), "u1")
        np.testing.assert_array_equal(x[row], (frames / 255 * 4 - 2).astype(np.float32))
    made = file.provenance
    assert made["selection"]["classes"] == [
        ["bell", "The bell, sound", 317, 70],
        ["animal", "The animal, sound", 305, 0],
        ["siren", "The siren, sound", 280, 20],
    ]
    assert (made["backbone"]["name"], made["split"]["rule"]) == ("vggish", "official")


def test_fewer_classes(audioset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.h5"
    assert "no key 'speaker'" in refusal(import_file, audioset, out, group="speaker")
    monkeypatch.undo()  # the paper's 100
    assert "only 3 of" in (said := refusal(import_file, audioset, out))
    assert "of 100 classes" in said
    monkeypatch.setattr(reader, "N_CLASSES", 2)
    file = import_file(audioset, out)
    assert file.classes == ("The animal, sound", "The bell, sound")
    bell = names("bell-a", 10) + names("bell-u", 300) + names("bell-p", 7) + names("both", 30)
    assert ids(file, 1, TRAIN) == by_hash(bell)[:300]
    other = import_file(audioset, tmp_path / "b.h5", split="0.5")
    assert other.provenance["split"]["rule"] == "hash"
    assert (other.split == TEST).sum() == round(len(other.split) / 2)


def recorded(example: bytes) -> tuple[str, bytes]:
    return "bal_train/00.tfrecord", framed(clip("fine", [0])) + framed(example)


def classes(n: int) -> tuple[str, bytes]:
    made = [{"id": "x", "child_ids": [], "restrictions": []}] * n
    return "ontology.json", json.dumps(made).encode()


BAD: dict[str, tuple[tuple[str, bytes | None], str]] = {
    "no ratings": ((QUALITY, None), f"{QUALITY} cannot be"),
    "another table": ((INDICES, b"mid,name\n/m/1,x\n"), "columns index, mid"),
    "no number": ((QUALITY, b"label_id,num_rated,num_true\nsiren,ten,9\n"), f"{QUALITY} .*'ten'"),
    "no JSON": (("ontology.json", b"{"), "ontology.json .* JSON"),
    "other JSON": (("ontology.json", b"[1]"), "AudioSet's ontology .*TypeError"),
    "2,001 classes": (classes(2_001), "it has 2,001"),
    "2,000 classes": (classes(2_000), "only 0 of 3"),
    "unknown label": (recorded(clip("abc", [0, 6])), "00.tfrecord: clip abc .*label 6"),
    "other frames": (recorded(clip("abc", [0], [bytes(64)] * 10)), "00.tfrecord: .*not of 128"),
    "no video": (recorded(part(1, entries({"x": bytes_feature(b"y")}))), "KeyError: 'video_id'"),
    "no message": (recorded(b"\x0a\xff"), "is none of .*DecodeError"),
    "damage": (("bal_train/00.tfrecord", bytes(12) + b"text"), "match its checksum"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(tmp_path: Path, case: str) -> None:
    (name, data), sentence = BAD[case]
    (tmp_path / "as/eval").mkdir(parents=True)
    assert "nothing that import reads" in refusal(import_file, tmp_path / "as", tmp_path / "a.h5")
    write_metadata(tmp_path / "as", SMALL, {}, {}, {})
    write_records(tmp_path / "as/bal_train/00.tfrecord", [clip("fine", [0])])
    (tmp_path / "as" / name).unlink()
    if data is not None:
        (tmp_path / "as" / name).write_bytes(data)
    with pytest.raises(UserError, match=sentence):
        import_file(tmp_path / "as", tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


def test_every_wrong_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path, held = tmp_path / "a.tfrecord", [b"first one", b"", b"third"]
    whole = b"".join(map(framed, held))

    def read(data: bytes) -> list[bytes]:
        path.write_bytes(data)
        return list(reader.records(path))

    for end, number in ((0, 0), (25, 1), (41, 2), (62, 3)):
        assert read(whole[:end]) == held[:number]
    rng = np.random.default_rng(0)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        assert "a.tfrecord" in refusal(read, damaged)
        if at not in (0, 25, 41):
            assert "ends within the record at byte" in refusal(read, whole[:at])


def test_messages_come_in_parts_without_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    context = {"labels": int_feature([7, 2**40]), "none": b"", "x": FLOAT}
    second = {"video_id": bytes_feature(b"v", b"w")}
    found = reader.sequence_example(part(1, entries(context)) + part(1, entries(second)))
    assert found == ({"labels": [7, 2**40], "none": [], "x": [], "video_id": [b"v", b"w"]}, {})
    reader._sequence_example.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    assert "embedbench-cl[audioset]" in refusal(reader.sequence_example, b"")
