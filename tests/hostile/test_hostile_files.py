"""Files that break the specification, and other people's files: one sentence each.

Some are listed, with what must be said; others are drawn, embedding files and predictions with
flipped bytes and hostile structures, and read in processes with bounds.
"""

import hashlib
import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import victim
from file_helpers import (
    JOB,
    JOB_SHA256,
    PROVENANCE,
    begin,
    done,
    flip,
    make_columns,
    make_features,
    make_samples,
    refusal,
    written,
)
from hostile import cases, drawn, judge
from hostile_hdf5 import mutate
from victim import Outcome

from embedbench.errors import DamagedFileError, UserError
from embedbench.files import file_digests, hdf5_layout
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file
from embedbench.files.inspect import card, card_text
from embedbench.files.write_file import write_file
from embedbench.storage import safe_hdf5

N = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    layers = {"b": make_features(N, 2)}
    return written(tmp_path / "a.h5", N, layers=layers, columns=make_columns(N)).path


def replaced(name: str, value: Any, **settings: Any) -> Callable[[h5py.File], None]:
    def change(f: h5py.File) -> None:
        f.pop(name, None)
        f.create_dataset(name, data=np.array(value), **settings)

    return change


def said(text: bytes) -> Callable[[h5py.File], None]:
    return replaced("provenance", text)


NINE_MILLION = replaced("columns/domain", np.zeros(N, "S300000"), chunks=(1,), compression="gzip")


def layers_of_images(f: h5py.File) -> None:
    for name in ("features", "layers/b"):
        replaced(name, np.zeros((N, 2, 2, 3), "u1"))(f)
    f.attrs.create("kind", np.bytes_("pixels"))


TEXTS = np.full(N, b"a")

WRONG_PARTS = {"backbone": "x", "source": [1], "skipped": 3, "date_utc": {}}

CASES: dict[str, tuple[Callable[[h5py.File], object], str]] = {
    "scalar labels": (replaced("labels", np.int32(1)), r"labels is int32 .*\(\);"),
    "ids in 3-d": (replaced("sample_ids", np.full((N, 1, 1), b"a")), r"sample_ids .*\(30, 1, 1\);"),
    "large labels": (replaced("labels", np.zeros(N, "<i8")), r"labels is int64 .* <i4"),
    "ids that are numbers": (replaced("sample_ids", np.arange(N)), "sample_ids is int64"),
    "few rows": (replaced("features", make_features(N - 1)), r"features .*\(29, 5\); .*\(30, D\)"),
    "images as a layer": (replaced("layers/b", np.zeros((N, 2, 2, 3), "u1")), "layers/b is uint8"),
    "images and layers": (layers_of_images, "images, and layers"),
    "a layer in a layer": (replaced("layers/c/d", make_features(N)), "no table 'layers/c'"),
    "a layer of no name": (replaced("layers/a b", make_features(N)), "layer name 'a b'"),
    "few parents": (replaced("parents", np.zeros(2, "<i4")), r"parents .*\(2,\);"),
    "many checksums": (replaced("checksums/labels", np.zeros((9, 32), "u1")), "labels .*9, 32"),
    "no checksums": (lambda f: f.pop("checksums/features"), "no table 'checksums/features'"),
    "no digests": (lambda f: f.pop("digests"), "no group 'digests'"),
    "a table more": (replaced("other", np.zeros(3)), "a table 'other'"),
    "a table for a group": (replaced("digests", 1), "no group 'digests'"),
    "texts from nothing": (NINE_MILLION, "columns/domain .* 9,000,000 .* 8,388,608"),
    "a long provenance": (said(b" " * (hdf5_layout.PROVENANCE + 1)), "provenance has 33,554,433"),
    "kind is a number": (lambda f: f.attrs.create("kind", 1), "'kind' is not"),
    "a provenance that is a list": (said(b"[]"), "provenance .*JSON object"),
    "no JSON": (said(b"{"), "is not JSON"),
    "deep": (said(b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"), "deeper than 100"),
    **{
        f"{key} is {value}": (said(json.dumps({key: value}).encode()), f"{key} must be")
        for key, value in WRONG_PARTS.items()
    },
    "a number for names": (said(b'{"weights": {"pretrained_on": 3}}'), "pretrained_on .* 3$"),
    "a long column": (replaced("columns/domain", np.full(N + 1, b"a")), r"/domain .*\(31,\);"),
    "half precision": (replaced("columns/time", np.zeros(N, "<f4")), "columns/time is float32"),
    "an unknown name": (replaced("columns/times", np.zeros(N)), "'times'.* 'time'"),
    "a table for columns": (replaced("columns", np.zeros(3)), "table in 'columns'"),
    "no columns": (lambda f: f.pop("columns") and f.create_group("columns"), "table in 'columns'"),
    "a column, no sums": (lambda f: f.pop("checksums/columns/time"), "no table 'checksums/col"),
    "checksums of none": (lambda f: f.pop("columns/time"), "a table 'checksums/columns/time'"),
    "no digest": (lambda f: f["digests"].attrs.pop("columns"), "damaged"),
    "version 1.0": (lambda f: f.attrs.modify("format_version", b"1.0"), "format 1.0, "),
    "no text": (replaced("columns/domain", np.full(N, b"")), "'domain' .* row 0"),
    "other values": (replaced("columns/domain", TEXTS), "columns do not"),
    "another digest": (lambda f: f["digests"].attrs.modify("samples", b"0" * 64), "samples do not"),
    "other values, old checksums": (replaced("columns/group", TEXTS), "their checksums"),
}


def remade(path: Path, change: Callable[[h5py.File], object]) -> None:
    """Change a file, and make checksums of two columns and of the metadata anew if possible."""
    with h5py.File(path, "r+") as f:
        change(f)
        for name in ("columns/time", "columns/domain"):
            table, sums = f.get(name), f.get(f"checksums/{name}")
            if isinstance(table, h5py.Dataset) and len(table) == N and sums:
                sums[0] = np.frombuffer(file_digests.block_digest(table[()]), np.uint8)
        try:
            digest = file_digests.metadata_digest(f)
        except (KeyError, ValueError, TypeError, AttributeError):
            return
        hdf5_layout.set_attribute(f["checksums"], "metadata", digest)


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_breaks_the_format_is_refused_before_it_is_read(path: Path, case: str) -> None:
    change, sentence = CASES[case]
    remade(path, change)
    with pytest.raises(UserError, match=sentence) as error:
        EmbeddingFile.open(path)
    assert str(path) in str(error.value) or "layer name" in str(error.value)
    assert error.value.remedy or case != "no text"


def test_empty_parts_count_as_left_out_and_more_attributes_are_allowed(path: Path) -> None:
    parts = ("backbone", "preprocessing", "arithmetic", "source", "split", "made_by")
    made = {**dict.fromkeys(parts, ""), "skipped": None, "date_utc": None, "other": 1}
    remade(path, said(json.dumps(made).encode()))
    file = EmbeddingFile.open(path)
    assert file.provenance == {"other": 1}
    lines = [line.split() for line in card_text(card(file)).splitlines()]
    assert ["skipped", "0", "samples"] in lines
    assert ["made", "at", "an", "unknown", "date", "by", "unknown"] in lines
    attributes = {"flag": True, "text": ["a", "b"]}
    remade(path, lambda f: f.attrs.update({**attributes, "reference": f["labels"].ref}))
    EmbeddingFile.open(path).read(["b"])


def test_damage_of_compressed_rows_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", compress=True).path
    with h5py.File(path) as f:
        chunk = f["features"].id.get_chunk_info(1)
    flip(path, chunk.byte_offset + chunk.size // 2)
    assert ["1024 to 2047 of features" in line for line in verify(path)] == [True]
    with pytest.raises(DamagedFileError, match="rows 1024-2047 of features"):
        EmbeddingFile.open(path).read()


def test_values_that_are_not_finite_are_not_exported(path: Path, tmp_path: Path) -> None:
    """A file with them can have right checksums."""
    bad = make_features(N, 2)
    bad[7, 1] = np.nan

    def change(f: h5py.File) -> None:
        replaced("layers/b", bad)(f)
        digest = np.frombuffer(file_digests.block_digest(bad), np.uint8)[None]
        replaced("checksums/layers/b", digest)(f)
        content = file_digests.content_digest(f, ("features", "layers/b"))
        hdf5_layout.set_attribute(f["digests"], "content", content)

    remade(path, change)
    assert "layers/b row 7" in verify(path)[0]
    out = tmp_path / "a.npz"
    assert "layers/b row 7" in refusal(EmbeddingFile.open(path).read, ["b"])
    assert "layers/b row 7" in refusal(export_file, path, out)
    assert not out.exists()


def test_a_new_file_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_hdf5, "_examine", lambda *_: pytest.fail("it was examined"))
    written(tmp_path / "a.h5", N).read()


@pytest.mark.parametrize(
    ("head", "tables"),
    [
        (b"[]", b"{}"),
        (b'{"note": null}', b"{"),
        (b'{"note": null}', b"[]"),
        (b'{"note": null}', b'{"x": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}'),
        (b'{"note": null}', b'{"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}'),
    ],
)
def test_a_block_of_another_form_is_made_again(path: Path, head: bytes, tables: bytes) -> None:
    """Its checksum is right: who wrote it could compute that."""
    partial = begin(path.with_name("b.h5"), JOB)
    for block in (0, 1):
        partial.write(block, {"features": make_features(3)})
    body = head.replace(b"null", b'null, "job": "%s"' % JOB_SHA256.encode()) + b"\n"
    body += len(tables).to_bytes(8, "little") + tables + bytes(4)
    first = partial.directory / "block-000000.bin"
    first.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert done(begin(path.with_name("b.h5"), JOB)) == {1}


def npy_header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


def npz(path: Path, members: dict[str, bytes], declared: int | None = None) -> Path:
    """An npz file; `declared` replaces the sizes in its directory."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
            archive.infolist()[-1].file_size = declared or len(data)
    return path


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (npy_header((10**6, 10**6)), "cannot be read"),
        (npy_header((3, 2), "|O"), "by these two lines"),
        (npy_header(()) + bytes(4), r"features is float32 .*\(\);"),
        (npy_header((3,), "<M8[s]") + bytes(24), "features is datetime64"),
        (npy_header((1, 1), "<U1") + b"\x00\xd8\x00\x00", "cannot be read"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "cannot be read"),
        (b"", "cannot be read"),
    ],
)
@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_headers_of_npy_that_lie(tmp_path: Path, header: bytes, sentence: str, kind: str) -> None:
    src, labels = tmp_path, tmp_path / "labels.npy"
    np.save(labels, np.arange(3))
    if kind == "npz":
        src = npz(tmp_path / "a.npz", {"features": header, "labels": labels.read_bytes()})
    else:
        (tmp_path / "features.npy").write_bytes(header)
    with pytest.raises(UserError, match=sentence):
        import_file(src, tmp_path / "a.h5")


def test_zip_and_gzip_bombs(tmp_path: Path) -> None:
    src = npz(tmp_path / "a.npz", {"features": npy_header((10**9, 1), "|u1")}, 10**9 + 100)
    assert "more than its" in refusal(import_file, src, tmp_path / "a.h5")
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        head = bytes([0, 0, 8, int(name[-1])])
        (tmp_path / f"{name}-ubyte").write_bytes(head + struct.pack(">3I", 2**20, 2**10, 2**10))
    assert "along 3 axes" in refusal(import_file, tmp_path, tmp_path / "a.h5")
    for rows, axes in ((2**21, 1), (2**21 + 1, 3)):  # of nothing
        head = bytes([0, 0, 8, 3]) + struct.pack(">3I", rows, 0, 0)
        (tmp_path / "train-images-idx3-ubyte").write_bytes(head)
        said = refusal(import_file, tmp_path, tmp_path / "a.h5")
        assert f"along {axes} axes" in said


GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Files that are sound, and what each says."""
    folder = tmp_path_factory.mktemp("sound")
    write_file(folder / "a.h5", make_samples(90), make_features(90), PROVENANCE)
    words = ["--protocol", "incremental-class", "--set", "protocol.base=2", "--learner", "ncm"]
    ran = victim.run("run", folder / "a.h5", *words, "--out", folder / "runs", seconds=60)
    assert ran.code == 0, ran.err
    golden = [GOLDEN / name for name in ("v1.0.h5", "v1.1.h5", "v1.0-pixels.h5")]
    runs = sorted(p.parent for p in (folder / "runs").rglob("record.json"))
    return SimpleNamespace(
        embeddings={path: _content(victim.said, path) for path in (folder / "a.h5", *golden)},
        runs={run: _content(victim.answered, run / "predictions.h5") for run in runs},
    )


def _content(function: str, path: Path) -> str:
    outcome = victim.call(function, path, seconds=60)
    assert outcome.code == 0, outcome.err
    return outcome.out


def _copy_of_one(paths: Iterable[Path], draw: np.random.Generator, to: Path) -> Path:
    """Copy one of the files or runs; returns which."""
    listed = list(paths)
    one = listed[draw.integers(len(listed))]
    shutil.rmtree(to, ignore_errors=True)
    (shutil.copytree if one.is_dir() else shutil.copy)(one, to)
    return one


def _as_before(outcome: Outcome, expected: str) -> Outcome:
    """The outcome; it fails where the content is another and nothing was said."""
    if outcome.code == 0 and outcome.out != expected:
        return replace(outcome, code=99)
    return outcome


def _flipped(path: Path, draw: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    how = draw.integers(8)
    if how == 0:  # cut, or torn
        del data[int(draw.integers(len(data))) :]
    elif how == 1:
        start = int(draw.integers(len(data)))
        data[start : start + 512] = bytes(len(data[start : start + 512]))
    else:
        data[int(draw.integers(len(data)))] ^= int(draw.integers(1, 256))
    path.write_bytes(data)


@pytest.mark.parametrize("numbers", cases(1200, 12))
def test_flipped_embedding_files(numbers: list[int], sound: Any, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("flip", number)
        path = tmp_path / "f.h5"
        before = _copy_of_one(sound.embeddings, draw, path)
        _flipped(path, draw)
        yield _as_before(victim.call(victim.said, path), sound.embeddings[before])

    judge("flipped embedding files", numbers, trial)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "not-pinned"])
@pytest.mark.parametrize("numbers", cases(500, 5, past=(236,)))
def test_flipped_predictions(numbers: list[int], pinned: bool, sound: Any, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("answers", number)
        place = tmp_path / "run"
        before, path = _copy_of_one(sound.runs, draw, place), place / "predictions.h5"
        _flipped(path, draw)
        changed = path.read_bytes() != (before / path.name).read_bytes()
        if not pinned:
            _unpin(place)
            yield _as_before(victim.call(victim.answered, path), sound.runs[before])
            return
        kept = (place / "record.json").read_bytes()
        outcome = victim.run("score", place)
        if (changed and outcome.code != 1) or (place / "record.json").read_bytes() != kept:
            outcome = replace(outcome, code=99)
        yield outcome

    kind = "flipped predictions" + ("" if pinned else ", not pinned")
    judge(kind, numbers, trial)


def _unpin(place: Path) -> None:
    record: dict[str, Any] = json.loads((place / "record.json").read_text())
    record.pop("predictions_sha256", None)
    (place / "record.json").write_text(json.dumps(record))


@pytest.mark.parametrize("numbers", cases(300, 8, batch=25))
def test_structures(numbers: list[int], sound: Any, tmp_path: Path) -> None:
    def trial(number: int) -> Iterable[Outcome]:
        draw = drawn("structure", number)
        if number % 3 == 0:
            place = tmp_path / "run"
            _copy_of_one(sound.runs, draw, place)
            mutate(place / "predictions.h5", draw)
            _unpin(place)
            yield victim.run("score", place)
            return
        path = tmp_path / "f.h5"
        before = _copy_of_one(sound.embeddings, draw, path)
        signed = mutate(path, draw)
        outcome = victim.call(victim.said, path)
        yield outcome if signed else _as_before(outcome, sound.embeddings[before])
        yield victim.run(*(("inspect", path), ("verify", path), ("diff", before, path))[number % 3])

    judge("structures", numbers, trial)
