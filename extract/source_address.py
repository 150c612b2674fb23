"""The address of a source that a library reads: `hfds/NAME?KEY=VALUE&KEY=VALUE@PLACE`."""

from collections.abc import Collection

from embedbench.errors import UserError, unknown


def parse_address(source: str) -> tuple[str, dict[str, str], str]:
    """Return the name behind its prefix, the options, and the text after `@`.

    >>> parse_address("hfds/org/set?label=wnid&domain=@main")
    ('org/set', {'label': 'wnid', 'domain': ''}, 'main')
    """
    address, _, place = source.partition("@")
    address, _, query = address.partition("?")
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        key, equals, value = pair.partition("=")
        if not equals or key in options:
            raise UserError(
                f"{source} has {pair!r} behind its '?'; expected KEY=VALUE&KEY=VALUE, each key "
                "once, and quotes around the whole in a shell."
            )
        options[key] = value
    return address.partition("/")[2], options, place


def check_options(options: Collection[str], known: Collection[str], source: str) -> None:
    """Raise UserError for an option that a source does not have."""
    for key in options:
        if key not in known:
            raise unknown(f"option of {source}:", key, known)
