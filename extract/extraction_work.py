"""The work of one extraction: what is asked for, and its rows, block by block."""

import hashlib
import itertools
import os
import pickle
import secrets
import threading
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import PIL
import scipy
import torch
from PIL import Image, UnidentifiedImageError

from embedbench.array_types import Array
from embedbench.engines.device import find_device
from embedbench.errors import CodeExitError, UserError, error_text, keep_inside
from embedbench.files.resumable_file import Partial
from embedbench.storage.regular_files import explain_errors, explain_os_error
from embedbench.system.callback_types import Notify, Progress
from embedbench.system.cpu_threads import cores, limit_threads
from embedbench.version import __version__

from . import open_backbone as backbones
from .backbone import DTYPES, Backbone
from .channel_statistics import CHANNEL, NONE, ChannelScale
from .content_hashes import NOTHING, SIZE, content_hash
from .decoded_batch import Batch, DecodedSample, DecodedUnit
from .decoding_processes import DecodingProcesses, Opening, can_begin
from .extraction_pace import ExtractionPace
from .open_source import open_source
from .pixel_policy import DEFAULT, UNIFORM, PixelPolicy
from .source import PIXELS, Content, Source, open_image, unusable

# --- batches: decoded in threads and in order, while a backbone computes ---


# These two bound the memory.
AHEAD = 2  # batches that wait beside those in work on a CPU; units of each thread beside a card
UNIT = 32  # samples that a thread or a process decodes at a time beside a card
FEWEST = 4096  # samples; fewer are decoded by threads before a process has begun
LARGE = 24 * 2**20  # pixels; a larger image is decoded while no other large one is
REASON = 200  # characters

large_turn: AbstractContextManager[object] = threading.Lock()


def _ignore(message: str) -> None:
    pass


class Preparing(Protocol):
    """What decoding needs of a backbone."""

    backbone: dict[str, Any]

    def prepare(self, content: Content, /) -> Array:
        """See `Backbone.prepare`."""
        ...


@contextmanager
def quiet_readers() -> Iterator[None]:
    """Keep readers from printing warnings: about files that are odd, large or damaged."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.filterwarnings("ignore", r"Chunk \(non-data\)|Reached EOF|Incomplete chunk")  # WAV
        yield


def first_image(source: Source, policy: PixelPolicy = DEFAULT) -> Image.Image:
    """Return the first image that can be decoded, as the policy makes it.

    It is grey (`L`) if all images of the source are grey by their headers, else `RGB`.
    """
    problem = ""
    with quiet_readers():
        for i in range(len(source.ids)):
            try:
                opened = open_image(_read(source, i))
                image = policy.apply(opened).image
            except CodeExitError:
                raise
            except Exception as error:  # as in `decode`
                problem = problem or f" ({_reason(error)})"
                continue
            return image.convert("L" if _all_grey(source, policy) else "RGB")
    raise UserError(
        f"none of the {len(source.ids)} images of {source.name} can be decoded{problem}."
    )


def _all_grey(source: Source, policy: PixelPolicy) -> bool:
    """Whether all images are grey. The first one in colour ends the search, often the very first;
    of one that cannot be opened nothing is known."""
    for i in range(len(source.ids)):
        with suppress(Exception):
            if not policy.is_grey(open_image(_read(source, i))):
                return False
    return True


def decode(
    source: Source, i: int, backbone: Preparing, policy: PixelPolicy = DEFAULT
) -> DecodedSample:
    """Read, hash and prepare sample i."""
    digest = NOTHING
    touched: tuple[str, ...] = ()
    try:
        content = _read(source, i)
        digest = content_hash(content)
        with keep_inside(f"the backbone {backbone.backbone.get('name')}"):
            if source.holds == "images":
                ready, touched = _prepared(content, backbone, policy)
                if source.flipped is not None and source.flipped[i]:
                    ready = ready[:, ::-1]  # (H, W, C)
            else:
                ready = backbone.prepare(content)
    except CodeExitError:
        raise
    except Exception as error:  # readers raise errors of many kinds on damaged bytes
        return DecodedSample(None, digest, _reason(error))
    return DecodedSample(ready, digest, touched=touched, decoded=not isinstance(content, bytes))


def _read(source: Source, i: int) -> Content:
    with keep_inside(f"the source {source.name}"):
        return source.read(i)


def _prepared(
    content: Content, backbone: Preparing, policy: PixelPolicy
) -> tuple[Array, tuple[str, ...]]:
    """Return an image as the backbone takes it, and the rules that it met."""
    image = open_image(content)
    with large_turn if image.width * image.height > LARGE else nullcontext():
        picture = policy.apply(image)
        return backbone.prepare(picture.image), picture.touched


def _reason(error: Exception) -> str:
    """Return what is wrong. The text goes into the file, so it is the same every time."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow knows"
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels; at most {PIXELS:,} are possible"
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, OSError):
        text = explain_os_error(error)
    else:
        text = error_text(error).removeprefix(f"{type(error).__name__}: ")
    return " ".join(text.split())[:REASON] or type(error).__name__


def compute_batches(
    source: Source,
    batches: Iterable[range],
    backbone: Backbone,
    workers: int,
    policy: PixelPolicy = DEFAULT,
    pace: ExtractionPace | None = None,
    processes: DecodingProcesses | None = None,
) -> Generator[Batch]:
    """Yield each batch with its tables, in order.

    On a CPU `workers` threads decode and run the backbone, each one batch at a time: one batch per
    thread is faster than one batch shared by all threads. On a card this thread launches the
    forward passes, while `workers` threads decode, or have `processes` decode. So `pace` is of the
    threads on a CPU; on a card it is of this one, which waits for them or for the card.
    """
    pace = pace or ExtractionPace()
    if backbone.device.type == "cpu":
        return _batches_on_cpu(source, batches, backbone, workers, policy, pace)
    return _batches_beside_card(source, batches, backbone, workers, policy, pace, processes)


def _batches_on_cpu(
    source: Source,
    batches: Iterable[range],
    backbone: Backbone,
    workers: int,
    policy: PixelPolicy,
    pace: ExtractionPace,
) -> Generator[Batch]:
    def work(rows: range) -> Batch:
        with pace.measure("decoding"):
            unit = decode_unit(source, rows, backbone, policy)
        with pace.measure("backbone"):
            return _forward(backbone, rows, [unit])

    waiting: deque[Future[Batch]] = deque()
    with _threads(workers) as pool:
        for rows in batches:
            waiting.append(pool.submit(work, rows))
            if len(waiting) > workers + AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _batches_beside_card(
    source: Source,
    batches: Iterable[range],
    backbone: Backbone,
    workers: int,
    policy: PixelPolicy,
    pace: ExtractionPace,
    processes: DecodingProcesses | None,
) -> Generator[Batch]:
    def work(rows: range) -> DecodedUnit:
        unit = None if processes is None else processes.decode(rows)
        return unit or decode_unit(source, rows, backbone, policy)

    def finish_first() -> Iterator[Batch]:
        rows, futures = waiting.popleft()
        with pace.measure("decoding"):
            units = [future.result() for future in futures]
        with pace.measure("backbone"):  # also while its rows are taken from the card
            yield _forward(backbone, rows, units)

    waiting: deque[tuple[range, list[Future[DecodedUnit]]]] = deque()
    with _threads(workers) as pool:
        for rows in batches:
            units = [rows[at : at + UNIT] for at in range(0, len(rows), UNIT)]
            waiting.append((rows, [pool.submit(work, unit) for unit in units]))
            behind = sum(len(futures) for _, futures in waiting) - len(waiting[0][1])
            if behind >= AHEAD * workers:
                yield from finish_first()
        while waiting:
            yield from finish_first()


@contextmanager
def _threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Threads; what they have not begun is dropped at the end."""
    pool = ThreadPoolExecutor(number, thread_name_prefix="extract")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def decode_unit(
    source: Source, rows: range, backbone: Preparing, policy: PixelPolicy
) -> DecodedUnit:
    """Read, hash and prepare some samples."""
    decoded = [decode(source, i, backbone, policy) for i in rows]
    good = [sample.ready for sample in decoded if sample.ready is not None]
    samples = tuple(replace(sample, ready=None) for sample in decoded)
    return DecodedUnit(samples, np.stack(good) if good else None)


def _forward(backbone: Backbone, rows: range, units: Sequence[DecodedUnit]) -> Batch:
    """Compute a batch of what its units have."""
    samples = tuple(itertools.chain(*[unit.samples for unit in units]))
    parts = [unit.ready for unit in units if unit.ready is not None]
    if not parts:
        return Batch(rows, samples, {})
    ready = parts[0] if len(parts) == 1 else np.concatenate(parts)
    # Of a network from outside, whose `forward` need not think of gradients.
    with keep_inside(f"the backbone {backbone.backbone.get('name')}"), torch.inference_mode():
        return Batch(rows, samples, backbone.forward(ready))


# --- the work: rows, block by block ---


BLOCKS = 3  # the version of what is noted with a block
CHANGING = ("samples", "skip-bad")  # facts that may be others when work is resumed
READERS = {"images": f"Pillow {PIL.__version__}", "sounds": f"scipy {scipy.__version__}"}


def block_rows(block: int, n: int) -> range:
    """The rows of a block, of n in all."""
    return range(block * Partial.BLOCK, min((block + 1) * Partial.BLOCK, n))


def count_rows(blocks: Iterable[int], n: int) -> int:
    """The number of rows in blocks, of n in all."""
    return sum(len(block_rows(block, n)) for block in blocks)


@dataclass(frozen=True)
class ExtractionWork:
    """The facts that determine the rows: source, backbone, batch size, threads of an operation.

    `workers` threads decode and, on a CPU, run the backbone; with a card as many `processes`
    decode, if there is much to do. They decide no bits.
    """

    job: "Job"
    source: Source
    backbone: Backbone
    batch: int
    workers: int
    threads: int
    processes: DecodingProcesses | None = None

    def facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what must agree for blocks to belong to one file, and its `arithmetic`."""
        backbone = self.backbone
        kind = self.backbone.device.type
        job = {
            "samples": self.source.digest,
            "source": self.source.name,
            "backbone": backbone.backbone,
            "preprocessing": backbone.preprocessing,
            "dtype": backbone.dtype,
            "device": _device(backbone.device),
            "batch size": self.batch,
            "threads": self.threads,
            "torch": torch.__version__,
            "embedbench": __version__,
            "reader": READERS.get(self.source.holds, ""),
            "blocks": BLOCKS,
            **backbone.also_decides,
            "skip-bad": self.job.skip_bad,
        }
        if self.source.holds == "images":
            job["pixels"] = self.job.policy.facts()
        made_on = {"dtype": backbone.dtype, "device_kind": kind}
        if kind == "cuda":
            made_on["device_name"] = _device(backbone.device)
        return job, made_on

    def fill(
        self, partial: Partial, blocks: Sequence[int], tell: Progress, limit: Notify = _ignore
    ) -> None:
        """Compute blocks; `tell` gets the samples done, and all, before every batch.

        `limit` gets what limits the pace.
        """
        n = len(self.source.ids)
        part: list[Batch] = []  # of the block at work
        done = n - count_rows(blocks, n)
        pace = ExtractionPace()
        made = compute_batches(
            self.source,
            self._batches(blocks),
            self.backbone,
            self.workers,
            self.job.policy,
            pace,
            self._processes(blocks),
        )
        with closing(made), self._end_if_it_fails():
            for batch in made:
                tell(done, n)
                limit(pace.limit())
                for i, sample in zip(batch.rows, batch.decoded, strict=True):
                    if sample.problem and not self.job.skip_bad:
                        raise unusable(self.source.ids[i], self.source.name, sample.problem)
                part.append(batch)
                done += len(batch.rows)
                if batch.rows.stop == n or batch.rows.stop % partial.BLOCK == 0:
                    self._store(partial, part)
                    part = []

    @contextmanager
    def _end_if_it_fails(self) -> Iterator[None]:
        """End the processes when the work ends early: no thread waits for them then."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def _processes(self, blocks: Sequence[int]) -> DecodingProcesses | None:
        """Return processes that have begun, where the work is long enough for them."""
        n = len(self.source.ids)
        # the tasks of a command are short, and its processes go on from one to the next
        rows = n if self.job.command else count_rows(blocks, n)
        if self.processes is None or rows < FEWEST:
            return None
        self.processes.begin()
        return self.processes

    def end(self) -> None:
        """End the processes that decode."""
        if self.processes is not None:
            self.processes.end()

    def _batches(self, blocks: Sequence[int]) -> Iterator[range]:
        """The rows of each batch; none goes over the end of its block."""
        for block in blocks:
            rows = block_rows(block, len(self.source.ids))
            for at in rows[:: self.batch]:
                yield range(at, min(at + self.batch, rows.stop))

    def _store(self, partial: Partial, block: Sequence[Batch]) -> None:
        """Write a block."""
        first = block[0].rows.start
        decoded = list(itertools.chain(*[batch.decoded for batch in block]))
        tables = [batch.tables for batch in block if batch.tables]
        if not tables:
            raise UserError(
                f"none of the {len(decoded)} {self.source.holds} from {self.source.ids[first]} on "
                f"can be decoded ({decoded[0].problem}); is {self.source.name} damaged?"
            )
        arrays = {
            name: torch.cat([table[name] for table in tables]).cpu().numpy() for name in tables[0]
        }
        skipped = []
        uniform = []
        pictures = Counter[str]()
        for name, sample in zip(self.source.ids[first:], decoded, strict=False):
            pictures.update(sample.touched)
            if sample.problem:
                skipped.append([name, sample.problem])
            if UNIFORM in sample.touched:
                uniform.append(name)
        note = {
            "ids": ids_digest(self.source, range(first, first + len(decoded))),
            "hashes": "".join(sample.digest.hex() for sample in decoded),
            "decoded": any(sample.decoded for sample in decoded),
            "skipped": skipped,
            "pictures": pictures,
            UNIFORM: uniform,
        }
        partial.write(first // Partial.BLOCK, arrays, note=note)


def job_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that are those of every block; see `CHANGING` for the others."""
    return {key: value for key, value in facts.items() if key not in CHANGING}


def ids_digest(source: Source, rows: range) -> str:
    """Return the SHA-256 of the ids of some rows."""
    return hashlib.sha256("\0".join(source.ids[rows.start : rows.stop]).encode()).hexdigest()


def hashes_of(note: Mapping[str, Any]) -> list[bytes]:
    """Return the content hash of every sample of a block, also of those that were left out."""
    joined = bytes.fromhex(note["hashes"])
    return [joined[at : at + SIZE] for at in range(0, len(joined), SIZE)]


def _device(device: torch.device) -> str:
    """Return what decides the bits of a device: the model of a card, a CPU's vector unit."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu {torch.backends.cpu.get_cpu_capability()}" if device.type == "cpu" else device.type


# --- the specification of an extraction, as a value that any process can open ---


CPU_BATCH, CUDA_BATCH = 4, 128  # on a CPU the activations of 4 images still fit the caches
CPU_LANES, CUDA_LANES = 8, 16  # most threads; more would wait for Python's lock


@dataclass(frozen=True)
class Job:
    """The rows that `pipeline.extract` is asked for.

    Parameters
    ----------
    source : str
        See `open_source`.
    backbone : str or None
        `pixels` (flat values), `none` (a pixel file), `log-mel` (for sounds), a model of timm, or
        `hf:NAME`, a model of transformers. None: the shipped backbone, for the source `demo` only.
    weights : str or PathLike or None
        File of weights, `shipped` for those in the package, or None for timm's own.
    layers : sequence of str
        Intermediate embeddings, such as `block-8`, `8`, `last4` or `all`.
    dtype : str
        Arithmetic: `float32`, `bfloat16` or `float16`; the last two are stored as float16.
    size : int or None
        Input height and width instead of the model's own; seconds of sounds (default 10); with
        `hf:`, tokens of texts.
    device : str
        `auto`, `cpu`, `cuda`, `cuda:1`, …
    skip_bad : bool
        Leave out samples that cannot be decoded, and list them in the provenance.
    alpha : str
        The ground that transparent pixels of images are laid on: `white`, `black`, another colour
        (`#rrggbb`); or `drop`, which shows their hidden colours as a plain `convert("RGB")` does.
    orientation : str
        `turn` images as their EXIF says, or `keep` them as they are stored.
    normalise : str
        With `pixels`: `none`; `channel`, by the training images; or as `ChannelScale.read` reads.
    flip : bool
        With `pixels` and `none`: each training image is also there flipped, left to right.
    threads : int or None
        Threads of one operation, which decide the last bits; by default 1, or more where there are
        more cores than threads that decode and, on a CPU, run the backbone (8; with a card 16).
    batch_size : int or None
        Samples per forward pass; by default 4 on a CPU and 128 on a card.
    cpus : int or None
        Cores of a process at work; None: all that it may use.
    directory : str
        Where relative paths begin in another process; empty in this one.
    command : str
        Which command asks other processes; empty in this one. A process that outlives a command
        opens source and model anew for the next one: the files may be others by then.
    """

    source: str
    backbone: str | None = None
    weights: str | os.PathLike[str] | None = None
    layers: Sequence[str] = ()
    dtype: str = "float32"
    size: int | None = None
    device: str = "auto"
    skip_bad: bool = False
    alpha: str = "white"
    orientation: str = "turn"
    normalise: str = NONE
    flip: bool = False
    threads: int | None = None
    batch_size: int | None = None
    cpus: int | None = None
    directory: str = ""
    command: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if self.dtype not in DTYPES:
            raise UserError("--dtype", expected=f"one of {', '.join(DTYPES)}", got=self.dtype)
        PixelPolicy.chosen(self.alpha, self.orientation)  # a wrong one is refused at once
        if self.normalise != NONE and self.backbone != "pixels":
            raise UserError(
                f"--normalise is of --backbone pixels, and the backbone is {self.backbone}",
                "leave it out: models normalise by themselves, and protocols scale pixel files",
            )
        if self.normalise not in (NONE, CHANNEL):
            ChannelScale.read(self.normalise)

    @property
    def policy(self) -> PixelPolicy:
        """What becomes of the images' pixels."""
        return PixelPolicy.chosen(self.alpha, self.orientation)

    def elsewhere(self, cpus: int) -> Self:
        """Return the job as other processes can open it, each with so many cores.

        By default an operation has one thread, so that the rows do not depend on the cores.
        """
        return replace(
            self,
            threads=self.threads or 1,
            cpus=cpus,
            directory=os.getcwd(),
            command=secrets.token_hex(8),
        )

    def open_source(self) -> Source:
        """Return the opened source."""
        return open_source(self.source, skip_bad=self.skip_bad)

    def check_kind(self, source: Source) -> None:
        """Refuse an opened source of another kind than the backbone takes."""
        name, _ = backbones.choose_backbone(self.source, self.backbone, self.weights)
        backbones.check_kind(name, source)

    def work(self, source: Source) -> ExtractionWork:
        """Return the work on an opened source: the model is loaded on this process's device."""
        self.check_kind(source)
        name, file = backbones.choose_backbone(self.source, self.backbone, self.weights)
        if source.holds != "images" and self.policy != DEFAULT:
            what = f"--alpha and --orientation are for images, and {source.name} holds"
            raise UserError(f"{what} {source.holds}", "leave them out")
        where = torch.device(find_device(self.device))
        model = backbones.open_backbone(
            name,
            lambda: first_image(source, self.policy),
            weights=file,
            layers=self.layers,
            dtype=self.dtype,
            size=self.size,
            device=where,
            holds=source.holds,
        )
        if self.normalise != NONE:
            assert isinstance(model, backbones.Pixels)
            model.normalise_by(ChannelScale.read(self.normalise))
        if self.flip:
            model.preprocessing["flip"] = "training images, left to right"
        cuda = where.type == "cuda"
        batch = self.batch_size or (CUDA_BATCH if cuda else CPU_BATCH)
        if batch < 1 or Partial.BLOCK % batch:
            raise UserError("the batch size", expected=f"a divisor of {Partial.BLOCK}", got=batch)
        mine = self.cpus or cores()
        each = 1 if cuda else self.threads or 1  # cores of a lane
        lanes = max(1, min(mine // each, CUDA_LANES if cuda else CPU_LANES))
        threads = self.threads or mine // lanes
        processes = self._processes(source, model, lanes, threads)
        return ExtractionWork(self, source, model, batch, lanes, threads, processes)

    def _processes(
        self, source: Source, model: Backbone, number: int, threads: int
    ) -> DecodingProcesses | None:
        """Return processes that decode beside a card, not begun; None: threads do."""
        prepare = model.preparer()
        if model.device.type == "cpu" or prepare is None or not can_begin():
            return None
        if self.source.startswith("__main__:"):  # a function of this process alone
            return None
        failed = f"what `preparer` of the backbone {model.backbone.get('name')} returns"
        with explain_errors(f"{failed} cannot be pickled", "return a function of a module"):
            pickle.dumps(prepare)
        opening = Opening(
            open_source=self.open_source,
            directory=os.getcwd(),
            samples=source.digest,
            policy=self.policy,
            backbone=model.backbone,
            prepare=prepare,
            threads=threads,
        )
        return DecodingProcesses(number, opening)


@contextmanager
def arithmetic_settings(threads: int) -> Iterator[None]:
    """Make the bits repeatable: no TF32, and no algorithm chosen by timing."""
    exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    flags = torch.backends.cudnn.flags(**exact)
    with limit_threads(threads), flags, quiet_readers():  # threads of an operation, in each thread
        yield
