"""One colour and one mark a learner, the same in every report and figure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

# Ten to a block: the place in a block is the hue, the block decides how the mark is moved on. The
# first ten are those that most tables have: ten hues, ten filled marks. In the others, learners
# that papers compare have different hues. A new learner goes to the end, so that the others keep
# theirs; one that is not here has the style of its name's checksum.
LEARNERS = (
    *("mlp", "ewc", "icarl", "slda", "ncm", "er", "lwf", "bic", "derpp", "ranpac"),
    *("knn", "er-ace", "mir", "gss", "lucir", "eeil", "agem", "gdumb", "wa", "il2m"),
    *("offline", "remind", "fecam", "pathnet", "mas", "fel", "exstream", "si", "acil", "geppnet"),
    *("prototype", "fr", "teen", "nc-fscil", "c-fscil", "alice"),
    *("geppnet-stm", "fearnet", "randumb", "klda"),
    *("perceptron", "icarl-cnn", "er-infinite", "icarl-norm", "fel-2012"),
    *("one-vs-rest", "naive-bayes", "joint"),
)
SAME = {"finetune": "mlp", "incremental-joint": "joint"}  # two names of one learner
HUES = 10
MARKERS = ("o", "s", "^", "D", "v", "*", "X", "P", "<", ">")
GLYPHS = ("●■▲◆▼★✖✚◀▶", "○□△◇▽☆✕✙◁▷")  # the markers as text, filled and hollow
STYLES = HUES * len(MARKERS)  # a style is a number below this: a hue and a mark


def hue(style: int) -> int:
    """Index of the colour of a style."""
    return style % HUES


def marker(style: int) -> str:
    """The mark of a style as matplotlib calls it; styles of one hue have different marks."""
    return MARKERS[(style + style // HUES) % len(MARKERS)]


def hollow(style: int) -> bool:
    """Whether only the edge of the mark is drawn: of every second ten styles."""
    return style // HUES % 2 == 1


def glyph(style: int) -> str:
    """The mark of a style as a character."""
    return GLYPHS[hollow(style)][MARKERS.index(marker(style))]


def styles_of(labels: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The style of each label.

    A learner that ships has a fixed style, any other one that of its name's checksum. Where a
    report has several settings of a learner, the first label has the learner's style, and the
    others take the next hue that is free in this report.

    Parameters
    ----------
    labels : iterable of (str, str)
        The learner's name, and its label in the report.
    """
    result: dict[str, int] = {}
    learners: set[str] = set()
    later: list[tuple[int, str]] = []
    for name, label in sorted(set(labels), key=lambda pair: (pair[0] not in LEARNERS, pair)):
        learner = SAME.get(name, name)
        if learner in learners:
            later.append((_usual(learner), label))
        else:
            result.setdefault(label, _free(_usual(learner), set(result.values())))
            learners.add(learner)
    for usual, label in later:
        used = set(result.values())
        hues = {hue(style) for style in used}
        free = (s for s in range(usual, usual + HUES) if hue(s) not in hues)
        result.setdefault(label, _free(next(free, usual), used))
    return result


def _usual(learner: str) -> int:
    """The style of a learner, whatever else is in the report."""
    if learner in LEARNERS:
        return LEARNERS.index(learner)
    return zlib.crc32(learner.encode()) % STYLES


def _free(style: int, used: set[int]) -> int:
    """The first style from this one on that is not used; this one if all are."""
    following = ((style + k) % STYLES for k in range(STYLES))
    return next((s for s in following if s not in used), style)
