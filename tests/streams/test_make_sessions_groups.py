"""Validation data that are held out of the training samples, and the groups of the file."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.iirc import IIRC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.multi_modal import MultiModal
from embedbench.streams.make_sessions import split_rows
from embedbench.streams.view import rows_of

SPEAKERS = ("ann", "bob", "cy", "dee", "eve")
TESTED = ("flo", "gil")


def spoken(folder: Path, name: str = "spoken.h5", width: int = 4) -> EmbeddingFile:
    """Four words; each of five speakers says each twice in training, two others once in test."""
    said = [*np.repeat(SPEAKERS, 2), *TESTED]
    columns = {"group": np.array(said * 4)}
    return make_file(folder, [10] * 4, test=[2] * 4, columns=columns, name=name, width=width)


def held_and_taught(stream: Any, file: EmbeddingFile) -> tuple[set[str], set[str]]:
    """The groups of the validation data of all sessions, and those of the training data."""
    groups = file.columns["group"]
    held = {*np.concatenate([groups[rows_of(s.val_x)] for s in stream.sessions]).tolist()}
    taught = {*np.concatenate([groups[rows_of(s.x)] for s in stream.sessions]).tolist()}
    return held, taught


def test_by_group_the_validation_data_are_one_whole_speaker(tmp_path: Path) -> None:
    """A fifth of ten samples a word are two: those of the speaker whose SHA-256 is the least."""
    file = spoken(tmp_path)
    split = split_rows(file, "train", 0.2, "group")
    least = min(SPEAKERS, key=lambda name: hashlib.sha256(name.encode()).digest())
    np.testing.assert_array_equal(split.val, np.flatnonzero(file.columns["group"] == least))


def test_by_sample_the_same_speakers_are_in_both(tmp_path: Path) -> None:
    stream = IncrementalClass(val_fraction=0.2).build([file := spoken(tmp_path)], seed=0)
    held, taught = held_and_taught(stream, file)
    assert held <= taught
    assert stream.notes == (
        f"{len(held)} of 5 groups of spoken.h5 are both in the training and in the validation "
        "data; protocol.val_by=group holds whole groups out",
    )


def test_by_group_a_stream_shares_none(tmp_path: Path) -> None:
    protocol = IncrementalClass(val_fraction=0.2, val_by="group")
    stream = protocol.build([file := spoken(tmp_path)], seed=0)
    held, taught = held_and_taught(stream, file)
    assert len(held) == 1
    assert held | taught == {*SPEAKERS}
    assert not held & taught
    assert stream.notes == (
        "validation data are 1 of 5 groups of spoken.h5, 8 of 40 training samples",
    )


def test_shots_are_of_no_speaker_that_is_held_out(tmp_path: Path) -> None:
    protocol = FSCIL(base=2, way=1, shot=8, val_fraction=0.2, val_by="group")
    stream = protocol.build([file := spoken(tmp_path)], seed=0)
    held, taught = held_and_taught(stream, file)
    assert held
    assert not held & taught
    assert [len(session.x) for session in stream.sessions] == [16, 8, 8]


def test_each_of_several_files_says_what_it_shares(tmp_path: Path) -> None:
    files = [spoken(tmp_path), spoken(tmp_path, "other.h5", width=3)]
    notes = " ".join(MultiModal(val_by="group", val_fraction=0.2).build(files, seed=0).notes)
    assert "1 of 5 groups of spoken.h5" in notes
    assert "1 of 5 groups of other.h5" in notes


def test_a_class_of_one_speaker_stays_in_training(tmp_path: Path) -> None:
    """`a`, the first by SHA-256, would give class 1 its two of twenty, and leave class 0 none."""
    groups = ["a"] * 2 + ["t"] + ["a"] * 2 + ["g"] * 18 + ["t"]
    columns = {"group": np.array(groups)}
    file = make_file(tmp_path, [2, 20], [0, 0], [1, 1], columns=columns)
    split = split_rows(file, "train", 0.1, "group")
    assert {*file.columns["group"][split.val].tolist()} == {"g"}


def test_a_file_of_one_speaker_gives_none(tmp_path: Path) -> None:
    file = make_file(tmp_path, columns={"group": np.array((["a"] * 4 + ["t"] * 2) * 4)})
    with pytest.raises(UserError, check=says(what="protocol.val_by", got="group")):
        IncrementalClass(val_by="group").build([file], seed=0)


def test_a_file_without_groups_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no column 'group'"):
        IncrementalClass(val_by="group").build([make_file(tmp_path)], seed=0)


def test_a_split_that_the_file_brings_stays(tmp_path: Path) -> None:
    columns = {"group": np.array(["a"] * 28)}
    file = make_file(tmp_path, val=(1, 1, 1, 1), columns=columns)
    stream = IncrementalClass(base=1, val_by="group").build([file], seed=0)
    assert [len(session.val_x) for session in stream.sessions] == [1] * 4
    assert stream.notes == ("protocol.val_by=group: file.h5: no validation data are held out",)


def test_iirc_says_so_and_has_no_other_way(tmp_path: Path) -> None:
    columns = {"group": np.array(["a", "b", "a", "b", "s", "t"] * 4)}
    stream = IIRC(val_fraction=0.3).build([make_file(tmp_path, columns=columns)], seed=0)
    assert "--split FILE" in stream.notes[-1]
    with pytest.raises(UserError, check=says(what="iirc.val_by", got="group")):
        IIRC(val_by="group")


def test_by_sample_enters_no_digest(tmp_path: Path) -> None:
    """It is the earlier behaviour: runs of earlier versions keep their place."""
    assert "val_by" not in IncrementalClass().recipe()
    assert "val_by" in IncrementalClass(val_by="group").recipe()


@pytest.mark.parametrize("validation", ["none", "test"])
def test_by_group_where_nothing_is_held_out_is_said(tmp_path: Path, validation: str) -> None:
    protocol = IncrementalClass(validation=validation, val_by="group")
    notes = protocol.build([spoken(tmp_path)], seed=0).notes
    assert "protocol.val_by=group: spoken.h5: no validation data are held out" in notes
