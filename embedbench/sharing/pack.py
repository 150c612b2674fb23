"""Packs: the runs of a directory as one zip archive, for other people.

`docs/board.md` describes the archive. Its bytes depend on the runs, the name and the date alone:
members are sorted, stamped 1980-01-01 and stored without compression.
"""

import datetime
import hashlib
import json
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from embedbench.config.format_versions import check_schema
from embedbench.config.json_records import ABSENT, JsonRecord, parse_json, plain
from embedbench.errors import UserError, short, unknown
from embedbench.files.remote import uri
from embedbench.runs.merge_runs import MergeResult, merge, verify_predictions
from embedbench.scores import record_files
from embedbench.scores.record_files import LARGEST, PREDICTIONS, RECORD
from embedbench.scores.run_record import FileInfo, RunRecord
from embedbench.storage import atomic_write, leases, safe_zips, user_cache
from embedbench.storage.regular_files import explain_errors
from embedbench.text.printable_text import printable
from embedbench.text.undecoded_text import check_text, join_words, split_words

SCHEMA = "embedbench-pack/1.0"
INFO, RUNS = "pack.json", "runs"
LONGEST = 200  # characters of a name
LONG, DEEP = 200, 12  # bytes of the name of a directory, directories in each other
_PART = re.compile(r'[^/\\:*?"<>|.][^/\\:*?"<>|]*')
_STAMP = (1980, 1, 1, 0, 0, 0)  # the first that a zip archive can have
_REGULAR = 0o100644 << 16


@dataclass(frozen=True)
class PackInfo(JsonRecord):
    """The header of a pack: who made it and when, None where that is not stated."""

    schema: str
    by: str | None = field(default=None, metadata=ABSENT)
    date: str | None = field(default=None, metadata=ABSENT)

    def check(self, name: str) -> None:
        """Refuse another schema, an empty or long name, and what is no date."""
        check_schema(name, self.schema, SCHEMA, "embedbench runs pack makes one")
        check_text(self.by, f"{name}: by", "write it in UTF-8")
        if self.by is not None and not 0 < len(printable(self.by).strip()) <= LONGEST:
            raise UserError(f"{name}: by must be a name of 1 to {LONGEST} characters")
        try:
            datetime.date.fromisoformat(self.date or "2000-01-01")
        except ValueError:
            raise UserError(
                f"{name}: the date", expected="written as 2026-11-30", got=self.date
            ) from None


@dataclass(frozen=True)
class PackResult(JsonRecord):
    """The result of packing.

    Parameters
    ----------
    runs, references : int
        How many were packed.
    sha256 : str
        Of the archive.
    files : dict
        The embedding files of the runs: name → URL, None where no record has one.
    unknown_left_out : tuple of str
        Files of unknown samples whose answers a pack of answers alone does not have.
    paths : tuple of str
        Those for which a path of this machine was given, which packs do not keep.
    """

    runs: int
    references: int
    sha256: str
    files: dict[str, str | None]
    unknown_left_out: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The numbers in words, and the files that a reader could not get."""
        numbers = f"runs: {self.runs}, references: {self.references}; SHA-256 {self.sha256}"
        missing = []
        for name, url in self.files.items():
            if url is not None:
                continue
            if name in self.paths:
                missing.append(f"\n--url {name} names a path of this machine, which is not kept")
            missing.append(f"\nnothing says where {name} can be had; --url {name}=URL does")
        unseen = [
            f"\nthe answers to the unknown samples of {name} are left out (--answers-only), and "
            "the metrics that need them"
            for name in self.unknown_left_out
        ]
        return numbers + "".join(missing + unseen)


def pack(
    root: Path,
    out: Path,
    *,
    by: str | None = None,
    date: str | None = None,
    urls: Mapping[str, str] = MappingProxyType({}),
    answers_only: bool = False,
) -> PackResult:
    """Write the finished runs of a directory, with their references, as one zip archive.

    Records lose the paths in them, see `without_paths`. The predictions of each run must have the
    SHA-256 that its record names.

    Parameters
    ----------
    out : Path
        The archive; an existing one is replaced.
    by, date : str or None
        Who submits it, and when; None: not stated.
    urls : mapping
        Name of an embedding file → where others can get it. The records in the pack say so, unless
        the file was named by a URL already. Those of `file:///…` are not kept.
    answers_only : bool
        Whether predictions lose what says how sure a learner was, see `without_confidence`.

    Raises
    ------
    UserError
        If a name is no file of a run, or a URL is none.
    """
    info = PackInfo(SCHEMA, by, date)
    info.check("the pack")
    packed = record_files.find(root, references=True)
    if not packed or packed == [root]:
        what = "is a single run" if packed else "has no finished run"
        raise UserError(f"{root} {what}", "give the --out of an earlier run")
    files: dict[str, str | None] = {}
    contents: dict[str, str] = {}
    left_out: dict[str, None] = {}
    with (
        leases.alone(out),
        atomic_write.writing(out) as temporary,
        zipfile.ZipFile(temporary, "w") as archive,
    ):
        _add(archive, INFO, _text(info.to_json()))
        for run in sorted(packed):
            place = run.relative_to(root)
            if not is_place(place.parts):
                raise UserError(
                    f"{run} has a name that packs cannot hold", "rename its directories"
                )
            predictions, made = _read_run(run)
            if answers_only:
                if made.unknown is not None:
                    left_out[made.unknown.name] = None
                predictions, made = without_confidence(run, made)
            made = replace(made, files=tuple(_with_url(file, urls) for file in made.files))
            made = replace(made, files=tuple(map(_without_path, made.files)))
            for file in made.files:
                files[file.name] = file.url
                _check_one_content(file, contents, urls)
            folder = f"{RUNS}/{place.as_posix()}"
            _add(archive, f"{folder}/{PREDICTIONS}", predictions)
            _add(archive, f"{folder}/{RECORD}", _text(without_paths(made.to_json())))
        for name in urls:  # nothing is written where one is wrong
            if name not in files:
                raise unknown("file of these runs", name, files)
    references = sum("references" in run.relative_to(root).parts for run in packed)
    sha256 = user_cache.sha256(out)
    paths = tuple(name for name, url in urls.items() if _is_path(url))
    return PackResult(len(packed) - references, references, sha256, files, tuple(left_out), paths)


def is_place(parts: Sequence[str]) -> bool:
    """Whether a path of directories can be that of a run in a pack."""
    return len(parts) <= DEEP and all(
        _PART.fullmatch(p) and p == printable(p) and len(p.encode()) <= LONG for p in parts
    )


def _read_run(run: Path) -> tuple[bytes, RunRecord]:
    """Read the predictions of a run and its record, which belong together."""
    sha256 = verify_predictions(run)
    predictions = (run / PREDICTIONS).read_bytes()
    made = record_files.load(run)
    pinned = made.predictions_sha256 in (sha256, None)  # it may have been written anew meanwhile
    if hashlib.sha256(predictions).hexdigest() != sha256 or not pinned:
        raise UserError(f"{run} changed while it was packed", "run the command again")
    return predictions, made


def without_confidence(run: Path, made: RunRecord) -> tuple[bytes, RunRecord]:
    """The predictions of a run as answers alone, and their record.

    Every score follows from them, and verdicts over single samples; top-5 accuracy, calibration,
    unknown samples, and verdicts over groups do not.
    """
    answers = record_files.read_predictions(run, made)
    kept = dict.fromkeys(answers.optional())
    with tempfile.TemporaryDirectory(prefix="embedbench-") as folder:
        target = Path(folder) / PREDICTIONS
        sha256 = replace(answers, **kept).save(target)  # type: ignore[type-var]  # kinds are dataclasses
        return target.read_bytes(), replace(made, predictions_sha256=sha256, answers=None)


def _check_one_content(file: FileInfo, contents: dict[str, str], urls: Mapping[str, str]) -> None:
    """Refuse one URL for two files of one name; `contents` has the digest of each name so far."""
    content = file.digests["content"]
    if contents.setdefault(file.name, content) != content and file.name in urls:
        raise UserError(
            f"--url {file.name}: the runs are on two files of this name, with other contents",
            "pack the runs on each file alone",
        )


def _with_url(file: FileInfo, urls: Mapping[str, str]) -> FileInfo:
    """A file of a record with the URL that was given for it."""
    url = urls.get(file.name)
    if url is None or file.url == url:
        return file
    if not uri.is_name(url):
        raise UserError(f"the URL of {file.name}", expected="such as https://…", got=url)
    if file.url is not None:
        raise UserError(
            f"{file.name} was read from {file.url}, and --url names {url}", "leave --url out"
        )
    return replace(file, url=url)


def _without_path(file: FileInfo) -> FileInfo:
    """A file of a record without a URL that is a path of this machine."""
    return replace(file, url=None) if file.url is not None and _is_path(file.url) else file


def _is_path(url: str) -> bool:
    """Whether a URL names a file of this machine."""
    return url.lower().startswith("file:")


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    member = zipfile.ZipInfo(name, _STAMP)
    member.create_system, member.external_attr = 3, _REGULAR
    archive.writestr(member, data, zipfile.ZIP_STORED)


def _text(values: dict[str, Any]) -> bytes:
    return (json.dumps(plain(values), indent=1, allow_nan=False) + "\n").encode()


# --- records without paths of the machine ---


KEPT = ("classes",)  # keys of a record whose texts may look like paths, such as /m/09x0r

_ABSOLUTE = re.compile(r"file:/|[/~\\]|[A-Za-z]:[/\\]|\.\.?[/\\]")
_INSIDE = re.compile(r"(?<![\w.:/\\~-])(?:file:/+|~[\w.-]*/|/|[A-Za-z]:[/\\])[^\s'\"<>|:;,()]+")


def without_paths(record: dict[str, Any]) -> dict[str, Any]:
    """The JSON values of a record without directories.

    Every absolute path keeps its last name alone: the rest tells who made a run and where, and is
    of no use to another machine. URLs and names of classes stay.
    """
    result: dict[str, Any] = {}
    for key, value in record.items():
        if key == "command" and isinstance(value, str):
            result[key] = command_without_paths(value)
        else:
            result[key] = value if key in KEPT else _walked(value)
    return result


def command_without_paths(command: str) -> str:
    """A command line whose absolute paths have lost their directories; empty if it is none.

    >>> command_without_paths("embedbench run /home/a/x.h5 --out ../runs --set a.order=/o/b.json")
    'embedbench run x.h5 --out runs --set a.order=b.json'
    """
    try:
        words = split_words(command)
    except ValueError:
        return ""
    return join_words(map(text_without_paths, words))


def text_without_paths(text: str) -> str:
    """A text whose absolute paths have lost their directories.

    >>> text_without_paths("/home/a b/x.h5"), text_without_paths("read from /home/a/x.h5: 3 rows")
    ('x.h5', 'read from x.h5: 3 rows')
    """
    if _ABSOLUTE.match(text) and "\n" not in text:
        return _last_name(text)
    return _INSIDE.sub(lambda match: _last_name(match[0]), text)


def _walked(value: Any) -> Any:
    if isinstance(value, str):
        return text_without_paths(value)
    if isinstance(value, dict):  # a key of a study's settings is no text
        return {_walked(k) if isinstance(k, str) else k: _walked(v) for k, v in value.items()}
    return type(value)(map(_walked, value)) if isinstance(value, list | tuple) else value


def _last_name(path: str) -> str:
    """The last part of a path, as far as it has one."""
    return re.split(r"[/\\]+", path.rstrip("/\\"))[-1] or path


# --- reading packs of other people ---


MOST = 200_000  # members
SMALL = 2**24  # bytes of a member that is neither record nor predictions

_EARLIER = re.compile(r"study\.toml|files/[0-9a-f]{16}\.json")  # of packs of earlier versions


@dataclass(frozen=True)
class UnpackedPack:
    """A pack, unpacked."""

    pack: Path
    folder: Path
    info: PackInfo

    @property
    def runs(self) -> Path:
        """The directory of its runs."""
        return self.folder / RUNS

    def named(self, sentence: str) -> str:
        """A sentence about a run, which names the archive instead of where it was unpacked."""
        return sentence.replace(str(self.runs), str(self.pack))


@contextmanager
def unpack(path: Path) -> Iterator[UnpackedPack]:
    """Unpack a pack into a temporary directory; of one that is refused nothing is used."""
    with safe_zips.open_archive(path) as archive:
        info = _info(path, archive)
        members = _members(path, archive)
        with tempfile.TemporaryDirectory(prefix="embedbench-") as made:
            folder = Path(made).resolve()
            for name, member in members.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                atomic_write.write_safely(target, _bytes(path, archive, member), sync=False)
            (folder / RUNS).mkdir(exist_ok=True)
            yield UnpackedPack(path, folder, info)


def merge_packs(roots: Sequence[Path], out: Path) -> MergeResult:
    """Merge directories of runs and packs, see `embedbench.runs.merge_runs.merge`."""
    with ExitStack() as stack:
        packs = {root: stack.enter_context(unpack(root)) for root in roots if root.is_file()}

        def named(sentence: str) -> str:
            for one in packs.values():
                sentence = one.named(sentence)
            return sentence

        try:
            merged = merge([packs[root].runs if root in packs else root for root in roots], out)
        except UserError as e:
            raise e.reworded(named(str(e))) from None
        return replace(merged, left_out=tuple(map(named, merged.left_out)))


def _info(path: Path, archive: zipfile.ZipFile) -> PackInfo:
    """Read the header of a pack; refuse what is no pack, or one of another version."""
    where = f"{path}: {INFO}"
    member = next((one for one in archive.infolist() if one.filename == INFO), None)
    if member is None:
        raise UserError(
            f"{path} holds no {INFO}, so it is no pack", "embedbench runs pack makes one"
        )
    if not _belongs(INFO, member):
        raise UserError(f"{where} is not that of a pack", "get it again")
    values = parse_json(_bytes(path, archive, member), where)
    info = PackInfo.from_json(values, where)
    info.check(where)
    return info


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of a pack by name."""
    listed = archive.infolist()
    if len(listed) > MOST:
        raise UserError(f"{path} has {len(listed):,} members, and a pack has at most {MOST:,}")
    members: dict[str, zipfile.ZipInfo] = {}
    for member in listed:
        name = member.filename
        if name in members or not _belongs(name, member):
            raise UserError(
                f"{path} is not read: its member {short(name)} is not that of a pack",
                "embedbench runs pack makes one",
            )
        members[name] = member
    return members


def _belongs(name: str, member: zipfile.ZipInfo) -> bool:
    """Whether a member can be that of a pack: its name, form and size."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if (
        name != member.orig_filename  # zipfile cuts a name at a NUL
        or safe_zips.member_problem(name, member, (zipfile.ZIP_STORED,))
        or kind not in (0, stat.S_IFREG)
        or member.file_size != member.compress_size
    ):
        return False
    *folders, last = name.split("/")
    if folders[:1] != [RUNS]:
        return member.file_size <= SMALL and (name == INFO or bool(_EARLIER.fullmatch(name)))
    files = {RECORD, PREDICTIONS}
    if len(folders) < 2 or last not in files or files & {*folders} or not is_place(folders):
        return False
    return last == PREDICTIONS or member.file_size <= LARGEST


def _bytes(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with explain_errors(f"{path} is damaged at {short(member.filename)}", "get it again"):
        return archive.read(member)
