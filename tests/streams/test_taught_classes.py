"""Classes that a file names and does not teach: every stream is that of a file without them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file

from embedbench.api import run
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, Samples
from embedbench.files.write_file import write_file
from embedbench.protocols.domain_incremental import DomainIncremental
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.iirc import IIRC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.instance import Instance
from embedbench.protocols.mixture import Mixture
from embedbench.protocols.multi_modal import MultiModal
from embedbench.protocols.permutation import Permutation
from embedbench.reports.result_rows import Group
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores.record_files import load
from embedbench.streams.protocol import Protocol
from embedbench.streams.view import rows_of

USED = (1, 3, 4, 6, 7)  # of eight names; the others have no sample
NAMES = [f"n{c}" for c in range(8)]


def pair(folder: Path, **more: Any) -> tuple[EmbeddingFile, EmbeddingFile]:
    """One data set twice: with the names of all eight classes, and of the five in it alone."""
    n = len(USED)
    few = make_file(
        folder, [9] * n, [0] * n, [3] * n, name="few.h5", apart=4.0,
        classes=[NAMES[c] for c in USED], **more,
    )  # fmt: skip
    samples = Samples(
        ids=few.sample_ids,
        labels=np.array(USED)[few.labels],
        split=few.split,
        classes=tuple(NAMES),
        parents=np.full(8, -1),
    )
    many = write_file(
        folder / "many.h5", samples, few.read(), few.provenance, columns=more.get("columns")
    )
    return many, few


def test_of_classes_that_are_not_taught_five_are_named(tmp_path: Path) -> None:
    names = [f"n{c}" for c in range(9)]
    few = make_file(tmp_path, [9, 9], [0, 0], [3, 3], name="few.h5", classes=names[:2])
    samples = Samples(few.sample_ids, few.labels, few.split, tuple(names), np.full(9, -1))
    many = write_file(tmp_path / "many.h5", samples, few.read(), few.provenance)
    (note,) = IncrementalClass(base=1).build([many], seed=0).notes
    assert note.endswith("(7 of 9), left out: n2, n3, n4, n5, n6, …")


DOMAINS = {"domain": np.tile(["a", "b", "c"], 20), "group": np.repeat([*"0123456789"], 6)}
PROTOCOLS: list[Protocol] = [
    IncrementalClass(base=2, order="random"),
    IncrementalClass(order="size", loss="seen"),
    IncrementalClass(order="icarl1993"),
    FSCIL(base=3, way=1, shot=5, order="random"),
    IIRC(base=2, step=1),
    Mixture(sessions=3),
    Mixture(setting="repetition", sessions=3),
    Mixture(setting="long-tailed", sessions=3),
    Instance(ordering="iid", sessions=3),
    Instance(ordering="class-instance", sessions=3),
    Permutation(sessions=3),
    DomainIncremental(),
    DomainIncremental(test="all", domains="b,a"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: f"{p.name}-{PROTOCOLS.index(p)}")
def test_a_stream_is_that_of_a_file_without_the_other_names(
    protocol: Protocol, tmp_path: Path
) -> None:
    many, few = (protocol.build([file], seed=3) for file in pair(tmp_path, columns=DOMAINS))
    assert many.spec == few.spec
    assert many.classes == few.classes
    assert "without samples (3 of 8), left out: n0, n2, n5" in " ".join(many.notes)
    for ours, theirs in zip(
        (*many.sessions, *many.eval_sets), (*few.sessions, *few.eval_sets), strict=True
    ):
        assert rows_of(ours.x).tolist() == rows_of(theirs.x).tolist()
        assert ours.y.tolist() == theirs.y.tolist()
        assert ours.classes.tolist() == theirs.classes.tolist()


@pytest.mark.parametrize("learner", ["mlp", "chance", "nc-fscil"])
def test_learners_answer_as_on_a_file_without_the_other_names(learner: str, tmp_path: Path) -> None:
    many, few = (IncrementalClass(base=2).build([file], seed=0) for file in pair(tmp_path))
    np.testing.assert_array_equal(run(many, learner).score, run(few, learner).score)


def test_several_files(tmp_path: Path) -> None:
    many, _ = pair(tmp_path)
    other = make_file(tmp_path, [4] * 3, [0] * 3, [2] * 3, name="other.h5", width=3)
    stream = MultiModal().build([many, other], seed=0)
    assert stream.spec.n_classes == 5 + 3
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert "many.h5 without samples (3 of 8)" in stream.notes[0]
    assert [s.classes for s in stream.alone] == [("n1", "n3", "n4", "n6", "n7"), ("a", "b", "c")]


def test_inner_nodes_without_a_leaf_are_left_out(tmp_path: Path) -> None:
    """bear (polar, brown), lamp (red, green) and plant (tree (ash, elm), oat), no lamp, no elm."""
    names = ["polar", "brown", "red", "green", "ash", "elm", "oat", "bear", "lamp", "plant", "tree"]
    parents = [7, 7, 8, 8, 10, 10, 9, -1, -1, -1, 9]
    train = [8, 8, 0, 0, 8, 0, 8]
    file = make_file(
        tmp_path, train, [0] * 7, [2 if n else 0 for n in train], classes=names, parents=parents
    )
    stream = IIRC(base=1, step=1).build([file], seed=0)
    assert stream.classes == ("polar", "brown", "ash", "oat", "bear", "plant", "tree")
    assert stream.parents is not None
    assert stream.parents.tolist() == [4, 4, 6, 5, -1, -1, 5]
    assert stream.notes[0].endswith("without samples (3 of 7), left out: red, green, elm")


@pytest.mark.parametrize(
    "protocol",
    [
        IncrementalClass(),
        FSCIL(base=2, way=1),
        IIRC(),
        Permutation(sessions=2),
        Instance(ordering="iid", sessions=2),
    ],
    ids=lambda p: p.name,
)
def test_classes_with_test_samples_alone_are_left_out_with_them(
    protocol: Protocol, tmp_path: Path
) -> None:
    file = make_file(tmp_path, (8, 0, 8, 8), (0,) * 4, (2, 3, 2, 2))
    stream = protocol.build([file], seed=0)
    assert stream.classes == ("a", "c", "d")
    tested = np.concatenate([rows_of(e.x) for e in stream.eval_sets if e.split == "test"])
    expected = np.flatnonzero((file.split == TEST) & (file.labels != 1))
    assert sorted(set(tested.tolist())) == expected.tolist()
    assert stream.notes[0] == (
        "classes of file.h5 without training samples (1 of 4 with 3 of 33 samples), left out: b"
    )


def test_validation_samples_teach_where_they_are_training_data(tmp_path: Path) -> None:
    file = make_file(tmp_path, (4, 0, 4), (2, 2, 2), (2, 2, 2))
    assert Permutation(validation="test").build([file], seed=0).classes == ("a", "b", "c")
    assert Permutation().build([file], seed=0).classes == ("a", "c")


def test_a_class_of_a_domain_that_is_not_taught_is_left_out(tmp_path: Path) -> None:
    domain = np.array([*"aabbab", *"aabbab", *"cccccc"])  # four train, two test of each class
    file = make_file(
        tmp_path, (4, 4, 4), (0,) * 3, (2,) * 3, columns={"domain": domain}, classes="xyz"
    )
    whole = DomainIncremental(domains="a,b,c").build([file], seed=0)
    assert [s.classes.tolist() for s in whole.sessions] == [[0, 1, 2], [], []]
    part = DomainIncremental(domains="a,b", test="all").build([file], seed=0)
    assert part.classes == ("x", "y")
    assert sorted(set(part.eval_sets[0].y.tolist())) == [0, 1]
    assert "that no taught domain has (1 of 3 with 6 of 18 samples), left out: z" in part.notes[0]


def test_there_is_one_chance(tmp_path: Path) -> None:
    """Five classes of eight names have samples: 1/5 in the table and behind the scores."""
    many, _ = pair(tmp_path)
    cells = plan([str(many.path)], "permutation", ["chance"], [0], ["protocol.sessions=2"])
    run_grid(cells, tmp_path / "runs")
    (path,) = (tmp_path / "runs").rglob("chance*/**/record.json")
    record = load(path.parent)
    assert Group("", (record,)).chance == pytest.approx(1 / 5)
    assert record.classes == (("n1", "n3", "n4", "n6", "n7"),)
    assert record.n_classes == (5, 0)
    curves = record.by_score["class_accuracy"].curves
    assert curves["uraa"][-1] / curves["aa"][-1] == pytest.approx(5)
    assert Group("", (record,)).describe()[0] == "5 classes"


def test_runs_have_a_new_place_only_where_classes_are_left_out(tmp_path: Path) -> None:
    many, few = pair(tmp_path)
    assert IncrementalClass().later_readings([few]) == ()
    assert IncrementalClass().later_readings([many]) == ("untaught classes are left out",)


@pytest.mark.parametrize(("domains", "moved"), [("natural", False), ("a,c", False), ("a,b", True)])
def test_runs_have_a_new_place_where_no_taught_domain_has_a_class(
    domains: str, moved: bool, tmp_path: Path
) -> None:
    domain = np.array([*"aabbab", *"cccccc"])
    file = make_file(tmp_path, (4, 4), (0,) * 2, (2,) * 2, columns={"domain": domain}, classes="xz")
    assert bool(DomainIncremental(domains=domains).later_readings([file])) == moved
