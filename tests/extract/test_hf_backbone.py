"""Models of transformers, tiny and of random weights, saved by the test; and sources of texts."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import wavfile
from tiny_images import images

from embedbench.errors import UserError
from embedbench.extract import hf_backbone as hf
from embedbench.extract.open_backbone import open_backbone
from embedbench.extract.pipeline import extract
from embedbench.networks.published_weights import model_folder

SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 16}
WORDS = ["the", "[UNK]", "[CLS]", "[SEP]", *["[PAD]", "cat", "dog", "sat", "on", "a", "mat"]]
TEXTS = ["the cat sat", "a dog", "the dog sat on the mat", "cat"]


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers")


def save(folder: Path, model: Any, *processors: Any) -> str:
    torch.manual_seed(0)
    for part in (model, *processors):
        part.save_pretrained(folder)
    return f"hf:{folder}"


def tokenizer(transformers: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    core.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **marks)


def bert(transformers: Any, kind: str = "BertModel", **settings: Any) -> Any:
    values = {"vocab_size": len(WORDS), "max_position_embeddings": 16, **SMALL, **settings}
    return getattr(transformers, kind)(transformers.BertConfig(**values)).eval()


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tables of texts: two classes, four training and four test samples."""
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "copies")
    (folder := tmp_path / "texts").mkdir()
    rows = "".join(f"{text},l{i % 2}\n" for i, text in enumerate(TEXTS))
    for part in ("train", "test"):
        (folder / f"{part}.csv").write_text(f"text,label\n{rows}")
    return f"hfds/{folder}"


def test_texts_are_the_mean_over_tokens(texts: str, tmp_path: Path, transformers: Any) -> None:
    """Features and layers, against the model run by hand, one text at a time."""
    model, words = bert(transformers), tokenizer(transformers)
    name = save(tmp_path / "bert", model, words)
    file = extract(texts, tmp_path / "a.h5", backbone=name, layers=["all"])
    for i, text in enumerate(TEXTS):
        with torch.inference_mode():
            out = model(**words(text, return_tensors="pt"), output_hidden_states=True)
        expected = {"features": out.last_hidden_state, "block-0": out.hidden_states[1]}
        for table, states in expected.items():
            rows = file.read(embedding="final" if table == "features" else table)
            np.testing.assert_allclose(rows[i], states[0].mean(0), atol=1e-5)
    backbone = file.provenance["backbone"]
    assert (backbone["name"], backbone["pooling"]) == ("bert", "mean over tokens")
    weights = (tmp_path / "bert/model.safetensors").read_bytes()
    assert backbone["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    made = file.provenance["preprocessing"]
    assert made["tokens"] == 16
    assert made["padded"] == "to the longest of a batch"
    assert "tokenizer.json" in made["sha256"]
    # the first tokens alone, at most those of the model
    rows = extract(texts, tmp_path / "b.h5", backbone=name, size=3).read()
    with torch.inference_mode():
        out = model(**words(TEXTS[2], truncation=True, max_length=3, return_tensors="pt"))
    np.testing.assert_allclose(rows[2], out.last_hidden_state[0].mean(0), atol=1e-5)
    with pytest.raises(UserError, match="at most 16 tokens"):
        extract(texts, tmp_path / "c.h5", backbone=name, size=17)
    extract(texts, tmp_path / "c.h5", backbone=name, size=16)
    inputs = hf.TextInputs(tmp_path / "bert", 5, 0, None, whole=False)
    ((given, _),) = inputs.groups(np.stack([inputs.prepare(t) for t in (b"cat", b"a dog")]))
    assert given["input_ids"].tolist() == [[2, 5, 3, 4], [2, 9, 6, 3]]  # 4 pads
    # weights in several files are the same, and their digest is of all
    model.save_pretrained(tmp_path / "shards", max_shard_size="2KB")
    words.save_pretrained(tmp_path / "shards")
    shards = extract(texts, tmp_path / "d.h5", backbone=f"hf:{tmp_path / 'shards'}")
    np.testing.assert_array_equal(shards.read(), file.read())
    files = (tmp_path / "shards").glob("*.safetensors")
    parts = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert len(parts) > 1
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    assert shards.provenance["backbone"]["weights_sha256"] == digest
    index = tmp_path / "shards" / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("model-00001", "../shards/model-00001"))
    with pytest.raises(UserError, match="another folder"):
        extract(texts, tmp_path / "e.h5", backbone=f"hf:{tmp_path / 'shards'}")
    # a tokenizer with more tokens than the model knows
    name = save(tmp_path / "few", bert(transformers, vocab_size=len(WORDS) - 1), words)
    with pytest.raises(UserError, match="belong together"):
        extract(texts, tmp_path / "f.h5", backbone=name)


def test_another_configuration_of_the_same_weights_is_other_work(
    tmp_path: Path, transformers: Any
) -> None:
    """Such as one with a head in the place of two, whose weights have the same shapes."""
    decided = []
    for heads in (2, 1):
        model = bert(transformers, num_attention_heads=heads)
        name = save(tmp_path / str(heads), model, tokenizer(transformers))
        decided.append(open_backbone(name, Image.Image, holds="texts").also_decides)
    config = (tmp_path / "2/config.json").read_bytes()
    assert decided[0] == {"configuration": hashlib.sha256(config).hexdigest()}
    assert decided[0] != decided[1]


def test_of_two_halves_the_encoder_is_taken(texts: str, tmp_path: Path, transformers: Any) -> None:
    small = {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=len(WORDS), decoder_start_token_id=0, **small)
    model, words = transformers.T5Model(config).eval(), tokenizer(transformers)
    file = extract(texts, tmp_path / "a.h5", backbone=save(tmp_path / "t5", model, words))
    with torch.inference_mode():
        out = model.encoder(input_ids=words(TEXTS[2], return_tensors="pt").input_ids)
    np.testing.assert_allclose(file.read()[2], out.last_hidden_state[0].mean(0), atol=1e-5)
    assert file.provenance["preprocessing"]["tokens"] == 512  # the model has no most


def test_weights_that_are_missing(texts: str, tmp_path: Path, transformers: Any) -> None:
    """A pooler that is not used may be missing; anything else may not."""
    from safetensors.torch import load_file, save_file

    name = save(tmp_path / "mlm", bert(transformers, "BertForMaskedLM"), tokenizer(transformers))
    extract(texts, tmp_path / "a.h5", backbone=name)
    weights = tmp_path / "mlm" / "model.safetensors"
    kept = {k: v for k, v in load_file(weights).items() if "layer.1.output.dense" not in k}
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(UserError, match="mlm lacks 2 weights"):
        extract(texts, tmp_path / "b.h5", backbone=name)


def test_no_pickle_and_no_code(texts: str, tmp_path: Path, transformers: Any) -> None:
    folder = tmp_path / "bert"
    name = save(folder, bert(transformers), tokenizer(transformers))
    config = json.loads((folder / "config.json").read_text())
    evil = {**config, "model_type": "evil", "auto_map": {"AutoConfig": "e.C", "AutoModel": "e.M"}}
    (folder / "config.json").write_text(json.dumps(evil))
    (folder / "e.py").write_text("raise SystemExit('code of a model has run')")
    with pytest.raises(UserError, match="cannot be loaded"):
        extract(texts, tmp_path / "a.h5", backbone=name)
    torch.save({"x": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"bert .*no model\.safetensors"):
        extract(texts, tmp_path / "a.h5", backbone=name)


@pytest.mark.parametrize("kind", ["vit", "convnext", "clip"])
def test_images(texts: str, tmp_path: Path, transformers: Any, kind: str) -> None:
    """Class token, pooled output, joint space: each against the model run by hand."""
    t = transformers
    size = {"height": 32, "width": 32}
    vision = {"image_size": 32, "patch_size": 16, **SMALL}
    if kind == "vit":
        model = t.ViTModel(t.ViTConfig(**vision)).eval()
        processor = t.ViTImageProcessorPil(size=size)
    elif kind == "convnext":
        depths = {"hidden_sizes": [4, 4, 4, 8], "depths": [1, 1, 1, 1]}
        model = t.ConvNextModel(t.ConvNextConfig(**depths)).eval()
        processor = t.ConvNextImageProcessorPil(size={"shortest_edge": 32})
    else:
        text = {"vocab_size": len(WORDS), "max_position_embeddings": 16, "eos_token_id": 3, **SMALL}
        config = t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=6)
        model = t.CLIPModel(config).eval()
        processor = t.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size)
    name = save(tmp_path / kind, model, processor, *([tokenizer(t)] if kind == "clip" else []))
    source = images(tmp_path / "images", 4)
    options: dict[str, Any] = {"layers": ["last1"], "split": "0.5", "alpha": "drop"}
    file = extract(str(source), tmp_path / "a.h5", backbone=name, **options)
    layers = file.read(embedding=next(iter(file.layers)))
    kept = zip(file.read(), layers, file.sample_ids.tolist(), strict=True)
    for row, deeper, sample in kept:
        given = processor(Image.open(source / sample).convert("RGB"), return_tensors="pt")
        with torch.inference_mode():
            seen = model.vision_model if kind == "clip" else model
            deep = seen(**given, output_hidden_states=True).hidden_states[-1]
            layer = deep.mean((2, 3)) if kind == "convnext" else deep[:, 0]
            if kind == "clip":
                out: Any = model.visual_projection(model.vision_model(**given).pooler_output)
            else:
                out = model(**given)
                out = out.last_hidden_state[:, 0] if kind == "vit" else out.pooler_output
        np.testing.assert_allclose(row, out[0], atol=1e-5)
        if kind != "clip":
            np.testing.assert_allclose(deeper, layer[0], atol=1e-5)
    made = file.provenance["preprocessing"]
    assert (made["library"], made["processor"]) == ("transformers", type(processor).__name__)
    assert not [key for key in made if key.startswith("_")]
    how = "class token" if kind == "vit" else "mean over tokens or positions"
    expected = {"block-3" if kind == "convnext" else "block-1": f"{how} after the block"}
    assert file.provenance["backbone"]["layers"] == expected
    if kind == "clip":  # the same model for texts
        told = extract(texts, tmp_path / "t.h5", backbone=name)
        rows = told.read()
        assert told.provenance["preprocessing"]["padded"] == "to the most tokens"
        given = tokenizer(t)(TEXTS[2], return_tensors="pt")
        with torch.inference_mode():
            out = model.text_projection(model.text_model(**given).pooler_output)
        np.testing.assert_allclose(rows[2], out[0], atol=1e-5)
    else:
        with pytest.raises(UserError, match=f"{kind} .* texts: .*processor"):
            extract(texts, tmp_path / "t.h5", backbone=name)
    with pytest.raises(UserError, match="drop --size"):
        extract(str(source), tmp_path / "b.h5", backbone=name, size=64)


def test_images_of_several_shapes(tmp_path: Path, transformers: Any) -> None:
    config = transformers.ViTConfig(image_size=32, patch_size=16, **SMALL)
    inputs = transformers.ViTImageProcessorPil(do_resize=False)
    name = save(tmp_path / "vit", transformers.ViTModel(config), inputs)
    with pytest.raises(UserError, match="several shapes"):
        extract(str(images(tmp_path / "images", 2)), tmp_path / "a.h5", backbone=name)


def test_sounds_one_by_one(tmp_path: Path, transformers: Any) -> None:
    """Sounds of different lengths: each is the mean over its frames, as if it were alone."""
    t = transformers
    conv = {"conv_dim": [4] * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    model = t.Wav2Vec2Model(t.Wav2Vec2Config(**conv, **SMALL)).eval()
    extractor = t.Wav2Vec2FeatureExtractor()
    name = save(tmp_path / "w", model, extractor)
    sounds = {}
    for i, n in enumerate((9000, 20_000, 16_000, 12_000)):
        path = tmp_path / "sounds" / f"c{i % 2}" / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        sound = (np.random.default_rng(i).normal(size=n) * 3000).astype(np.int16)
        wavfile.write(path, 16_000, sound)
        sounds[f"c{i % 2}/{i}.wav"] = sound[:16_000] / np.float32(32768)
    source = str(tmp_path / "sounds")
    file = extract(source, tmp_path / "a.h5", backbone=name, size=1, split="0.5")
    for row, sample in zip(file.read(), file.sample_ids.tolist(), strict=True):
        given = extractor(sounds[sample], sampling_rate=16_000, return_tensors="pt")
        with torch.inference_mode():
            expected = model(given.input_values).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(row, expected, atol=1e-5)
    usual = extract(source, tmp_path / "b.h5", backbone=name, split="0.5")
    assert usual.provenance["preprocessing"]["seconds"] == 10


def test_sounds_longer_than_the_model_takes(tmp_path: Path, transformers: Any) -> None:
    transformers.ClapFeatureExtractor(truncation="rand_trunc").save_pretrained(tmp_path)
    assert hf.SoundInputs(tmp_path, None).seconds == hf.SoundInputs(tmp_path, 10).seconds == 10
    with pytest.raises(UserError, match=r"at most --size 10\."):
        hf.SoundInputs(tmp_path, 11)
    short = hf.SoundInputs(tmp_path, 1)  # all are brought to one length, and go through at once
    ((given, _),) = short.groups(np.stack([short.example()] * 3))
    assert len(given["input_features"]) == 3
    transformers.SeamlessM4TFeatureExtractor().save_pretrained(tmp_path / "m")
    ((_, mask),) = hf.SoundInputs(tmp_path / "m", 1).groups(np.zeros((1, 15_900), np.float32))
    assert mask.tolist() == [[1] * 48 + [0]]  # it pads one frame


def test_half_of_the_frames_and_no_joint_space() -> None:
    """Four frames of eight inputs, of which five are of the sample: the first three frames."""
    states = torch.tensor([[[1.0], [2.0], [6.0], [99.0]]])
    assert hf.mean_over_tokens(states, torch.tensor([[1, 1, 1, 1, 1, 0, 0, 0]])).tolist() == [[3.0]]
    assert hf.mean_over_tokens(states, None).tolist() == [[27.0]]
    assert hf._joint(SimpleNamespace(get_image_features=print), "images") is None


def test_names_on_the_hub(
    texts: str, tmp_path: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is part of the id; without a network there is a sentence."""
    asked: list[Any] = []

    def fetched(name: str, **options: Any) -> str:
        asked.append((name, options["revision"], options["ignore_patterns"]))
        if name == "org/x":
            raise OSError("no network")
        return str(tmp_path / "snapshots" / "abc123")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    assert model_folder("org/model@v1")[1] == "org/model@abc123"
    assert asked == [("org/model", "v1", "*/*")]
    with pytest.raises(UserError, match=r"'org/x', .* \(OSError\)"):
        extract(texts, tmp_path / "a.h5", backbone="hf:org/x")
    with pytest.raises(UserError, match="drop --weights"):
        extract(texts, tmp_path / "a.h5", backbone="hf:org/x", weights=tmp_path / "w")
    with pytest.raises(UserError, match=r"texts, .*resnet18 takes images"):
        extract(texts, tmp_path / "a.h5", backbone="resnet18")


def test_texts_that_are_none() -> None:
    assert hf.read_text("\ufeffü".encode()) == "ü"
    assert len(hf.read_text(b"x" * 2**20)) == hf.TEXT_BYTES == 2**20
    for content, reason in ((b"\xff", "not UTF-8"), (b"x" * (2**20 + 1), "bytes of text")):
        with pytest.raises(ValueError, match=reason):
            hf.read_text(content)
