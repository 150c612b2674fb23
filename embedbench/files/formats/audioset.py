"""Read AudioSet's published frame embeddings: one vector and class per clip, from TFRecords.

**Source** Gemmeke et al. (2017) and the data set's download page: folders `bal_train`,
`unbal_train` and `eval` of `*.tfrecord` files; each record a SequenceExample with the context
`video_id` (text), `start_time_seconds`, `end_time_seconds` and `labels` (indices of
`class_labels_indices.csv`), and the feature list `audio_embedding`: for each second of the
clip 128 bytes, made by VGGish, whitened, clipped to [-2, 2] and quantised to 8 bits. Kemker et al.
(2018), "Datasets": the frames of a clip concatenated in order, ten of 128 are 1,280 features.
Table 1: 250 to 300 training and 43 to 62 test clips a class. `choose_classes` selects them.

**Departs** The paper calls the features those of a ResNet-50 variant; the published ones are
VGGish's. What it leaves open is settled here:

- Clips shorter than ten frames are dropped; of longer clips the first ten frames are used.
- The published videos are distinct; a video that occurs twice is refused.
- The test clips of a class are its clips in the eval partition, at most 62. If they are fewer than
  43, training clips fill them up to 43. Of the other training clips at most 300 are used. Clips are
  always taken in the order of the SHA-256 of the video id.
- Classes are numbered in the order of `class_labels_indices.csv`, without a hierarchy.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Bytes, Float32s
from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, import_extra
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.storage.regular_files import explain_errors, read_text

PARTS = ("eval", "bal_train", "unbal_train")
FRAMES, WIDTH = 10, 128
MOST_TRAIN, MOST_TEST = 300, 62  # Table 1
N_CLASSES = 100
LABELS, ONTOLOGY, QUALITY = "class_labels_indices.csv", "ontology.json", "qa_true_counts.csv"
MOST = 2_000  # classes of an ontology; those related to each are kept
LEAST_TRAIN, LEAST_TEST = 250, 43  # Table 1
FETCH = "fetch the file again"


def is_audioset(directory: Path) -> bool:
    """Return whether a directory holds AudioSet's records."""
    return any(_files(directory).values())


def _files(directory: Path) -> dict[str, list[Path]]:
    """Return the files of each partition."""
    return {
        part: sorted(p for p in (directory / part).glob("*.tfrecord") if p.is_file())
        for part in PARTS
    }


def dequantise(frames: Bytes) -> Float32s:
    """Return the values between -2 and 2 that bytes encode.

    >>> dequantise(np.array([0, 51, 255], np.uint8))
    array([-2. , -1.2,  2. ], dtype=float32)
    """
    return (np.arange(256) / 255 * 4 - 2).astype(np.float32)[frames]


class _Clip(NamedTuple):
    """A clip, and its first ten frames."""

    video: str
    labels: tuple[int, ...]
    frames: bytes
    is_eval: bool


def read_audioset(directory: Path) -> tuple[Samples, Float32s, dict[str, Any]]:
    """Read the clips of the 100 classes that the rule selects.

    The frames of all clips are in memory meanwhile: 2.6 GB for the whole of AudioSet.

    Parameters
    ----------
    directory : Path
        Holds the folders of records, and `class_labels_indices.csv`, `ontology.json` and
        `qa_true_counts.csv`.

    Returns
    -------
    tuple
        The samples, named by their video ids; their (N, 1280) features; and their provenance.
    """
    ontology = read_ontology(directory)
    files = _files(directory)
    clips: list[_Clip] = []
    for part in PARTS:
        for path in files[part]:
            clips += _clips(path, part, ontology)
    n = Counter((clip.labels, clip.is_eval) for clip in clips)
    counts = count_clips(ontology, {labels: (n[labels, False], n[labels, True]) for labels, _ in n})
    taken = choose_classes(ontology, counts, N_CLASSES)
    indices = sorted(index for index, mid in ontology.ids.items() if mid in taken)
    parts = _train_and_test(clips, indices)
    selected = list(itertools.chain(*parts))
    sizes = [len(part) for part in parts]
    samples = Samples(
        ids=np.array([clip.video for clip in selected]),
        labels=np.repeat(np.arange(len(indices)).repeat(2), sizes),
        split=np.repeat([TRAIN, TEST] * len(indices), sizes),
        classes=tuple(ontology.names[ontology.ids[index]] for index in indices),
        parents=np.full(len(indices), -1),
    )
    selection = {
        "rule": "Kemker et al. (2018), section Datasets and Table 1",
        "classes": [[mid, ontology.names[mid], *counts[mid]] for mid in taken],
        "columns": ["ontology id", "name", "training clips that count", "eval clips that count"],
    }
    frames = np.frombuffer(b"".join(clip.frames for clip in selected), np.uint8)
    features = dequantise(frames.reshape(len(selected), FRAMES * WIDTH))
    return samples, features, _provenance(selection)


def _clips(path: Path, part: str, ontology: Ontology) -> Iterator[_Clip]:
    """Yield the clips of a file that have ten frames."""
    for record in records(path):
        with explain_errors(f"{path}: a record is none of AudioSet's frame embeddings", FETCH):
            context, lists = sequence_example(record)
            video = context["video_id"][0].decode()
            labels = tuple(sorted({*context["labels"]}))
            frames = [frame[0] for frame in lists["audio_embedding"]]
            if any(len(frame) != WIDTH for frame in frames):
                raise ValueError(f"frames that are not of {WIDTH} bytes")
            clip = _Clip(video, labels, b"".join(frames[:FRAMES]), part == "eval")
        if strange := set(labels) - ontology.ids.keys():
            raise UserError(
                f"{path}: clip {video} has label {min(strange)}, which {LABELS} does not have",
                "take both from one release of AudioSet",
            )
        if len(frames) >= FRAMES:
            yield clip


def _train_and_test(clips: Sequence[_Clip], indices: Sequence[int]) -> list[list[_Clip]]:
    """Return the clips with one selected label: training and test clips, class by class."""
    members: dict[int, list[_Clip]] = {index: [] for index in indices}
    for clip in clips:
        here = members.keys() & clip.labels
        if len(here) == 1:
            members[here.pop()].append(clip)
    parts = []
    for of_class in members.values():
        of_class.sort(key=lambda clip: hashlib.sha256(clip.video.encode()).digest())
        test = [clip for clip in of_class if clip.is_eval][:MOST_TEST]
        train = [clip for clip in of_class if not clip.is_eval]
        held_out = max(LEAST_TEST - len(test), 0)
        parts += [train[held_out:][:MOST_TRAIN], test + train[:held_out]]
    return parts


def _provenance(selection: dict[str, Any]) -> dict[str, Any]:
    return {
        "backbone": {
            "name": "vggish",
            "library": "AudioSet frame embeddings",
            "library_version": "1",
            "weights_id": "",
            "weights_sha256": "",
            "layer": "embedding, whitened, clipped to [-2, 2], quantised to 8 bits",
            "pooling": "none",
        },
        "preprocessing": {
            "frames": FRAMES,
            "scale": "value / 255 * 4 - 2",
            "layout": "frame by frame",
        },
        "arithmetic": {"dtype": "float32"},
        "source": {"name": "AudioSet", "revision": "embeddings v1", "licence": "CC-BY-4.0"},
        "split": {
            "rule": "official",
            "test_of_a_class": [LEAST_TEST, MOST_TEST],
            "train_of_a_class_at_most": MOST_TRAIN,
            "order": "SHA-256 of the video id",
        },
        "selection": selection,
    }


# --- the choice of classes, by Kemker et al.'s conditions, from the ontology and its ratings ---


@dataclass(frozen=True)
class Ontology:
    """AudioSet's classes.

    Parameters
    ----------
    ids : dict
        Index of each label -> ontology id, such as `/m/09x0r`.
    related : dict
        Ontology id -> its ancestors and descendants.
    eligible : frozenset of str
        Ids of the labels without a restriction and with a quality above 70 %.
    """

    ids: dict[int, str]
    names: dict[str, str]
    related: dict[str, frozenset[str]]
    eligible: frozenset[str]


def read_ontology(directory: Path) -> Ontology:
    """Read the three metadata files.

    `class_labels_indices.csv` has the columns index, mid, display_name; `ontology.json` is a
    list of objects with id, child_ids and restrictions; `qa_true_counts.csv` has the columns
    label_id, num_rated, num_true. A label that is not rated there is not eligible.
    """
    labels = _csv(directory / LABELS, {"index": int, "mid": str, "display_name": str})
    rated = _csv(directory / QUALITY, {"label_id": str, "num_rated": int, "num_true": int})
    children, restricted = _json(directory / ONTOLOGY)
    names = {mid: name for _, mid, name in labels}
    good = {mid for mid, n, true in rated if 10 * true > 7 * n}  # above 70 %
    eligible = frozenset((good & names.keys() & children.keys()) - restricted)
    return Ontology({i: mid for i, mid, _ in labels}, names, _related(children), eligible)


def _csv(path: Path, columns: Mapping[str, Callable[[Any], Any]]) -> list[tuple[Any, Any, Any]]:
    """Read three columns of a table, each by its type."""
    rows = csv.DictReader(io.StringIO(read_text(path)), skipinitialspace=True)
    named = ", ".join(columns)
    with explain_errors(f"{path} must be a CSV file with the columns {named}, numbers whole"):
        a, b, c = columns
        return [(columns[a](r[a]), columns[b](r[b]), columns[c](r[c])) for r in rows]


def _json(path: Path) -> tuple[dict[str, list[str]], set[str]]:
    """Return the children of every class, and the classes with restrictions."""
    classes = parse_json(read_text(path), str(path))
    with explain_errors(f"{path} is not AudioSet's ontology", FETCH):
        if len(classes) > MOST:
            raise ValueError(f"it has {len(classes):,}")
        children = {str(c["id"]): [str(child) for child in c["child_ids"]] for c in classes}
        return children, {str(c["id"]) for c in classes if c["restrictions"]}


def _related(children: Mapping[str, list[str]]) -> dict[str, frozenset[str]]:
    """Return the ancestors and descendants of each class; a class may have several parents."""
    below: dict[str, set[str]] = {}
    for top in children:
        descendants: set[str] = set()
        waiting = list(children[top])
        while waiting:
            mid = waiting.pop()
            if mid not in descendants:
                descendants.add(mid)
                waiting += children.get(mid, [])
        below[top] = descendants
    return {
        mid: frozenset(below[mid] | {top for top in below if mid in below[top]}) for mid in children
    }


def count_clips(
    ontology: Ontology, clips: Mapping[tuple[int, ...], tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return how many training and eval clips count for each eligible class.

    `clips` are the numbers of both for each combination of labels.
    """
    counts = dict.fromkeys(ontology.eligible, (0, 0))
    for labels, (train, test) in clips.items():
        named = {ontology.ids[label] for label in labels} & ontology.eligible
        for mid in named:
            if named - {mid} <= ontology.related[mid]:
                before = counts[mid]
                counts[mid] = (before[0] + train, before[1] + test)
    return counts


def choose_classes(
    ontology: Ontology, counts: Mapping[str, tuple[int, int]], n_classes: int
) -> list[str]:
    """Return the ids of the classes that the rule selects, those with most clips first.

    **Source** Kemker et al. (2018), "Datasets": 100 classes, none a super- or subclass of another,
    none with a restriction in the ontology, all with an estimated quality above 70 %; clips with
    one of the 100 labels only. Table 1: 250 to 300 training and 43 to 62 test clips a class.

    **Departs** The paper's list of classes is not published, so this is a rule and not that list:

    - A clip *counts for* a class if no other class of its labels could be taken together with that
      class: each of them fails the conditions, or is an ancestor or a descendant of that class.
    - A class needs 293 such clips (the 250 and 43 of Table 1) of at least 10 frames; at most 43
      clips of the eval partition count.
    - Classes are taken by decreasing number of clips (ties: by ontology id). A class that is
      related to one already taken is skipped.

    Raises
    ------
    UserError
        Fewer than `n_classes` classes satisfy the rule.
    """
    enough = LEAST_TRAIN + LEAST_TEST
    able = [mid for mid, (train, test) in counts.items() if train + min(test, LEAST_TEST) >= enough]
    taken: list[str] = []
    for mid in sorted(able, key=lambda mid: (-sum(counts[mid]), mid)):
        if len(taken) < n_classes and ontology.related[mid].isdisjoint(taken):
            taken.append(mid)
    if len(taken) < n_classes:
        raise UserError(
            f"only {len(taken)} of {n_classes} classes satisfy Kemker et al.'s conditions",
            "bring all three partitions of AudioSet",
        )
    return taken


# --- TFRecord files of tf.train.SequenceExample, without TensorFlow ---


# The fields of each message: number, type, name. Maps are stored as repeated entries.
MESSAGES = {
    "BytesList": [(1, "repeated bytes", "value")],
    "Int64List": [(1, "repeated int64", "value")],
    "Feature": [(1, "BytesList", "bytes_list"), (3, "Int64List", "int64_list")],
    "FeatureEntry": [(1, "string", "key"), (2, "Feature", "value")],
    "Features": [(1, "repeated FeatureEntry", "feature")],
    "FeatureList": [(1, "repeated Feature", "feature")],
    "FeatureListEntry": [(1, "string", "key"), (2, "FeatureList", "value")],
    "FeatureLists": [(1, "repeated FeatureListEntry", "feature_list")],
    "SequenceExample": [(1, "Features", "context"), (2, "FeatureLists", "feature_lists")],
}


def records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file in order; both checksums of each are verified first.

    **Source** TensorFlow's `tfrecord` format: the length as an unsigned little-endian 64-bit
    integer, the masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data (the mask
    is a rotation and a constant).
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        while (offset := file.tell()) < size:
            head = file.read(12)
            length = int.from_bytes(head[:8], "little")
            if len(head) < 12 or offset + 12 + length + 4 > size:
                raise UserError(f"{path} ends within the record at byte {offset}", FETCH)
            data = file.read(length)
            if [head[8:], file.read(4)] != [masked_crc(head[:8]), masked_crc(data)]:
                raise UserError(
                    f"{path}: the record at byte {offset} does not match its checksum", FETCH
                )
            yield data


def masked_crc(data: bytes) -> bytes:
    """The CRC-32C of data as TFRecord files hold it: rotated right by 15 bits, plus a constant."""
    crc: int = import_extra("google_crc32c", "audioset", "a TFRecord").value(data)
    rotated = crc >> 15 | crc << 17
    masked: int = (rotated + 0xA282EAD8) % 2**32
    return masked.to_bytes(4, "little")


def sequence_example(data: bytes) -> tuple[dict[str, list[Any]], dict[str, list[list[Any]]]]:
    """Return the context and the feature lists of a SequenceExample, by name.

    **Source** TensorFlow's `example.proto` and `feature.proto`.

    **Departs** Lists of floats are skipped: AudioSet has two, the start and the end of a clip, and
    neither is needed.

    A feature is a list of bytes or of integers; it is empty if the file has floats there. A feature
    list is a list of features.
    """
    message = _sequence_example().FromString(data)
    context = {entry.key: _values(entry.value) for entry in message.context.feature}
    lists = {
        entry.key: [_values(feature) for feature in entry.value.feature]
        for entry in message.feature_lists.feature_list
    }
    return context, lists


def _values(feature: Any) -> list[Any]:
    return [*feature.bytes_list.value, *feature.int64_list.value]


@functools.cache
def _sequence_example() -> Any:
    """The class of the message; its `FromString` raises a DecodeError for other data."""
    import_extra("google.protobuf", "audioset", "a TFRecord")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"bytes": kinds.TYPE_BYTES, "int64": kinds.TYPE_INT64, "string": kinds.TYPE_STRING}
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, text, field in fields:
            _, repeated, kind = text.rpartition("repeated ")
            message.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type=scalars.get(kind, kinds.TYPE_MESSAGE),
                type_name=None if kind in scalars else f".{kind}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("SequenceExample")
    return message_factory.GetMessageClass(descriptor)
