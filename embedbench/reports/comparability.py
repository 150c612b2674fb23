"""Which runs may be averaged, and which may be set side by side: their digests decide."""

import json
from collections.abc import Sequence

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.scores.run_record import RunRecord

# Settings of protocols that records made before there was a choice lack.
LATER = {"loss": "all", "embedding": "final"}
LOSSES = {"all": "loss over all classes of the stream", "seen": "loss over the classes seen"}


def loss_classes(run: RunRecord) -> str:
    """The classes that the loss of a learner may use, in words; empty where no protocol says it."""
    loss = run.protocol_params.get("loss")
    return f"{LOSSES[loss]} (protocol.loss={loss})" if loss in LOSSES else ""


def stream_title(run: RunRecord) -> str:
    """Protocol and file names; and what the loss or the learner sees, if that is not the usual."""
    given = {k: run.protocol_params.get(k, usual) for k, usual in LATER.items()}
    other = [f"{k}={value}" for k, value in given.items() if value != LATER[k]]
    return " · ".join([run.protocol, ", ".join(f.name for f in run.files), *other])


def check_average(records: Sequence[RunRecord], place: str = "") -> None:
    """Refuse to average runs of different streams, learners or scores, or the same run twice.

    Seeds may differ, and with them `train` and `eval`; `recipe` and `features` must agree.
    """
    doing = f"cannot average the runs of {records[0].learner!r}{_at(place)}"
    remedy = "keep the runs of each in a directory of its own (another --out)"
    for key in ("learner", "learner_params", "protocol"):
        values = [json.dumps(getattr(r, key), sort_keys=True) for r in records]
        _check_same(records, key, values, doing)
    for key in ("recipe", "features"):
        _check_same(records, f"{key} digest", [getattr(r.digests, key) for r in records], doing)
    shapes = [f"{len(r.R)} x {len(r.R[0]) if r.R else 0}" for r in records]
    _check_same(records, "shape of R", shapes, doing)
    _check_same(records, "preset of Ω", [r.reference.preset for r in records], doing)
    seen: dict[Seeds, RunRecord] = {}
    for r in records:
        if r.seeds in seen:
            raise UserError(
                f"{doing}: expected every run once, got {_who(seen[r.seeds])} and {_who(r)} with "
                f"the same four seeds; {remedy}"
            )
        seen[r.seeds] = r


def check_comparable(records: Sequence[RunRecord], place: str = "") -> None:
    """Refuse to compare learners that did not have the same data.

    Runs with the same order seed must agree in `train`, `eval` and `features`. Runs with different
    order seeds are compared by their means, so they must agree in `recipe` and `features`.
    """
    doing = f"cannot set these runs side by side{_at(place)}"
    by_order: dict[int, list[RunRecord]] = {}
    for r in records:
        by_order.setdefault(r.seeds.order, []).append(r)
    for same in by_order.values():
        for key in ("train", "eval", "features"):
            _check_same(same, f"{key} digest", [getattr(r.digests, key) for r in same], doing)
    firsts = [same[0] for same in by_order.values()]
    for key in ("recipe", "features"):
        _check_same(firsts, f"{key} digest", [getattr(r.digests, key) for r in firsts], doing)


def _check_same(records: Sequence[RunRecord], what: str, values: list[str], doing: str) -> None:
    for r, value in zip(records, values, strict=True):
        if value != values[0]:
            raise UserError(
                f"{doing}: expected one {what}, got {_short(values[0])} ({_who(records[0])}) and "
                f"{_short(value)} ({_who(r)}); keep the runs of each in a directory of its own "
                "(another --out)"
            )


def _who(record: RunRecord) -> str:
    return f"{record.learner} seed {record.run or record.seed}"


def _at(place: str) -> str:
    return f" in {place}" if place else ""


def _short(value: str) -> str:
    """A digest as its first twelve digits; any other text cut to 80 characters."""
    if len(value) == 64 and value.isalnum():
        return value[:12]
    return value if len(value) <= 80 else value[:79] + "…"
