"""One thread: the tests' matrices are small, and threads that wait for each other take longer."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch and NumPy are imported
