"""Streams of small images."""

from collections.abc import Callable

from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.iirc import IIRC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.streams.protocol import Protocol

STREAMS: dict[str, Callable[[], Protocol]] = {
    "incremental-class": lambda: IncrementalClass(order="random", base=2),
    "fscil": lambda: FSCIL(order="random", base=3, way=1, shot=2),
    "iirc": lambda: IIRC(step=2),
}
