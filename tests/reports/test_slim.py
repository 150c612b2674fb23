"""Drawings in fewer bytes: what is seen stays, what is not goes."""

from embedbench.reports.html_report import share_styles, slim

DRAWN = """<svg viewBox="0 0 316.8 216">
 <g id="figure_1">
  <g id="text_1"><g id="empty_1"/>
   <text style="font-size: 10px; fill: red" x="39.196346" transform="rotate(-0 39.1 1.2)">0.1234
 style="x: y"</text>
  </g>
  <defs><path id="mark" d="M 0 0
L 0 3.14159
z
" style="fill: none"/></defs>
  <g clip-path="url(#clip)"><use href="#mark" x="1.23456"/></g>
  <image href="data:image/png;base64,
iVBO0.12345w0K" x="2.999"/>
 </g>
 <clipPath id="clip"/>
</svg>"""


def test_what_is_drawn_stays() -> None:
    # four digits; ids that are used, in the order of their use
    assert slim(DRAWN, "a").replace("\n", "|") == (
        '<svg viewBox="0 0 316.8 216">'
        '<text style="font-size:10px;fill:red" x="39.2">0.1234| style="x: y"</text>'
        '<defs><path id="a-1" d="M0 0L0 3.142z" style="fill:none"/></defs>'
        '<g clip-path="url(#a-0)"><use href="#a-1" x="1.235"/></g>'
        '<image href="data:image/png;base64,|iVBO0.12345w0K" x="2.999"/>'
        '<clipPath id="a-0"/></svg>'
    )


def test_styles_are_shared() -> None:
    often, seldom = '<path style="fill:none"/>', '<path style="fill:red"/>'
    text = '<text> style="fill:none"</text>'
    page = f'<style>a {{}}</style><p style="fill:none"/><svg>{often * 3}{seldom}{text}</svg>'
    assert share_styles(page) == (
        '<style>a {}.s0 {fill:none}\n.s1 {fill:red}\n</style><p style="fill:none"/><svg>'
        + 3 * '<path class="s0"/>'
        + f'<path class="s1"/>{text}</svg>'
    )
