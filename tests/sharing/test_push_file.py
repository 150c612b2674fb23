"""Pushing to a server that speaks the hub's protocol, and to folders: memory, this machine, S3."""

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import hub_server
import numpy as np
import pytest
from file_helpers import PROVENANCE, flip, make_features, make_samples, refusal, span
from hub_server import READER, WRITER, Hub
from huggingface_hub import HfApi, constants
from huggingface_hub.utils import _http, are_progress_bars_disabled, enable_progress_bars
from image_files import embedding_file, pixel_file
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.fetch import local, pin_name
from embedbench.files.write_file import write_file
from embedbench.sharing.push_file import Place, push

PLACE = "hf://datasets/kanan/made-up"


def remade(file: EmbeddingFile, seed: int = 4, **more: Any) -> EmbeddingFile:
    """The file again, of other features, or of those of seed 0 with more provenance."""
    features, made = make_features(60, seed=seed), {**PROVENANCE, **more}
    return write_file(file.path, make_samples(60), features, made, overwrite=True)


def test_a_push_is_one_commit(hub: Hub, file: EmbeddingFile, monkeypatch: Any) -> None:
    result, repository = push(file.path, PLACE), hub.repositories["kanan/made-up"]
    commit, files = repository.head
    assert result.url == f"{PLACE}@{commit}/a.h5"
    tables = [f"data/{split}.parquet" for split in ("test", "train", "validation")]
    assert sorted(files) == [".gitattributes", "README.md", "a.h5", "a.png", *tables]
    assert files["a.h5"] == file.path.read_bytes()
    assert f"{PLACE}@COMMIT/a.h5" in files["README.md"].decode()
    assert len(repository.commits) == 2  # made, and pushed to
    assert repository.private is False
    again = push(file.path, PLACE)
    assert again.url == result.url
    assert again.sent == ()
    assert len(repository.commits) == 2
    assert "already and public" in refusal(push, file.path, PLACE, private=True)
    push(file.path, "hf://datasets/kanan/private", private=True)
    assert hub.repositories["kanan/private"].private
    for quiet, to_terminal in ((True, True), (False, True), (False, False)):
        enable_progress_bars()
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=to_terminal: shown)
        push(file.path, PLACE, quiet=quiet)
        assert are_progress_bars_disabled() == (quiet or not to_terminal)


def test_other_content_is_replaced_only_if_asked(hub: Hub, file: EmbeddingFile) -> None:
    hub.add("kanan/made-up", {"notes.txt": b"mine"})
    push(file.path, PLACE)
    other, repository = remade(file), hub.repositories["kanan/made-up"]
    assert "a.h5, data/train.parquet, data/val" in (said := refusal(push, other.path, PLACE))
    assert "a.png, README.md with" in said
    assert len(repository.commits) == 2
    push(other.path, PLACE, overwrite=True)
    assert repository.head[1]["a.h5"] == other.path.read_bytes()
    assert repository.head[1]["notes.txt"] == b"mine"


def test_a_licence_is_needed(hub: Hub, tmp_path: Path) -> None:
    file = embedding_file(tmp_path)  # states none
    said = refusal(push, file.path, PLACE)
    assert f"{file.path} states no licence of its data" in said
    assert "--licence NAME, or --licence unknown if nobody knows it" in said
    assert not hub.requests
    for name, licence, said in (
        ("a", "unknown", "license: unknown\n"),
        ("b", "CC BY 4.0", "license: cc-by-4.0\n"),
    ):
        push(file.path, f"hf://datasets/kanan/{name}", licence=licence)
        page = hub.repositories[f"kanan/{name}"].head[1]["README.md"].decode()
        assert said in page
    assert "- **data:** CC BY 4.0" in page
    stated = remade(EmbeddingFile.open(tmp_path / "a.h5"))
    said = refusal(push, stated.path, PLACE, licence="MIT")
    assert "states the licence 'CC0', and --licence says 'MIT'; leave --licence out" in said
    push(stated.path, "hf://datasets/kanan/c", licence="CC0")


def test_an_unstated_licence_is_said(hub: Hub, file: EmbeddingFile, tmp_path: Path) -> None:
    """To the user alone: the file may be pushed. Pixels come from no weights, and are no rows."""
    for licence, said in (("unknown", 1), ("mit", 0), (None, 0)):
        made = pixel_file(tmp_path)
        if licence is not None:
            made = remade(file, 0, weights={"licence": licence})
        sentences: list[str] = []
        result = push(made.path, PLACE, licence="CC0", overwrite=True, notify=sentences.append)
        assert ["--weights-licence" in sentence for sentence in sentences] == [True] * said
    assert result.sent == ("p.h5", "README.md")


def test_a_damaged_file_is_not_sent(hub: Hub, file: EmbeddingFile) -> None:
    flip(file.path, span(file.path, "features")[0])
    assert "sent: rows 0 to 59" in refusal(push, file.path, PLACE)
    assert not hub.requests


def test_logins(hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    for token in (None, READER, "hf_wrong"):
        hub_server.use(monkeypatch, hub, token)
        with pytest.raises(UserError, match=f"^{PLACE} is not there") as error:
            push(file.path, PLACE)
        assert "token that may write" in error.value.remedy
    assert not hub.repositories


def test_without_a_network(hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert f"{PLACE} could not" in refusal(push, file.path, PLACE)


@pytest.mark.parametrize("part", ["/lfs/", "/commit/"])
def test_cut_off_in_the_middle_nothing_is_there_and_the_next_push_is_whole(
    hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(_http.time, "sleep", lambda _: None)
    hub.stopped = part
    assert f"{PLACE} could not" in refusal(push, file.path, PLACE)
    assert sorted(hub.repositories["kanan/made-up"].head[1]) == [".gitattributes"]
    hub.stopped = ""
    hub.requests.clear()
    push(file.path, PLACE)
    assert hub.asked("PUT", "/lfs/") == (part != "/commit/")  # what is there is not sent again
    assert hub.repositories["kanan/made-up"].head[1]["a.h5"] == file.path.read_bytes()


def test_commits_between(hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    push(file.path, PLACE)
    asked = HfApi.get_paths_info

    def meanwhile(*args: object, **how: object) -> object:
        result = asked(*args, **how)  # type: ignore[arg-type]
        hub.add("kanan/made-up", {"README.md": b"hers"})
        return result

    monkeypatch.setattr(HfApi, "get_paths_info", meanwhile)
    assert "by another commit" in refusal(push, remade(file).path, PLACE, overwrite=True)
    assert hub.repositories["kanan/made-up"].head[1]["README.md"] == b"hers"


def test_the_token_is_in_no_output_file_or_body(
    hub: Hub, file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CliRunner().invoke
    results = [run(app, ["push", str(file.path), PLACE, "--json"])]
    hub_server.use(monkeypatch, hub, READER)
    results.append(run(app, ["push", str(file.path), "hf://datasets/kanan/other"]))
    sent = json.loads(results[0].stdout)["sent"]
    assert sent[::5] == ["a.h5", "README.md"]
    assert results[0].stderr.endswith(f"sent: {', '.join(sent)}\n")
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
def test_the_hub_shows_its_rows(hub: Hub, tmp_path: Path, dtype: type[np.floating]) -> None:
    """`datasets` finds them by the page's metadata, split by split, with the classes' names."""
    samples, values = make_samples(60), make_features(60).astype(dtype)
    layers = {"block-7": make_features(60, 3, 4).astype(dtype)}
    file = write_file(tmp_path / "b.h5", samples, values, PROVENANCE, layers=layers)
    push(file.path, PLACE)
    for name, content in hub.repositories["kanan/made-up"].head[1].items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
    datasets = pytest.importorskip("datasets")
    read = datasets.load_dataset(str(tmp_path / "copy"), cache_dir=str(tmp_path / "cache"))
    assert list(read) == ["train", "validation", "test"]
    for number, rows in enumerate(read.values()):
        mine = file.split == number
        assert rows["sample_ids"][:] == file.sample_ids[mine].tolist()
        assert rows["labels"][:] == file.labels[mine].tolist()
        assert rows.features["labels"].names == list(file.classes[: samples.n_leaves])
        table = rows.with_format("arrow")[:]
        for column, expected in (("features", values), ("layer/block-7", layers["block-7"])):
            chunk = table[column].combine_chunks()
            theirs = chunk.flatten().to_numpy().reshape(len(chunk), -1)
            assert theirs.dtype == dtype
            np.testing.assert_array_equal(theirs, expected[mine])


@pytest.mark.parametrize(
    "url",
    [
        *("kanan/made-up", "hf://kanan/made-up", "hf://datasets/a/b/c", "hf://datasets/a/b@main"),
        *("https://huggingface.co/datasets/a/b", "s4://bucket/a", "s3://key:secret@bucket/a"),
        *("hf://datasets/../b", ""),
    ],
)
def test_wrong_urls(url: str) -> None:
    assert "secret@" not in refusal(Place.parse, url)


@pytest.fixture
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


def test_memory(file: EmbeddingFile, memory: Any) -> None:
    memory.pipe_file("shared/files/a.h5", bytes(file.path.stat().st_size))  # of the same size
    assert "a.h5 with other" in refusal(push, file.path, "memory://shared/files/")
    assert not memory.exists("shared/files/README.md")
    result = push(file.path, "memory://shared/files/", overwrite=True)
    assert result.url == "memory://shared/files/a.h5"
    assert result.commit == ""
    assert memory.cat_file("shared/files/a.h5") == file.path.read_bytes()
    page = memory.cat_file("shared/files/README.md")
    assert b"embedbench inspect memory://shared/files/a.h5" in page
    again = CliRunner().invoke(app, ["push", str(file.path), "memory://shared/files"])
    said = [f"there already: {', '.join(result.sent)}"]
    assert again.stderr.splitlines()[1:] == said
    assert again.stdout == f"{result.url}\n"
    assert "for the hub" in refusal(push, file.path, "memory://shared/files", private=True)


def test_a_folder_of_this_machine(file: EmbeddingFile, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    url = push(file.path, f"file://{place}/").url
    assert url == f"file://{place}/a.h5"
    assert (place / "a.h5").read_bytes() == file.path.read_bytes()
    assert sorted(p.name for p in place.iterdir()) == ["README.md", "a.h5", "a.png"]
    (pinned,) = re.findall(r"embedbench run '(.*)'", (place / "README.md").read_text())
    assert pinned.startswith(f"{url}#sha256=")
    for name in (url, pinned):  # what was printed can be named
        assert local(name) == place / "a.h5"
        assert pin_name(name) == str(place / "a.h5")
    assert ", expected 0000" in refusal(local, f"{url}#sha256={'0' * 64}")
    assert "none.h5 cannot be" in refusal(local, f"file://{place}/none.h5")


def test_a_full_disk(file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file appears, and what was there stays; the next push sends all of it."""

    def full(_: Path, target: Path) -> None:
        target.write_bytes(b"some")
        raise OSError(errno.ENOSPC, "No space left on device")

    (place := tmp_path / "full").mkdir()
    (place / "README.md").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", full)
        said = refusal(push, file.path, f"file://{place}", overwrite=True)
        assert "(No space left" in said
    assert [(p.name, p.read_text()) for p in place.iterdir()] == [("README.md", "before")]
    assert len(push(file.path, f"file://{place}", overwrite=True).sent) == 3


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Let s3:// mean a server on this machine without buckets; its key and secret."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    key, secret = "AKIASECRET", "hush-0123456789"
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    yield key, secret
    fsspec.filesystem("s3").clear_instance_cache()  # the next test has another server
    server.stop()


def test_s3(file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: Any) -> None:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    assert "no s3://team/files;" in refusal(push, file.path, "s3://team/files")
    fsspec.filesystem("s3").mkdir("team")
    result = push(file.path, "s3://team/files")
    assert result.url == "s3://team/files/a.h5"
    assert push(file.path, "s3://team/files").sent == ()
    assert local(result.url).read_bytes() == file.path.read_bytes()
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    for secret in s3:
        assert not any(secret.encode() in p.read_bytes() for p in files)
    assert "no s3://team/none.h5" in refusal(local, "s3://team/none.h5")


def test_a_file_that_is_replaced_while_it_is_sent(
    file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, copy = tmp_path / "place", shutil.copyfile

    def replacing(source: Path, target: Path) -> Path:
        if Path(source) == file.path:
            remade(file)
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", replacing)
    with pytest.raises(UserError, match=r"a\.h5 changed while it was sent"):
        push(file.path, place.as_uri())
    assert not (place / "a.h5").exists()


def test_a_file_that_is_replaced_while_the_hub_gets_it(
    hub: Hub, file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Api(HfApi):
        def create_commit(self, *words: Any, **more: Any) -> Any:
            made = super().create_commit(*words, **more)
            remade(file)
            return made

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    with pytest.raises(UserError, match=r"a\.h5 changed while it was sent"):
        push(file.path, PLACE)
