"""The text of an audit: what the field's libraries would print for one run."""

from __future__ import annotations

from typing import Any

from embedbench.scores.audit import GROUPS

FOOTER = "a letter joins what agrees on this run; per sample, sessions from 0, L the last"


def audit_text(result: list[dict[str, Any]]) -> str:
    """The definitions of `audit` and their values as text, group by group."""
    lines: list[str] = []
    for group in GROUPS:
        members = [e for e in result if e["group"] == group]
        known = {e["same"]: 100 * e["value"] for e in members if e["same"]}
        low, high = min(known.values(), default=0), max(known.values(), default=0)
        spread = f"{low:.2f} to {high:.2f} %" if known else "undefined"
        lines += [f"{group}: {len(members)} definitions, {len(known)} values, {spread}", ""]
        for e in members:
            value = f"{100 * e['value']:7.2f} %" if e["same"] else "        –"
            lines.append(f"{value}  {e['same'] or ' '}  {e['name']}: {e['formula']}")
            lines += [f"{'':14}{source}" for source in e["sources"]]
        lines.append("")
    return "\n".join([*lines, FOOTER])
