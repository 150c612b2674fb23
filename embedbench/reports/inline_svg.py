"""Figures as inline SVG: colours are CSS variables of the page, and nothing is loaded.

Without what no reader sees: matplotlib writes six decimals, a group and an id for every artist, and
a style for every element.
"""

import html
import re
import zlib

from matplotlib.figure import Figure

from embedbench.text.printable_text import printable

from .figure_files import render_figure
from .learner_colours import BLANK, COLOURS, INK, LINE, SHEET, SOFT

_VARIABLES = {INK: "--ink", SOFT: "--soft", LINE: "--line", BLANK: "--blank", SHEET: "--card"}
_VARIABLES |= {c: f"--c{i}" for i, c in enumerate(COLOURS)}
_DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_STYLE = re.compile(r' style="([^"]*)"')


def svg(figure: Figure, label: str) -> str:
    """A figure as an SVG element with colours and font of the page.

    `label` describes it for screen readers.
    """
    text = printable(render_figure(figure, "svg", page=True).decode(), lines=True)
    _, head, body = re.split(r"(<svg[^>]*>)", text, maxsplit=1)
    body = re.sub(r"<(metadata|style).*?</\1>", "", body, flags=re.DOTALL)
    for fixed, variable in _VARIABLES.items():
        body = body.replace(fixed, f"var({variable})")
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", body)  # matplotlib before 3.11
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body.replace("xlink:href", "href"))
    body = slim(body, f"f{zlib.crc32((label + body).encode()):08x}")
    box, name = re.findall('viewBox="[^"]*"', head)[0], html.escape(printable(label))
    return f'<svg role="img" aria-label="{name}" {box}>{body.strip()}'


def slim(drawing: str, prefix: str) -> str:
    """SVG of matplotlib with four digits, without unused ids, bare groups and line breaks.

    Ids that are used begin with the prefix: the figures of one page need different ones.
    """
    uses = re.findall(r'(?:href="|url\()#([^")]*)', drawing)
    ids = {name: f"{prefix}-{i}" for i, name in enumerate(dict.fromkeys(uses))}

    def tag(match: re.Match[str]) -> str:
        text = match[0]
        if "data:" not in text:
            text = re.sub(r"\s+", " ", text)
            text = re.sub(r"\d+\.\d{2,}", lambda m: f"{float(m[0]):.4g}", text)
        text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
        text = re.sub(r' id="([^"]*)"', lambda m: f' id="{ids[m[1]]}"' if m[1] in ids else "", text)
        text = re.sub(r'(href="|url\()#([^")]*)', lambda m: f"{m[1]}#{ids[m[2]]}", text)
        text = re.sub('(?<= d=")[^"]*', lambda m: re.sub(" ?([A-Za-z]) ?", r"\1", m[0]), text)
        return _STYLE.sub(lambda m: re.sub("([:;]) ", r"\1", m[0]), text)

    is_bare: list[bool] = []

    def group(match: re.Match[str]) -> str:
        if match[0].endswith("/>"):
            return ""
        if match[0] == "</g>":
            return "" if is_bare.pop() else match[0]
        is_bare.append(match[0] == "<g>")
        return "" if is_bare[-1] else match[0]

    return re.sub(r"</?g\b[^>]*>", group, re.sub(r">\s+<", "><", _TAG.sub(tag, drawing)))


def share_styles(page: str) -> str:
    """A page whose SVG elements have classes in the place of styles.

    The rules of the classes are added at the end of its first `style` element.
    """
    names: dict[str, str] = {}

    def name(style: re.Match[str]) -> str:
        return f' class="{names.setdefault(style[1], f"s{len(names)}")}"'

    def drawing(match: re.Match[str]) -> str:
        return _TAG.sub(lambda tag: _STYLE.sub(name, tag[0]), match[0])

    page = _DRAWING.sub(drawing, page)
    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return page.replace("</style>", f"{rules}\n</style>", 1)
