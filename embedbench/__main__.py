"""`python -m embedbench` is the command `embedbench`."""

from embedbench.cli.app import main

if __name__ == "__main__":
    main()
