"""Read TFRecord files of tf.train.SequenceExample without TensorFlow.

**Source** A TFRecord file is a sequence of records: the length as an unsigned little-endian 64-bit
integer, the masked CRC-32C of these 8 bytes, the data, the masked CRC-32C of the data (TensorFlow's
`tfrecord` format; the mask is a rotation and a constant). The data is a protocol buffer: a
`SequenceExample` as in TensorFlow's `example.proto` and `feature.proto`.

**Departs** Lists of floats are skipped: AudioSet has two, the start and the end of a clip, and
neither is needed.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedbench.errors import UserError, import_extra

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
    """Yield the records of a file in order; both checksums of each are verified first."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while (offset := file.tell()) < size:
            head = file.read(12)
            length = int.from_bytes(head[:8], "little")
            if len(head) < 12 or offset + 12 + length + 4 > size:
                raise UserError(
                    f"{path} ends within the record at byte {offset}: it is cut short, or no "
                    "TFRecord file; fetch it again."
                )
            data = file.read(length)
            if [head[8:], file.read(4)] != [masked_crc(head[:8]), masked_crc(data)]:
                raise UserError(
                    f"{path}: the record at byte {offset} does not match its checksum; fetch the "
                    "file again."
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

    A feature is a list of bytes or of integers; it is empty if the file has floats there. A feature
    list is a list of features.

    Raises
    ------
    ValueError
        The data is not a SequenceExample.
    """
    made, error = _sequence_example()
    try:
        message = made.FromString(data)
    except error as e:
        raise ValueError("no SequenceExample") from e
    context = {entry.key: _values(entry.value) for entry in message.context.feature}
    lists = {
        entry.key: [_values(feature) for feature in entry.value.feature]
        for entry in message.feature_lists.feature_list
    }
    return context, lists


def _values(feature: Any) -> list[Any]:
    return [*feature.bytes_list.value, *feature.int64_list.value]


@functools.cache
def _sequence_example() -> tuple[Any, type[Exception]]:
    """The message class, and the error that it raises for other data."""
    import_extra("google.protobuf", "audioset", "a TFRecord")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

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
    return message_factory.GetMessageClass(descriptor), DecodeError
