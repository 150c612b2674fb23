"""What limits the pace of an extraction: decoding, or the backbone."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Part = Literal["decoding", "backbone"]
LEAST = 1.0  # seconds before anything is said
CLEAR = 0.6  # the share of the time from which a part is said to be the limit


class ExtractionPace:
    """Seconds that went into decoding and into the backbone.

    They are of whoever does the work, which `compute_batches` decides: on a CPU all its threads,
    with a card the one that waits for decoded batches and hands them over.

    >>> pace = ExtractionPace()
    >>> pace.add("decoding", 9.0), pace.add("backbone", 3.0)
    (None, None)
    >>> pace.limit()
    'decoding is the limit (75 % of the time)'
    """

    def __init__(self) -> None:
        self._seconds: dict[Part, float] = {"decoding": 0.0, "backbone": 0.0}
        self._lock = threading.Lock()

    def add(self, part: Part, seconds: float) -> None:
        """Count seconds."""
        with self._lock:
            self._seconds[part] += seconds

    @contextmanager
    def measure(self, part: Part) -> Iterator[None]:
        """Count the seconds of a block of code."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - began)

    def limit(self) -> str:
        """What limits the pace; nothing while too little was measured to say so."""
        decoding = self._seconds["decoding"]
        backbone = self._seconds["backbone"]
        both = decoding + backbone
        if both < LEAST:
            return ""
        if decoding >= CLEAR * both:
            return f"decoding is the limit ({100 * decoding / both:.0f} % of the time)"
        if backbone >= CLEAR * both:
            return f"the backbone is the limit ({100 * backbone / both:.0f} % of the time)"
        return "decoding and the backbone take about as long"
