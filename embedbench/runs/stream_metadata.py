"""The fields of a record that depend on the stream alone."""

import dataclasses
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


def described_stream(task: Task) -> dict[str, Any]:
    """The fields of a record that depend on the stream alone, as `RunRecord` has them."""
    spec, stream, files = task.spec, task.stream, task.files
    protocol = spec.protocol.settings
    order = task.streams.order_record(spec)
    classes = class_names(stream, files)
    return {
        "schema": run_record.SCHEMA,
        "protocol": spec.protocol.name,
        "protocol_params": dict(sorted(dataclasses.asdict(protocol).items())),
        "session_id_at_test": stream.spec.reveals_session_id,
        "seed": spec.seed,
        "seeds": spec.seeds,
        "files": tuple(map(_file_info, files, task.names)),
        "order": None if order is None else run_record.ClassOrder(**order),
        "digests": run_record.Digests(**stream.digests),
        "validation": stream.validation,
        "notes": (*stream.notes, *_seen(task, classes)),
        "scale": stream.scale or None,
        "n_train": tuple(len(s.x) for s in stream.sessions),
        "n_classes": tuple(len(s.classes) for s in stream.sessions),
        "n_candidates": tuple(
            None if e.candidates is None else int(e.candidates.sum()) for e in stream.eval_sets
        ),
        "n_train_by_class": stream.class_sizes,
        "classes": tuple(classes),
        "reference": task.reference,
        "unknown": None
        if stream.far is None
        else _file_info(task.streams.file(spec.unknown), spec.unknown),
    }


def list_packages(**code: object) -> dict[str, run_record.Package] | None:
    """The packages of what is not ours; None where all is."""
    made = {kind: find_package(thing) for kind, thing in code.items()}
    return {kind: run_record.Package(*package) for kind, package in made.items() if package} or None


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
    names = [name for part in classes for name in part]
    introduced = {names[c] for s in task.stream.sessions for c in s.classes.tolist()}
    notes = list[str]()
    for file in task.files:
        classes_seen = provenance.read_weights_entry(file.provenance).classes_seen
        notes += provenance.seen_note(as_text(file.path.name), classes_seen, introduced)
    return notes
