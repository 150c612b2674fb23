"""Streams of one small file by every protocol: the same in every version, as records need.

The literals were made by the code of 2026-11-27. Why a stream is right is for the other tests.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from protocol_files import make_file

from embedbench.config.make_from_settings import make
from embedbench.runs.learner_and_protocol_names import our_protocols, protocol_class

# SHA-256 of the recipe without settings, which is in the digests of every run; whether all samples
# are taught, and a session has no label of a later one.
DEFAULTS = {
    "domain-incremental": ("4ea169b8869bcae3", True, False),
    "fscil": ("3d77f58372543457", False, True),
    "iirc": ("7817af09dc979618", True, True),
    "incremental-class": ("1421a65c99d457bb", True, True),
    "instance": ("7c7a8a67083d4535", True, False),
    "mixture": ("878ec2be94c083e0", False, False),
    "multi-modal": ("b90f3dffbfaabe10", True, True),
    "permutation": ("5ef5967726d61100", True, True),
}
# SHA-256 of a stream's digests, those of its references, and its notes
STREAMS = {
    "domain-incremental domains=random sessions=3": "2898d1463ad43481",
    "domain-incremental sessions=2 test=all": "b295a85db6c31544",
    "fscil base=2 shot=4 order=random": "7391bf19f0d1642e",
    "fscil base=3 way=2 shot=8": "29a9ca6d6dff6e4e",
    "iirc base=1": "181d2d097f5b6bcc",
    "iirc step=2 information=complete": "89ac8deb655525f5",
    "iirc sessions=4 information=cumulative cap=1": "55d8e08b1a04d467",
    "incremental-class base=2 order=size": "bfef68d163983a73",
    "incremental-class sessions=4 order=random loss=seen": "08eeb59e2f9152ec",
    "instance ordering=iid": "c4b8a84bb194f9e8",
    "instance ordering=class-iid sessions=3": "24d1a7e25e0c33da",
    "instance ordering=instance sessions=4": "7e305d3df26dccf6",
    "instance ordering=class-instance": "c54184eb72ab1d1b",
    "mixture setting=i-blurry sessions=3 blurry=0.3": "1792675b55aafab8",
    "mixture setting=si-blurry sessions=3 blurry=0.3": "05395088974cf7c5",
    "mixture setting=repetition sessions=4": "aea2cd31314a1edb",
    "mixture setting=repetition sessions=4 slots=2": "73057b85c78a36a9",
    "mixture setting=repetition sessions=3 slots=6": "f4206badaee0b476",
    "mixture setting=long-tailed sessions=3 imbalance=0.2 observe_batch=0": "6d82961cf1f9b1cc",
    "mixture setting=long-tailed-shuffled sessions=2 imbalance=0.2": "1f1beae0c824c858",
    "multi-modal join=pad": "70ea175f3f8710a3",
    "multi-modal join=project width=3 answers=all": "1d291bd79f986318",
    "permutation sessions=3": "9454fc3eecb1ff34",
}


def short(value: Any) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:16]


def test_defaults() -> None:
    found = {}
    for name in our_protocols():
        cls = protocol_class(name)
        found[name] = short(cls().recipe()), cls.teaches_all, cls.reveals_no_future
    assert found == DEFAULTS


def test_streams(tmp_path: Path) -> None:
    train, test = (9, 6, 14, 7, 5, 8), (2, 1, 3, 0, 1, 2)
    n = np.arange(sum(train) + sum(test))
    columns = {"domain": np.array(list("xyz"))[n % 3], "group": n // 2 % 7, "time": -1.0 * n}
    columns["group"] = columns["group"].astype(str)
    above = [6, 6, 7, 7, -1, -1, -1, -1]
    file = make_file(tmp_path, train, [0] * 6, test, columns=columns, parents=above)
    files = [file, make_file(tmp_path, name="other.h5", width=3)]
    found = {}
    for case in STREAMS:
        name, *items = case.split()
        cls = protocol_class(name)
        protocol = make(cls, dict(item.split("=") for item in items), name="protocol")
        stream = protocol.build(files if cls.several_files else files[:1], seed=3)
        references = [part.digests for part in stream.references]
        notes = tuple(n for n in stream.notes if "groups" not in n)  # a note of 2026-11-29
        found[case] = short((stream.digests, references, notes))
    assert found == STREAMS
