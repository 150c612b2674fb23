"""The fields of a record that depend on the stream alone."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from embedbench.files import provenance
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote import fetch, uri
from embedbench.plugins import code_digest, find_package
from embedbench.scores import run_record
from embedbench.streams.taught_classes import class_names
from embedbench.text.undecoded_text import as_text

from .run_task import Task


def record_stream(task: Task) -> run_record.DescribedStream:
    """What a record says of the stream of a task; it depends on nothing else of the task."""
    spec = task.spec
    stream = task.stream
    protocol = spec.protocol.settings
    order = task.streams.order_record(spec)
    classes = class_names(stream, task.files)
    return run_record.DescribedStream(
        schema=run_record.SCHEMA,
        protocol=spec.protocol.name,
        protocol_params=dict(sorted(dataclasses.asdict(protocol).items())),
        session_id_at_test=stream.spec.reveals_session_id,
        seed=spec.seed,
        seeds=spec.seeds,
        files=tuple(map(_file_info, task.files, task.names)),
        order=None if order is None else run_record.ClassOrder(**order),
        digests=run_record.Digests(**stream.digests),
        validation=stream.validation,
        notes=(*stream.notes, *_seen(task, classes)),
        scale=stream.scale or None,
        n_train=tuple(len(session.x) for session in stream.sessions),
        n_classes=tuple(len(session.classes) for session in stream.sessions),
        n_candidates=tuple(
            None if e.candidates is None else int(e.candidates.sum()) for e in stream.eval_sets
        ),
        n_train_by_class=stream.class_sizes,
        classes=tuple(classes),
        reference=task.reference,
        packages=list_packages(protocol=protocol),
    )


def record_unknown(task: Task) -> run_record.FileInfo | None:
    """What a record says of the file of samples that no session teaches; None without one."""
    if task.stream.far is None:
        return None
    name = task.spec.unknown
    return _file_info(task.streams.file(name), name)


def list_packages(**code: object) -> dict[str, run_record.Package] | None:
    """The packages of what is not ours; None where all is."""
    packages = {}
    for kind, thing in code.items():
        package = find_package(thing)
        if package:
            packages[kind] = run_record.Package(*package)
    return packages or None


def list_code(**code: object) -> dict[str, str] | None:
    """The digests of code that is not ours, see `plugins.code_digest`; None where all is."""
    made = {}
    for kind, thing in code.items():
        cls: Any = type(thing)
        ours = cls.__module__.partition(".")[0] == "embedbench"
        if not ours and (digest := code_digest(cls)):
            made[kind] = digest
    return made or None


def _file_info(file: EmbeddingFile, name: str) -> run_record.FileInfo:
    made = run_record.FileInfo(name=as_text(file.path.name), kind=file.kind, digests=file.digests)
    if not uri.is_name(name):
        return made
    source = fetch.origin(name)
    if source is None:  # of the package
        return dataclasses.replace(made, url=name)
    return dataclasses.replace(made, url=source.url, commit=source.commit, sha256=source.sha256)


def _seen(task: Task, classes: Sequence[Sequence[str]]) -> list[str]:
    """Sentences on classes of the stream that the files' backbones were pretrained on."""
    names = list(itertools.chain(*classes))
    introduced: set[str] = set()
    for session in task.stream.sessions:
        introduced.update(names[label] for label in session.classes.tolist())
    notes: list[str] = []
    for file in task.files:
        classes_seen = provenance.read_weights_entry(file.provenance).classes_seen
        notes += provenance.seen_note(as_text(file.path.name), classes_seen, introduced)
    return notes
