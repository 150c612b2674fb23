"""The checks for sources, ours and those of plug-ins."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from embedbench.files.sample_metadata import Samples

from .check_building_blocks import Checks, demand

if TYPE_CHECKING:
    from embedbench.extract.source import Source

READ = 32  # samples that are read


@dataclass(frozen=True)
class SourceSubject:
    """A source that is checked, by its name on the command line."""

    name: str

    def open(self) -> "Source":
        """The source, opened anew, as `embedbench extract` does."""
        from embedbench.extract.open_source import open_source

        return open_source(self.name)

    @cached_property
    def first(self) -> "Source":
        """One that several checks share."""
        return self.open()

    @property
    def some(self) -> list[int]:
        """Numbers of some samples, ascending."""
        n = len(self.first.ids)
        return sorted(set(np.linspace(0, n - 1, min(READ, n)).astype(int).tolist()))


SOURCE_CHECKS = Checks[SourceSubject]()


@SOURCE_CHECKS.add
def samples_form_a_data_set(subject: SourceSubject) -> None:
    """Ids are unique paths, labels are leaf classes, and leaves come before inner classes."""
    from embedbench.extract.source import id_problem

    made = subject.first
    for name in made.ids:
        problem = id_problem(name)
        demand(not problem, f"expected ids like 'class/name', got {name!r}: {problem}")
    split = made.split if made.split is not None else np.zeros(len(made.ids), dtype=np.uint8)
    Samples(np.array(made.ids), made.labels, split, made.classes, made.parents).check()


@SOURCE_CHECKS.add
def says_what_it_is(subject: SourceSubject) -> None:
    """It has a name, says whether it holds images, sounds or texts, and under which licence."""
    made = subject.first
    demand(made.name and isinstance(made.name, str), f"expected a name, got {made.name!r}")
    demand(isinstance(made.licence, str), f"expected a licence as text, got {made.licence!r}")
    known = ("images", "sounds", "texts")
    demand(made.holds in known, f"holds must be one of {', '.join(known)}: {made.holds!r}")


@SOURCE_CHECKS.add
def opened_again_it_is_the_same(subject: SourceSubject) -> None:
    """Opened twice, it has the same samples in the same order."""
    one, two = subject.first, subject.open()
    demand(one.ids == two.ids, "expected the same ids in the same order, got others")
    same = np.array_equal(one.labels, two.labels) and one.classes == two.classes
    demand(same, "expected the same labels and classes, got others")


@SOURCE_CHECKS.add
def samples_can_be_read(subject: SourceSubject) -> None:
    """Samples are images within our bounds, sounds or texts, and come again with the same bytes."""
    from embedbench.extract.sound_files import read_sound
    from embedbench.extract.source import open_image

    made = subject.first
    for i in subject.some:
        content = made.read(i)
        again = made.read(i)
        demand(content == again, f"expected the same content of sample {i} again, got another")
        if isinstance(content, bytes) and made.holds == "sounds":
            read_sound(content, 10)
        elif made.holds != "texts":
            open_image(content).load()


@SOURCE_CHECKS.add
def threads_agree(subject: SourceSubject) -> None:
    """Samples can be read by several threads at once."""
    expected = [subject.first.read(i) for i in subject.some]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(subject.first.read, subject.some * 4))
    demand(got == expected * 4, "expected the same samples in every thread, got others")
