"""`run --unknown OTHER.h5`: a second file's samples are scored at every moment, never taught."""

import json
import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Call
from confident_runs import random_run
from image_files import pixel_file, samples
from packs import Forgery, forged
from plan_runs import plan
from protocol_files import make_file

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.models.slda import SLDA
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.scores import record_files
from embedbench.scores.array_file import WrongError
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.predictions import Predictions
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS
from embedbench.sharing.board import board
from embedbench.sharing.pack import pack, unpack
from embedbench.streams import load_table as loading
from embedbench.streams.stream import Stream
from embedbench.streams.unknown_samples import with_far_samples
from embedbench.studies.study_file import read_study

SETTINGS = ("protocol.base=2", "protocol.scale=standard", "references=0")


def near(folder: Path, **more: Any) -> EmbeddingFile:
    return make_file(folder, (9,) * 5, (0,) * 5, (6,) * 5, apart=3.0, **more)


def other(folder: Path, names: str = "wxy", *, test: int = 5, **more: Any) -> EmbeddingFile:
    n = len(names)
    sizes: Any = (7,) * n, (0,) * n, (test,) * n
    return make_file(folder, *sizes, classes=names, **{"name": "other.h5", **more})


def specs(folder: Path, unknown: EmbeddingFile | None) -> list[RunSpec]:
    file = folder / "file.h5"
    path = None if unknown is None else str(unknown.path)
    files = [str(file if file.exists() else near(folder).path)]
    return plan(files, "incremental-class", ["slda"], [0], SETTINGS, unknown=path)


def samples_of(file: EmbeddingFile, classes: tuple[str, ...]) -> Samples:
    return Samples(file.sample_ids, file.labels, file.split, classes, file.parents)


def answers(place: Path) -> Predictions:
    p = record_files.read_predictions(place)
    assert isinstance(p, Predictions)
    return p


def stream_with(folder: Path, far: EmbeddingFile, *, seed: int = 0, **settings: Any) -> Stream:
    file, settings = near(folder), {"base": 2, "scale": "standard", **settings}
    stream = IncrementalClass(**settings).build([file], seed=seed)
    return with_far_samples(stream, file, far)


@pytest.mark.parametrize(
    ("scale", "mapped"),
    [("none", False), ("l2", False), ("rms", False), ("standard", False), ("standard", True)],
)
def test_scaling_by_session_0(tmp_path: Path, monkeypatch: Any, scale: str, mapped: bool) -> None:
    far = other(tmp_path)
    if mapped:
        monkeypatch.setattr(loading, "RESIDENT", 0)
    stream = stream_with(tmp_path, far, scale=scale)
    raw = far.read()[far.split == 2].astype(np.float64)
    base = EmbeddingFile.open(tmp_path / "file.h5").read()[stream.sessions[0].ids]
    length = np.linalg.norm(raw, axis=1, keepdims=True)
    expected = {
        "none": raw,
        "l2": raw / length,
        "rms": raw / length * math.sqrt(raw.shape[1]),
        "standard": np.clip((raw - base.mean(axis=0)) / base.std(axis=0), -5, 5),
    }[scale]
    np.testing.assert_allclose(stream.far.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_references_have_no_far_samples(tmp_path: Path) -> None:
    stream = replace(stream_with(tmp_path, other(tmp_path)), so_far=True)
    assert [part.far for part in stream.references] == [None] * 4


def test_classes_that_the_stream_teaches_are_left_out(tmp_path: Path) -> None:
    stream = stream_with(tmp_path, other(tmp_path, "bwx"))
    assert len(stream.far) == 10
    says = "10 samples of 2 classes of other.h5 are unknown; the other 1 are left out"
    assert stream.notes[-1].startswith(says)
    unnamed = other(tmp_path, name="unnamed.h5", backbone="unknown")
    file = EmbeddingFile.open(tmp_path / "file.h5")
    untested = other(tmp_path, name="untested.h5", test=0)
    every = with_far_samples(replace(stream, far=None), file, untested).far
    assert len(every) == 21  # of a file without a test split
    note = with_far_samples(replace(stream, far=None), file, unnamed).notes[-1]
    assert note.startswith("15 samples of 3 classes of unnamed.h5 are unknown; which backbone")


def test_classes_that_have_places_as_labels_are_left_out_by_their_names(tmp_path: Path) -> None:
    places: dict[str, Any] = {"base": 0, "sessions": 2, "classes": 4, "labels": "place"}
    stream = stream_with(tmp_path, other(tmp_path, "bwx"), **places)
    assert stream.classes == ("place 1", "place 2")
    assert len(stream.far) == 10  # without b, which the stream teaches as place 2


def renamed(file: EmbeddingFile, path: Path, features: Any = None) -> EmbeddingFile:
    """The samples of a file under other names of classes."""
    named = samples_of(file, tuple(f"other {name}" for name in file.classes))
    table = file.read() if features is None else features
    return write_file(path, named, table, file.provenance)


def test_the_rows_of_the_stream_under_other_names_are_refused(tmp_path: Path) -> None:
    file = near(tmp_path)
    stream = IncrementalClass(base=2).build([file], seed=0)
    said = "all 30 samples of twin.h5 that would be unknown are in the stream, too"
    with pytest.raises(UserError, match=said):
        with_far_samples(stream, file, renamed(file, tmp_path / "twin.h5"))


def test_how_many_rows_of_the_stream_are_unknown_too_is_said(tmp_path: Path) -> None:
    file = near(tmp_path)
    stream = IncrementalClass(base=2).build([file], seed=0)
    table = file.read()
    tests = np.flatnonzero(file.split == 2)
    table[tests[3:]] += 1
    table[tests[5]] = table[0]  # a training row of the stream
    note = with_far_samples(stream, file, renamed(file, tmp_path / "twin.h5", table)).notes[-1]
    first = file.sample_ids[tests[0]]
    said = f"4 of them are in the stream, too, under other classes (equal features, first {first})"
    assert said in note


def test_a_run_with_another_file_is_another_run_with_the_same_answers(tmp_path: Path) -> None:
    far, root, cache = other(tmp_path), tmp_path / "runs", StreamCache()
    (without,), (spec,) = specs(tmp_path, None), specs(tmp_path, far)
    plain, full = run_grid([without, spec], root).run_dirs
    assert plain.parent.parent != full.parent.parent  # the stream's directory
    one, two = record_files.load(plain), record_files.load(full)
    assert one.digests == two.digests
    assert one.metrics == two.metrics
    assert one.reference.offline_runs == two.reference.offline_runs
    assert "unknown" not in one.to_json()
    assert two.unknown.name == "other.h5"
    assert two.unknown.digests == far.digests
    a, b = answers(plain), answers(full)
    np.testing.assert_array_equal(a.score, b.score)
    np.testing.assert_array_equal(a.answer, b.answer)
    assert a.far_ids is None
    assert b.far_score.shape == (4, 15)
    np.testing.assert_array_equal(b.far_ids, np.flatnonzero(far.split == 2))
    assert ANSWER_METRICS["far_auroc_by_score"](a) is None
    # its reference is that of the run without, and has no far samples
    refs = [replace(one, references=1).offline_runs(1)[0][0] for one in (without, spec)]
    assert len({make_task(ref, root, cache).place for ref in refs}) == 1
    assert make_task(refs[1], root, cache).stream.far is None
    # the place follows from the content, not from the name
    for apart in (0.0, 1.0):
        path = str(other(tmp_path, name=f"named-{apart}.h5", apart=apart).path)
        renamed = make_task(replace(spec, unknown=path), root, StreamCache()).run_dir
        assert (renamed == full) == (apart == 0.0)


def test_tables_of_far_samples_are_checked(tmp_path: Path) -> None:
    p: Any = random_run(1)[0]
    p.save(tmp_path / "p.h5")
    for name, value in vars(load_any(tmp_path / "p.h5")).items():
        np.testing.assert_array_equal(value, getattr(p, name))
    gone = np.where(np.arange(7) == 3, np.nan, p.far_score).astype(np.float32)
    for changes, reason in (
        ({"far_ids": None}, "all of far_ids, far_score"),
        ({"far_logp": None}, "far_logp .* there"),
        ({"far_score": gone}, "far_logp is NaN"),
        ({"far_logp": -p.far_logp}, "far_logp .* most 0"),
    ):
        with pytest.raises(WrongError, match=reason):
            replace(p, **changes).check()


def words(folder: Path, *more: str) -> list[str]:
    if not (folder / "file.h5").exists():
        near(folder)
    line = ["run", str(folder / "file.h5"), "--learner", "slda,ncm"]
    line += [] if "--protocol" in more else ["--protocol", "incremental-class"]
    items = SETTINGS[1:] if "--protocol" in more else SETTINGS
    line += [word for item in items for word in ("--set", item)]
    return [*line, "--out", str(folder / "runs"), "--quiet", *more]


def test_tables_and_figures_have_it_when_they_are_asked_for(tmp_path: Path, call: Call) -> None:
    far, study, root = other(tmp_path), tmp_path / "study.toml", str(tmp_path / "runs")
    study.write_text(f'unknown = "{far.path}"', encoding="utf-8")
    assert read_study(study).unknown == str(far.path)
    code, out, err = call(*words(tmp_path, "--config", str(study), "--seeds", "0-1"))
    assert code == 0, err
    assert "15 samples of 3 classes of other.h5 are unknown" in out
    runs = sorted(tmp_path.glob("runs/incremental-class-*/slda-*/seed-*"))
    said = f"--unknown {shlex.quote(str(far.path))}"
    assert [said in record_files.load(run).command for run in runs] == [True, True]
    name = "far_oscr_by_energy"
    _, out, _ = call("report", root, "--metric", name, "--json")
    rows = json.loads(out)["tables"][0]["rows"]
    made = next(row["metrics"][name] for row in rows if row["learner"] == "slda")
    expected = [ANSWER_METRICS[name](answers(run)) for run in runs]
    assert made["values"] == pytest.approx(expected[:1])  # equal answers are one measurement
    picture = tmp_path / "unknown.svg"
    drawn = ("--figure", "curves", "--metric", "far_auroc_by_score", "--out", str(picture))
    assert call("report", root, *drawn)[0] == 0
    assert ">far_auroc_by_score %<" in picture.read_text("utf-8")
    # beside runs without: a table of its own
    assert call(*words(tmp_path, "--seeds", "0-1"))[0] == 0
    assert "unknown=other.h5" in call("report", root)[1]


def test_packs_and_boards_take_it_with_its_file(tmp_path: Path) -> None:
    far, root = other(tmp_path), tmp_path / "runs"
    assert not run_grid(specs(tmp_path, far), root).failed
    pack(root, tmp_path / "a.zip", by="Team A")
    with unpack(tmp_path / "a.zip") as made:
        (run,) = record_files.find(made.runs)[-1:]
        assert str(tmp_path) not in (run / "record.json").read_text()
        assert "--unknown other.h5" in record_files.load(run).command
    given = board([tmp_path / "a.zip"], [tmp_path / "file.h5", far.path])
    assert [(s.ranked, s.unranked, s.refused) for s in given.submissions] == [(1, (), None)]
    turned = Forgery(lambda p: replace(p, far_ids=p.far_ids[::-1]), full=True)  # type: ignore[index]
    bad = forged(tmp_path / "a.zip", tmp_path / "b.zip", {"/slda-": turned})
    (one,) = board([bad], [tmp_path / "file.h5", far.path]).submissions[0].unranked
    assert one.reason.startswith("its 'far_ids'")
    without = board([tmp_path / "a.zip"], [tmp_path / "file.h5"])
    reasons = {u.reason for u in without.submissions[0].unranked}
    assert [reason[:13] for reason in reasons] == ["other.h5 with"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"width": 7}, "(embedding 7 by made up; embedding 4 by made up)"),
        ({"backbone": "resnet50"}, "(embedding 4 by resnet50; embedding 4 by made up)"),
        ({"names": "abc"}, "every class of other.h5"),
        ({"more": ["--protocol", "permutation"]}, "the same columns"),
        ({"name": "another.h5"}, "other.h5"),
    ],
)
def test_what_cannot_work(tmp_path: Path, call: Call, how: dict[str, Any], reason: str) -> None:
    more = how.pop("more", [])
    other(tmp_path, how.pop("names", "wxy"), **how)
    line = words(tmp_path, "--unknown", str(tmp_path / "other.h5"), *more)
    code, out, err = call(*line)
    assert code == 2, err
    assert out == "", err
    assert reason in err
    assert "Traceback" not in err
    assert not list(tmp_path.rglob("record.json"))


def test_streams_that_are_refused(tmp_path: Path) -> None:
    file, far = near(tmp_path), other(tmp_path)
    stream = IncrementalClass(base=2).build([file], seed=0)
    told = replace(stream, spec=replace(stream.spec, reveals_session_id=True))
    with pytest.raises(UserError, match=r"SLDA .* --unknown"):
        run_stream(with_far_samples(told, file, far), SLDA(), Seeds.of(0))
    sets = replace(stream, spec=replace(stream.spec, multilabel=True))
    with pytest.raises(UserError, match="--unknown needs"):
        with_far_samples(sets, file, far)
    second = make_file(tmp_path, name="second.h5", width=6)
    (spec,) = plan([str(file.path), str(second.path)], "multi-modal", ["ncm"], [0])
    spec = replace(spec, unknown=str(far.path))
    with pytest.raises(UserError, match=r"--unknown needs .* one file"):
        StreamCache().stream(spec)


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_images_are_scaled_as_those_of_the_stream(tmp_path: Path, scale: Any) -> None:
    file = pixel_file(tmp_path)
    names = replace(samples(1), classes=(*"uvwxyz", "node"))
    x = np.random.default_rng(7).integers(0, 256, file.shape, np.uint8)
    far = write_file(tmp_path / "far.h5", names, x, file.provenance)
    stream = IncrementalClass(base=2, scale=scale).build([file], seed=0)
    stream = with_far_samples(stream, file, far)
    base = file.images()[stream.sessions[0].ids] / 255
    mean, deviation = (0, 1) if scale == "none" else (base.mean((0, 1, 2)), base.std((0, 1, 2)))
    expected = ((x[far.split == 2] / 255 - mean) / deviation).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(stream.far.numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match=r"file\.h5 and p\.h5 .* \(embedding 4"):
        with_far_samples(stream, file, near(tmp_path))


def test_layers_are_read_as_those_of_the_stream(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    made = {"backbone": {"name": "some"}}

    def layered(name: str, names: str, layers: str = "ab") -> EmbeddingFile:
        x, every = draw.normal(size=(84, 5)), samples(1)
        tables = {n: draw.normal(2, 3, (84, 4)).astype(np.float32) for n in layers}
        every = replace(every, classes=(*names, "node"))
        return write_file(tmp_path / name, every, x.astype(np.float32), made, layers=tables)

    file, far = layered("near.h5", "abcdef"), layered("far.h5", "uvwxyz")
    protocol = IncrementalClass(base=2, embedding="b", layers="a", scale="standard")
    plain = protocol.build([file], seed=0)
    stream = with_far_samples(plain, file, far)
    rows = stream.sessions[0].ids
    parts = []
    for layer in "ba":
        base, x = (f.read((), layer) for f in (file, far))
        base = base[rows]
        parts.append(np.clip((x[far.split == 2] - base.mean(axis=0)) / base.std(axis=0), -5, 5))
    np.testing.assert_allclose(stream.far.numpy(), np.hstack(parts), rtol=1e-4, atol=1e-5)
    lacking = layered("lacking.h5", "uvwxyz", "a")
    with pytest.raises(UserError, match=r"layer .*lacking\.h5 'b'"):
        with_far_samples(plain, file, lacking)


def test_equal_numbers_are_one_class(tmp_path: Path) -> None:
    """Classes 0 to 4 are taught; 03 and 4 of the other file are two of them."""
    file = near(tmp_path, classes="01234")
    far = make_file(
        tmp_path, (7,) * 3, (0,) * 3, (5,) * 3, classes=["03", "4", "7"], name="other.h5"
    )
    stream = IncrementalClass(base=2, scale="standard").build([file], seed=0)
    made = with_far_samples(stream, file, far)
    assert made.far is not None
    assert len(made.far) == 5
    assert made.notes[-1].startswith("5 samples of 1 classes of other.h5 are unknown; the other 2")
    assert "equal numbers are taken for one class" in made.notes[-1]


def test_a_file_of_the_same_numbers_may_have_names_instead(tmp_path: Path) -> None:
    file = near(tmp_path, classes="01234")
    far = make_file(tmp_path, (7,) * 2, (0,) * 2, (5,) * 2, classes=["03", "4"], name="other.h5")
    with pytest.raises(UserError, match="of other classes, or one with names in the place of num"):
        with_far_samples(IncrementalClass(base=2).build([file], seed=0), file, far)


@pytest.mark.parametrize(("answers_only", "expected"), [(True, ("other.h5",)), (False, ())])
def test_a_pack_of_answers_alone_says_that_those_to_unknown_samples_are_not_in_it(
    tmp_path: Path, answers_only: bool, expected: tuple[str, ...]
) -> None:
    run_grid(specs(tmp_path, other(tmp_path)), tmp_path / "runs")
    packed = pack(tmp_path / "runs", tmp_path / "p.zip", answers_only=answers_only)
    assert packed.unknown_left_out == expected
    assert ("answers to the unknown samples of other.h5" in packed.sentence) == answers_only
