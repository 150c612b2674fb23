"""The protocol contract: embedding files in, a stream out; and what protocols share."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from embedbench.config.fields_added_later import identity, later
from embedbench.config.setting_ranges import at_least, check_settings, within
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import VAL

from .class_order import _order_file, order_text, was_by_position
from .class_subset import ALL, choose_classes, read_classes
from .make_sessions import no_validation_notes, notes_on_held_groups, one_file, whole_groups
from .order_names import ORDERS
from .stream import EvalSet, Session, Stream, StreamSpec
from .taught_classes import has_untaught_classes, notes_on_classes
from .view import rows_of


@dataclass(kw_only=True)
class Protocol(ABC):
    """A way from embedding files to a stream. Fields are its parameters; the seed is not one.

    Parameters
    ----------
    validation : str
        "train": the file's own validation split; if it has none, `val_fraction` of each class's
        training samples. "none": there is no validation data, and all samples but the test samples
        are trained on; learners that stop by validation data are refused. "test": the test data of
        the session, to imitate a paper; flagged where a learner looks at it.
    val_fraction : float
        Share of each class's training samples that becomes validation data, in (0, 1).
    val_by : str
        "sample": these samples are drawn whatever their groups; a note says how many groups are
        then trained on and validated with. "group": whole groups of the file's column `group` (one
        speaker, one video), of each class as nearly that share as they allow. A validation split
        that the file brings stays as it is, and a note says so.
    classes : int or str
        The classes of the file that the stream has. "all"; a number N, the first N in `order`
        (where the seed draws the order, the first of the file); or names with commas, of which one
        with a comma stands in double quotes.
    scale : str
        "none"; "l2" (each vector to length 1); "rms" (each vector to root mean square 1, so to
        length √D); "standard" (mean 0, deviation 1 per column over session 0's training data,
        clipped to ±5); "auto": none for flat pixels; standard otherwise, but rms if session 0 may
        have too few samples. Images: "none" (values between 0 and 1), "standard" (per channel, not
        clipped) or "auto" (standard; none if session 0 may have too few samples).
    scale_least : int
        "auto" takes a scaling without statistics over samples if session 0 has fewer training
        samples than this, in the mean over all class orders: fitted to one sample, "standard" makes
        every other feature ±5. So the seed and the order never decide how a file is scaled. Where
        a protocol draws the size of session 0 itself (si-blurry), its least counts.
    observe_batch : int
        Samples in the batches that online learners are given; 0: the stream is not online, and
        learners get whole sessions.
    evaluate_every : int
        Online learners are also evaluated every time they have seen this many samples; 0: only at
        the ends of sessions.

    Notes
    -----
    What a subclass says of itself, as class variables: `normalise_new` (Ω_new is divided by
    α_ideal), `teaches_all` (every training sample is taught), `several_files` (it takes two or
    more), `reveals_no_future` (a session has the labels that it introduces and no others), and
    `checked` (the settings that `embedbench check` builds). The conformance suite holds the
    protocol to them.
    """

    validation: Literal["train", "test", "none"] = "train"
    val_fraction: Annotated[float, within("(0, 1)")] = 0.1
    val_by: Literal["sample", "group"] = later("sample", earlier="sample")
    scale: Literal["auto", "none", "l2", "rms", "standard"] = "auto"
    scale_least: Annotated[int, at_least(0)] = later(50, earlier=0)
    observe_batch: Annotated[int, at_least(0)] = 10
    evaluate_every: Annotated[int, at_least(0)] = 0
    classes: int | str = later(ALL, earlier=ALL)

    name: ClassVar[str]
    normalise_new: ClassVar[bool] = False
    teaches_all: ClassVar[bool] = True
    several_files: ClassVar[bool] = False
    reveals_no_future: ClassVar[bool] = True
    checked: ClassVar[tuple[dict[str, Any], ...]] = ({},)

    def __post_init__(self) -> None:
        check_settings(self, "")
        self.classes = read_classes(self.classes)

    @abstractmethod
    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        """Make the stream; `seed` draws orders and permutations only."""

    def make_stream(
        self,
        spec: StreamSpec,
        pairs: Sequence[tuple[Session, EvalSet]],
        files: Sequence[EmbeddingFile],
        features: str,
        **more: Any,
    ) -> Stream:
        """The stream of sessions and their eval sets; `more` has further fields of `Stream`.

        Its notes begin with the classes of the files that are left out.
        """
        notes: list[str] = []
        for file in files:
            self._check_chosen(file)
            notes += notes_on_classes(file)
        if self.validation == "none":
            for file in files:
                notes += no_validation_notes(file)
        if len(files) == 1:
            notes += self.group_notes(files[0], [session for session, _ in pairs])
        more["notes"] = (*notes, *more.get("notes", ()))
        if len(files) == 1:
            more.setdefault("classes", files[0].classes[: files[0].samples.n_leaves])
            more.setdefault("groups", whole_groups(files[0]))
        fields = {
            "recipe": self.recipe(),
            "samples": tuple(file.digests["samples"] for file in files),
            "normalise_new": self.normalise_new,
            "validation": self.validation,
            "observe_batch": self.observe_batch,
            "evaluate_every": self.evaluate_every,
        }
        sessions, eval_sets = zip(*pairs, strict=True)
        return Stream(spec, sessions, eval_sets, features=features, **{**fields, **more})

    def group_notes(self, file: EmbeddingFile, sessions: Sequence[Session]) -> tuple[str, ...]:
        """What the validation data that were held out of a file's training samples share of groups.

        `sessions` are those of the file. Where none were held out, that `val_by` changes nothing.
        """
        if self.validation != "train" or (file.split == VAL).any():
            unused = f"protocol.val_by=group: {file.path.name}: no validation data are held out"
            return (unused,) if self.val_by == "group" else ()
        return notes_on_held_groups(
            file,
            np.concatenate([rows_of(session.x) for session in sessions]),
            np.concatenate([rows_of(session.val_x) for session in sessions]),
            by_group=self.val_by == "group",
            remedy="protocol.val_by=group holds whole groups out",
        )

    def take_file(self, files: Sequence[EmbeddingFile]) -> EmbeddingFile:
        """The only file, with the classes that the stream has of it; refuse several."""
        file = one_file(files, self.name, self.validation)
        return choose_classes(file, self.classes)

    def _check_chosen(self, file: EmbeddingFile) -> None:
        """Refuse a file that still has classes which `classes` leaves out."""
        if choose_classes(file, self.classes) is not file:
            raise UserError(
                f"protocol {self.name} takes all classes of a file",
                "leave protocol.classes out",
            )

    def recipe(self) -> str:
        """Name and parameters as canonical JSON; an order file by its content, not its path.

        A parameter that was added later is left out at its earlier value, see `later`.
        """
        params = {"protocol": self.name, **identity(self)}
        if params.get("order", "natural") not in ORDERS:
            params["order"] = order_text(params["order"])
        return json.dumps(params, sort_keys=True)

    def later_readings(self, files: Sequence[EmbeddingFile]) -> tuple[str, ...]:
        """What earlier versions took these files for otherwise; part of the place of a run.

        Empty for most files, so that finished runs stay finished.
        """
        readings = []
        if any(has_untaught_classes(file, self.validation) for file in files):
            readings.append("untaught classes are left out")
        order = getattr(self, "order", None)
        if order is not None and any(was_by_position(order, file) for file in files):
            readings.append("numbers are names of classes")
        return tuple(readings)

    def order_record(self) -> dict[str, Any] | None:
        """The class order as a record keeps it: kind, and name and SHA-256 of an order file.

        None if the protocol does not order classes.
        """
        order = getattr(self, "order", None)
        if order is None:
            return None
        if order in ORDERS:
            return {"kind": order, "name": None, "digest": None}
        data = Path(order).read_bytes()
        content = _order_file(order)
        sha = hashlib.sha256(data).hexdigest()
        return {"kind": content.kind or "file", "name": Path(order).name, "digest": sha}
