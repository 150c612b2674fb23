"""All measurements on a graphics card, in one command with a time limit that can be resumed.

    python benchmarks/gpu.py [--out DIR] [--parts answers extraction …] [--minutes 9]

It makes its own data and downloads nothing. Results are written to DIR/gpu.json, from which the
next call resumes, and to DIR/gpu.md. A step that breaks, hangs or kills its process becomes a line
of the table, and the other steps still run. `benchmarks/README.md` explains the table.

Extraction beside a plain loop with timm is two calls of at most five minutes; the second goes on
where the first ended:

    python benchmarks/gpu.py --minutes 5 --parts extraction
    python benchmarks/gpu.py --minutes 5 --parts extraction
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tools"), str(ROOT)]

from gpu_parts.machine import describe  # noqa: E402  (the path is set above)
from gpu_parts.state import State  # noqa: E402  (likewise)
from gpu_parts.step import Bench, Step  # noqa: E402  (likewise)
from gpu_parts.table import markdown  # noqa: E402  (likewise)
from gpu_parts.worker import Worker  # noqa: E402  (likewise)

PARTS = {
    "answers": "Answers on the card against the CPU, and twice on the card",
    "extraction": "Extraction",
    "runs": "`run`: the emoji league, permuted MNIST, several cells on one card",
    "images": "Training on images: ResNet-32, and FR's paper schedule",
    "conformance": "The conformance suite on the card",
}
STARTING = 15.0  # seconds until a part's process is ready, on the card
LONGER = 3.0  # a step hangs if it takes this many times the expected seconds


def steps_of(part: str) -> list[Step]:
    """The steps of a part, in their order."""
    steps: list[Step] = importlib.import_module(f"gpu_parts.{part}").steps()
    return steps


def drive(
    plan: Sequence[Step],
    state: State,
    deadline: float,
    start: Callable[[str], Worker],
    save: Callable[[], None],
    *,
    toy: bool = False,
) -> None:
    """Run the steps that are not done yet, until a time of `time.monotonic`; save after each.

    Every part has a process of its own, which `start` starts.
    """
    part, worker = "", None
    try:
        for step in plan:
            if step.name in state.steps:
                continue
            if worker and (part != step.part or not worker.alive):
                worker.end()
                worker = None
            expected = 0.1 if toy else step.seconds + (0 if worker else STARTING)
            left = deadline - time.monotonic()
            if left < expected:
                why = f"time is up: about {expected:.0f} s are needed, {max(left, 0):.0f} were left"
                state.missing[step.name] = why
                continue
            part, worker = step.part, worker or start(step.part)
            limit = max(60.0, LONGER * step.seconds) + STARTING
            answer = worker.ask(step, min(left, limit))
            seconds = answer["seconds"]
            if not answer.get("late"):
                word = answer.get("error", "done")
            else:
                hung = left > limit
                word = f"{'hung: killed' if hung else 'time is up: cut off'} after {seconds:.0f} s"
                answer = {"error": word, "seconds": seconds} if hung else {}
            if answer:
                state.done(step.name, answer)
            else:
                state.missing[step.name] = word
            print(f"{step.name}: {word} ({seconds:.1f} s)", file=sys.stderr, flush=True)
            save()
    finally:
        if worker:
            worker.end()
        save()


def arguments() -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("gpu"), help="directory of gpu.json and gpu.md")
    parts = f"{', '.join(PARTS)}, or the beginning of a step's name, as images/fr"
    add("--parts", nargs="+", default=list(PARTS), metavar="PART", help=parts)
    add("--minutes", type=float, default=9.0, help="time limit")
    add("--again", choices=("broke", "all"), help="repeat the steps that broke, or all")
    add("--list", action="store_true", help="name the steps and end")
    add("--device", default="cuda", help="cpu: to try the script itself")
    add("--toy", action="store_true", help="everything small; the figures mean nothing")
    return parser.parse_args()


def main() -> None:
    """Run what is missing, until the time is up."""
    began = time.monotonic()
    args = arguments()
    every = [step for part in PARTS for step in steps_of(part)]
    plan = [s for s in every if any(_under(s.name, part) for part in args.parts)]
    if not plan:
        raise SystemExit(f"no step is called {' or '.join(args.parts)}; --list names all")
    if args.list:
        for step in plan:
            print(f"{step.seconds:4.0f} s  {step.name}")
        return
    _check_device(args.device)
    state = State(args.out, args.device, args.toy)
    if args.again:
        broke = {name for name, step in state.steps.items() if "error" in step}
        for name in {s.name for s in plan if args.again == "all" or s.name in broke}:
            state.steps.pop(name, None)
    state.begin(describe(args.device))
    names = [step.name for step in every]

    def save() -> None:
        state.save(time.monotonic() - began)
        page = markdown(state.data, names, PARTS)
        (args.out / "gpu.md").write_text(page, encoding="utf-8")

    def start(part: str) -> Worker:
        folder = Path(scratch) / part
        folder.mkdir(exist_ok=True)
        return Worker(Bench(args.device, args.toy, folder))

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops as Ctrl-C does: all is saved
    with tempfile.TemporaryDirectory(prefix="embedbench-gpu-") as scratch:
        end = began + 60 * args.minutes
        with contextlib.suppress(KeyboardInterrupt):
            drive(plan, state, end, start, save, toy=args.toy)
    waiting = [name for name in names if name not in state.steps]
    broke = sum("error" in step for step in state.steps.values())
    done = len(state.steps) - broke
    print(f"{done} of {len(names)} steps are done, {broke} broke: {args.out / 'gpu.md'}")
    for name in waiting:
        if name in state.missing:
            print(f"missing  {name}: {state.missing[name]}")


def _under(name: str, part: str) -> bool:
    return name == part or name.startswith(part.rstrip("/") + "/")


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SystemExit(f"there is no device {device!r} here ({reason}); --device cpu --toy tries "
                         "the script itself") from error  # fmt: skip


if __name__ == "__main__":
    main()
