"""FEL's rows of MNIST in Kemker et al. (2018), Table 2, under every reading of the paper.

    embedbench import mnist --out mnist.h5
    python benchmarks/run_fel.py mnist.h5 --out fel-runs [--reading fel-2012 …]

The rule was written down before any reading was run (docs/fidelity.md, "FEL's MNIST rows"): seed 0,
whole epochs, no early stopping; D is the sum of |ours - printed| over the six Ω; the reading with
the smallest D is the nearest. Each reading is two commands, which are printed; finished runs are
kept, so that the script goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from embedbench.papers.paper_folders import facts

HERE = Path(__file__).parent
OMEGAS = ("omega_base", "omega_new", "omega_all")
INCREMENTAL, PERMUTATION = "incremental-class", "permutation"
SHARE = {INCREMENTAL: 0.55, PERMUTATION: 0.9}  # of the training digits that are left out
FEW = 0.95  # leaves 3,000 digits, for readings of many steps
SLOW = {"batches of one", "codes of 2013"}
READINGS = {  # name: learner, settings
    "Table S5 as printed": ("fel", ""),
    "rate / 10 later": ("fel", "lr_later=2e-3"),
    "±1": ("fel-2012", ""),
    "±1, rate / 10 later": ("fel-2012", "lr_later=2e-3"),
    "SGD of S7": ("fel", "optimiser=sgd lr=0.1"),
    "SGD of S7, ±1": ("fel-2012", "optimiser=sgd lr=0.1"),
    "one sign, rate / 10 later": ("fel-2012", "k_pos=50 k_neg=0 lr_later=2e-3"),
    "batches of one": ("fel-2012", "batch_size=1 optimiser=sgd lr=1e-3 stop.epochs=1"),
    "plateau never reset": ("fel_readings:Plateau", ""),
    "ensemble of three": ("fel_readings:Ensemble", ""),
    "codes of 2013": ("fel_readings:Codes", ""),
}


def command(file: str, reading: str, protocol: str, out: Path) -> list[str]:
    """The command of a reading's row."""
    learner, settings = READINGS[reading]
    items = [f"protocol.val_fraction={FEW if reading in SLOW else SHARE[protocol]}"]
    items += ["protocol.sessions=3"] if protocol == PERMUTATION else []
    items += ["offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=10"]
    items += [f"{learner}.stop.rule=epochs", f"{learner}.stop.epochs=3"]
    items += [f"{learner}.{item}" for item in settings.split()]
    words = ["run", file, "--protocol", protocol, "--learner", learner, "--out", str(out)]
    return [*words, *(word for item in items for word in ("--set", item))]


def omegas(words: list[str]) -> list[float]:
    """Ω_base, Ω_new and Ω_all of a command's run."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    line = [sys.executable, "-m", "embedbench", *words, "--jobs", "1", "--json", "--quiet"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    made = subprocess.run(line, env=env, check=True, stdout=subprocess.PIPE)
    (table,) = json.loads(made.stdout)["tables"]
    learner = words[words.index("--learner") + 1]
    (row,) = [r for r in table["rows"] if r["learner"] == learner]
    return [row["metrics"][name]["mean"] for name in OMEGAS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--out", type=Path, default=Path("fel-runs"))
    parser.add_argument("--reading", nargs="*", choices=[*READINGS], default=[*READINGS])
    asked = parser.parse_args()
    rows = facts("kemker2018")["printed"]["tables"]["2"]
    printed = {
        protocol: [r[name] for name in OMEGAS]
        for protocol in (PERMUTATION, INCREMENTAL)
        for r in rows
        if (r["learner"], r["data"], r["protocol"]) == ("fel", "mnist", protocol)
    }
    print("| reading | permutation | incremental class | D |\n|---|---|---|---|")
    print("| *the paper* |", " | ".join(text(v) for v in printed.values()), "| |")
    for name in asked.reading:
        ours = {}
        for protocol in printed:
            words = command(asked.file, name, protocol, asked.out)
            print("embedbench", shlex.join(words), file=sys.stderr)
            ours[protocol] = omegas(words)
        pairs = [p for k in printed for p in zip(ours[k], printed[k], strict=True)]
        distance = sum(abs(a - b) for a, b in pairs)
        cells = " | ".join(text(v) for v in ours.values())
        print(f"| {name} | {cells} | {distance:.2f} |", flush=True)


def text(values: list[float]) -> str:
    """Three Ω as tables print them."""
    return " / ".join(f"{v:.3f}".removeprefix("0") for v in values)


if __name__ == "__main__":
    main()
