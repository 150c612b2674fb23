"""Golden places and digests: what a finished run is found by must not change, ever.

`offline` has had other defaults since (`stop.perfect`, `learner`; `FORMER` is the first one),
protocols have had `scale_least` and fscil `novel`: cells name their earlier values.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_runs import plan

from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache

# by the learner's name: files, protocol, seed, and items of `--set`
CELLS = {
    "mlp": "e incremental-class 0 protocol.base=2 units=32",
    "ewc": "e permutation 3 protocol.sessions=3 ewc.lam=100 ewc.stop.rule=epochs ewc.stop.epochs=2",
    "er": "e incremental-class 1 protocol.order=random protocol.scale=standard er.memory.total=40 "
    "er.updates=1 seeds.order=7 references=2",
    "icarl-cnn": "e incremental-class 0 protocol.evaluate_every=5 icarl-cnn.batch_size=256 "
    "icarl-cnn.lr=8e-4 icarl-cnn.optimiser=nadam icarl-cnn.stop.rule=patience "
    "icarl-cnn.stop.epochs=200 icarl-cnn.memory.per_class=4 offline.mlp.units=8",
    "fr": "l fscil 0 protocol.base=3 protocol.way=1 protocol.layers=all protocol.novel=1 "
    "fr.epochs=2",
    "ncm": "l fscil 5 protocol.base=3 protocol.way=1 protocol.novel=1 ncm.metric=cosine "
    "seeds.init=9",
    "lwf": "e iirc 0 protocol.step=2 lwf.lam=3 lwf.stop.monitor=pw_js",
    "er-infinite": "e,l multi-modal 2 protocol.join=project protocol.width=10 "
    "er-infinite.updates=1",
    "finetune": "p incremental-class 0 finetune.trunk=resnet8 finetune.images.augment=crop-flip "
    "omega=kemker_eq",
    "offline": "e permutation 4 protocol.sessions=2 offline.mlp.stop.patience=3",
}
FORMER = "offline.mlp.stop.perfect=0"
KEYS = ("place", "settings", "recipe", "train", "eval", "features", "references")
# by the name: the place, and of each digest the first five digits
GOLDEN = """
mlp incremental-class-346ae63d/mlp-8b33c73f/seed-0 27909 94497 7653e 149a8 fc726 d44c0
ewc permutation-b0a089a1/ewc-6c1cf36a/seed-3 04d1c d9437 89186 ac5cf fc726 a067d
er incremental-class-122627cf/er-819558c6/seed-1-order7 3b6af 5949f 9aafc a8131 fc726 0fdc1
icarl-cnn incremental-class-38093b38/icarl-cnn-353c7cd2/seed-0 50bf6 70587 46860 e7522 fc726 bed55
fr fscil-2035239a/fr-46a0aa04/seed-0 3c54f 39a6b e2af8 e7522 1eb43 762d4
ncm fscil-2035239a/ncm-5f35cffd/seed-5-init9 d0a56 39a6b d90b0 e7522 1eb43 ab16c
lwf iirc-7ae0309d/lwf-9042a684/seed-0 50a4e a75a7 0b9d0 44b08 fc726 ec78c
er-infinite multi-modal-12216f6b/er-infinite-8c1292ee/seed-2 d85a8 bdc63 fcf50 dd49d 51d0e c12e3
finetune incremental-class-0a244d15/finetune-0852169e/seed-0 393ad 6eb59 46860 e7522 95aa3 b2303
offline references/offline-adc6e05c-926c9907/seed-4 6262b c08cb 728f6 22f80 fc726 e3b0c
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    place = np.tile(np.arange(14), 6)
    samples = Samples(
        ids=np.array([f"{i}.png" for i in range(84)]),
        labels=np.repeat(np.arange(6), 14),
        split=np.where(place < 10, TRAIN, TEST).astype(np.uint8),
        classes=(*"abcdef", "node"),
        parents=np.array([6, 6, 6, -1, -1, -1, -1]),
    )

    def values(width: int, step: int) -> Any:
        return (np.arange(84 * width) * step % 101).reshape(84, width).astype(np.float32)

    made: dict[str, Any] = {"backbone": {"name": "made up"}}
    write_file(folder / "e.h5", samples, values(6, 37), made)
    layers = {"block-0": values(4, 43), "block-1": values(4, 59)}
    write_file(folder / "l.h5", samples, values(4, 31), made, layers=layers)
    images = (values(36, 17) * 2).reshape(84, 3, 4, 3).astype(np.uint8)
    write_file(folder / "p.h5", samples, images, {"backbone": {"name": "none"}})
    return folder


def sha(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:5]


def places(folder: Path, name: str, *more: str) -> dict[str, str]:
    files, protocol, seed, *items = CELLS[name].split()
    paths = [str(folder / f"{file}.h5") for file in files.split(",")]
    settings = ["protocol.scale_least=0", *items, *more]
    (cell,), streams = plan(paths, protocol, [name], [int(seed)], settings), StreamCache()
    task = make_task(cell, folder, streams)
    reference = task.reference
    runs = [r for r in reference.offline_runs if isinstance(r, str)]
    runs += [r for part in reference.offline_runs if isinstance(part, tuple) for r in part]
    return {
        "place": str(task.place),
        "settings": sha(cell.learner.identity, cell.protocol.identity),
        **{name: value[:5] for name, value in streams.stream(cell).digests.items()},
        "references": sha(*runs, *filter(None, [reference.chance_run])),
    }


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, str]]:
    words = iter(GOLDEN.split())
    return {name: {key: next(words) for key in KEYS} for name in words}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_found_where_it_always_was(folder: Path, golden: Any, name: str) -> None:
    assert places(folder, name, FORMER) == golden[name]


OFFLINE = {"place": "references/offline-fbe6670e-926c9907/seed-4", "settings": "0602f"}


@pytest.mark.parametrize(
    ("name", "items", "changed"),
    [
        # the new default of `offline` moves its runs, and nothing else
        ("offline", [], OFFLINE),
        ("mlp", ["offline.learner=mlp"], {"references": "3b73a"}),
        ("mlp", [], {"references": "465f6"}),  # which validation chooses
        ("mlp", ["protocol.validation=train"], {"references": "465f6"}),
        # what the loss may see moves a run only if it is less than all
        ("er", [FORMER, "protocol.loss=all"], {}),
        ("er", [FORMER, "protocol.loss=seen"], set(KEYS) - {"eval", "features"}),
        # what a stream is follows from its settings alone, though only some change their bits
        ("mlp", [FORMER, "protocol.scale_least=50"], set(KEYS) - {"train", "eval"}),
    ],
)
def test_moves(folder: Path, golden: Any, name: str, items: list[str], changed: Any) -> None:
    new = places(folder, name, *items)
    moved = {key: value for key, value in new.items() if golden[name][key] != value}
    assert (moved if isinstance(changed, dict) else {*moved}) == changed
