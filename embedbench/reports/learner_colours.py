"""Colours of figures and pages; one colour and one mark a learner, the same in all of them."""

import zlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result_rows import Row

# The hues, for a light and for a dark page: a search moved them apart in CIELAB, as they are and as
# seen with deuteranopia and protanopia (Machado et al. 2009), the first six further than the rest.
# In addition each learner has a marker.
# fmt: off
COLOURS = ("#092681", "#581e00", "#e4933b", "#2392fd", "#02bb98",
           "#637100", "#c298c3", "#76274a", "#007b86", "#d0595d")
DARK_COLOURS = ("#2e6bc2", "#9b5a5c", "#fed25d", "#85cfff", "#70ffcb",
                "#6d931b", "#a085f2", "#f867a1", "#178f84", "#e09a78")
# fmt: on

# The colours of text, lines, empty cells with the grid, and what is behind a figure. In a page
# these and the hues are CSS variables, so that dark mode works; no figure uses them otherwise.
INK, SOFT, LINE, BLANK, SHEET = "#1b1b1b", "#444444", "#9a9a9a", "#dcdcdc", "#fefefe"

# Ten to a block: the place in a block is the hue, the block decides how the mark is moved on. The
# first ten are those that most tables have: ten hues, ten filled marks. In the others, learners
# that papers compare have different hues. A new learner goes to the end, so that the others keep
# theirs; one that is not here has a style from `FREE` on, by its name's checksum.
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
GLYPHS = ("●■▲◆▼★✖✚◀▶", "○□△◇▽☆✕✙◁▷")  # the markers as text, filled and hollow
STYLES = HUES * len(MARKERS)  # a style is a number below this: a hue and a mark
FREE = 60  # styles from here on are no shipped learner's


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


def colour(style: int) -> str:
    """The hue of a style."""
    return COLOURS[hue(style)]


def look(style: int) -> dict[str, Any]:
    """The colour and the mark of a style, as matplotlib takes them."""
    ink = colour(style)
    look: dict[str, Any] = {"color": ink, "marker": marker(style)}
    if hollow(style):
        look |= {"markerfacecolor": SHEET, "markeredgecolor": ink, "markeredgewidth": 0.9}
    return look


def styles_in(rows: "Iterable[Row]") -> dict[str, int]:
    """Label → style, of the learners among some rows; the chance level has none.

    Of a learner's settings the one whose command says least comes first: it is the default, which
    keeps its style when others are added.
    """
    learners = [row for row in rows if row.learns]
    learners.sort(key=lambda row: (len(row.records[0].command.split()), row.label))
    return assign_styles((row.learner, row.label) for row in learners)


def assign_styles(labels: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The style of each label: no two have the same, and a learner keeps its own beside any other.

    A learner that ships has a fixed style, any other one that of its name's checksum. Where a
    report has several settings of a learner, the first label has the learner's style, and the
    others have styles of the next hues, whatever other learners there are. `styles_in` puts the
    learner's defaults first. Each item is a learner's name, and its label in the report.
    """
    result: dict[str, int] = {}
    settings = Counter[str]()  # labels of a learner so far
    for name, label in sorted(labels, key=lambda pair: (pair[0] not in LEARNERS, pair[0])):
        if label not in result:
            learner = SAME.get(name, name)
            usual = _usual(learner, settings[learner])
            result[label] = _unused(usual, set(result.values()))
            settings[learner] += 1
    return result


def _usual(learner: str, setting: int) -> int:
    """The style of a setting of a learner, whatever else is in the report; 0 is the first."""
    if learner in LEARNERS and not setting:
        return LEARNERS.index(learner)
    checksum = zlib.crc32(learner.encode())
    first = LEARNERS.index(learner) if learner in LEARNERS else checksum
    blocks = (STYLES - FREE) // HUES
    return FREE + checksum % blocks * HUES + (first + setting) % HUES


def _unused(style: int, used: set[int]) -> int:
    """This style, else one that is not used; where it can be, of the same hue and nobody's own."""
    free = [s for s in range(FREE, STYLES) if s not in used]
    left = [s for s in range(STYLES) if s not in used]
    if style not in used:
        return style
    return next((s for s in free if hue(s) == hue(style)), (free or left or [style])[0])
