"""Learners, one a file; the file's stem is the name on the command line."""
