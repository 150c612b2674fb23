"""Multi-modal: files of different widths and classes, learned one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from embedbench.array_types import Bools, Float32s
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.storage.value_digest import digest
from embedbench.streams.feature_tables import Table
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import flat_spec, split_rows, view_session, whole_groups
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.taught_classes import with_taught_classes


@dataclass(kw_only=True)
class MultiModal(Protocol):
    """Multi-modal experiment: one session per file, each with its own columns and classes.

    The files are learned in the given order, for every seed. The leaf classes of all files are
    different classes of the stream. Every file is scaled by its own training data.

    **Source**: Kemker et al. (2018), "Multi-Modal Experiment": CUB-200 (2048 columns, 200 classes)
    and AudioSet (1280 columns, padded with zeros, 100 classes), in both orders.

    **Departs**: the paper does not state among which classes an answer is chosen; Table S8 shows
    it. A learner that fails on the second modality scores 1.0 % = 1/100 or 0.5 % = 1/200,
    which is chance within the modality; and the MLP keeps 20.3 % of the first, where one softmax
    over both would leave about nothing. More than two files, and "project", are ours.

    Parameters
    ----------
    answers : str
        "restricted": loss and answers use the classes of the sample's own file; "all": all
        classes.
    join : str
        "pad": zeros on the right of narrower files; "project": each file is multiplied by its own
        random matrix, Gaussian with variance 1 / width, the same for all seeds.
    width : int
        Number of columns of every file in the stream; 0: that of the widest file.
    projection : int
        Seed of the matrices of "project".

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> from embedbench import build_stream
    >>> from embedbench.files.import_features import import_file
    >>> path = f"{mkdtemp()}/toy.npz"
    >>> np.savez(path, features=np.random.rand(80, 4), labels=np.tile(["low", "high"], 40))
    >>> toy = import_file(path, f"{path}.h5", split="0.25")
    >>> stream = build_stream(["known:emoji-vit", toy], "multi-modal")
    >>> [len(session.classes) for session in stream.sessions], stream.spec.input_shape
    ([40, 2], (384,))
    """

    answers: Literal["restricted", "all"] = "restricted"
    join: Literal["pad", "project"] = "pad"
    width: Annotated[int, at_least(0, 100_000)] = 0
    projection: Annotated[int, at_least(0)] = 0

    name: ClassVar[str] = "multi-modal"
    several_files: ClassVar[bool] = True

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        files = [with_taught_classes(file, self.validation) for file in files]
        width = self._check(files)
        alone = tuple(self._alone(file, width) for file in files)
        classes = np.cumsum([0, *(file.samples.n_leaves for file in files)])
        ids = np.cumsum([0, *(len(file.labels) for file in files)])
        spec = StreamSpec((width,), int(classes[-1]))
        pairs = [
            self._joined(stream, spec, int(classes[t]), int(ids[t]))
            for t, stream in enumerate(alone)
        ]
        return self.make_stream(
            spec,
            pairs,
            files,
            digest("features", *(s.features for s in alone)),
            fitted="".join(s.fitted for s in alone),
            can_reveal=True,
            notes=self._notes(files, alone, width),
            alone=alone,
        )

    def _check(self, files: Sequence[EmbeddingFile]) -> int:
        """Check that the files make a stream; return their common width."""
        if len(files) < 2:
            raise UserError(
                f"the number of files of protocol {self.name!r}",
                "name them in the order in which they are to be learned",
                expected="2 or more",
                got=len(files),
            )
        if images := [file.path.name for file in files if file.kind == PIXELS]:
            raise UserError(
                f"protocol {self.name!r} joins vectors, and {images[0]} holds images",
                "name a file of their embeddings (embedbench extract SOURCE --backbone NAME)",
            )
        if len({(f.digests["content"], f.digests["samples"]) for f in files}) < len(files):
            raise UserError(
                "two files hold the same features of the same samples (digests content and "
                "samples); every modality needs a file of its own"
            )
        widest = max(files, key=lambda file: file.shape[1])
        if self.join == "pad" and 0 < self.width < widest.shape[1]:
            raise UserError(
                f"width {self.width} has no room for the {widest.shape[1]} columns of "
                f"{widest.path.name}",
                "leave it at 0, or set protocol.join=project",
            )
        return self.width or widest.shape[1]

    def _alone(self, file: EmbeddingFile, width: int) -> Stream:
        """The session of one file as a stream by itself, with its own columns, classes and ids.

        With "pad" it equals `merged()` of any other stream of the file, with the same digests. One
        offline reference therefore serves them all.
        """
        split = split_rows(file, self.validation, self.val_fraction, self.val_by)
        few = len(split.train) < self.scale_least
        table, features, fitted = load_table(file, self.scale, split.train, few=few)
        if self.join == "project":
            scale = table.scale
            x = table.numpy(np.arange(len(file.labels)), table.width, None)
            table = Table(x @ self._matrix(file, width))  # (N, D) @ (D, W) -> (N, W)
            table.scale = scale
            features = digest("projected", features, width, self.projection)
        everything = np.arange(file.samples.n_leaves)
        session, test = view_session(table, file, split, classes=everything)
        return Stream(
            spec=flat_spec(table, file),
            sessions=(session,),
            eval_sets=(test,),
            recipe=f"merged {fitted}",
            features=features,
            samples=(file.digests["samples"],),
            validation=self.validation,
            fitted=fitted,
            classes=file.classes[: file.samples.n_leaves],
            groups=whole_groups(file),
        )

    def _matrix(self, file: EmbeddingFile, width: int) -> Float32s:
        """(D, width) the projection of a file; it does not depend on the other files."""
        draw = np.random.default_rng([self.projection, int(file.digests["content"][:16], 16)])
        matrix = draw.standard_normal((file.shape[1], width), dtype=np.float32)
        matrix /= np.float32(np.sqrt(width))
        return matrix

    def _joined(
        self, alone: Stream, spec: StreamSpec, first_class: int, first_id: int
    ) -> tuple[Session, EvalSet]:
        """Session and eval set of a file with the stream's width, classes and ids."""
        (session,), (test,) = alone.sessions, alone.eval_sets
        width = spec.input_shape[0]
        mask: Bools = np.zeros(spec.n_classes, dtype=np.bool_)
        mask[first_class : first_class + alone.spec.n_classes] = True
        restricted = mask if self.answers == "restricted" else None
        joined = replace(
            session,
            x=replace(session.x, width=width),
            y=session.y + first_class,
            val_x=replace(session.val_x, width=width),
            val_y=session.val_y + first_class,
            ids=session.ids + first_id,
            classes=session.classes + first_class,
            loss_classes=restricted,
        )
        return joined, replace(
            test,
            x=replace(test.x, width=width),
            y=test.y + first_class,
            ids=test.ids + first_id,
            classes=mask,
            candidates=restricted,
        )

    def _notes(
        self, files: Sequence[EmbeddingFile], alone: Sequence[Stream], width: int
    ) -> tuple[str, ...]:
        """Groups held out, the change of columns, and the classes among which answers are chosen.

        `alone` are the streams of the files by themselves.
        """
        notes: list[str] = []
        for file, stream in zip(files, alone, strict=True):
            notes += self.group_notes(file, stream.sessions)
            columns = file.shape[1]
            if self.join == "project":
                notes.append(f"{file.path.name}: {columns} columns, projected to {width} at random")
            elif columns < width:
                notes.append(f"{file.path.name}: {columns} columns, padded with zeros to {width}")
        if self.answers == "restricted":
            notes.append("answers are among the classes of the sample's own file")
        return tuple(notes)
