"""Licences by the names that the Hugging Face hub knows.

**Source** https://huggingface.co/docs/hub/repositories-licenses, those that fit data.
"""

import re

UNKNOWN = "unknown"
NOT_STATED = ("", "not stated", UNKNOWN)
_HUB = {
    *("apache-2.0", "mit", "openrail", "bigscience-openrail-m", "creativeml-openrail-m", "afl-3.0"),
    *("artistic-2.0", "bsl-1.0", "bsd", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear"),
    *("c-uda", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0"),
    *("cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0"),
    *("cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0"),
    *("cc-by-nc-sa-4.0", "cdla-sharing-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "wtfpl"),
    *("ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "agpl-3.0", "gfdl", "gpl"),
    *("gpl-2.0", "gpl-3.0", "lgpl", "lgpl-2.1", "lgpl-3.0", "isc", "mpl-2.0", "odc-by", "odbl"),
    *("osl-3.0", "postgresql", "ofl-1.1", "ncsa", "unlicense", "zlib", "pddl", "unknown"),
}
_ALIASES = {"cc0": "cc0-1.0", "public-domain": "pddl", "apache-2": "apache-2.0"}


def is_stated(licence: str) -> bool:
    """Whether a licence is one; "not stated" and "unknown" are none."""
    return licence.strip().lower() not in NOT_STATED


def hub_licence(licence: str) -> dict[str, str]:
    """Return the keys of the hub's metadata that say a licence.

    >>> hub_licence("CC BY 4.0")
    {'license': 'cc-by-4.0'}
    >>> hub_licence("research only, see https://example.org/terms")
    {'license': 'other', 'license_name': 'research-only', 'license_link': 'https://example.org/terms'}
    >>> hub_licence("")
    {'license': 'unknown'}
    """
    if not is_stated(licence):
        return {"license": UNKNOWN}
    link = re.search(r"https?://[^\s<>()\"']+", licence)
    words = re.sub(r",?\s*(see )?https?://\S+", "", licence, flags=re.IGNORECASE)
    name = re.sub(r"[^a-z0-9.+]+", "-", words.lower()).strip("-.")
    name = _ALIASES.get(name, name)
    if name in _HUB and link is None:
        return {"license": name}
    keys = {"license": "other", "license_name": name[:60] or "custom"}
    return {**keys, "license_link": link[0]} if link else keys
