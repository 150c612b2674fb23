"""The digest of values: SHA-256 of arrays, texts and bytes."""

import hashlib
from typing import Any

import numpy as np


def digest(*parts: Any) -> str:
    """SHA-256 (hex) of strings, bytes and integer or boolean arrays; lengths are hashed too."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            if part.dtype.kind not in "iub":
                raise TypeError(f"a digest takes integer or boolean arrays, got {part.dtype}")
            head = f"{part.shape}".encode()
            data = np.ascontiguousarray(part, dtype="<i8").tobytes()
        else:
            head = b""
            data = part if isinstance(part, bytes) else str(part).encode()
        sha.update(f"{len(head)},{len(data)};".encode() + head)
        sha.update(data)
    return sha.hexdigest()
