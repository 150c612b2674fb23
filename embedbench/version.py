"""The version of embedbench."""

__version__ = "0.1.0"
