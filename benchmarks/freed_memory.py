"""Time saved by keeping freed memory: steps of a small network on images, one CPU thread.

    python benchmarks/freed_memory.py [--rounds 3]

The two sides run in turn, in separate processes. The table has the CPU time of a step, its part in
the kernel, and the peak memory; the ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

SHAPES = ((32, 64), (32, 256), (64, 128))  # pixels, batch
STEPS = 8


def measure(kept: bool) -> list[dict[str, float]]:
    """Measure one side: for each shape, seconds per step, those in the kernel, and peak MB."""
    import torch

    from embedbench.learning.image_training import ImageTraining
    from embedbench.learning.trunk import image_trunk
    from embedbench.system.keep_freed_memory import keep_freed_memory

    torch.set_num_threads(1)
    if kept:
        keep_freed_memory()
    results = []
    for size, batch in SHAPES:
        trunk, _ = image_trunk("resnet8", (3, size, size), ImageTraining())
        x = torch.randn(batch, 3, size, size)
        for step in range(STEPS + 2):
            if step == 2:  # the first two are not counted
                began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF)
            trunk.zero_grad()
            trunk(x).square().mean().backward()
        seconds, after = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF)
        kernel = after.ru_stime - before.ru_stime
        values = {"step": seconds / STEPS, "kernel": kernel / STEPS, "mb": after.ru_maxrss / 1024}
        results.append(values)
    return results


def main() -> None:
    """Run the sides in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=("default", "kept"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args.side == "kept")))
        return
    rounds = []
    for turn in range(args.rounds):
        sides = ("default", "kept") if turn % 2 == 0 else ("kept", "default")
        command = [sys.executable, __file__, "--side"]
        made = {s: subprocess.run([*command, s], check=True, stdout=subprocess.PIPE) for s in sides}
        rounds.append({s: json.loads(m.stdout) for s, m in made.items()})
    print("| pixels | batch | side | CPU ms a step | in the kernel | MB | ratio |")
    print("|---|---|---|---|---|---|---|")
    for k, (size, batch) in enumerate(SHAPES):
        ratio = statistics.median(r["kept"][k]["step"] / r["default"][k]["step"] for r in rounds)
        for side in ("default", "kept"):
            step, kernel, mb = (
                statistics.median(r[side][k][name] for r in rounds) for name in rounds[0][side][k]
            )
            ratio_text = f"{ratio:.2f}" if side == "kept" else "1.00"
            print(
                f"| {size} | {batch} | {side} | {1e3 * step:.0f} | {1e3 * kernel:.0f} | "
                f"{mb:.0f} | {ratio_text} |"
            )


if __name__ == "__main__":
    main()
