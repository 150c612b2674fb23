"""The site of the repository's Markdown, built by Sphinx: `make docs`. It needs no network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().with_name("_ext")))

project = html_title = "embedbench"
author = copyright = "The embedbench developers"
extensions = [
    *("sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"),
    *("myst_nb", "from_code"),  # Markdown, and the notebooks of tutorials/; our own
]
root_doc = "docs/index"
include_patterns = [
    *("README.md", "C*.md", "docs/**.md", "docs/tutorials/*.ipynb"),
    "embedbench/assets/NOTICE.md",
]
exclude_patterns = ["docs/_*", ".*", "runs", "tests"]
myst_enable_extensions = ["deflist", "html_image"]
myst_heading_anchors = 4
highlight_language = "text"
smartquotes = False  # what stands in quotes is often typed

default_role = "literal"  # single backticks are literals in our docstrings
autodoc_typehints = "none"  # the docstrings have the types
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
# Types that have no page.
nitpick_ignore_regex = [("py:class", "any JSON|[a-z ]+|Path|Table|Answers|Bytes|Scaling")]

nb_execution_mode = "force"  # a page says what this code does, not what earlier code did
nb_execution_timeout = 600  # seconds a cell, on a busy machine
nb_execution_in_temp = True  # what a notebook saves is no page
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress

html_theme = "furo"
html_extra_path = ["_root"]  # index.html, which leads to docs/index.html
html_static_path = ["_static"]
html_css_files = ["site.css"]
