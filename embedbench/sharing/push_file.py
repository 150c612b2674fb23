"""`embedbench push`: a file, its page and a picture, to a place that others can name."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.files import hdf5_layout
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.inspect import card
from embedbench.files.provenance import read_weights_entry
from embedbench.files.sample_metadata import SPLITS
from embedbench.storage import user_cache

from . import uploads
from .dataset_card import HUB_SPLITS, card_page, data_licence, is_stated, rows_on_file
from .uploads import PLAIN, How, Place

PAGE = "README.md"


@dataclass(frozen=True)
class PushResult(JsonRecord):
    """The result of a push.

    Parameters
    ----------
    url : str
        The name of the file, to run or inspect it; on the hub with the commit.
    commit : str
        The commit on the hub; "" elsewhere.
    sent, unchanged : tuple of str
        Files that were sent, and those that were there with the same content.
    """

    url: str
    commit: str
    sent: tuple[str, ...]
    unchanged: tuple[str, ...]


def push(
    path: str | os.PathLike[str],
    url: str,
    how: How = PLAIN,
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> PushResult:
    """Send an embedding file with its page and a picture.

    Parameters
    ----------
    path : str or PathLike
        An embedding file; it is verified first.
    url : str
        `hf://datasets/ORG/NAME`, or another URL of a folder.

    Raises
    ------
    UserError
        No licence is stated, the file is damaged, or the place refuses.
    """
    place = Place.parse(url)
    if how.private and not place.repository:
        raise UserError(f"--private is for the hub; {place.url} has other permissions.")
    file = EmbeddingFile.open(path)
    _check_licence(file, how.licence)
    if place.repository:
        uploads.check_login(place.repository)
    if damage := verify(file.path):
        raise UserError(f"{file.path} is damaged and was not sent: {damage[0]}")
    if file.kind == hdf5_layout.EMBEDDING and not is_stated(
        read_weights_entry(file.provenance).licence
    ):
        notify("the licence of the weights is not stated; --weights-licence of extract states it")
    with TemporaryDirectory(prefix="embedbench-push-") as folder:
        files = _parcel(file, place, how, Path(folder), notify)
        if place.repository:
            message = f"{file.path.name}, content {file.digests['content'][:12]}"
            commit, sent = uploads.send_to_hub(files, place.repository, how, message)
        else:
            commit, sent = "", uploads.send_to_store(files, place, overwrite=how.overwrite)
    at = f"@{commit}" if commit else ""
    return PushResult(
        url=f"{place.url}{at}/{file.path.name}",
        commit=commit,
        sent=tuple(sent),
        unchanged=tuple(name for name in files if name not in sent),
    )


def _check_licence(file: EmbeddingFile, licence: str) -> None:
    stated = data_licence(file.provenance)
    if not stated and not licence:
        raise UserError(
            f"{file.path} states no licence of its data, so nobody could use it; add --licence "
            "NAME, or --licence unknown."
        )
    if stated and licence not in ("", stated):
        raise UserError(
            f"{file.path} states the licence {stated!r}, and --licence says {licence!r}; leave "
            "--licence out, or make the file again with the right one."
        )


def _parcel(
    file: EmbeddingFile, place: Place, how: How, folder: Path, notify: Callable[[str], None]
) -> dict[str, uploads.Content]:
    """All files of a push; the page comes last, so that it never speaks of what is not there."""
    rows = rows_on_file(how.runs, file, notify) if how.runs else []
    files: dict[str, uploads.Content] = {file.path.name: file.path}
    tables = {}
    if _sends_parquet(file, place, how, notify):
        from embedbench.files.export_features import write_parquet

        for number, split in enumerate(SPLITS):
            if (file.split == number).any():
                tables[split] = f"data/{HUB_SPLITS[split]}.parquet"
                files[tables[split]] = write_parquet(file, folder / f"{split}.parquet", number)
    name = f"{file.path.stem}.png"
    files[name] = picture(file)
    page = card_page(
        card(file),
        licence=how.licence,
        rows=rows,
        place=place.url,
        picture=name,
        parquet=tables,
        sha256=user_cache.sha256(file.path),
    )
    return {**files, PAGE: page.encode()}


def _sends_parquet(
    file: EmbeddingFile, place: Place, how: How, notify: Callable[[str], None]
) -> bool:
    if how.parquet is not None:
        return how.parquet
    if not place.repository or file.kind != hdf5_layout.EMBEDDING:
        return False
    if find_spec("pyarrow") is None:
        notify(
            "the hub will show no rows, because Parquet needs pyarrow: pip install "
            "'embedbench-cl[parquet]'; --no-parquet leaves out this line"
        )
        return False
    return True


# --- the picture on the page ---


WIDTH, DPI = 4.5, 160  # inches, and dots to the inch: 720 of them


def picture(file: EmbeddingFile) -> bytes:
    """Return a PNG of a file, the one that `inspect --map` draws."""
    from embedbench.reports.figure_style import render_figure
    from embedbench.reports.picture_of_file import draw_file

    return render_figure(draw_file(file, WIDTH), "png", dpi=DPI)
