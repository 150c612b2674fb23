"""Colours of figures; one colour and one mark a learner, the same in all of them."""

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result_rows import Row

# A search moved the hues apart in CIELAB, as they are and as seen with deuteranopia and protanopia
# (Machado et al. 2009), the first six further than the rest. Each learner has a mark, too.
# fmt: off
COLOURS = ("#092681", "#581e00", "#e4933b", "#2392fd", "#02bb98",
           "#637100", "#c298c3", "#76274a", "#007b86", "#d0595d")
# fmt: on
INK, SOFT, LINE, BLANK = "#1b1b1b", "#444444", "#9a9a9a", "#dcdcdc"  # text, lines, empty cells

# Ten to a block: the place in a block is the hue, the block decides how the mark is moved on. The
# first ten are those that most tables have: ten hues, ten marks. In the others, learners that
# papers compare have different hues. A new learner goes to the end, so that the others keep theirs.
LEARNERS = (
    *("mlp", "ewc", "icarl", "slda", "ncm", "er", "lwf", "bic", "derpp", "ranpac"),
    *("knn", "er-ace", "mir", "gss", "lucir", "eeil", "agem", "gdumb", "wa", "il2m"),
    *("offline", "remind", "fecam", "pathnet", "mas", "fel", "exstream", "si", "acil", "geppnet"),
    *("prototype", "fr", "teen", "nc-fscil", "c-fscil", "alice"),
    *("geppnet-stm", "fearnet", "randumb", "klda"),
    *("perceptron", "icarl-cnn", "er-infinite", "icarl-norm", "fel-2012"),
    *("one-vs-rest", "naive-bayes", "joint", "simplecil", "online-ewc", "layup"),
)
SAME = {"finetune": "mlp", "incremental-joint": "joint"}  # two names of one learner
HUES = len(COLOURS)
MARKERS = ("o", "s", "^", "D", "v", "*", "X", "P", "<", ">")
STYLES = HUES * len(MARKERS)  # a style is a number below this: a hue and a mark
FREE = 60  # styles from here on are no shipped learner's


def look(style: int) -> dict[str, Any]:
    """The colour and the mark of a style, as matplotlib takes them; no two styles look alike."""
    mark = MARKERS[(style + style // HUES) % len(MARKERS)]
    return {"color": COLOURS[style % HUES], "marker": mark}


def styles_in(rows: "Iterable[Row]") -> dict[str, int]:
    """Label → style, of the learners among some rows; the chance level has none.

    Of a learner's settings the one whose command says least comes first: it is the default, which
    keeps its style when others are added.
    """
    learners = [row for row in rows if row.learns]
    learners.sort(key=lambda row: (len(row.records[0].command.split()), row.label))
    return assign_styles((row.learner, row.label) for row in learners)


def assign_styles(labels: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The style of each label, from (learner, label) pairs; of up to 100 no two have the same.

    A learner that ships has a fixed style, any other one that of its name's checksum. A second
    setting of a learner, or what meets a style that is taken, gets the next free one.
    """
    result: dict[str, int] = {}
    for name, label in sorted(labels, key=lambda pair: (pair[0] not in LEARNERS, pair[0])):
        name = SAME.get(name, name)
        style = FREE + zlib.crc32(name.encode()) % (STYLES - FREE)
        usual = LEARNERS.index(name) if name in LEARNERS else style
        used = {*result.values()}
        after = (FREE + (usual % HUES + 1 + i) % (STYLES - FREE) for i in range(STYLES - FREE))
        free = (s for s in (usual, *after, *range(STYLES)) if s not in used)
        result.setdefault(label, next(free, usual))
    return result
