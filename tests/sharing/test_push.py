"""Pushing to a server that speaks the hub's protocol: once, again, refused, cut off."""

import json
import os
from pathlib import Path
from typing import Any

import datasets
import hub_server
import numpy as np
import pytest
from file_helpers import PROVENANCE, flip, make_features, make_samples, span
from hub_server import READER, WRITER, Hub
from huggingface_hub import HfApi, constants
from huggingface_hub.utils import _http
from image_files import embedding_file, pixel_file
from typer.testing import CliRunner, Result

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file
from embedbench.sharing.push_file import Place, push

PLACE = "hf://datasets/kanan/made-up"


def command(*words: str) -> Result:
    """Run a command in this process, errors as exceptions."""
    return CliRunner().invoke(app, list(words), catch_exceptions=True)


def remade(file: EmbeddingFile, seed: int = 4, **more: Any) -> EmbeddingFile:
    """The file again, of other features, or of those of seed 0 with more provenance."""
    made = {**PROVENANCE, **more}
    features = make_features(60, seed=seed)
    return write_file(file.path, make_samples(60), features, made, overwrite=True)


def test_a_push_makes_the_repository_in_one_commit(hub: Hub, file: EmbeddingFile) -> None:
    result, repository = push(file.path, PLACE), hub.repositories["kanan/made-up"]
    commit, files = repository.head
    assert result.url == f"{PLACE}@{commit}/a.h5"
    tables = [f"data/{split}.parquet" for split in ("test", "train", "validation")]
    assert sorted(files) == [".gitattributes", "README.md", "a.h5", "a.png", *tables]
    assert files["a.h5"] == file.path.read_bytes()
    assert f"{PLACE}@COMMIT/a.h5" in files["README.md"].decode()
    assert (len(repository.commits), repository.private) == (2, False)  # made, and pushed to
    again = push(file.path, PLACE)
    assert (again.url, again.sent, len(repository.commits)) == (result.url, (), 2)


def test_other_content_is_replaced_only_if_asked(hub: Hub, file: EmbeddingFile) -> None:
    """And other files of the repository stay."""
    hub.add("kanan/made-up", {"notes.txt": b"mine"})
    push(file.path, PLACE)
    other, repository = remade(file), hub.repositories["kanan/made-up"]
    with pytest.raises(UserError, match=r"has a\.h5, data/.*, a\.png, README\.md with other"):
        push(other.path, PLACE)
    assert len(repository.commits) == 2
    push(other.path, PLACE, overwrite=True)
    assert repository.head[1]["a.h5"] == other.path.read_bytes()
    assert repository.head[1]["notes.txt"] == b"mine"


def test_private(hub: Hub, file: EmbeddingFile) -> None:
    push(file.path, PLACE, private=True)
    assert hub.repositories["kanan/made-up"].private
    hub.add("kanan/public", {})
    with pytest.raises(UserError, match="kanan/public is there already and public"):
        push(file.path, "hf://datasets/kanan/public", private=True)


def test_a_licence_is_needed(hub: Hub, tmp_path: Path) -> None:
    file = embedding_file(tmp_path)  # states none
    with pytest.raises(UserError, match=r"is needed, and once: .* states none.*--licence unknown"):
        push(file.path, PLACE)
    assert not hub.requests
    push(file.path, PLACE, licence="unknown")
    page = hub.repositories["kanan/made-up"].head[1]["README.md"].decode()
    assert "license: unknown\n" in page
    push(file.path, "hf://datasets/kanan/b", licence="CC BY 4.0")
    page = hub.repositories["kanan/b"].head[1]["README.md"].decode()
    assert "license: cc-by-4.0\n" in page
    assert "- **data:** CC BY 4.0" in page
    stated = remade(EmbeddingFile.open(tmp_path / "a.h5"))
    with pytest.raises(UserError, match="states CC0, --licence MIT"):
        push(stated.path, PLACE, licence="MIT")
    push(stated.path, "hf://datasets/kanan/c", licence="CC0")


def test_a_licence_of_the_weights_that_is_not_stated_is_said(
    hub: Hub, file: EmbeddingFile, tmp_path: Path
) -> None:
    """To the user alone: the file may be pushed. Pixels come from no weights."""
    for licence, said in (("unknown", 1), ("", 1), ("mit", 0), (None, 0)):
        made = pixel_file(tmp_path)
        if licence is not None:
            made = remade(file, 0, weights={"licence": licence})
        sentences: list[str] = []
        push(made.path, PLACE, licence="CC0", overwrite=True, notify=sentences.append)
        assert ["--weights-licence" in sentence for sentence in sentences] == [True] * said


def test_a_damaged_file_is_not_sent(hub: Hub, file: EmbeddingFile) -> None:
    flip(file.path, span(file.path, "features")[0])
    with pytest.raises(UserError, match=r"is damaged and was not sent: rows 0 to 59 of features"):
        push(file.path, PLACE)
    assert not hub.requests


def test_logins(hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    for token, sentence in (
        (None, "log in with `hf auth login`"),
        (READER, "to push, with a token that may write"),
        ("hf_wrong", f"{PLACE} is not there, or not for everybody"),
    ):
        hub_server.use(monkeypatch, hub, token)
        with pytest.raises(UserError, match=sentence):
            push(file.path, PLACE)
    assert not hub.repositories


def test_without_a_network(hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=f"{PLACE} could not be reached"):
        push(file.path, PLACE)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="could not be reached"):
        push(file.path, PLACE)


@pytest.mark.parametrize("part", ["/lfs/", "/commit/", "/preupload/"])
def test_cut_off_in_the_middle_nothing_is_there_and_the_next_push_is_whole(
    hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(_http.time, "sleep", lambda _: None)
    hub.stopped = part
    with pytest.raises(UserError, match="run the command again"):
        push(file.path, PLACE)
    assert sorted(hub.repositories["kanan/made-up"].head[1]) == [".gitattributes"]
    hub.stopped = ""
    hub.requests.clear()
    push(file.path, PLACE)
    assert hub.asked("PUT", "/lfs/") == (part != "/commit/")  # what is there is not sent again
    assert hub.repositories["kanan/made-up"].head[1]["a.h5"] == file.path.read_bytes()


def test_a_commit_of_somebody_else_in_between_is_not_lost(
    hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(file.path, PLACE)
    asked = HfApi.get_paths_info

    def meanwhile(*args: object, **how: object) -> object:
        result = asked(*args, **how)  # type: ignore[arg-type]
        hub.add("kanan/made-up", {"README.md": b"hers"})
        return result

    monkeypatch.setattr(HfApi, "get_paths_info", meanwhile)
    with pytest.raises(UserError, match="was changed by another commit meanwhile"):
        push(remade(file).path, PLACE, overwrite=True)
    assert hub.repositories["kanan/made-up"].head[1]["README.md"] == b"hers"


def test_the_token_is_in_no_output_file_or_body(
    hub: Hub, file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [command("push", str(file.path), PLACE, "--json")]
    hub_server.use(monkeypatch, hub, READER)
    results.append(command("push", str(file.path), "hf://datasets/kanan/other"))
    assert json.loads(results[0].stdout)["sent"][::5] == ["a.h5", "README.md"]
    texts = [r.output.encode() for r in results] + [repr(r.exception).encode() for r in results]
    texts += [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    texts += [body for *_, body in hub.requests]
    texts += list(hub.repositories["kanan/made-up"].head[1].values())
    assert any(token == WRITER for _, _, token, _ in hub.requests)
    for token in (WRITER, READER):
        assert not any(token.encode() in text for text in texts)
        assert not any(token in path for _, path, _, _ in hub.requests)
    assert os.environ["HF_TOKEN"] == READER


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_rows_that_the_hub_shows_are_those_of_the_file(
    hub: Hub, tmp_path: Path, dtype: type[np.floating]
) -> None:
    """`datasets` finds them by the page's metadata, split by split, with the classes' names."""
    samples, values = make_samples(60), make_features(60).astype(dtype)
    layers = {"block-7": make_features(60, 3, 4).astype(dtype)}
    file = write_file(tmp_path / "b.h5", samples, values, PROVENANCE, layers=layers)
    push(file.path, PLACE)
    for name, content in hub.repositories["kanan/made-up"].head[1].items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
    read = datasets.load_dataset(str(tmp_path / "copy"), cache_dir=str(tmp_path / "cache"))
    assert list(read) == ["train", "validation", "test"]
    for number, rows in enumerate(read.values()):
        mine = file.split == number
        assert rows["sample_ids"][:] == file.sample_ids[mine].tolist()
        table = rows.with_format("arrow")[:]
        for column, expected in (("features", values), ("layer/block-7", layers["block-7"])):
            chunk = table[column].combine_chunks()
            theirs = chunk.flatten().to_numpy().reshape(len(chunk), -1)
            assert theirs.dtype == dtype
            np.testing.assert_array_equal(theirs, expected[mine])
        assert rows["labels"][:] == file.labels[mine].tolist()
        assert rows.features["labels"].names == list(file.classes[: samples.n_leaves])


def test_rows_are_sent_to_the_hub_alone(hub: Hub, file: EmbeddingFile, tmp_path: Path) -> None:
    def sent(path: Path, url: str) -> int:
        names = push(path, url, licence="" if path == file.path else "CC0").sent
        return sum(name.endswith(".parquet") for name in names)

    assert sent(file.path, PLACE) == 3
    assert sent(file.path, f"file://{tmp_path}/c") == 0
    assert sent(pixel_file(tmp_path).path, "hf://datasets/kanan/e") == 0  # images are no rows


@pytest.mark.parametrize(
    "url",
    [
        *("kanan/made-up", "hf://kanan/made-up", "hf://datasets/kanan", "hf://datasets/a/b/c"),
        *("hf://datasets/a/b@main", "https://huggingface.co/datasets/a/b", "s4://bucket/a"),
        *("s3://key:secret@bucket/a", "hf://", "hf://datasets/../b", ""),
    ],
)
def test_wrong_urls(url: str) -> None:
    with pytest.raises(UserError) as error:
        Place.parse(url)
    assert "secret@" not in str(error.value)
