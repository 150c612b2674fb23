"""HTML pages: one file each, which loads nothing."""

from __future__ import annotations

from importlib import resources

from embedbench.version import __version__


def page(template: str, **values: object) -> str:
    """Fill in a template from the assets; values are escaped.

    Every template also gets `version`, `css`, `colours` and `dark_colours`.
    """
    from jinja2 import Environment, StrictUndefined

    from .svg import COLOURS, DARK_COLOURS

    assets = resources.files("embedbench") / "assets"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = (assets / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        version=__version__,
        css=(assets / "report.css").read_text(encoding="utf-8"),
        colours=COLOURS,
        dark_colours=DARK_COLOURS,
        **values,
    )
