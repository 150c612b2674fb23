"""Protocols, one per file; the file's stem with dashes is the name on the command line."""
