"""The parts of `gpu.py`, one module per part, and the code that they share."""
