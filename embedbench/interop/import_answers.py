"""Import a run: answers of another tool on an exported stream become a run like any other."""

import json
import math
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Bools
from embedbench.errors import UserError, list_first, unknown
from embedbench.files.formats.numpy_files import NamedArrays, load_npz
from embedbench.runs import answers_from_scores as scoring
from embedbench.runs.learner_and_protocol_names import learner_names
from embedbench.runs.run_dirs import run_at, save_run, tidy
from embedbench.scores import record_files
from embedbench.scores.array_file import WrongError, inside
from embedbench.scores.predictions import Answers, Predictions
from embedbench.scores.run_record import (
    Costs,
    DescribedStream,
    ImportedAnswers,
    Package,
    SessionCosts,
    UnscoredRun,
)
from embedbench.storage import leases, user_cache, value_digest
from embedbench.storage.regular_files import open_regular
from embedbench.version import __version__

from .exported_stream import EvalList, ExportedStream, load

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,59}", re.ASCII)
_TOOL = re.compile(r"([A-Za-z0-9][\w.+-]{0,59})==([\w.+-]{1,60})", re.ASCII)


def parse_tool(text: str) -> Package:
    """The tool and its version, written as pip writes them.

    >>> parse_tool("avalanche-lib==0.6.0")
    Package(name='avalanche-lib', version='0.6.0')
    """
    match = _TOOL.fullmatch(text)
    if match is None:
        expected = "its name and version, as avalanche-lib==0.6.0 or PILOT==COMMIT"
        raise UserError("the tool", expected=expected, got=text)
    return Package(match[1], match[2])


def import_answers(
    answers: Path,
    stream_directory: Path,
    root: Path,
    *,
    name: str,
    tool: Package,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    overwrite: bool = False,
    notify: Callable[[str], None] = lambda _: None,
) -> Path:
    """Score the answers of another tool on an exported stream, and save them as a run.

    Parameters
    ----------
    name : str
        Name of the method, in the place of a learner's.
    overwrite : bool
        Whether a run of this method on this stream is replaced.
    notify : callable
        Called with a sentence for each kind of answers that are missing.
    """
    if not _NAME.fullmatch(name) or name.replace("_", "-") in learner_names():
        raise UserError(
            "--name",
            expected="up to 60 letters, digits and . _ + - and no name of a learner of "
            "embedbench, such as avalanche-er",
            got=name,
        )
    stream, tests = load(stream_directory)
    with user_cache.refuse_changes(answers):
        predictions, gave = read_answers(answers, stream, tests)
        sha256 = user_cache.sha256(answers)
    for sentence in describe_missing(predictions):
        notify(sentence)
    settings = dict(settings or {})
    folder = f"{name}-{value_digest.digest(json.dumps(settings, sort_keys=True))[:8]}"
    run_dir = root / stream.directory / folder / stream.run
    imported = ImportedAnswers(tool=tool, gave=gave, sha256=sha256)
    what = {"learner": name, "learner_params": settings, "imported": imported, "command": command}
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.take(leases.lease_path(run_dir))
    if lease is None:
        raise UserError(f"another process writes {run_dir}", "import it again when that has ended")
    with lease:
        tidy(run_dir, root)
        if record_files.is_finished(run_dir) and not overwrite:
            raise UserError(
                f"{run_dir} is there already",
                "give another --name or other --set, or add --overwrite",
            )
        save_run(predictions, _unscored(stream, what), run_dir, root, run_at(run_dir))
    return run_dir


def describe_missing(p: Predictions) -> list[str]:
    """Say which answers are missing (-1), and what follows; nothing where all are there."""
    due = p.find_unanswered()
    early = int(((p.answer < 0) & ~due).sum())
    sentences = []
    if early:
        sentences.append(
            f"{early:,} answers are missing (-1) to samples of classes or sessions that were not "
            "learned yet: what is scored before learning is undefined, and nothing else needs them"
        )
    if due.any():
        moment, sample = np.argwhere(due)[0].tolist()
        sentences.append(
            f"{int(due.sum()):,} answers are missing (-1) to samples of classes that were learned, "
            f"the first after session {moment} for row {p.ids[sample]}: they count as wrong, and "
            "the run is flagged nan, which leaves it out of means"
        )
    return sentences


def _unscored(stream: ExportedStream, what: dict[str, Any]) -> UnscoredRun:
    """The record of an imported run before it is scored; its costs are not known."""
    described = {f.name: getattr(stream, f.name) for f in fields(DescribedStream)}
    unknown = {"total": math.nan}
    costs = SessionCosts(math.nan, math.nan, unknown, {})
    made = UnscoredRun(
        **{**described, **what, "schema": record_files.SCHEMA},
        learns=True,
        environment={"embedbench": __version__},
        sessions=(costs,) * len(stream.sessions),
        seconds=Costs(math.nan, math.nan),
        footprint=unknown,
    )
    return UnscoredRun.from_json(made.to_json(), "the record of these answers")


# --- the file of answers ---


STREAM, ROWS, KIND = "stream", "rows", "scores_are"


def read_answers(path: Path, stream: ExportedStream, tests: EvalList) -> tuple[Predictions, str]:
    """The answers in a file as predictions on a stream; and "scores" or "answers", what it gives.

    docs/answers.md describes the file. Without scores all within-session answers are -1.
    """
    arrays = _load(path)
    try:
        _check_stream(arrays, stream)
        kind = _check_names(arrays, len(stream.sessions))
        return _AnswerFile(arrays, stream, tests).predictions(kind), kind
    except WrongError as e:
        raise UserError(f"{path}: {e}") from e


ENOUGH = (
    "give an npz of scores_after_i or answers_after_i, for every test sample after each session i; "
    "accuracies alone stand beside ours by embedbench report RUNS TABLE.csv"
)


def _load(path: Path) -> NamedArrays:
    """The arrays of a file; what is there and is no npz is refused with what would be one."""
    with suppress(OSError), open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            raise UserError(f"{path} cannot be read, as it is no npz file", ENOUGH)
    return load_npz(path, plain="**{k: np.array(d[k].tolist()) for k in d}")


def _check_stream(arrays: Mapping[str, Any], stream: ExportedStream) -> None:
    """Refuse answers that name another stream, before anything else is said of them."""
    if STREAM in arrays and str(arrays[STREAM]) != stream.digest:
        raise WrongError(
            f"these are answers on another stream: {STREAM} must be the digest of stream.json, "
            f"{stream.digest}; give --stream the folder that they were made with"
        )


def _check_names(arrays: Mapping[str, Any], sessions: int) -> str:
    """The kind of answers in a file; arrays that are missing or not known are refused."""
    parts = {name.partition("_after_")[0] for name in arrays}
    kinds = [kind for kind in ("scores", "answers") if kind in parts]
    if len(kinds) != 1:
        if not kinds:
            names = list_first(sorted(arrays), 3) or "nothing"
            raise WrongError(f"it holds {names}, and no answers; {ENOUGH}")
        raise WrongError("give scores_after_0 and so on alone, or answers_after_0 and so on alone")
    needed = [f"{kinds[0]}_after_{i}" for i in range(sessions)]
    known = [STREAM, ROWS, KIND, *needed]
    for name in arrays:
        if name not in known:
            raise WrongError(str(unknown("array", name, known)))
    for name in needed:
        if name not in arrays:
            raise WrongError(f"{name} is missing; give answers after each of {sessions} sessions")
    return kinds[0]


class _AnswerFile:
    """The arrays of a file of answers, for one stream."""

    def __init__(self, arrays: Mapping[str, Any], stream: ExportedStream, tests: EvalList) -> None:
        self.arrays, self.stream, self.tests = arrays, stream, tests
        self.classes = np.stack([stream.mask(e.classes) for e in stream.eval_sets])
        if STREAM not in arrays:
            raise WrongError(
                f"they may be answers on another stream: {STREAM} is missing, the digest of "
                f"stream.json, {stream.digest}"
            )
        self.kind = self._text(KIND) or "other"
        if ROWS in arrays and not np.array_equal(arrays[ROWS], tests.rows):
            raise WrongError(f"{ROWS} must be those of test.csv; give all arrays in its order")

    def _text(self, name: str) -> str:
        """An array that is one text as text; empty if it is not there."""
        return str(self.arrays.get(name, ""))

    def _array(self, name: str, shape: tuple[int, ...], kinds: str, what: str) -> Any:
        array = self.arrays[name]
        if array.shape != shape or array.dtype.kind not in kinds:
            raise WrongError(
                f"{name} must be {what} of shape {shape}, it is {array.dtype} of shape "
                f"{array.shape}"
            )
        return array

    def answers(self, session: int, allowed: Bools) -> Answers:
        """(n,) Answers after a session; those outside of `allowed`, (E, C), are refused."""
        name = f"answers_after_{session}"
        given = self._array(name, (len(self.tests.rows),), "iu", "integers")
        inside(given, -1, self.stream.n_labels - 1, name)
        there = allowed[self.tests.sets, given] | (given < 0)
        if not there.all():
            first = int(np.argmin(there))
            raise WrongError(
                f"{name} has class {given[first]} for row {self.tests.rows[first]}, which is no "
                f"class of the sessions so far; answer among these, or give scores_after_{session}"
            )
        return np.asarray(given, dtype=np.int32)

    def chosen(self, session: int, allowed: Bools) -> dict[str, Any]:
        """(n,) The answers after a session from its scores, and how sure the tool was of them.

        (E, C) candidates of the answer are `allowed`, of that within the session `classes`.
        """
        import torch

        name = f"scores_after_{session}"
        n = len(self.tests.rows)
        scores = self._array(name, (n, self.stream.n_labels), "fiu", "numbers")
        blocked = [torch.from_numpy(~mask) for mask in (allowed, self.classes)]
        candidates = scoring.Candidates(allowed, "cpu")
        parts: dict[str, list[torch.Tensor]] = defaultdict(list)
        for first in range(0, n, scoring.EVAL_BATCH):
            here = slice(first, first + scoring.EVAL_BATCH)
            x = torch.from_numpy(np.array(scores[here], dtype=np.float32))
            if x.isnan().any():
                row = first + int(x.isnan().any(dim=1).int().argmax())
                raise WrongError(
                    f"{name} holds NaN in row {row}; give numbers, or answers_after_… with -1 "
                    "where there is no answer"
                )
            which = torch.from_numpy(self.tests.sets[here])
            y = torch.from_numpy(self.tests.labels[here])
            best = scoring.best_classes(x, *(mask[which] for mask in blocked))
            values = dict(zip(scoring.ANSWERS, best, strict=True))
            logits = scoring.logits_of(x, self.kind)
            values |= candidates.confidence(x, logits, best[0], y, which)
            for key, tensor in values.items():
                parts[key].append(tensor)
        return {key: scoring.join(tensors, key) for key, tensors in parts.items()}

    def predictions(self, kind: str) -> Predictions:
        """All answers, given or chosen."""
        stream = self.stream
        tests = self.tests
        seen = stream.seen()
        answers = list[dict[str, Any]]()
        for i, known in enumerate(seen):
            allowed = np.tile(known, (len(self.classes), 1))
            if kind == "scores":
                answers.append(self.chosen(i, allowed))
            else:
                best = self.answers(i, allowed)
                answers.append({"answer": best, "within": np.full_like(best, -1)})
        predictions = Predictions(
            ids=tests.rows,
            y=tests.labels,
            eval_set=tests.sets,
            set_classes=self.classes,
            session=np.arange(len(seen)),
            samples_seen=np.cumsum(stream.n_train),
            seen=seen,
            **{name: np.stack([one[name] for one in answers]) for name in answers[0]},
        )
        predictions.check()
        return predictions
