"""Choose AudioSet's classes by Kemker et al.'s conditions, from its ontology and ratings."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedbench.config.json_records import parse_json
from embedbench.errors import UserError
from embedbench.storage.regular_files import read_text

LABELS, ONTOLOGY, QUALITY = "class_labels_indices.csv", "ontology.json", "qa_true_counts.csv"
MOST = 2_000  # classes of an ontology; those related to each are kept
LEAST_TRAIN, LEAST_TEST = 250, 43  # Table 1


@dataclass(frozen=True)
class Ontology:
    """AudioSet's classes.

    Parameters
    ----------
    ids : dict
        Index of each label -> ontology id, such as `/m/09x0r`.
    names : dict
        Ontology id -> display name, of the labels.
    related : dict
        Ontology id -> its ancestors and descendants.
    eligible : frozenset of str
        Ids of the labels without a restriction and with a quality above 70 %.
    """

    ids: dict[int, str]
    names: dict[str, str]
    related: dict[str, frozenset[str]]
    eligible: frozenset[str]


def read_ontology(directory: Path) -> Ontology:
    """Read the three metadata files.

    `class_labels_indices.csv` has the columns index, mid, display_name; `ontology.json` is a
    list of objects with id, child_ids and restrictions; `qa_true_counts.csv` has the columns
    label_id, num_rated, num_true. A label that is not rated there is not eligible.

    Raises
    ------
    UserError
        A file is missing, is not what its name says, or does not belong to the others.
    """
    rows = _csv(directory / LABELS, ("index", "mid", "display_name"))
    children, restricted = _json(directory / ONTOLOGY)
    rated = _csv(directory / QUALITY, ("label_id", "num_rated", "num_true"))
    names = {mid: name for _, mid, name in rows}
    strangers = sorted(names.keys() - children.keys())
    if strangers:
        raise UserError(
            f"{directory / LABELS} names {strangers[0]}, which {ONTOLOGY} does not have; take both "
            "from one release of AudioSet."
        )
    try:
        ids = {int(index): mid for index, mid, _ in rows}
        good = {mid for mid, n, true in rated if 10 * int(true) > 7 * int(n)}  # above 70 %
    except ValueError as error:
        raise UserError(f"{LABELS} and {QUALITY} must hold whole numbers ({error}).") from error
    return Ontology(ids, names, _related(children), frozenset(good & names.keys() - restricted))


def _csv(path: Path, columns: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    _present(path)
    reader = csv.DictReader(io.StringIO(read_text(path)), skipinitialspace=True)
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise UserError(f"{path} has no column {missing[0]!r}; expected {','.join(columns)}.")
        a, b, c = columns
        return [(row[a] or "", row[b] or "", row[c] or "") for row in reader]
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV file ({error}).") from error


def _json(path: Path) -> tuple[dict[str, list[str]], set[str]]:
    """Return the children of every class, and the classes with restrictions."""
    _present(path)
    classes = parse_json(read_text(path), str(path))
    if isinstance(classes, list) and len(classes) > MOST:
        raise UserError(f"{path} has {len(classes):,} classes; AudioSet has 632.")
    try:
        children = {str(c["id"]): [str(child) for child in c["child_ids"]] for c in classes}
        return children, {str(c["id"]) for c in classes if c["restrictions"]}
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not AudioSet's ontology, a list of objects with id, child_ids and "
            f"restrictions ({type(error).__name__}: {error})."
        ) from error


def _present(path: Path) -> None:
    if not path.is_file():
        raise UserError(
            f"{path} is missing; AudioSet's records need {LABELS}, {ONTOLOGY} and {QUALITY} "
            "beside them, as AudioSet publishes them."
        )


def _related(children: Mapping[str, list[str]]) -> dict[str, frozenset[str]]:
    """Return the ancestors and descendants of each class; a class may have several parents."""
    below: dict[str, set[str]] = {}
    for top in children:
        descendants: set[str] = set()
        waiting = list(children[top])
        while waiting:
            mid = waiting.pop()
            if mid not in descendants:
                descendants.add(mid)
                waiting += children.get(mid, [])
        below[top] = descendants
    above: dict[str, set[str]] = {mid: set() for mid in children}
    for top, descendants in below.items():
        for mid in descendants & above.keys():
            above[mid].add(top)
    return {mid: frozenset(below[mid] | above[mid]) for mid in children}


def count_clips(
    ontology: Ontology, clips: Mapping[tuple[int, ...], tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return how many training and eval clips count for each eligible class.

    Parameters
    ----------
    ontology : Ontology
        AudioSet's classes.
    clips : mapping
        Combination of labels -> number of training and of eval clips with exactly these labels.
    """
    counts = dict.fromkeys(ontology.eligible, (0, 0))
    for labels, (train, test) in clips.items():
        named = {ontology.ids[label] for label in labels} & ontology.eligible
        for mid in named:
            if named - {mid} <= ontology.related[mid]:
                before = counts[mid]
                counts[mid] = (before[0] + train, before[1] + test)
    return counts


def choose_classes(
    ontology: Ontology, counts: Mapping[str, tuple[int, int]], n_classes: int
) -> list[str]:
    """Return the ids of the classes that the rule selects, those with most clips first.

    **Source** Kemker et al. (2018), "Datasets": 100 classes, none a super- or subclass of another,
    none with a restriction in the ontology, all with an estimated quality above 70 %; clips with
    one of the 100 labels only. Table 1: 250 to 300 training and 43 to 62 test clips a class.

    **Departs** The paper's list of classes is not published, so this is a rule and not that list:

    - A clip *counts for* a class if no other class of its labels could be taken together with that
      class: each of them fails the conditions, or is an ancestor or a descendant of that class.
    - A class needs 293 such clips (the 250 and 43 of Table 1) of at least 10 frames; at most 43
      clips of the eval partition count.
    - Classes are taken by decreasing number of clips (ties: by ontology id). A class that is
      related to one already taken is skipped.

    Raises
    ------
    UserError
        Fewer than `n_classes` classes satisfy the rule.
    """
    enough = LEAST_TRAIN + LEAST_TEST
    able = [mid for mid, (train, test) in counts.items() if train + min(test, LEAST_TEST) >= enough]
    taken: list[str] = []
    for mid in sorted(able, key=lambda mid: (-sum(counts[mid]), mid)):
        if len(taken) < n_classes and ontology.related[mid].isdisjoint(taken):
            taken.append(mid)
    if len(taken) < n_classes:
        hint = f"ask for them with --classes {len(taken)}, or " if taken else ""
        raise UserError(
            f"only {len(taken)} classes satisfy Kemker et al.'s conditions, and {n_classes} are "
            f"wanted: of {len(ontology.names)} labels {len(ontology.eligible)} have no restriction "
            f"and a quality above 70 %, {len(able)} of these {enough} clips with no other label, "
            f"and {len(taken)} of these are unrelated; {hint}bring all three partitions."
        )
    return taken
