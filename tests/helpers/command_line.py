"""A command in this process: its exit code, what it prints, and the exception that ends it."""

from typing import Any

from typer.testing import CliRunner

from embedbench.cli.app import app


def embedbench(*words: object) -> Any:
    """Run `embedbench WORDS`."""
    return CliRunner().invoke(app, [str(word) for word in words])
