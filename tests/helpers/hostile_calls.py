"""Calls of the Python API, each with one argument exchanged for a hostile one."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from confident_runs import confident_predictions, keep_runs
from protocol_files import make_file
from toy import class_stream

import embedbench
from embedbench import api
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.scores.label_set_predictions import LabelSets

HOSTILE: dict[str, Any] = {
    "none": None,
    "true": True,
    "negative": -1,
    "huge": 10**30,
    "nan": float("nan"),
    "inf": float("inf"),
    "half": 0.5,
    "empty text": "",
    "text": "nothing",
    "long text": "x" * 5000,
    "null character": "a\0b",
    "surrogate": "\udcff",
    "bytes": b"x",
    "empty list": [],
    "list of none": [None],
    "nested list": [[[]]],
    "dict": {"a": 1},
    "object": object(),
    "class": dict,
    "function": len,
    "path": Path("/nowhere/at/all"),
    "complex": 1j,
    "nan array": np.full((2, 3), np.nan),
    "object array": np.array([None, "x"], dtype=object),
    "deep array": np.zeros((2, 3, 4)),
    "empty array": np.zeros((0, 0)),
    "text array": np.array(["a", "b"]),
    "generator": (i for i in ()),
}


@dataclass(frozen=True)
class Call:
    """A call that is right, by arguments; `name` says which of the API."""

    name: str
    function: Callable[..., Any]
    given: dict[str, Any] = field(default_factory=dict)
    first: tuple[Any, ...] = ()

    def hostile(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Every argument exchanged for every hostile value."""
        for i in range(len(self.first)):
            for label, value in HOSTILE.items():
                args = (*self.first[:i], value, *self.first[i + 1 :])
                yield f"{self.name}: argument {i} is {label}", self._bound(args, self.given)
        for name in self.given:
            for label, value in HOSTILE.items():
                yield (
                    f"{self.name}: {name} is {label}",
                    self._bound(self.first, {**self.given, name: value}),
                )

    def _bound(self, args: tuple[Any, ...], given: dict[str, Any]) -> Callable[[], Any]:
        return lambda: self.function(*args, **given)


def calls(folder: Path) -> list[Call]:
    """A right call of everything public, on files that are made in a folder."""
    opened = make_file(folder, apart=1.0)
    file = opened.path
    stream = class_stream([[0, 1], [2]])
    p = confident_predictions(3)
    keep_runs(folder / "runs", {"ncm": [confident_predictions(3)]})
    runs = embedbench.load_runs(folder / "runs")
    truth = np.array([[True, False], [False, True]])
    sets = LabelSets.from_sets(truth, truth, [-1, -1])
    rows = np.flatnonzero(opened.split == 0)
    table, *_ = api.load_table(opened, "none", rows)
    split = api.split_rows(opened, "train", 0.1)
    protocol = embedbench.api.build_stream(file, "incremental-class", base=2)
    assert protocol.sessions
    image = folder / "image.bin"
    image.write_bytes(b"x")
    answered = [
        Call(
            f"score of {name}",
            lambda value, name=name: api.score(replace(p, **{name: value})),
            {"value": getattr(p, name)},
        )
        for name in type(p).tables()
        if getattr(p, name) is not None
    ]
    of_sets = [
        Call(
            f"score of label sets' {name}",
            lambda value, name=name: api.score(replace(sets, **{name: value})),
            {"value": getattr(sets, name)},
        )
        for name in type(sets).tables()
    ]
    sessions = [
        Call(
            f"run on a session's {name}",
            lambda value, name=name: api.run(
                replace(
                    stream,
                    sessions=(replace(stream.sessions[0], **{name: value}), *stream.sessions[1:]),
                ),
                "ncm",
            ),
            {"value": getattr(stream.sessions[0], name)},
        )
        for name in ("x", "y", "val_x", "val_y", "ids", "classes", "loss_classes")
    ]
    spec = {"input_shape": (6,), "n_classes": 3, "multilabel": False, "layers": {}}
    specs = [
        Call(
            f"run on a spec's {name}",
            lambda value, name=name: api.run(
                replace(stream, spec=replace(stream.spec, **{name: value})), "ncm"
            ),
            {"value": spec[name]},
        )
        for name in spec
    ]
    return [
        Call("build_stream", api.build_stream, {"seed": 0, "base": 2, "order": "natural"},
             (file, "incremental-class")),
        Call("build_stream of a protocol", api.build_stream, {"seed": 0},
             (opened, embedbench.api.protocol_class("incremental-class")(base=2))),
        Call("make_learner", api.make_learner, {"lam": 1.0, "lr": 0.1}, ("ewc",)),
        Call("run", api.run, {"seed": 0, "device": "cpu", "threads": 1}, (stream, "ncm")),
        Call("score", api.score, {"offline": p, "score": "class_accuracy", "normalise_new": False,
                                  "class_sizes": [9] * p.seen.shape[1]}, (p,)),
        Call("score of label sets", api.score, {"score": "pw_js"}, (sets,)),
        Call("audit", api.audit, {}, (p,)),
        Call("local", api.local, {}, (file,)),
        Call("score_matrices", api.score_matrices, {"class_sizes": [9] * p.seen.shape[1]}, (p,)),
        Call("above", api.above, {"most": 9.0}, (0,)),
        Call("at_least", api.at_least, {"most": 9.0}, (0,)),
        Call("later", api.later, {"earlier": 0}, (0,)),
        Call("within", api.within, {}, ("(0, 1]",)),
        Call("require", api.require, {"most": api.at_least(0)},
             (SimpleNamespace(most=1.0), "name")),
        Call("StreamSpec", api.StreamSpec, spec),
        Call("flat_spec", api.flat_spec, {"layers": (), "embedding": "final", "loss": "all"},
             (table, opened)),
        Call("load_table", api.load_table, {"layers": (), "embedding": "final", "few": False},
             (opened, "none", rows)),
        Call("one_file", api.one_file, {}, ([opened], "name")),
        Call("split_rows", api.split_rows, {}, (opened, "train", 0.1)),
        Call("view_session", api.view_session, {"classes": np.array([0, 1]),
             "introduces": np.array([0, 1]), "columns": None}, (table, opened, split)),
        Call("read_sample", api.read_sample, {}, (image,)),
        Call("load_runs", embedbench.load_runs, {"verify": False, "references": False,
             "notify": lambda _: None}, (folder / "runs",)),
        Call("Seeds.of", embedbench.Seeds.of, {"order": 0}, (0,)),
        Call("Seeds", embedbench.Seeds, {"order": 0, "init": 0, "batches": 0, "memory": 0}),
        Call("EmbeddingFile.open", EmbeddingFile.open, {}, (file,)),
        Call("EmbeddingFile.column", opened.column, {}, ("group",)),
        Call("EmbeddingFile.width", opened.width, {}, ("final",)),
        Call("EmbeddingFile.tables", opened.tables, {"layers": (), "embedding": "final"}),
        Call("EmbeddingFile.read", opened.read, {"layers": (), "embedding": "final"}),
        Call("EmbeddingFile.form", opened.form, {}, ("features",)),
        Call("EmbeddingFile.blocks", lambda name: list(opened.blocks(name)), {}, ("features",)),
        Call("Runs.where", runs.where, {"learner": "ncm"}, ({"seed": 0},)),
        Call("Run.matrix", runs[0].matrix, {}, ("class_accuracy",)),
        Call("LabelSets.from_sets", LabelSets.from_sets, {}, (truth, truth, [-1, -1])),
        *answered, *of_sets, *sessions, *specs,
    ]  # fmt: skip


def fault(call: Callable[[], Any]) -> str:
    """The Python error that a call ends with; empty if it ends well or with a `UserError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except UserError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    return ""
