"""Reading packs of other people, and merging them into a directory of runs.

A pack is an archive that `pack` writes, and nothing else is read: members are stored without
compression, so that what comes out is never more than what is there; their names are those of a
pack; no two have one name, even where a file system takes upper and lower case for one.
"""

import re
import stat
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, short
from embedbench.runs.merge_runs import MergeResult, merge
from embedbench.scores.record_files import LARGEST, PREDICTIONS, RECORD
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.safe_zips import member_problem, open_archive

from .pack import FILES, INFO, RUNS, SCHEMA, STUDY, PackInfo, is_place

MOST = 200_000  # members
SMALL = 2**24  # bytes of a member that is neither record nor predictions

_PACKS = SCHEMA.partition("/")[0] + "/"
_CARD = re.compile(rf"{FILES}/[0-9a-f]{{16}}\.json")


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
    """Unpack a pack into a temporary directory.

    Raises
    ------
    UserError
        It is no zip archive, or has a member that no pack has; nothing of it was used.
    """
    with open_archive(path) as archive:
        info = _info(path, archive)
        members = _members(path, archive)
        with tempfile.TemporaryDirectory(prefix="embedbench-") as made:
            folder = Path(made).resolve()
            for name, member in members.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                write_safely(target, _bytes(path, archive, member), sync=False)
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
            raise UserError(named(str(e))) from None
        return replace(merged, left_out=tuple(map(named, merged.left_out)))


def _info(path: Path, archive: zipfile.ZipFile) -> PackInfo:
    """Read the header of a pack; refuse what is no pack, or one of another version."""
    where = f"{path}: {INFO}"
    member = next((one for one in archive.infolist() if one.filename == INFO), None)
    if member is None:
        raise UserError(f"{path} holds no {INFO}, so it is no pack; embedbench runs pack makes one")
    if problem := _problem(INFO, member):
        raise UserError(f"{where} is not that of a pack ({problem}); get it again")
    values = parse_json(_bytes(path, archive, member), where)
    schema = values.get("schema") if isinstance(values, dict) else None
    if isinstance(schema, str) and schema != SCHEMA and schema.startswith(_PACKS):
        raise UserError(
            f"{path} is a pack of another version, {short(schema)}, and this embedbench reads "
            f"{SCHEMA}; update embedbench, or ask for a pack of that version"
        )
    info = PackInfo.from_json(values, where)
    info.check(where)
    return info


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of a pack by name."""
    listed = archive.infolist()
    if len(listed) > MOST:
        raise UserError(f"{path} has {len(listed):,} members, and a pack has at most {MOST:,}")
    members: dict[str, zipfile.ZipInfo] = {}
    same: set[str] = set()
    for member in listed:
        name = member.filename
        alike = unicodedata.normalize("NFC", name).casefold()
        problem = _problem(name, member)
        if alike in same:
            problem = problem or "it is there more than once"
        if problem:
            raise UserError(
                f"{path} is not read: its member {short(name)} is not that of a pack ({problem}); "
                "embedbench runs pack makes one"
            )
        same.add(alike)
        members[name] = member
    return members


def _problem(name: str, member: zipfile.ZipInfo) -> str:
    """Why a member cannot be that of a pack; empty if it can."""
    if not name or name != member.orig_filename:  # zipfile cuts a name at a NUL
        return "its name is not that of a run"
    kind = stat.S_IFMT(member.external_attr >> 16)
    problem = member_problem(name, member, (zipfile.ZIP_STORED,))
    if problem:
        return problem
    if kind not in (0, stat.S_IFREG) or member.is_dir():
        return "it is no regular file"
    if member.file_size != member.compress_size:
        return "its size is not that of its bytes"
    *folders, last = name.split("/")
    if folders[:1] != [RUNS]:
        if name not in (INFO, STUDY) and not _CARD.fullmatch(name):
            return "no pack has such a file"
        return "it is too large" if member.file_size > SMALL else ""
    if len(folders) < 2 or last not in (RECORD, PREDICTIONS) or {RECORD, PREDICTIONS} & {*folders}:
        return "no pack has such a file"
    if not is_place(folders):
        return "its name is not that of a run"
    return "it is too large" if last == RECORD and member.file_size > LARGEST else ""


def _bytes(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(member) as file:
            return file.read(member.file_size + 1)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as e:
        raise UserError(f"{path} is damaged at {short(member.filename)} ({e}); get it again") from e
