"""Finished runs that are kept: whether they are what would be made now.

The place of a run follows from its settings and from the contents of its files. What else it was
made from is in its record, and is compared here: another stream under the same place is another
run; other code, or other groups of the test samples, are said.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from embedbench.errors import UserError
from embedbench.scores.run_record import RunRecord

from .run_task import Task
from .stream_metadata import list_code

REMEDY = "run them again with --overwrite, or take another --out"


@dataclass
class KeptRuns:
    """The finished runs of a command, and what is other now: learners, and files, by name."""

    code: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)

    def check(self, task: Task, run: RunRecord) -> None:
        """Note what is other now than when a finished run was made.

        Raises
        ------
        UserError
            It is of another stream.
        """
        now = task.streams.digests(task.spec)
        others = [name for name, value in vars(run.digests).items() if now[name] != value]
        if others:
            raise UserError(
                f"{task.run_dir} holds a run of another stream of this place (another "
                f"{', '.join(others)}: a column of the file, an order file or the protocol's code "
                "was another)",
                "run it again with --overwrite, or take another --out",
            )
        code = list_code(learner=task.spec.learner.settings, protocol=task.spec.protocol.settings)
        if run.code is not None and code is not None:
            for kind in sorted(run.code.keys() & code.keys()):
                if run.code[kind] != code[kind]:
                    name = str(getattr(task.spec, kind))
                    self.code[name] = self.code.get(name, 0) + 1
        for info, file in zip(run.files, task.files, strict=True):
            if info.digests.get("columns") != file.digests.get("columns"):
                self.columns[info.name] = self.columns.get(info.name, 0) + 1
                return

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each learner, protocol or file that is other now."""
        for name, runs in self.code.items():
            yield f"{runs} finished runs are kept, and {name} had other code then; {REMEDY}"
        for name, runs in self.columns.items():
            yield (
                f"{runs} finished runs are kept, and {name} had other columns then, whose groups "
                f"are in their answers; {REMEDY}"
            )
