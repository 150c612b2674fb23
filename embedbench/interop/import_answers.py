"""Import a run: answers of another tool on an exported stream become a run like any other."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.errors import UserError, short, unknown
from embedbench.files.formats.numpy_files import load_npz
from embedbench.learning.learner import SCORE_KINDS
from embedbench.runs import answers_from_scores as scoring
from embedbench.runs.learner_and_protocol_names import learner_names
from embedbench.runs.run_dirs import replacing, save_run, tidy
from embedbench.scores import offline_references, record_files
from embedbench.scores.array_file import WrongError, inside
from embedbench.scores.predictions import Answers, Predictions
from embedbench.scores.run_record import Costs, ImportedAnswers, Package, SessionCosts, UnscoredRun
from embedbench.storage import leases, regular_files, user_cache, value_digest
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
        raise UserError(
            f"name the tool and its version as avalanche-lib==0.6.0 or PILOT==COMMIT, got "
            f"{short(text)}"
        )
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
) -> Path:
    """Score the answers of another tool on an exported stream, and save them as a run.

    Parameters
    ----------
    name : str
        Name of the method, in the place of a learner's.
    overwrite : bool
        Whether a run of this method on this stream is replaced.
    """
    if not _NAME.fullmatch(name) or name.replace("_", "-") in learner_names():
        raise UserError(
            f"--name takes up to 60 letters, digits and . _ + - and no name of a learner of "
            f"embedbench, such as avalanche-er; got {short(name)}"
        )
    stream, tests = load(stream_directory)
    predictions, gave = read_answers(answers, stream, tests)
    settings = dict(settings or {})
    folder = f"{name}-{value_digest.digest(json.dumps(settings, sort_keys=True))[:8]}"
    run_dir = root / stream.directory / folder / stream.run
    imported = ImportedAnswers(tool=tool, gave=gave, sha256=user_cache.sha256(answers))
    what = {"learner": name, "learner_params": settings, "imported": imported, "command": command}
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.take(leases.lease_path(run_dir))
    if lease is None:
        raise UserError(f"another process writes {run_dir}; import it again when that has ended")
    with lease:
        tidy(run_dir, root)
        if record_files.is_finished(run_dir) and not overwrite:
            raise UserError(
                f"{run_dir} is there already; give another --name or other --set, or add "
                "--overwrite"
            )
        with replacing(run_dir, root):
            save_run(predictions, _unscored(stream, what), run_dir, root)
    return run_dir


def lacks_references(run_dir: Path) -> bool:
    """Whether the reference runs of an imported run are not there."""
    return record_files.load(run_dir).reference.source == offline_references.MISSING


def _unscored(stream: ExportedStream, what: dict[str, Any]) -> UnscoredRun:
    """The record of an imported run before it is scored; its costs are not known."""
    shared = {f.name for f in fields(ExportedStream)} & {f.name for f in fields(UnscoredRun)}
    described = {name: getattr(stream, name) for name in shared - {"schema", "sessions"}}
    unknown = {"total": math.nan}
    costs = SessionCosts(math.nan, math.nan, unknown, {})
    made = UnscoredRun(
        **described,
        **what,
        schema=record_files.SCHEMA,
        learns=True,
        environment={"embedbench": __version__},
        sessions=(costs,) * len(stream.sessions),
        seconds=Costs(math.nan, math.nan),
        footprint=unknown,
    )
    return UnscoredRun.from_json(made.to_json(), "the record of these answers")


# --- the file of answers ---


STREAM, ROWS, KIND = "stream", "rows", "scores_are"
_ANSWERS_NAME = re.compile(r"(scores|answers|within)_after_(\d{1,9})")


class _AnswerFile:
    """The arrays of a file of answers, for one stream; docs/answers.md describes them."""

    def __init__(self, path: Path, stream: ExportedStream, tests: EvalList) -> None:
        self.stream, self.tests = stream, tests
        try:
            regular_files.open_regular(path).close()
        except OSError as e:
            raise regular_files.unreadable(path, e, "give the npz file of the answers") from e
        self.arrays: Mapping[str, Any] = load_npz(path)
        self._check_names()
        self._check_stream()
        self.order = self._order()

    @property
    def gave(self) -> str:
        """The kind of the tool's file: "scores" or "answers"."""
        return "scores" if "scores_after_0" in self.arrays else "answers"

    def _check_names(self) -> None:
        """Refuse arrays that are missing, of no session, or of both kinds."""
        sessions = range(len(self.stream.sessions))
        kinds = ["scores"] if self.gave == "scores" else ["answers", "within"]
        known = [f"{kind}_after_{i}" for i in sessions for kind in kinds]
        for name in self.arrays:
            match = _ANSWERS_NAME.fullmatch(name)
            if match and int(match[2]) not in sessions:
                raise WrongError(
                    f"{name} is after no session of the stream, whose sessions are 0 to "
                    f"{len(sessions) - 1}"
                )
            if match and name not in known:
                raise WrongError(
                    f"it has scores and {name}; give the scores alone, which decide all answers"
                )
            if not match and name not in (STREAM, ROWS, KIND):
                raise WrongError(str(unknown("array", name, [STREAM, ROWS, KIND, *known])))
        some = any(name.startswith("within_") for name in self.arrays)
        for name in known:
            if name not in self.arrays and (some or not name.startswith("within_")):
                raise WrongError(
                    f"{name} is missing; the stream has {len(sessions)} sessions, and there must "
                    "be answers after each"
                )

    def _check_stream(self) -> None:
        """Refuse answers on another stream."""
        if STREAM not in self.arrays:
            raise WrongError(
                "it does not name its stream; add stream=STREAM['digest'], where STREAM is the "
                "content of stream.json"
            )
        if (text := self._text(STREAM)) != self.stream.digest:
            raise WrongError(
                f"these are answers on another stream: expected the digest "
                f"{self.stream.digest[:12]}… of stream.json, got {short(text[:16])}"
            )

    def _text(self, name: str) -> str:
        """An array that is one text as text; empty for any other."""
        value = self.arrays[name]
        return str(value) if value.shape == () and value.dtype.kind == "U" else ""

    def _kind(self) -> str:
        """What the scores are; "other" where the file does not say."""
        kind = self._text(KIND) if KIND in self.arrays else "other"
        if kind not in SCORE_KINDS:
            raise WrongError(str(unknown(KIND, kind, SCORE_KINDS)))
        return kind

    def _order(self) -> Ints:
        """Row of each test sample in the arrays, (n,)."""
        tests = self.tests.rows
        given = self._integers(ROWS, -(2**63), 2**63 - 1) if ROWS in self.arrays else tests
        order = np.arange(len(tests))
        if np.array_equal(given, tests):
            return order
        here, there = np.argsort(tests, kind="stable"), np.argsort(given, kind="stable")
        if not np.array_equal(tests[here], given[there]):
            wrong = np.setdiff1d(given, tests)
            what = f"row {wrong[0]} is not there" if wrong.size else "some rows occur more often"
            raise WrongError(f"rows must be those of test.csv, each as often as there: {what}")
        if len(np.unique(tests)) < len(tests):
            raise WrongError(
                "rows occur in several eval sets of this stream; give the arrays in the order of "
                "test.csv"
            )
        order[here] = there
        return order

    def _array(self, name: str, shape: tuple[int, ...], kinds: str, what: str) -> Any:
        array = self.arrays[name]
        if array.shape != shape or array.dtype.kind not in kinds:
            raise WrongError(
                f"{name} must be {what} of shape {shape}, it is {array.dtype} of shape "
                f"{array.shape}"
            )
        return array

    def _integers(self, name: str, low: int, high: int) -> Ints:
        """An array of integers, one a test sample, as it lies in the file."""
        array = self._array(name, (len(self.tests.rows),), "iu", "integers")
        inside(array, low, high, name)
        return np.asarray(array, dtype=np.int64)

    def answers(self, kind: str, session: int, allowed: Bools) -> Answers:
        """(n,) Answers after a session; those outside of `allowed`, (E, C), are refused."""
        name = f"{kind}_after_{session}"
        given = self._integers(name, -1, self.stream.n_labels - 1)[self.order]
        there = np.pad(allowed, ((0, 0), (0, 1)), constant_values=True)[self.tests.sets, given]
        if not there.all():
            first = int(np.argmin(there))
            among = "the session of the sample" if kind == "within" else "the sessions so far"
            raise WrongError(
                f"{name} has class {given[first]} for row {self.tests.rows[first]}, which is no "
                f"class of {among}; answer among these, or give scores_after_{session}"
            )
        return np.asarray(given, dtype=np.int32)

    def chosen(self, session: int, allowed: Bools, classes: Bools) -> dict[str, Any]:
        """(n,) The answers after a session from its scores, and how sure the tool was of them.

        (E, C) candidates of the answer are `allowed`, of that within the session `classes`.
        """
        import torch

        name, n = f"scores_after_{session}", len(self.tests.rows)
        scores = self._array(name, (n, self.stream.n_labels), "fiu", "numbers")
        blocked = [torch.from_numpy(~mask) for mask in (allowed, classes)]
        candidates, kind = scoring.Candidates(allowed, "cpu"), self._kind()
        parts: dict[str, list[torch.Tensor]] = defaultdict(list)
        back = np.argsort(self.order)
        sets, y = self.tests.sets[back], self.tests.labels[back]  # in the order of the file
        for first in range(0, n, scoring.EVAL_BATCH):
            here = slice(first, first + scoring.EVAL_BATCH)
            x = torch.from_numpy(np.array(scores[here], dtype=np.float32))
            if x.isnan().any():
                row = first + int(x.isnan().any(dim=1).int().argmax())
                raise WrongError(
                    f"{name} holds NaN in line {row}; give numbers, or answers_after_… with -1 "
                    "where there is no answer"
                )
            which = torch.from_numpy(sets[here])
            best = scoring.best_classes(x, *(mask[which] for mask in blocked))
            values = dict(zip(scoring.ANSWERS, best, strict=True))
            true = torch.from_numpy(y[here])
            values |= candidates.confidence(x, scoring.logits_of(x, kind), best[0], true, which)
            for key, tensor in values.items():
                parts[key].append(tensor)
        return {key: scoring.join(tensors, key)[self.order] for key, tensors in parts.items()}


def read_answers(path: Path, stream: ExportedStream, tests: EvalList) -> tuple[Predictions, str]:
    """The answers in a file as predictions on a stream; and "scores" or "answers", what it gives.

    Without scores and within-session answers the latter are all -1.
    """
    try:
        return _read_answers(path, stream, tests)
    except WrongError as e:
        raise UserError(f"{path}: {e}") from e


def _read_answers(path: Path, stream: ExportedStream, tests: EvalList) -> tuple[Predictions, str]:
    file = _AnswerFile(path, stream, tests)
    classes = np.stack([stream.mask(e.classes) for e in stream.eval_sets])
    limits = [None if e.candidates is None else stream.mask(e.candidates) for e in stream.eval_sets]
    seen, answers = stream.seen(), list[dict[str, Any]]()
    for i, known in enumerate(seen):
        allowed = scoring.allowed_classes(known, limits)
        if file.gave == "scores":
            answers.append(file.chosen(i, allowed, classes))
        else:
            best = file.answers("answers", i, allowed)
            within = np.full_like(best, -1)
            if f"within_after_{i}" in file.arrays:
                within = file.answers("within", i, classes)
            answers.append({"answer": best, "within": within})
    predictions = Predictions(
        ids=tests.rows,
        y=tests.labels,
        eval_set=tests.sets,
        set_classes=classes,
        session=np.arange(len(seen)),
        samples_seen=np.cumsum(stream.n_train),
        seen=seen,
        **{name: np.stack([one[name] for one in answers]) for name in answers[0]},
    )
    predictions.check()
    return predictions, file.gave
