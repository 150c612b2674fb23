"""Protocols, one a file; the file's stem with dashes is the name on the command line."""
