"""Extraction on the card: its rate against decoding and the forward pass, its bits, a kill."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from embedbench.engines.device import find_device
from embedbench.extract import extract
from embedbench.extract.backbone import Backbone
from embedbench.extract.decoding_processes import DecodingProcesses, Opening
from embedbench.extract.extraction_work import (
    CPU_BATCH,
    CUDA_BATCH,
    CUDA_LANES,
    UNIT,
    decode,
)
from embedbench.extract.open_backbone import open_backbone
from embedbench.extract.open_source import open_source
from embedbench.extract.pixel_policy import DEFAULT
from embedbench.extract.source import Source
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.networks.paper_networks import timm
from embedbench.networks.published_weights import shipped_weights
from embedbench.system.cpu_threads import cores
from embedbench.system.gpu_determinism import repeatable
from gpu_parts.step import Bench, Figure, Step

MODELS = ("tf_efficientnet_lite0", "resnet50", "vit_base_patch16_224")
SMALL = {"resnet50": "resnet10t", "vit_base_patch16_224": "vit_tiny_patch16_224"}  # in a test
SHIPPED = "tf_efficientnet_lite0"
LANES = min(cores(), CUDA_LANES)  # processes that decode beside a card
AIM = 0.85  # share of the rate of the slower of forward pass and decoding
COSINE = {"float32": 0.9999, "bfloat16": 0.99}  # least cosine to the CPU's rows
COMPARED = 32  # rows
PICTURES, WIDE, HIGH = 2048, 500, 375  # the usual size in ImageNet
NAMES = 12  # of each picture: while processes begin, some thousand images are decoded by threads
DECODED = 4096  # images by which decoding alone is timed
EXTRACT = """
import sys, warnings
from embedbench.extract import extract
warnings.simplefilter("ignore")
seen = []
extract(sys.argv[1], sys.argv[2], backbone="tf_efficientnet_lite0", weights="shipped", size=96,
        device=sys.argv[3], progress=lambda done, total: seen.append(done))
print(seen[0])
"""


def steps() -> list[Step]:
    """The rates first, then the bits, then the kill."""
    rates = [
        Step(f"extraction/{name}/{dtype}", 45, partial(rate, name, dtype))
        for name in MODELS
        for dtype in COSINE
    ]
    moved = [Step(f"extraction/{name}/bits", 8, partial(moves, name)) for name in MODELS]
    return [*rates, *moved, Step("extraction/kill", 180, killed)]


def rate(name: str, dtype: str, bench: Bench) -> list[Figure]:
    """Images per second of `extract`, of its parts alone, and of a plain loop with timm."""
    folder, weights = images(bench.scratch, bench.toy), weights_of(name, bench.scratch, bench.toy)
    source, model = open_source(str(folder)), backbone(name, weights, dtype, bench)
    forward = forward_rate(model, bench)
    decoding = decode_rate(folder, source, model)
    plain = timm_rate(folder, real(name, bench.toy), dtype, bench)
    if bench.on_card:
        torch.cuda.reset_peak_memory_stats()
    seen = [(time.perf_counter(), 0)]
    file = extract(
        str(folder),
        bench.scratch / f"{name}-{dtype}.h5",
        backbone=real(name, bench.toy),
        weights=weights,
        dtype=dtype,
        size=32 if bench.toy else None,
        device=bench.device,
        overwrite=True,
        notify=lambda sentence: None,
        progress=lambda done, total: seen.append((time.perf_counter(), done)),
    )
    end, total = seen[-1]
    began, done = next((s for s in seen if total / 4 <= s[1] < total), seen[0])  # one batch: all
    ours = (total - done) / (end - began)
    rows = file.read()[:COMPARED].astype(np.float64)
    cpu = on_cpu(name, weights, source, bench)
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(cpu, axis=1)
    cosine = float(((rows * cpu).sum(1) / np.maximum(norms, 1e-30)).min())
    ratio = ours / min(forward, decoding)
    slower = "forward pass" if forward < decoding else "decoding"
    note = (
        f"forward pass alone {forward:,.0f}/s, decoding alone {decoding:,.0f}/s on "
        f"{LANES} processes; {peak(bench)}"
    )
    values = {"rate": ours, "forward": forward, "decoding": decoding, "ratio": ratio}
    loop = f"{name}, {dtype}: against a plain loop with timm, {LANES} workers"
    over = ours / plain
    what = f"{name}, {dtype}, {len(file.labels):,} JPEGs: against the slower, the {slower}"
    figure = f"{ours:,.0f} images/s, {ratio:.2f} of it"
    alike = f"{name}, {dtype}: smallest cosine to the CPU's float32 rows, of {len(cpu)}"
    least = COSINE[dtype]
    return [
        Figure(what, figure, f"{AIM} of it", ratio >= AIM, note, values),
        Figure(
            loop, f"{over:.2f} of {plain:,.0f} images/s", "1", over >= 1, values={"timm": plain}
        ),
        Figure(alike, f"{cosine:.7f}", f"{least}", cosine >= least, values={"cosine": cosine}),
    ]


def moves(name: str, bench: Bench) -> list[Figure]:
    """How much the rows change with another call and with another batch size."""
    weights = weights_of(name, bench.scratch, bench.toy)
    model = backbone(name, weights, "float32", bench)
    side = 32 if bench.toy else 224
    shape = (16 if bench.toy else 256, side, side, 3)
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)

    def rows(batch: int) -> NDArray[np.float32]:
        parts = [model.forward(pixels[i : i + batch]) for i in range(0, len(pixels), batch)]
        return torch.cat([part["features"] for part in parts]).cpu().numpy()

    usual = batch_of(bench)
    sizes = (2, 8) if bench.toy else (32, 64, 256)
    with repeatable(bench.device):  # as `extract` sets it
        whole = rows(usual)
        lines = [difference(f"{name}: a second time", whole, rows(usual), "same bits")]
        for size in sizes:
            what = f"{name}: batches of {size} in place of {usual}"
            lines.append(difference(what, whole, rows(size)))
    return lines


def difference(what: str, a: NDArray[np.float32], b: NDArray[np.float32], aim: str = "") -> Figure:
    """How far two tables of rows are apart."""
    same = a.tobytes() == b.tobytes()
    off = float(np.abs(a - b).max() / np.abs(a).max())
    figure = "same bits" if same else f"{off:.1e} of the largest value apart"
    return Figure(what, figure, aim, same if aim else None, values={"same": same, "off": off})


def killed(bench: Bench) -> list[Figure]:
    """Kill -9 extractions of the emoji in the last two fifths of their time, and resume them."""
    n = 1 if bench.toy else 2
    source = str(images(bench.scratch, True)) if bench.toy else "demo"
    path = os.pathsep.join(p for p in sys.path if p)

    def start(out: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", EXTRACT, source, str(out), bench.device]
        env = {**os.environ, "PYTHONPATH": path}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)

    def finish(process: subprocess.Popen[str]) -> int:
        said, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"an extraction ended with {process.returncode}")
        return int(said)

    whole, out = bench.scratch / "whole.h5", bench.scratch / "out.h5"
    began = time.perf_counter()
    finish(start(whole))
    seconds, rng = time.perf_counter() - began, random.Random(0)
    expected, same, places = EmbeddingFile.open(whole).digests, 0, []
    while len(places) < n:
        process = start(out)
        try:
            process.wait(rng.uniform(0.6 * seconds, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        if not out.exists():  # else it finished before the kill
            places.append(str(finish(start(out))))
            file = EmbeddingFile.open(out)
            same += file.digests == expected and not verify(file.path)
        out.unlink()
    what = "extraction killed with -9 and resumed: the same file as uninterrupted"
    note = f"resumed at image {', '.join(places)}"
    return [Figure(what, f"{same} of {n}", "all", same == n, note)]


def real(name: str, toy: bool) -> str:
    """The model of a name; in a test a small one."""
    return SMALL.get(name, name) if toy else name


def batch_of(bench: Bench) -> int:
    """Images in a forward pass of `extract`."""
    return CUDA_BATCH if bench.on_card else CPU_BATCH


@cache
def images(scratch: Path, toy: bool) -> Path:
    """A folder of JPEGs; every picture occurs in each class, under another name."""
    folder = scratch / "images"
    wide, high, n = (48, 36, 12) if toy else (WIDE, HIGH, PICTURES)
    first, *others = [f"class-{i:02d}" for i in range(2 if toy else NAMES)]
    draw = np.random.default_rng(0)
    grains = draw.normal(0, 8, (4, high, wide, 3)).astype(np.float32)
    coarse = draw.integers(0, 256, (n, high // 12, wide // 12, 3), dtype=np.uint8)
    for c in (first, *others):
        (folder / c).mkdir(parents=True, exist_ok=True)

    def write(i: int) -> None:
        big = Image.fromarray(coarse[i]).resize((wide, high), Image.Resampling.BICUBIC)
        picture = np.roll(grains[i % 4], i, axis=1) + np.asarray(big, np.float32)
        path = folder / first / f"{i:05d}.jpg"
        Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(path, quality=90)
        for c in others:
            (folder / c / path.name).hardlink_to(path)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(write, range(n)))
    return folder


@cache
def weights_of(name: str, scratch: Path, toy: bool) -> Path:
    """The shipped weights, or a file of random ones, the same each time."""
    if name == SHIPPED:
        return shipped_weights(SHIPPED)
    from safetensors.torch import save_file

    path = scratch / f"{name}.safetensors"
    build: Callable[..., torch.nn.Module] = timm.create_model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(build(real(name, toy)).state_dict(), path)
    return path


def backbone(
    name: str, weights: Path, dtype: str, bench: Bench, device: str | None = None
) -> Backbone:
    """The model as `extract` opens it."""
    return open_backbone(
        real(name, bench.toy),
        lambda: Image.new("RGB", (WIDE, HIGH)),
        weights=weights,
        layers=(),
        dtype=dtype,
        size=32 if bench.toy else None,
        device=torch.device(find_device(device or bench.device)),
    )


def forward_rate(model: Backbone, bench: Bench) -> float:
    """Images per second of the forward pass, on a batch that is on the card already."""
    held: Any = model
    n = batch_of(bench)
    size = model.preprocessing["input_size"]
    x = torch.zeros(n, *size, device=model.device).contiguous(memory_format=torch.channels_last)
    half = torch.autocast(model.device.type, torch.bfloat16, enabled=model.dtype == "bfloat16")
    done, seconds = 0, 0.0 if bench.toy else 2.0
    with torch.inference_mode(), half, repeatable(bench.device):
        for _ in range(1 if bench.toy else 5):
            held.taken.tables(held.model, x)
        bench.wait()
        began = time.perf_counter()
        while not done or time.perf_counter() - began < seconds:
            for _ in range(1 if bench.toy else 10):
                held.taken.tables(held.model, x)
            bench.wait()
            done += n * (1 if bench.toy else 10)
    return done / (time.perf_counter() - began)


def decode_rate(folder: Path, source: Source, model: Backbone) -> float:
    """Images per second that are read, hashed, resized and cropped by processes."""
    prepare = model.preparer()
    assert prepare is not None
    opening = Opening(
        open_source=partial(open_source, str(folder)),
        directory=os.getcwd(),
        samples=source.digest,
        policy=DEFAULT,
        backbone=model.backbone,
        prepare=prepare,
        threads=1,
    )
    processes = DecodingProcesses(LANES, opening)
    n = min(DECODED, len(source.ids))
    units = [range(i, min(i + UNIT, n)) for i in range(0, n, UNIT)]

    def decode_unit(rows: range) -> int:
        unit = processes.decode(rows)
        assert unit is not None
        return len(unit.samples)

    try:
        processes.begin()
        processes.wait()
        with ThreadPoolExecutor(LANES) as pool:
            list(pool.map(decode_unit, units[:LANES]))
            began = time.perf_counter()
            count = sum(pool.map(decode_unit, units))
            return count / (time.perf_counter() - began)
    finally:
        processes.end()


def timm_rate(folder: Path, name: str, dtype: str, bench: Bench) -> float:
    """Images per second of the loop that one would write, from a quarter of the images on."""
    from timm.data import create_dataset, create_transform, resolve_data_config

    build: Callable[..., Any] = timm.create_model
    model = build(name, num_classes=0).eval().to(bench.device)
    data = create_dataset("", root=str(folder))
    size = {"input_size": (3, 32, 32)} if bench.toy else {}
    data.transform = create_transform(**resolve_data_config(size, model=model))
    loader: Any = torch.utils.data.DataLoader(
        data, batch_of(bench), num_workers=LANES, pin_memory=bench.on_card
    )
    half = torch.autocast(
        torch.device(bench.device).type, torch.bfloat16, enabled=dtype != "float32"
    )
    rows, began, done = [], time.perf_counter(), 0
    with torch.inference_mode(), half:
        for i, (batch, _) in enumerate(loader):
            if i == len(loader) // 4:
                bench.wait()
                began, done = time.perf_counter(), 0
            rows.append(model(batch.to(bench.device, non_blocking=True)).float().cpu())
            done += len(batch)
    return done / (time.perf_counter() - began)


def on_cpu(name: str, weights: Path, source: Source, bench: Bench) -> NDArray[np.float64]:
    """The first rows, computed on the CPU in float32, (n, D)."""
    model = backbone(name, weights, "float32", bench, "cpu")
    n = min(COMPARED, len(source.ids))
    ready = [decode(source, i, model).ready for i in range(n)]
    batch = np.stack([sample for sample in ready if sample is not None])
    return model.forward(batch)["features"].double().numpy()


def peak(bench: Bench) -> str:
    """Most memory so far, of this process and on the card."""
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    text = f"most memory {process:,.0f} MB"
    if bench.on_card:
        text += f", on the card {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB"
    return text
