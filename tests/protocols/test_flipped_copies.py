"""Files with flipped copies (`extract --flip`): no image is held out whose mirror is taught."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from protocol_files import make_file, make_flipped_file

from embedbench.array_types import Ints
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.raw_pixels import FLIPPED
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.iirc import IIRC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.instance import Instance
from embedbench.protocols.mixture import Mixture
from embedbench.protocols.permutation import Permutation
from embedbench.runs.stream_cache import reference_key
from embedbench.storage.value_digest import digest
from embedbench.streams.make_sessions import whole_groups, with_copies
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, rows_of

TRAINED = (20, 20, 20, 7, 20)  # images of classes a to e; a copy of each comes beside them


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    return make_flipped_file(tmp_path_factory.mktemp("flip"), TRAINED, [0] * 5, [2] * 5)


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """With validation samples of its own, which have no copies."""
    return make_flipped_file(tmp_path_factory.mktemp("brought"), TRAINED, [4] * 5, [2] * 5)


def names(file: EmbeddingFile, views: Iterable[View]) -> list[str]:
    return [name for view in views for name in file.sample_ids[rows_of(view)].tolist()]


def images(named: Iterable[str]) -> set[str]:
    """The images behind ids, of which some are of copies."""
    return {name.removesuffix(FLIPPED) for name in named}


def held_out(stream: Stream, file: EmbeddingFile) -> list[str]:
    """The validation samples, those of the post-task validation among them."""
    views = [s.val_x for s in stream.sessions]
    return names(file, [*views, *(e.x for e in stream.eval_sets if e.split == "val")])


def taught(stream: Stream, file: EmbeddingFile) -> list[str]:
    return names(file, [s.x for s in stream.sessions])


PROTOCOLS = [
    FSCIL(base=3, way=1),
    IIRC(),
    IncrementalClass(),
    Instance(ordering="class-iid", sessions=2),
    Instance(ordering="iid", sessions=2),
    Mixture(sessions=2),
    Mixture(sessions=2, setting="long-tailed"),
    Permutation(sessions=2),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
def test_no_image_is_held_out_and_taught_as_its_mirror(protocol: Any, file: EmbeddingFile) -> None:
    stream = protocol.build([file], seed=0)
    assert not images(held_out(stream, file)) & images(taught(stream, file))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
def test_no_copy_is_held_out(protocol: Any, file: EmbeddingFile) -> None:
    held = held_out(protocol.build([file], seed=0), file)
    assert held
    assert not [name for name in held if name.endswith(FLIPPED)]


def test_shots_are_images_themselves(file: EmbeddingFile) -> None:
    """K samples are K images; copies among them would be fewer."""
    streams = [FSCIL(base=3, way=1).build([file], seed=seed) for seed in range(5)]
    shots = [name for s in streams for name in names(file, [one.x for one in s.sessions[1:]])]
    assert len(shots) == 5 * 2 * 5
    assert not [name for name in shots if name.endswith(FLIPPED)]


def test_the_base_session_has_the_copies_of_what_it_teaches(file: EmbeddingFile) -> None:
    """Of each of three classes 2 of 20 images are held out; the others come twice."""
    base = FSCIL(base=3, way=1).build([file], seed=0).sessions[0]
    assert len(base.x) == 3 * 2 * 18
    assert len(images(names(file, [base.x]))) == 3 * 18


def test_a_class_of_few_images_counts_without_their_copies(file: EmbeddingFile) -> None:
    """Class d has 7 images and 7 copies, fewer images than 8 shots."""
    stream = FSCIL(base=3, way=1, shot=8).build([file], seed=0)
    assert 3 in stream.sessions[0].classes.tolist()


def test_iirc_deals_shares_of_the_images(file: EmbeddingFile) -> None:
    """10 % of 20 images are two for each validation, of 7 one; the others have their copies."""
    stream = IIRC().build([file], seed=0)
    intask = names(file, [s.val_x for s in stream.sessions])
    posttask = names(file, [e.x for e in stream.eval_sets if e.split == "val"])
    assert (len(intask), len(posttask)) == (4 * 2 + 1, 4 * 2 + 1)
    assert len(taught(stream, file)) == 2 * (4 * 16 + 5)


@pytest.mark.parametrize("protocol", [IIRC(), IncrementalClass()], ids=lambda p: p.name)
def test_all_is_taught_where_the_file_has_validation_samples(
    protocol: Any, brought: EmbeddingFile
) -> None:
    assert len(taught(protocol.build([brought], seed=0), brought)) == 2 * sum(TRAINED)


@pytest.mark.parametrize(
    ("rows", "expected"), [([0], [0, 1]), ([1], [1]), ([2, 0], [0, 1, 2, 3]), ([], [])]
)
def test_rows_with_their_copies(file: EmbeddingFile, rows: list[int], expected: Ints) -> None:
    """Rows 0 and 2 are images, 1 and 3 their copies."""
    assert with_copies(file, np.array(rows, np.int64)).tolist() == expected


# --- what is held out together ---


def test_an_image_and_its_copy_are_held_out_together(file: EmbeddingFile) -> None:
    numbers = whole_groups(file)
    assert numbers is not None
    mine = [id_.removesuffix(FLIPPED) for id_ in file.sample_ids.tolist()]
    assert len({*numbers.tolist()}) == len({*mine})
    assert len({*zip(numbers.tolist(), mine, strict=True)}) == len({*mine})


def test_groups_of_a_file_are_held_out_together(tmp_path: Path) -> None:
    speaker = np.array(["bo", "al", "bo", "cy", "al", "cy"])
    grouped = make_file(tmp_path, [2, 2], [0, 0], [1, 1], columns={"group": speaker})
    numbers = whole_groups(grouped)
    assert numbers is not None
    assert numbers.tolist() == [1, 0, 1, 2, 0, 2]


def test_rows_of_other_files_are_by_themselves(tmp_path: Path) -> None:
    assert whole_groups(make_file(tmp_path)) is None


def test_merged_sessions_say_the_groups_of_their_samples(file: EmbeddingFile) -> None:
    numbers = whole_groups(file)
    assert numbers is not None
    (whole,) = IncrementalClass(sessions=2).build([file], seed=0).merged().sessions
    assert whole.together is not None
    assert whole.together.tolist() == numbers[rows_of(whole.x)].tolist()


def test_groups_belong_to_the_reference(tmp_path: Path) -> None:
    """Other groups, another reference; without groups the key is that of earlier versions."""
    counts = [4, 4], [0, 0], [2, 2]
    plain = make_file(tmp_path, *counts, name="plain.h5")
    streams = [IncrementalClass().build([plain], seed=0).merged()]
    for name, each in (("one", 2), ("two", 3)):
        speaker = np.array([f"{n // each}" for n in range(12)])
        made = make_file(tmp_path, *counts, name=f"{name}.h5", columns={"group": speaker})
        streams.append(IncrementalClass().build([made], seed=0).merged())
    assert len({reference_key(stream) for stream in streams}) == 3
    d = streams[0].digests
    fitted = streams[0].fitted
    assert reference_key(streams[0]) == digest(d["train"], d["eval"], d["features"], fitted)
    assert [stream.digests for stream in streams[1:]] == [d, d]
