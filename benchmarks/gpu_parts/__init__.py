"""The parts of `gpu.py`, one module a part, and what they share."""
