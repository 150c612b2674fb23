"""From images to a file: the same rows as timm's own way, resumed, refused, reported."""

import hashlib
import os
import pickle
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import huggingface_hub
import numpy as np
import pytest
import timm
import torch
from commands import CONTEXT
from file_helpers import says
from hostile_sources import idx
from numpy.typing import NDArray
from pickled import Hostile
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from tiny_images import TINY, images, weights
from torch import nn

from embedbench.errors import UserError
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.import_features import import_file
from embedbench.files.resumable_file import Partial
from embedbench.files.sample_metadata import TEST

SIZE = 64  # of the test models' input; their own 160 only costs time


def plainly(file: EmbeddingFile, source: str, name: str, path: Path) -> Any:
    """Return timm's model and timm's own batch for the images of a file, in its order."""
    model = timm.create_model(name, num_classes=0, **({"img_size": SIZE} if "vit" in name else {}))
    filtered = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    timm.models.load_checkpoint(model, str(path), strict=False, filter_fn=filtered)
    config = resolve_data_config({"input_size": (3, SIZE, SIZE)}, model=model)
    transform = create_transform(**config)
    loaded = [Image.open(Path(source) / id_).convert("RGB") for id_ in file.sample_ids]
    return model.eval(), torch.stack([transform(image) for image in loaded])


def cosine(a: NDArray[Any], b: torch.Tensor) -> float:
    return float(nn.functional.cosine_similarity(torch.from_numpy(a), b).min())


@pytest.mark.parametrize("name", [TINY, "test_resnet", "test_vit", "test_vit2", "test_convnext"])
def test_rows_equal_timms_own(pictures: str, tmp_path: Path, name: str) -> None:
    path = weights(tmp_path / "w.safetensors", name)
    options: dict[str, Any] = {"backbone": name, "weights": path, "size": SIZE, "alpha": "drop"}
    file = extract(pictures, tmp_path / "a.h5", layers=["last2"], **options)
    model, batch = plainly(file, pictures, name, path)
    vit, token = "vit" in name, name == "test_vit"  # test_vit2 has blocks, and no class token
    with torch.inference_mode():
        how = {"norm": True, "return_prefix_tokens": True} if vit else {}
        _, maps = model.forward_intermediates(batch, indices=2, **how)
        pairs = maps if vit else [(feature, None) for feature in maps]
        expected = [prefix[:, 0] if token else patches.mean((2, 3)) for patches, prefix in pairs]
        final = model(batch)
    assert cosine(file.read(), final) > 0.99999
    torch.testing.assert_close(torch.from_numpy(file.read()), final, rtol=1e-3, atol=1e-3)
    kind, count = ("block" if vit else "stage"), len(model.feature_info)
    assert list(file.layers) == [f"{kind}-{count - 2}", f"{kind}-{count - 1}"]
    what = f"{'class token' if token else 'mean over patches'} after the final norm"
    what = what if vit else "feature map, mean over positions"
    assert file.provenance["backbone"]["layers"] == dict.fromkeys(file.layers, what)
    for (layer, width), rows in zip(file.layers.items(), expected, strict=True):
        got = file.read([layer])[:, file.shape[1] :]
        assert got.shape == (12, width)
        assert cosine(got, rows) > 0.99999
        torch.testing.assert_close(torch.from_numpy(got), rows, rtol=1e-3, atol=1e-3)
    # the last layer is the embedding again where nothing but the pooling lies between the two
    again = got.shape == final.shape and np.allclose(got, final, rtol=1e-3, atol=1e-3)
    assert again == (name in ("test_vit", "test_resnet"))
    without = extract(pictures, tmp_path / "b.h5", **options)
    np.testing.assert_allclose(without.read(), file.read(), rtol=1e-4, atol=1e-5)


def test_the_file_says_what_made_it(pictures: str, tiny_weights: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"weights": tiny_weights, "group": "parent"}
    file = extract(pictures, tmp_path / "a.h5", backbone=TINY, **given)
    content, made = tiny_weights.read_bytes(), file.provenance
    assert made["backbone"] == {
        "name": TINY, "library": "timm", "library_version": timm.__version__,
        "weights_id": tiny_weights.name, "weights_sha256": hashlib.sha256(content).hexdigest(),
        "layer": "final embedding, before the classifier", "pooling": "avg", "layers": {},
    }  # fmt: skip
    assert made["preprocessing"]["input_size"] == [3, 160, 160]
    assert made["preprocessing"]["interpolation"] == "bicubic"
    assert made["arithmetic"] == {"dtype": "float32", "device_kind": "cpu"}
    split = {"rule": "hash", "test_fraction": 0.3, "group": "parent", "stratified": True}
    assert made["split"] == split
    assert file.classes == ("c0", "c1", "c2", "s0", "s1")
    assert file.parents.tolist() == [3, 3, 4, -1, -1]
    # another name of the same weights is the same recipe, another split is not the same samples
    other = tmp_path / "other.safetensors"
    other.write_bytes(content)
    again = extract(pictures, tmp_path / "b.h5", backbone=TINY, weights=other, split="0.5")
    same = [again.digests[of] == file.digests[of] for of in ("recipe", "content", "samples")]
    assert same == [True, True, False]


def test_half_precision(pictures: str, tiny_weights: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"backbone": TINY, "weights": tiny_weights, "size": SIZE}
    exact = extract(pictures, tmp_path / "a.h5", **options)
    for dtype in ("bfloat16", "float16"):
        half = extract(pictures, tmp_path / f"{dtype}.h5", dtype=dtype, **options)
        assert half.provenance["arithmetic"]["dtype"] == dtype
        assert half.dtype == np.float16
        assert cosine(half.read(), torch.from_numpy(exact.read())) > 0.99
        assert (half.read() != exact.read().astype(np.float16)).any()  # not rounded at the end
        assert half.digests["recipe"] != exact.digests["recipe"]


class KilledError(Exception):
    pass


def test_work_resumes(tiny_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partial, "BLOCK", 16)
    source = images(tmp_path / "in", 43)
    (source / "s0/c0/0033.png").write_bytes(b"no image")
    options: dict[str, Any] = {"backbone": TINY, "weights": tiny_weights, "size": 32}
    options |= {"skip_bad": True, "notify": lambda message: None, "layers": ["1"]}
    whole = extract(str(source), tmp_path / "whole.h5", **options)
    assert len(whole.sample_ids) == 42
    for moment in (0, 24, 40):
        out = tmp_path / f"{moment}.h5"

        def stop(done: int, total: int, moment: int = moment) -> None:
            assert total == 43
            if done >= moment:
                raise KilledError

        with pytest.raises(KilledError):
            extract(str(source), out, progress=stop, **options)
        assert not out.exists()
        with pytest.raises(UserError, match=rf"\.{moment}\.h5\.partial .*another job"):
            extract(str(source), out, **{**options, "size": 33})
        seen: list[int] = []
        resumed = extract(str(source), out, progress=lambda d, n: seen.append(d), **options)  # noqa: B023  called at once
        assert seen[0] == moment // 16 * 16  # whole blocks are not computed again
        assert resumed.digests == whole.digests
        assert resumed.provenance["skipped"] == whole.provenance["skipped"]
        assert not list(tmp_path.glob(".*.partial"))


def _extract_in_blocks(source: Path, out: Path, **options: Any) -> EmbeddingFile:
    with mock.patch.object(Partial, "BLOCK", 16):
        return extract(str(source), out, backbone="pixels", size=8, **options)


@pytest.mark.thorough
def test_kill_dash_nine_leaves_work_to_resume(tmp_path: Path) -> None:
    source, out = images(tmp_path / "in", 40), tmp_path / "a.h5"
    how = {"progress": _kill}
    process = CONTEXT.Process(target=_extract_in_blocks, args=(source, out), kwargs=how)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not out.exists()
    with pytest.raises(UserError, match=r"\.a\.h5\.partial .*another job"):
        extract(str(source), out, backbone="pixels", size=9)
    seen: list[int] = []
    file = _extract_in_blocks(source, out, progress=lambda done, _: seen.append(done))
    assert seen[0] == 16
    assert file.digests == _extract_in_blocks(source, tmp_path / "whole.h5").digests


def _kill(done: int, total: int) -> None:
    if done == 24:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_corrupt_image_stops_or_is_recorded(pictures: str, tmp_path: Path) -> None:
    source = shutil.copytree(pictures, tmp_path / "in")
    bad = source / "s0/c1/0010.png"
    bad.write_bytes(bad.read_bytes()[:-40])
    options: dict[str, Any] = {"backbone": "pixels", "size": 8}
    with pytest.raises(UserError, match=r"s0/c1/0010\.png of in .*--skip-bad"):
        extract(str(source), tmp_path / "a.h5", **options)
    told: list[str] = []
    file = extract(str(source), tmp_path / "b.h5", skip_bad=True, notify=told.append, **options)
    assert [path for path, _ in file.provenance["skipped"]] == ["s0/c1/0010.png"]
    assert told[1:] == ["left out 1 images that cannot be used, first s0/c1/0010.png."]
    good = extract(pictures, tmp_path / "c.h5", **options)
    kept = good.sample_ids != "s0/c1/0010.png"
    assert file.sample_ids.tolist() == good.sample_ids[kept].tolist()
    for name in ("labels", "split"):
        np.testing.assert_array_equal(getattr(file, name), getattr(good, name)[kept])
    np.testing.assert_array_equal(file.read(), good.read()[kept])


def test_one_image_in_train_and_test_is_reported(tmp_path: Path) -> None:
    values = {"train/a/1.png": 10, "train/b/2.png": 20, "test/b/4.png": 40}
    copies = [f"test/a/{i:03d}.png" for i in range(101)]
    for path, value in {**values, **dict.fromkeys(copies, 10)}.items():
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), value).save(tmp_path / "in" / path)
    with pytest.warns(UserWarning, match=r"^101 images are in two splits"):
        file = extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="pixels")
    same = {"count": 101, "first": [["train/a/1.png", copy] for copy in copies[:100]]}
    assert file.provenance["same_content_in_two_splits"] == same
    with pytest.warns(UserWarning, match="in: its official split is replaced") as told:
        extract(str(tmp_path / "in"), tmp_path / "b.h5", backbone="pixels", split="0.5")
    assert told[0].filename == __file__
    assert file.sample_ids[file.split == TEST].tolist() == [*copies, "test/b/4.png"]


def test_one_image_in_two_classes_is_reported(tmp_path: Path) -> None:
    values = {"a/1.png": 10, "a/2.png": 20, "b/3.png": 10, "b/4.png": 40, "a/5.png": 20}
    for path, value in values.items():
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), value).save(tmp_path / "in" / path)
    told: list[str] = []
    listed = tmp_path / "split.csv"
    listed.write_text("".join(f"{path},train\n" for path in values))
    options: dict[str, Any] = {"backbone": "pixels", "split": str(listed), "notify": told.append}
    extract(str(tmp_path / "in"), tmp_path / "a.h5", **options)
    assert told[0] == (
        "1 images are in two classes with the same content: a/1.png (a) = b/3.png (b). No learner "
        "can tell them apart: remove those whose class is wrong, and extract again."
    )


def test_pixels_of_idx_files_equal_import(tiny_weights: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    idx(source)
    extracted = extract(str(source), tmp_path / "a.h5", backbone="pixels", notify=print)
    assert extracted.digests == import_file(source, tmp_path / "b.h5").digests
    other: dict[str, Any] = {"backbone": TINY, "weights": tiny_weights, "size": 32}
    small = extract(str(source), tmp_path / "c.h5", notify=print, **other)
    assert small.digests["samples"] == extracted.digests["samples"]


def test_pixels_are_values_row_by_row(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "a.h5"
    (source / "a").mkdir(parents=True)
    values = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10
    Image.fromarray(values).save(source / "a/1.png")
    Image.fromarray(values + 1).save(source / "a/2.png")
    file = extract(str(source), out, backbone="pixels", split="0.5")
    np.testing.assert_array_equal(file.read()[0], values.reshape(-1) / np.float32(255))
    with pytest.raises(UserError, match="exists"):  # before the source is opened
        extract("gone", out, backbone="pixels")
    extract(str(source), out, backbone="pixels", overwrite=True)
    Image.new("RGB", (9, 9)).save(source / "a/3.png")
    with pytest.raises(UserError, match=r"a/3.png .* 3x2 .* 9x9; .*--size N"):
        extract(str(source), out, backbone="pixels", overwrite=True)


def test_weights_that_do_not_fit(pictures: str, tmp_path: Path) -> None:
    state = timm.create_model(TINY).state_dict()
    other = {**state, "conv_stem.weight": torch.ones(5, 3, 3, 3)}
    pickled = {"state_dict": Hostile(tmp_path / "ran")}
    kept = {key: value for key, value in state.items() if key != "conv_stem.weight"}
    torch.save(pickled, tmp_path / "torch")
    (tmp_path / "plain").write_bytes(pickle.dumps(pickled, protocol=2))
    (tmp_path / "broken.safetensors").write_bytes(b"12345678")
    for name, content, sentence in (
        ("none", {}, "no file .*/none;"),
        ("broken.safetensors", {}, "broken.safetensors cannot"),
        ("torch", {}, "/torch cannot"),
        ("plain", {}, "/plain cannot"),
        ("a.safetensors", kept, r": 1 of its .*0 unknown .*\(first: conv_stem.weight"),
        ("a.safetensors", {**state, "more.w": torch.ones(1)}, r"1 unknown.*\(first: more.w\)"),
        ("a.safetensors", other, "0 unknown .* 1 of another"),
        ("a.safetensors", timm.create_model("test_vit").state_dict(), "does not fit"),
    ):
        path = tmp_path / name
        if content:
            save_file(content, path)
        with pytest.raises(UserError, match=sentence):
            extract(pictures, tmp_path / "a.h5", backbone=TINY, weights=path)
        assert not list(tmp_path.glob(".*.partial"))
    assert not (tmp_path / "ran").exists()
    # a classifier of other classes is no matter: it is not used
    head = weights(tmp_path / "head.safetensors", TINY, num_classes=3)
    extract(pictures, tmp_path / "a.h5", backbone=TINY, weights=head, size=32)


def test_weights_that_are_replaced_while_they_are_loaded(
    pictures: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weights(tmp_path / "w.safetensors", TINY)
    other = weights(tmp_path / "other.safetensors", TINY, seed=1)
    load = timm.models.clean_state_dict

    def replacing(state: Any) -> Any:
        os.replace(other, path)
        return load(state)

    monkeypatch.setattr("timm.models.clean_state_dict", replacing)
    with pytest.raises(UserError, match=r"w\.safetensors changed while it was read"):
        extract(pictures, tmp_path / "a.h5", backbone=TINY, weights=path)


def test_weights_that_were_replaced_are_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partial, "BLOCK", 16)
    source, path = str(images(tmp_path / "in", 40)), weights(tmp_path / "w.safetensors", TINY)

    def stop(done: int, total: int) -> None:
        if done >= 24:
            raise KilledError

    options: dict[str, Any] = {"backbone": TINY, "weights": path, "size": 32}
    with pytest.raises(KilledError):
        extract(source, tmp_path / "a.h5", progress=stop, **options)
    weights(path, TINY, seed=1)
    with pytest.raises(UserError, match=r"another job \(another backbone\)"):
        extract(source, tmp_path / "a.h5", **options)


def test_weights_that_cannot_be_fetched(
    pictures: str, tiny_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: Any, **__: Any) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", offline)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    with pytest.raises(UserError, match=r"fetched .*timm/resnet18\..*--weights FILE.* shipped"):
        extract(pictures, tmp_path / "a.h5", backbone="resnet18")
    # where they are in the cache, the cached file is loaded and named
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: str(tiny_weights))
    made = extract(pictures, tmp_path / "a.h5", backbone=TINY, size=32).provenance["backbone"]
    assert made["weights_id"].startswith("timm/test_efficientnet")
    assert made["weights_sha256"] == hashlib.sha256(tiny_weights.read_bytes()).hexdigest()


def test_options_that_cannot_be(pictures: str, tiny_weights: Path, tmp_path: Path) -> None:
    options: dict[str, Any]
    for options, sentence in (
        ({"backbone": None}, "--backbone is missing"),
        ({"backbone": "resnet5O"}, "backbone 'resnet5O'.* 'resnet50'"),
        ({"layers": ["1"]}, "^pixels .* no .*--layers"),
        ({"device": "cuda:77"}, "device 'cuda:77' .*--device cpu"),
        ({"batch_size": 100}, "batch size .*1024, .*100"),
        ({"split": "1.5"}, "test fraction .*1.5"),
        ({"backbone": TINY, "weights": tiny_weights, "layers": ["block-1"]}, "'block-1'.* stage-4"),
    ):
        with pytest.raises(UserError, match=sentence):
            extract(pictures, tmp_path / "a.h5", **{"backbone": "pixels", **options})
    with pytest.raises(UserError, check=says(what="--dtype", got="int8")):
        extract(pictures, tmp_path / "a.h5", backbone="pixels", dtype="int8")


def test_shipped_weights_are_real(tmp_path: Path) -> None:
    demo = open_source("demo")
    chosen = [i for i, id_ in enumerate(demo.ids) if id_.startswith("food-drink/food-fruit/")]
    for i in chosen:
        path, content = tmp_path / "in" / demo.ids[i], demo.read(i)
        path.parent.mkdir(parents=True, exist_ok=True)
        assert isinstance(content, bytes)
        path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*have transparent pixels: laid on white")
        shipped: dict[str, Any] = {"backbone": "tf_efficientnet_lite0", "weights": "shipped"}
        file = extract(str(tmp_path / "in"), tmp_path / "a.h5", **shipped)
    x = file.read()
    assert x.shape == (len(chosen), 1280)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    similar = x @ x.T  # (n, n)
    names = [Path(id_).name.split("_")[0] for id_ in file.sample_ids]
    red, green = names.index("apple"), names.index("green-apple")
    assert np.argsort(-similar[green])[1] == red  # random weights do not know apples
