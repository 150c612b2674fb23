"""`python -m embedbench` is the command `embedbench`."""

from embedbench.cli import main

main()
