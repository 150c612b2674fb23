"""FILE arguments: paths, or names of files that are fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.fetching.local import all_fixed, local
from embedbench.fetching.names import is_name

from .options import note
from .progress import bar

if TYPE_CHECKING:
    from embedbench.runs.study import Study


def here(text: str) -> Path:
    """The path of a FILE argument; a name is fetched, with a bar."""
    if not is_name(text):
        return Path(text)
    with fetching(quiet=False) as how:
        return local(text, **how)


File = Annotated[Path, typer.Argument(help="An embedding file, or its name.", parser=here)]
Expect = Annotated[
    list[str] | None,
    typer.Option(metavar="DIGEST", help="The content digest that the file must have; one a FILE."),
]


@contextmanager
def fetching(quiet: bool) -> Iterator[dict[str, Any]]:
    """Yield `progress` and `notify` for `fetching.local`."""
    with bar("MB", quiet) as advance:
        yield {
            "progress": lambda done, size: advance(done // 10**6, size // 10**6),
            "notify": (lambda _: None) if quiet else note,
        }


def data_here(items: Sequence[str]) -> list[str]:
    """Items of `--data`, FILE or NAME=FILE, with paths in place of names."""
    result = []
    for item in items:
        head, equals, rest = item.partition("=")
        if is_name(item):
            result.append(str(here(item)))
        elif equals and is_name(rest):
            result.append(f"{head}={here(rest)}")
        else:
            result.append(item)
    return result


def fixed_study(study: Study, expect: Sequence[str], quiet: bool) -> Study:
    """The study with names that can mean one content only; their files are fetched."""
    with fetching(quiet) as how:
        return replace(study, files=tuple(all_fixed(s, expect, **how) for s in study.files))
