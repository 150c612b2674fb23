"""Build the site, of docs/ and the pages beside it, into docs/_build/html; a warning is an error.

Needs no network. The build itself checks links; tests check those to files of the repository.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx

DOCS = Path(__file__).resolve().parents[1] / "docs"
BUILT = DOCS / "_build"
OPTIONS = ("-q", "-n", "-W", "--keep-going", "-E", "-a", "-b", "html")
ARTICLE = re.compile(r'<article[^>]*role="main"[^>]*>(.*?)</article>', re.DOTALL)


def main() -> None:
    """Build everything anew; print the seconds, pages and words."""
    began = time.perf_counter()
    folders = ("-d", BUILT / "doctrees", "-c", DOCS, DOCS.parent, BUILT / "html")
    failed = sphinx([*OPTIONS, *map(str, folders)])
    if failed:
        sys.exit(failed)
    built = sorted((BUILT / "html").rglob("*.html"))
    articles = [ARTICLE.search(page.read_text(encoding="utf-8")) for page in built]
    texts = [re.sub(r"<[^>]+>", " ", found[1]) for found in articles if found]
    words = sum(len(text.split()) for text in texts)
    seconds = time.perf_counter() - began
    print(f"{len(texts)} pages, {words:,} words, {seconds:.0f} s, no warnings: {BUILT / 'html'}")


if __name__ == "__main__":
    main()
