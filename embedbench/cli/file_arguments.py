"""FILE arguments: paths, or names of files that are fetched."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.errors import UserError
from embedbench.files.remote.uri import is_name

from .progress import bar
from .shared_options import note

if TYPE_CHECKING:
    from embedbench.files.inspect import Card
    from embedbench.studies.study import Study


def here(text: str) -> Path:
    """The path of a FILE argument; a name is fetched, with a bar."""
    from embedbench.files.remote.fetch import local

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
    """Yield `progress` and `notify` for `files.remote.fetch`."""
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


def fixed_study(study: "Study", expect: Sequence[str], quiet: bool) -> "Study":
    """The study with names that can mean one content only; their files are fetched."""
    from embedbench.files.remote.fetch import all_fixed

    with fetching(quiet) as how:
        files = tuple(all_fixed(s, expect, **how) for s in study.files)
        other = all_fixed([study.unknown], **how)[0] if study.unknown else None
        return replace(study, files=files, unknown=other)


def transfer_text(card: "Card") -> str:
    """The bytes and requests that the card of a file elsewhere has cost."""
    cost = card.transfer or {}
    size = f"{cost.get('bytes', 0) / 1e3:,.0f} kB of {card.bytes / 1e6:,.1f} MB"
    return f"read {size} by {cost.get('requests', 0)} requests; the file was not fetched"


def file_rows() -> list[dict[str, str]]:
    """The known files, and those that were fetched, for `embedbench list files`."""
    from embedbench.files.remote import download_cache
    from embedbench.files.remote.known_files import known_files
    from embedbench.files.remote.uri import KNOWN

    rows = []
    for name, known in sorted(known_files().items()):
        summary = f"{known.what}; {known.size / 1e6:,.1f} MB; {known.licence}"
        row = {"name": KNOWN + name, "summary": summary, "url": known.url, "sha256": known.sha256}
        rows.append({**row, "size": str(known.size), "content": known.content})
    for file in download_cache.entries():
        content = file.digests.get("content", "")
        summary = f"fetched; {file.size / 1e6:,.1f} MB; content {content[:16]}; used {file.used}"
        row = {"name": file.url, "summary": summary, "url": file.fixed, "sha256": file.sha256}
        rows.append({**row, "size": str(file.size), "content": content, "used": file.used})
    return rows


def prune_files(kind: str | None) -> None:
    """Remove the files that were fetched, for `embedbench list files --prune`."""
    from embedbench.files.remote import download_cache

    if kind != "files":
        raise UserError("--prune removes fetched files; write embedbench list files --prune")
    count, size = download_cache.prune()
    note(f"removed {count} fetched file{'s' * (count != 1)}, {size / 1e6:,.1f} MB")
