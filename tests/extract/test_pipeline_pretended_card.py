"""Extraction on a pretended card: the CPU's rows, from a timm and a transformers backbone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretend_card import pretended_card
from tiny_images import TINY, images, weights

from embedbench.extract import pipeline
from embedbench.extract.extraction_work import Job
from embedbench.extract.pipeline import extract


def check_rows(folder: Path, source: Path, **options: Any) -> None:
    """The rows of the CPU: the kernels are the same, the batches are larger."""
    expected = extract(str(source), folder / "cpu.h5", device="cpu", **options)
    with pretended_card():
        file = extract(str(source), folder / "cuda.h5", device="cuda", **options)
    made_on = file.provenance["arithmetic"]
    assert (made_on["device_kind"], made_on["device_name"]) == ("cuda", "a pretended card")
    assert list(file.layers) == list(expected.layers)
    rows, of_cpu = file.read([*file.layers]), expected.read([*file.layers])
    np.testing.assert_allclose(rows, of_cpu, rtol=1e-4, atol=1e-5)


def test_a_worker_takes_the_next_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    monkeypatch.setattr(pipeline, "use_card", taken.append)
    source = str(images(tmp_path / "in", 1))
    for device, name in (("auto", "cuda:0"), ("cuda", "cuda:0"), ("cpu", "cpu")):
        with pretended_card():
            job = Job(source, "pixels", size=8, device=device, directory="/nowhere")
            assert pipeline._work(job).job.device == name
    assert taken == ["cuda"] * 2
    pipeline._opened.clear()


def test_timm(tmp_path: Path) -> None:
    source, path = images(tmp_path / "in", 6), weights(tmp_path / "w.safetensors", TINY)
    check_rows(tmp_path, source, backbone=TINY, weights=path, size=64, layers=["last2"])


def test_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.utils.is_torch_cuda_available()  # it keeps the answer
    small = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings = transformers.ViTConfig(**small, intermediate_size=16, image_size=16, patch_size=8)
    torch.manual_seed(0)
    transformers.ViTModel(settings).save_pretrained(tmp_path / "vit")
    processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    processor.save_pretrained(tmp_path / "vit")
    source = images(tmp_path / "in", 6)
    check_rows(tmp_path, source, backbone=f"hf:{tmp_path / 'vit'}", layers=["all"])
