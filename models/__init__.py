"""Learners, one per file; the stem of the file is the learner's name on the command line."""
