"""HTML pages: one file each, which loads nothing."""

from importlib import resources

from embedbench.text.printable_text import printable
from embedbench.version import __version__


def page(template: str, **values: object) -> str:
    """Fill in a template from the assets; values are escaped.

    Texts lose their control characters but ends of lines. Every template also gets `version` and
    `css`, the style sheet. A name that a template does not get is an error.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def plain(value: object) -> object:
        """A text without control characters; what a macro made is `Markup` and has none."""
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return printable(str(value), lines=True) if is_text else value

    environment = Environment(
        loader=PackageLoader("embedbench", "assets"),
        autoescape=True,
        finalize=plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css = (resources.files("embedbench") / "assets" / "report.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(version=__version__, css=css, **values)
