"""Fingerprints of what runs compute: every learner on every protocol, on small files.

It uses only the command line and the files that the command line writes, so it still works after
the code is rearranged. Run it before and after a change that must not change a result:

    python benchmarks/fingerprints.py --out before.json
    python benchmarks/fingerprints.py --out after.json --against before.json

A row is one run, one embedding file or one refusal. The row of a run holds the SHA-256 of
`predictions.h5` and of parts of `record.json` (settings, logs, scores, …), the metrics, the digests
of stream and files, and the place. With `--against` the exit code is 1 if a row differs, is missing
or is new. Floating-point results depend on the processor and on the versions of the libraries:
compare on one machine, in one environment.

By default everything runs on one core, one process at a time. Of these conditions `--threads` alone
may decide an answer. The case `wide` is large enough for libraries to use several threads:

    python benchmarks/fingerprints.py --case wide --out a.json
    ... --case wide --out b.json --against a.json --jobs 2 --cores 0,1 --omp none
    ... --case wide --out c.json --threads 2
    ... --case wide --out d.json --against c.json --threads 2 --jobs 2 --cores 0,1 --omp 2
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5py

ROOT = Path(__file__).resolve().parents[1]
THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")
Row = dict[str, Any]

# Settings that make a run short, by learner; "" is for every learner that has the setting.
SOM = "som.side=5 som.iterations=300 som.som_iterations=100 som.hold=20 rehearsal.iterations=100"
SMALL = {
    "": "units=32 batch_size=8",
    "offline": "mlp.units=32 mlp.batch_size=8 mlp.stop.rule=epochs mlp.stop.epochs=2",
    "agem": "memory.total=40",
    "bic": "memory.per_class=4",
    "c-fscil": "nudge_steps=5 retrain_steps=3",
    "derpp": "memory.total=40",
    "er": "memory.total=40",
    "ewc": "fisher_samples=50 lam_start=1000",
    "fel": "fel_units=100",
    "fr": "epochs=2 epoch_samples=4 batch_classes=3 batch_samples=4 hidden=16",
    "gdumb": "memory.total=40",
    "geppnet": SOM,
    "geppnet-stm": f"{SOM} memory=20 period=50 sleep=20",
    "icarl": "memory.per_class=4",
    "icarl-cnn": "memory.per_class=4",
    "icarl-norm": "memory.per_class=4",
    "il2m": "memory.per_class=4",
    "lucir": "memory.per_class=4",
    "mas": "lam=30",
    "nc-fscil": "outputs=16",
    "pathnet": "units=8 modules=4 active=2 population=4 batches=3 patience=2 cap=6 val_samples=20",
    "ranpac": "projections=50",
    "si": "c=300",
}
# Defaults that have changed since, at their earlier value, so that rows can be compared over the
# change. Code from before it does not know those that are new: there, empty these.
ICARLS = ("icarl", "icarl-cnn", "icarl-norm")
ICARL = "lr=8e-4 optimiser=nadam"  # its rule and batches are those of every case
EARLIER = {
    "agem": "lr=0.05",
    "derpp": "lr=0.02 updates=1 stop.rule=epochs stop.epochs=20 stop.patience=5 stop.min_steps=30",
    **dict.fromkeys(("er", "er-ace", "er-infinite", "gss", "mir", "remind"), "updates=1"),
    **dict.fromkeys(ICARLS, ICARL),
    "offline": "learner=mlp",
    "ranpac": "lam_rule=session",
    "slda": "shrinkage=1e-4",
}
EARLIER_OF = {"": "scale_least=0", "fscil": "novel=1"}  # of protocols; "": of all
EARLIER_SPLIT = "--no-stratify"  # of `extract`
SURE = {"rank", "score", "logp", "true_logp", "squares", "group"}  # tables that older code lacks
# settings that code from before does not have; what they are, the place of a run says
LATER = (
    *("among", "angles", "classes", "fill", "labels", "lam_rule", "learner", "memory_batch"),
    *("novel", "passes", "replay_by", "replay_weight", "scale_least", "transform", "updates"),
)
LATER_OF = {  # as LATER, of one learner or protocol
    "derpp": ("optimiser_state", "stop"),
    "domain-incremental": ("loss",),
    "permutation": ("loss",),
}
RULES = {
    "epochs": "stop.rule=epochs stop.epochs=2",
    "patience": "stop.epochs=5 stop.patience=1 stop.min_steps=4",
    "plateau": "stop.rule=plateau stop.epochs=5 stop.patience=0 stop.min_steps=0",
}
# name | protocol | files | learners (*: all; trunk: those that have one) | options | settings
# A rule among the settings means the settings of RULES; `big` leaves SMALL out, for presets.
CASES = """
permutation | permutation | a | * | --seeds 0,1 | epochs protocol.sessions=3
classes | incremental-class | a | * | --seeds 0,1 | epochs protocol.step=2
modal | multi-modal | a b | * | --seeds 0,1 | epochs
few-shot | fscil | layers | * | --seeds 0,1 | epochs protocol.way=2
iirc | iirc | tree | * | --seeds 0,1 | epochs protocol.step=3
patience | incremental-class | a | * | --order random | patience protocol.step=3 protocol.evaluate_every=20
plateau | iirc | tree | * | --seed 1 | plateau stop.monitor=pw_js protocol.sessions=3 protocol.information=complete
project | multi-modal | b a | * | --seed 0 | epochs protocol.join=project protocol.width=10 protocol.answers=all
rows | incremental-class | pixels | * | --seed 0 | epochs
trunk-classes | incremental-class | pixels | trunk | --trunk resnet8 --augment crop-flip | epochs
trunk-permutation | permutation | pixels | trunk | --trunk resnet8 | epochs protocol.sessions=2
trunk-iirc | iirc | pixels | trunk | --trunk resnet8 | epochs
kemker | incremental-class | a | mlp,ewc,fel | --preset kemker | big fel.fel_units=100 protocol.sessions=3
league | incremental-class | a | mlp,joint,ewc,si,mas,lwf,icarl,bic,lucir,il2m | --preset league | big stop.epochs=3 protocol.sessions=3
iirc-preset | iirc | tree | mlp,joint,er,er-infinite,agem,icarl,icarl-norm,bic,lucir | --preset iirc | big stop.epochs=3 stop.first_epochs=4
fr-preset | fscil | layers | fr | --preset fr-short | big fr.epochs=2
variants | incremental-class | a | ewc,lwf,icarl,joint,ncm,slda,ranpac,il2m,prototype,fecam,mlp,er | --seed 2 | epochs protocol.sessions=4 optimiser_state=kept ewc.fisher=empirical ewc.merge=online ewc.lam=10 lwf.memory.per_class=3 icarl.memory.select=random joint.weights=kept ncm.metric=cosine slda.freeze=true slda.base_samples=60 ranpac.lam=1 il2m.rectified=logits prototype.classifier.base=trained fecam.covariance=base
optimiser | incremental-class | a | mlp,si,gdumb | --seed 0 | epochs optimiser=adam
tune | incremental-class | a | mlp,lwf | --tune mlp.lr=0.01,0.001 --tune lwf.lam=1,3 --tune-sessions 2 | epochs protocol.sessions=4
budget | incremental-class | a | er,icarl | --budget-mb 0.02 | epochs
one-seed | incremental-class | a | mlp,er | --seed 0 | epochs seeds.batches=1
checkpoint | incremental-class | a | ewc,icarl | --checkpoint 0 | patience
wide | incremental-class | wide | * | --seed 0 | epochs protocol.step=8 units=400 batch_size=64 ranpac.projections=2000
"""  # noqa: E501  (a table; a line is a case)
ON_REQUEST = ("wide",)  # cases that are left out without `--case`
EXTRACTS = {
    "images": "--backbone none --size 8",
    "values": "--backbone pixels --size 6 --split 0.4",
    "shipped": "--backbone tf_efficientnet_lite0 --weights shipped --size 32",
}


@dataclass(frozen=True)
class Case:
    """One call of `embedbench run`: a line of `CASES`."""

    name: str
    protocol: str
    files: list[str]
    learners: str
    options: list[str]
    settings: list[str]

    @classmethod
    def of(cls, line: str) -> Case:
        name, protocol, files, learners, options, settings = map(str.strip, line.split("|"))
        h5 = [f"{file}.h5" for file in files.split()]
        return cls(name, protocol, h5, learners, options.split(), settings.split())

    def items(self, learners: Sequence[str]) -> list[str]:
        """The values of `--set` for these learners."""
        items = [
            f"protocol.{EARLIER_OF[name]}" for name in ("", self.protocol) if name in EARLIER_OF
        ]
        named = {item.partition("=")[0] for item in self.settings}
        preset = "--preset" in self.options  # names what it needs
        every = dict.fromkeys(("offline", *(() if preset else learners)))
        for name in every:
            then = EARLIER.get(name, "").split()
            if name in ICARLS and "patience" in self.settings:
                then.append("stop.rule=patience")  # their rule where none is named
            items += [f"{name}.{item}" for item in then if item.partition("=")[0] not in named]
        if "big" not in self.settings:
            for name in ("", "offline", *learners):
                start = f"{name}." if name else ""
                items += [start + item for item in SMALL.get(name, "").split()]
        for item in self.settings:
            items += RULES[item].split() if item in RULES else [item] if item != "big" else []
        return items


def sha(data: Any) -> str:
    """SHA-256 of bytes, or of the JSON text of a value."""
    text = data if isinstance(data, bytes) else json.dumps(data, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()


def embedbench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command of this checkout's `embedbench` in `folder`."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "embedbench", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def made(folder: Path, *words: str) -> str:
    """Run a command that must not fail; return what it printed."""
    done = embedbench(folder, *words)
    if done.returncode:
        sys.exit(f"embedbench {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def file_row(path: Path) -> Row:
    """The digests of an embedding file."""
    with h5py.File(path) as file:
        digests = {key: str(file["digests"].attrs[key]) for key in file["digests"].attrs}
        return {"digests": digests, "shape": list(file["features"].shape)}


def write_files(folder: Path) -> dict[str, Row]:
    """Write all embedding files; return a row for each."""
    sys.path.append(str(ROOT / "tools"))
    from small_files import write_images, write_sources

    for name in write_sources(folder):
        made(folder, "import", f"{name}.npz", "--out", f"{name}.h5")
    write_images(folder / "png")
    for name, options in EXTRACTS.items():
        options = f"{options} {EARLIER_SPLIT}"
        out = f"extracted-{name}.h5"
        made(folder, "extract", "png", "--out", out, "--device", "cpu", *options.split(), "-q")
    return {f"file {path.stem}": file_row(path) for path in sorted(folder.glob("*.h5"))}


def refusals(case: Case, folder: Path, learners: list[str], how: list[str]) -> dict[str, str]:
    """Run a case; return the reason of each failed run, or of the refusal of the command."""
    out = ["--out", case.name, *how, "--device", "cpu", "--json", "--quiet"]
    items = [word for item in case.items(learners) for word in ("--set", item)]
    what = ["--protocol", case.protocol, "--learner", ",".join(learners)]
    done = embedbench(folder, "run", *case.files, *what, *out, *case.options, *items)
    try:
        failed = json.loads(done.stdout)["failed"]
    except (ValueError, KeyError):
        return {"command": (done.stderr.strip() or "no answer").splitlines()[-1]}
    return {f"{f['learner']} seed {f['seed']}": f["reason"] for f in failed}


def answers_sha(path: Path) -> str:
    """SHA-256 of the tables of predictions, but for those on how sure a learner was."""
    with h5py.File(path) as file:
        names = sorted({*file} - SURE)
        return sha(b"".join(name.encode() + file[name][()].tobytes() for name in names))


def run_row(place: Path, root: Path) -> Row:
    """The fingerprint of one run."""
    record = json.loads((place / "record.json").read_text())
    plain = ("digests", "files", "metrics", "notes", "n_train", "n_classes", "n_candidates")
    hashed = ("by_score", "classes", "footprint", "order", "reference", "seeds", "tuning")
    params = record["learner_params"], record["protocol_params"]
    later = [k for k in LATER if (record["learner"], k) != ("gss", "updates")]  # gss had it
    for name in (record["learner"], record["protocol"]):
        later += LATER_OF.get(name, ())
    settings = [{k: v for k, v in every.items() if k not in later} for every in params]
    if record["protocol"] == "incremental-class":
        settings[1].pop("layers", None)
    return {
        "place": place.relative_to(root).as_posix(),
        "predictions": answers_sha(place / "predictions.h5"),
        "settings": sha(settings),
        "logs": sha([session["log"] for session in record["sessions"]]),
        "threads": record["environment"]["threads"],
        **{key: record[key] for key in plain},
        **{key: sha(record.get(key)) for key in hashed},
    }


def run_rows(case: Case, folder: Path) -> Iterator[tuple[str, Row]]:
    """A named row for each run in a case's directory, reference runs included."""
    root = folder / case.name
    rows = []
    for path in root.rglob("record.json"):
        record = json.loads(path.read_text())
        seeds = " ".join(f"{k}={v}" for k, v in sorted(record["seeds"].items()))
        files = " ".join(file["name"] for file in record["files"])
        name = f"{case.name}: {record['learner']} seed {record['seed']} of {files} ({seeds})"
        rows.append((name, run_row(path.parent, root)))
    times: Counter[str] = Counter()
    for name, row in sorted(rows, key=lambda pair: (pair[0], pair[1]["place"])):
        times[name] += 1
        yield name + (f" #{times[name]}" if times[name] > 1 else ""), row


def fingerprints(
    folder: Path, only: Sequence[str], how: list[str], learners: list[str]
) -> dict[str, Row]:
    """Every row; `how` are options of each run, `learners` those of a case that takes all."""
    rows = write_files(folder)
    every = [entry["name"] for entry in json.loads(made(folder, "list", "learners", "--json"))]
    trunks: set[str] = set()
    for case in map(Case.of, CASES.strip().splitlines()):
        if case.name not in only if only else case.name in ON_REQUEST:
            continue
        start = time.perf_counter()
        chosen = {"*": learners or every, "trunk": [name for name in every if name in trunks]}
        taught = chosen.get(case.learners) or case.learners.split(",")
        failed = refusals(case, folder, taught, how)
        case_rows = dict(run_rows(case, folder))
        for path in (folder / case.name).rglob("record.json"):
            record = json.loads(path.read_text())
            trunks |= {record["learner"]} if "trunk" in record["learner_params"] else set()
        rows |= case_rows
        for what, reason in failed.items():
            rows[f"{case.name}: {what} refused"] = {"refused": reason}
        seconds = time.perf_counter() - start
        print(
            f"{case.name}: {len(case_rows)} runs, {len(failed)} refused, {seconds:.0f} s",
            flush=True,
        )
    return dict(sorted(rows.items()))


def compare(before: dict[str, Row], after: dict[str, Row]) -> int:
    """Print how the rows differ; return how many do."""
    differ = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        differ += 1
        if old is None or new is None:
            print(f"{'new    ' if old is None else 'missing'}    {name}")
            continue
        fields = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
        print(f"different  {name}: {', '.join(fields)}")
    both = before.keys() & after.keys()
    equal = sum(before[name] == after[name] for name in both)
    print("\n| rows | equal | different | missing | new |\n|---|---|---|---|---|")
    missing, new_rows = len(before.keys() - after.keys()), len(after.keys() - before.keys())
    print(f"| {len(after)} | {equal} | {len(both) - equal} | {missing} | {new_rows} |")
    return differ


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--against", type=Path, help="an earlier one to compare with")
    parser.add_argument("--case", nargs="*", default=[], help="these cases only")
    parser.add_argument("--learner", nargs="*", default=[], help="these only, where a case has all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--threads", type=int, default=1, help="threads of a run")
    parser.add_argument("--cores", default="0", help="those that may be used: 0 or 0,1")
    parser.add_argument("--omp", default="1", help="OMP_NUM_THREADS and the like, or none")
    options = parser.parse_args()
    os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    for name in THREADS:
        os.environ.pop(f"{name}_NUM_THREADS", None)
        if options.omp != "none":
            os.environ[f"{name}_NUM_THREADS"] = options.omp
    how = ["--jobs", str(options.jobs), "--threads", str(options.threads)]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = fingerprints(Path(folder), options.case, how, options.learner)
    names = ("torch", "numpy", "h5py")
    versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
    versions["machine"] = platform.machine()
    options.out.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1) + "\n")
    print(f"{len(rows)} rows in {time.perf_counter() - start:.0f} s")
    if options.against:
        before = json.loads(options.against.read_text())
        if before["versions"] != versions:
            print(f"versions differ: {before['versions']} and {versions}")
        cases = ["file ", *(f"{case}: " for case in options.case)]
        old = {k: v for k, v in before["rows"].items() if k.startswith(tuple(cases))}
        sys.exit(compare(old if options.case else before["rows"], rows) > 0)


if __name__ == "__main__":
    main()
