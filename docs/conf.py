"""The site of docs/, built by Sphinx: `make docs`. It needs no network."""

from __future__ import annotations

import sys
from pathlib import Path
from tomllib import loads

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

about = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
project = "embedbench"
author = copyright = "The embedbench developers"
version = release = about["version"]
extensions = [
    "myst_nb",  # Markdown, and the notebooks of tutorials/
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "repository",
    "reference",
]
exclude_patterns = ["_build", "_ext", "README.md", "**.ipynb_checkpoints"]
myst_enable_extensions = ["deflist", "html_image"]
myst_heading_anchors = 4
highlight_language = "text"
smartquotes = False  # what stands in quotes is often typed

# Single backticks are literals in our docstrings.
default_role = "literal"
napoleon_google_docstring = False
autodoc_typehints = "none"  # the docstrings have the types
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
napoleon_preprocess_types = True
napoleon_type_aliases = {
    "Path": "~pathlib.Path",
    "array": "~numpy.ndarray",
    "dtype": "~numpy.dtype",
    "sequence": "~collections.abc.Sequence",
    "callable": "~collections.abc.Callable",
    "mapping": "~collections.abc.Mapping",
    "AnyPredictions": "~embedbench.scores.predictions.Predictions",  # or LabelSets
}

nitpicky = True
nitpick_ignore_regex = [  # of other projects, whose pages are on the network; and inner types
    ("py:class", r"(pathlib|collections|numpy|torch)\..*|Answers|Bytes|Scaling|RunRecord|Table"),
]

nb_execution_mode = "force"  # a page says what this code does, not what earlier code did
nb_execution_timeout = 600  # seconds a cell, on a busy machine
nb_execution_raise_on_error = True

html_theme = "furo"
html_title = "embedbench"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
