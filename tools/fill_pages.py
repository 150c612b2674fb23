"""Put what the site shows of the code into the pages of the repository, below their comments.

`python tools/fill_pages.py` after a change of a learner's first line, a preset's source, an order,
the tables of a study or the results of a paper; a test says when.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PLACES = ("agreement.md", "floor.md", "reference/*.md", "results/*.md", "studies/*.md")


def pages() -> list[Path]:
    """The pages that may have such a comment."""
    return [path for place in PLACES for path in sorted(DOCS.glob(place))]


def main() -> None:
    """Fill in all pages; print those that changed."""
    sys.path.insert(0, str(DOCS / "_ext"))
    import from_code

    for path in pages():
        before = path.read_text(encoding="utf-8")
        after = from_code.fill_in_repository(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
