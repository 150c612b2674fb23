"""The pipeline of an extraction: source, backbone, blocks, file.

The unit of work is a block of 1024 samples: it is decoded, computed and stored as a whole. Batches
are cut from the first sample of a block, so that resumed work gives the same bits as uninterrupted
work.
"""

import itertools
import os
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedbench.array_types import Bytes
from embedbench.engines.engine import Engine
from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.equal_contents import (
    describe_two_classes,
    describe_two_splits,
    pairs_apart,
)
from embedbench.files.known_names import describe_taken
from embedbench.files.provenance import NOTHING, UserMetadata
from embedbench.files.resumable_file import Partial
from embedbench.files.sample_contents import KEY, describe_contents
from embedbench.files.sample_metadata import Samples
from embedbench.files.train_test_split import describe_lopsided, describe_straddling
from embedbench.files.write_file import check_target
from embedbench.networks.paper_networks import known_weights
from embedbench.storage.regular_files import explain_errors
from embedbench.system.callback_types import Notify, Progress

from .channel_statistics import CHANNEL
from .content_hashes import changed_samples
from .domain_group_time import add_columns, choose_split
from .extraction_work import (
    ExtractionWork,
    Job,
    arithmetic_settings,
    block_rows,
    count_rows,
    hashes_of,
    ids_digest,
    job_of,
    quiet_readers,
)
from .flipped_copies import add_flipped
from .measure_channels import measure_channels
from .pixel_policy import UNIFORM
from .source import Source, unusable

NAMES = 300  # characters of names that a sentence lists


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _ignore(message: str) -> None:
    pass


def extract(
    source: str,
    out: str | os.PathLike[str],
    *,
    split: str | None = None,
    group: str | None = None,
    stratify: bool | None = None,
    columns: str | os.PathLike[str] | None = None,
    domain_from: str | None = None,
    group_from: str | None = None,
    stated: UserMetadata = NOTHING,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify = _warn,
    inform: Notify = _ignore,
    limit: Notify = _ignore,
    engine: Engine | None = None,
    **job: Any,
) -> EmbeddingFile:
    """Write an embedding file, or a pixel file, from the images or sounds of a source.

    Interrupted work resumes with its complete blocks, as far as the source still has the contents
    that they were computed from.

    Parameters
    ----------
    source : str
        See `open_source`.
    out : str or PathLike
        The file to write.
    split, group, stratify : str or None, str or None, bool or None
        See `choose_split`.
    columns, domain_from, group_from : str or PathLike or None, str or None, str or None
        Where optional columns come from, see `add_columns`.
    stated : UserMetadata
        What the user says of the file.
    overwrite : bool
        Replace an existing file.
    progress : callable or None
        Called with (samples done, total) after every batch.
    notify : callable
        Called with each message for the user; by default it warns.
    inform : callable
        Called at the end with the line on what was taken; by default it does nothing. Where
        something was left out, the line goes to `notify`, before the work begins.
    limit : callable
        Called after every batch with what limits the pace, decoding or the backbone; with "" until
        it is known. Of the processes of an engine it is not known.
    engine : Engine or None
        Who computes the blocks; None: this process.
    job
        Parameters of `Job`, what goes through which network and how: `backbone`, `weights`,
        `layers`, `dtype`, `size`, `device`, `skip_bad`, `alpha`, `orientation`, `normalise`,
        `flip`, `threads`, `batch_size`.

    Raises
    ------
    UserError
        An argument is wrong, or a sample cannot be read; the first one is named.
    """
    check_target(Path(out), overwrite=overwrite)
    asked = Job(source, **job)
    opened = add_columns(asked.open_source(), columns, domain_from, group_from, group)
    if opened.remark:
        notify(opened.remark)
    rows, rule = choose_split(opened, split, group, stratify=stratify)
    if opened.split is not None and rule["rule"] != "official":
        notify(f"{opened.name}: its official split is replaced, as --split or --stratify asks.")
    if remark := describe_straddling(opened.columns.get("group"), rows, rule):
        notify(f"{opened.name}: {remark}")
    opened = replace(opened, split=rows)
    if asked.normalise == CHANNEL or asked.flip:
        asked.check_kind(opened)  # these two look at images
    if asked.normalise == CHANNEL:
        scale = measure_channels(asked, opened)
        asked = replace(asked, normalise=str(scale))
        notify(f"{opened.name}: normalised by --normalise {scale}, of its training images.")
    if asked.flip:
        if engine is not None:
            raise UserError("--flip is of this process alone", "leave --engine out")
        opened = add_flipped(opened, asked.backbone)
    taken = _taken(opened, rule)
    if opened.left_out:  # before the long work, which may not be what was meant
        notify(taken)
    with ExitStack() as stack:
        executor = None
        if engine is not None:
            asked = asked.elsewhere(engine.resources.cpus)
            tasks = len(ranges(range(-(-len(opened.ids) // Partial.BLOCK))))
            executor = stack.enter_context(engine.executor(tasks, notify))
        workers = Workers(asked, opened, executor)
        stack.callback(workers.end)
        with Partial.begun(Path(out), job_of(workers.facts), overwrite=overwrite) as partial:
            workers.drop_changed(partial, notify)
            workers.fill(partial, progress, limit)
            file = finish(workers, partial, rule, stated, notify)
    if len(file.sample_ids) < len(opened.ids):  # some could not be decoded
        taken = _taken(_kept(opened, file), rule)
        inform(taken)
    elif not opened.left_out:
        inform(taken)
    return file


def _kept(source: Source, file: EmbeddingFile) -> Source:
    """Return the samples of a source that a file has."""
    columns: dict[str, Any] = dict(file.columns)
    ids = tuple(file.sample_ids.tolist())
    return replace(source, ids=ids, labels=file.labels, split=file.split, **columns)


def _taken(source: Source, rule: Mapping[str, Any]) -> str:
    """Return the line that says what was taken of a source."""
    assert source.split is not None
    ids = np.array(source.ids)
    samples = Samples(ids, source.labels, source.split, source.classes, source.parents)
    group = source.columns.get("group")
    return describe_taken(
        samples,
        rule,
        holds=source.holds,
        groups=None if group is None else len(np.unique(group)),
        columns=tuple(source.columns),
        left_out=source.left_out,
    )


# --- from blocks to the file ---


def finish(
    workers: "Workers",
    partial: Partial,
    rule: dict[str, Any],
    stated: UserMetadata,
    notify: Notify,
) -> EmbeddingFile:
    """Assemble the file from the blocks, and tell the user what is notable."""
    source = workers.source
    assert source.split is not None
    blocks = range(-(-len(source.ids) // Partial.BLOCK))
    notes = [partial.note(block) for block in blocks]
    undecoded = list(itertools.chain(*[note["skipped"] for note in notes]))
    left_out = {name for name, _ in undecoded}
    skipped = [*map(list, source.refused), *undecoded]
    kept = np.array([i for i, name in enumerate(source.ids) if name not in left_out], np.int64)
    ids = [source.ids[i] for i in kept]
    samples = Samples(
        np.array(ids), source.labels[kept], source.split[kept], source.classes, source.parents
    )
    hashes = bytes.fromhex("".join(note["hashes"] for note in notes))
    digests = np.frombuffer(hashes, np.uint8).reshape(len(source.ids), -1)[kept]
    pairs = pairs_apart(digests, samples.split)
    policy = workers.policy
    counts, uniform = _pictures(notes)
    for remark in policy.remarks(source.name, len(source.ids), counts, uniform):
        notify(remark)
    for remark in _same_contents(samples, digests, source.holds):
        notify(remark)
    for remark in _remarks(source, samples, rule, skipped):
        notify(remark)
    origin = {"name": source.name, "revision": source.revision, "licence": source.licence}
    if source.package:
        origin["package"] = " ".join(source.package)
    provenance = {
        "backbone": workers.facts["backbone"],
        "preprocessing": policy.recipe(workers.facts["preprocessing"], counts),
    }
    if source.holds == "images":
        provenance["pictures"] = policy.entry(counts, uniform)
    provenance |= {
        "arithmetic": workers.arithmetic,
        "source": origin,
        "split": rule,
        "same_content_in_two_splits": {
            "count": len(pairs),
            "first": [(ids[a], ids[b]) for a, b in pairs[:100]],
        },
        KEY: describe_contents(ids, digests, decoded=any(note["decoded"] for note in notes)),
        **known_weights(workers.facts["backbone"]),
    }
    return partial.finish(
        samples,
        stated.added_to(provenance, samples.classes[: samples.n_leaves]),
        skipped=skipped,
        columns={name: values[kept] for name, values in source.columns.items()},
    )


def _pictures(notes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], list[str]]:
    """Sum up what blocks note of the pixel policy: pictures by rule; names of those of one colour.

    Only now is it known which rules touched a picture at all; the recipe has these alone.
    """
    counts = Counter[str]()
    uniform: list[str] = []
    for note in notes:
        counts.update(note["pictures"])
        uniform += note[UNIFORM]
    return counts, uniform


def _same_contents(samples: Samples, hashes: Bytes, holds: str) -> Iterator[str]:
    """Yield sentences on samples with the same content in two splits, and in two classes."""
    splits = pairs_apart(hashes, samples.split)
    classes = pairs_apart(hashes, samples.labels)
    if said := describe_two_splits(splits, samples, holds, "extract"):
        yield f"{said}; embedbench inspect --json names up to 100 pairs."
    if said := describe_two_classes(classes, samples, holds, "extract"):
        yield f"{said}."


def _remarks(
    source: Source,
    samples: Samples,
    rule: Mapping[str, Any],
    skipped: Sequence[Sequence[str]],
) -> Iterator[str]:
    """Yield sentences on samples left out, and a lopsided split."""
    if skipped:
        gone = sorted({*source.labels.tolist()} - {*samples.labels.tolist()})
        names = ", ".join(samples.classes[label] for label in gone)[:NAMES]
        yield (
            f"left out {len(skipped)} {source.holds} that cannot be used, first {skipped[0][0]}"
            + (f"; no sample is left of {names}." if gone else ".")
        )
    if remark := describe_lopsided(samples.split, samples.labels, samples.classes, rule):
        yield remark


# --- the work of this process, or of an engine's: there, ranges of blocks are the tasks ---


BLOCKS = 16  # most blocks of a task
TASKS = 64  # tasks that are made where there are blocks enough
LOOK = 1.0  # seconds between two looks at the blocks
FAILED = (
    "a part of the extraction failed",
    "the parts that are done are kept: run the command again to go on",
)

_opened: dict[Job, ExtractionWork] = {}  # the work of this process: its model stays loaded


def work_for(job: Job, function: Callable[..., Any], *args: Any) -> Any:
    """In a worker: call a function with the work of a job; a sentence begins with its machine."""
    try:
        work = _work(job)
        with arithmetic_settings(work.threads):
            return function(work, *args)
    except UserError as error:
        raise error.at(f"on host {platform.node()}") from error


def fill_range(
    work: ExtractionWork, path: Path, first: dict[str, Any], blocks: Sequence[int]
) -> None:
    """In a worker: compute the blocks of a range that are not there yet.

    `first` has the facts of the command; a process whose rows would have other bits, or be of other
    samples, is refused.
    """
    here, _ = work.facts()
    if keys := sorted(key for key in first if here.get(key) != first[key]):
        raise UserError(
            f"a worker differs in {', '.join(keys)} ({keys[0]}: {here.get(keys[0])!r}, not "
            f"{first[keys[0]]!r})",
            "take machines of one kind, with the same data and versions",
        )
    partial = Partial.joined(path, job_of(first))
    work.fill(partial, [b for b in blocks if not partial.is_whole(b)], lambda done, total: None)


def _work(job: Job) -> ExtractionWork:
    """Open source and backbone, or return them as they were opened by this process."""
    if job not in _opened:
        while _opened:
            _, before = _opened.popitem()
            before.end()
        with suppress(OSError):  # a machine without it may still have what is asked for
            os.chdir(job.directory)
        here = job
        if job.device in ("auto", "cuda") and torch.cuda.is_available():
            use_card("cuda")
            here = replace(job, device=f"cuda:{torch.cuda.current_device()}")
        _opened[job] = here.work(here.open_source())
    return _opened[job]


class Workers:
    """Who computes the blocks of a source: an engine's workers, or without one this process.

    A worker opens source and backbone once in its process, and writes its blocks beside the file.
    So all machines must see the file's directory. The blocks themselves say what is left to do.

    Attributes
    ----------
    facts, arithmetic : dict
        See `ExtractionWork.facts`; a worker knows them, because the model is loaded there.
    """

    def __init__(self, job: Job, source: Source, executor: Executor | None) -> None:
        self.source, self._job, self._executor = source, job, executor
        self.policy = job.policy
        self._here = job.work(source) if executor is None else None
        self.facts, self.arithmetic = self.ask(ExtractionWork.facts)
        self.facts["samples"] = source.digest  # what a worker reads is compared with it

    def end(self) -> None:
        """End what this process began."""
        if self._here is not None:
            self._here.end()

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a function of an `ExtractionWork`, of this process or a worker."""
        if self._here is not None:
            with arithmetic_settings(self._here.threads):
                return function(self._here, *args)
        with explain_errors(*FAILED):
            return self._submit(function, *args).result()

    def drop_changed(self, partial: Partial, notify: Notify) -> None:
        """Drop the blocks of an interrupted command that are of other samples, or other contents.

        Raises
        ------
        UserError
            No block is of the samples that are there now; or one was left out, and may not be.
        """
        source = self.source
        kept = [block for block in partial.kept() if partial.is_whole(block)]
        moved = [block for block in kept if not self._is_of(partial, block)]
        if moved and moved == kept and not partial.overwrite:
            raise UserError(
                f"{partial.directory} holds unfinished work of another job (another samples)",
                f"none of its {len(kept)} finished blocks is of the samples that {source.name} has "
                "now: bring back those that it had, or drop the work with --overwrite",
            )
        if moved:
            notify(
                f"{source.name} has other samples than when this work was interrupted: "
                f"{len(moved)} of {len(kept)} finished blocks are computed again."
            )
        there = [block for block in kept if block not in moved]
        changed = self._changed(partial, there)
        if changed:
            samples = list(itertools.chain(*changed.values()))
            notify(
                f"{len(samples)} samples of {source.name} have other contents than when this work "
                f"was interrupted (first {source.ids[samples[0]]}): {len(changed)} of {len(kept)} "
                "finished blocks are computed again."
            )
        for block in (*moved, *changed):
            partial.drop(block)
        for block in there:
            if block not in changed and not self._job.skip_bad:
                for name, problem in partial.note(block)["skipped"]:
                    raise unusable(name, source.name, problem)

    def _is_of(self, partial: Partial, block: int) -> bool:
        """Whether a block is of the samples that have its rows now."""
        rows = block_rows(block, len(self.source.ids))
        return bool(partial.note(block)["ids"] == ids_digest(self.source, rows))

    def _changed(self, partial: Partial, blocks: Sequence[int]) -> dict[int, list[int]]:
        """Return the samples, by block, that this process reads with other contents."""
        n = len(self.source.ids)
        noted = [(block_rows(block, n), hashes_of(partial.note(block))) for block in blocks]
        with quiet_readers():
            changed = zip(blocks, changed_samples(self.source, noted), strict=True)
            return {block: rows for block, rows in changed if rows}

    def fill(self, partial: Partial, progress: Progress | None, limit: Notify) -> None:
        """Have the missing blocks computed; a task that fails ends the work with its sentence."""
        n = len(self.source.ids)
        tell: Progress = progress or (lambda done, total: None)
        while missing := partial.missing(n):
            if self._here is not None:
                self.ask(ExtractionWork.fill, partial, missing, tell, limit)
            else:
                self._fill_by_tasks(partial, missing, tell)
        tell(n, n)

    def _fill_by_tasks(self, partial: Partial, missing: Sequence[int], tell: Progress) -> None:
        n = len(self.source.ids)
        path = partial.path.absolute()
        waiting = set[Future[Any]]()
        unchecked = set(missing)
        try:
            with explain_errors(*FAILED):
                for part in ranges(missing):
                    waiting.add(self._submit(fill_range, path, self.facts, part))
                while waiting:
                    done, waiting = wait(waiting, timeout=LOOK, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    unchecked -= self._check_workers(partial, unchecked)
                    tell(n - count_rows(partial.missing(n), n), n)
        finally:
            for future in waiting:
                future.cancel()

    def _check_workers(self, partial: Partial, blocks: Iterable[int]) -> set[int]:
        """Refuse blocks of other contents than this process reads; return those that are there.

        Ids, labels and splits are of the source as the command opened it. A worker that has another
        state of it under the same names would put rows beside labels that are not theirs.
        """
        there = {block for block in blocks if partial.is_whole(block)}
        for block, rows in self._changed(partial, sorted(there)).items():
            partial.drop(block)
            raise UserError(
                f"a worker read other contents than this command for {len(rows)} samples of block "
                f"{block} (first {self.source.ids[rows[0]]} of {self.source.name})",
                "let no other program change the data meanwhile, take machines that see the same "
                "data, and run the command again",
            )
        return there

    def _submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        assert self._executor is not None
        return self._executor.submit(work_for, self._job, function, *args)


def ranges(blocks: Sequence[int]) -> list[tuple[int, ...]]:
    """Cut blocks into tasks.

    >>> ranges([0, 1, 5])
    [(0,), (1,), (5,)]
    >>> len(ranges(range(65))), len(ranges(range(2000)))
    (33, 125)
    """
    size = min(BLOCKS, -(-len(blocks) // TASKS))
    return [tuple(blocks[at : at + size]) for at in range(0, len(blocks), size)]
