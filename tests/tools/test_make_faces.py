"""`tools/make_faces.py`: which faces it takes, how it draws them, and that import reads it."""

import shutil
import sys
from pathlib import Path

import make_faces
import numpy as np
import pytest
from command_line import embedbench

from embedbench.files.embedding_file import EmbeddingFile

matplotlib = pytest.importorskip("matplotlib", reason="its fonts are drawn")
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
SANS, SYMBOLS = "DejaVuSans.ttf", "cmsy10.ttf"  # the latter has no letters


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two faces, one of them twice, a font without letters, and what is no font."""
    if not (FONTS / SANS).is_file():
        pytest.skip(f"no fonts in {FONTS}")
    folder = tmp_path_factory.mktemp("fonts")
    (folder / "more").mkdir()
    for source, target in (
        (SANS, SANS),
        (SANS, "more/again.ttf"),
        ("DejaVuSerif.ttf", "more/serif.TTF"),
        (SYMBOLS, SYMBOLS),
    ):
        shutil.copy(FONTS / source, folder / target)
    (folder / "broken.otf").write_bytes(b"no font")
    (folder / "notes.txt").write_text("no font")
    return folder


def test_different_faces_with_all_characters_are_taken(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faces = list(make_faces.faces(folder))
    assert [f.path for f in faces] == [SANS, "more/serif.TTF"]
    assert [f.family for f in faces] == ["DejaVu Sans", "DejaVu Serif"]
    out = capsys.readouterr().out
    assert "broken.otf is left out" in out
    assert SYMBOLS not in out  # a sound font that lacks characters


def test_import_reads_images_split_and_hierarchy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, out = tmp_path / "faces.npz", tmp_path / "faces.h5"
    monkeypatch.setattr(make_faces.Face, "test", property(lambda face: "Serif" in face.family))
    monkeypatch.setattr(sys, "argv", ["make_faces.py", str(made), "--fonts", str(folder)])
    make_faces.main()
    done = embedbench("import", made, "--out", out)
    assert done.exit_code == 0, done.output
    file = EmbeddingFile.open(out)
    samples = file.samples
    assert (file.shape, samples.n_leaves) == ((200, 32, 32, 1), 100)
    assert np.bincount(samples.split).tolist() == [100, 0, 100]
    number = file.classes.index("ß")
    assert file.classes[file.parents[number]] == "accented"
    row = samples.ids.tolist().index("more/serif.TTF/u00df")
    assert samples.labels[row] == number
    expected = make_faces.drawn(folder / "more" / "serif.TTF")[number]
    images = np.concatenate([rows for _, rows in file.blocks("features")])
    assert (images[row, ..., 0] == expected).all()
