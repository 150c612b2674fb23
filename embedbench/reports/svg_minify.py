"""SVG in fewer bytes: the same drawing, without what no reader sees.

matplotlib writes six decimals, a group and an id for every artist, and a style for every element.
"""

from __future__ import annotations

import re
from collections import Counter

_OFTEN = 3  # uses from which a style becomes a class
_DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_STYLE = re.compile(r' style="([^"]*)"')


def slim(svg: str, prefix: str) -> str:
    """One SVG element with few decimals, and without unused ids, bare groups and line breaks.

    Parameters
    ----------
    svg : str
        The element, as matplotlib writes it.
    prefix : str
        What ids begin with: the figures of one page need different ones.
    """
    uses = re.findall(r'(?:href="|url\()#([^")]*)', svg)
    ids = {name: f"{prefix}-{i}" for i, name in enumerate(dict.fromkeys(uses))}

    def tag(match: re.Match[str]) -> str:
        text = match[0]
        if "data:" not in text:
            text = re.sub(r"\d+\.\d{2,}", _rounded, re.sub(r"\s+", " ", text))
        text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
        text = re.sub(r' id="([^"]*)"', lambda m: f' id="{ids[m[1]]}"' if m[1] in ids else "", text)
        text = re.sub(r'(href="|url\()#([^")]*)', lambda m: f"{m[1]}#{ids[m[2]]}", text)
        text = re.sub(r' d="([^"]*)"', lambda m: f' d="{_path(m[1])}"', text)
        return _STYLE.sub(lambda m: re.sub("([:;]) ", r"\1", m[0]), text)

    svg = _TAG.sub(tag, svg)
    svg = re.sub(r">\s+<", "><", svg)
    return _without_bare_groups(svg)


def _rounded(number: re.Match[str]) -> str:
    """Two decimals, and one from 10 on: under a tenth of a pixel."""
    value = float(number[0])
    return f"{value:.{1 if value >= 10 else 2}f}".rstrip("0").rstrip(".")


def _path(commands: str) -> str:
    """A path without spaces around its letters."""
    return re.sub(r" ?([A-Za-z]) ?", r"\1", commands.strip())


def _without_bare_groups(svg: str) -> str:
    """Remove groups that have no attribute, and keep what is in them."""
    kept: list[str] = []
    is_bare: list[bool] = []
    for part in re.split(r"(</?g\b[^>]*>)", svg):
        if part.startswith("</g"):
            if is_bare.pop():
                continue
        elif part.startswith("<g") and not part.endswith("/>"):
            is_bare.append(part == "<g>")
            if part == "<g>":
                continue
        elif part.startswith("<g"):
            continue  # empty
        kept.append(part)
    return "".join(kept)


def share_styles(page: str) -> str:
    """A page whose SVG elements have classes for the styles that occur often.

    The rules of the classes are added at the end of its first `style` element.
    """
    tags = (tag for svg in _DRAWING.findall(page) for tag in _TAG.findall(svg))
    uses = Counter(style for tag in tags for style in _STYLE.findall(tag))
    often = [style for style, n in uses.items() if n >= _OFTEN]
    names = {style: f"s{i}" for i, style in enumerate(often)}

    def named(style: re.Match[str]) -> str:
        name = names.get(style[1])
        return style[0] if name is None else f' class="{name}"'

    def tag(text: re.Match[str]) -> str:
        return _STYLE.sub(named, text[0])

    page = _DRAWING.sub(lambda svg: _TAG.sub(tag, svg[0]), page)
    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return page.replace("</style>", f"{rules}\n</style>", 1)
