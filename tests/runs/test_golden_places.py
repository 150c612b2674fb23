"""Golden places and digests: what a finished run is found by must not change, ever.

The literals were made by the code of 2026-11-22, before cells were cut into `RunSpec` and
`PreparedRun`. A setting that is added later changes none of them, see
`embedbench.config.fields_added_later.later`.

`offline` has had another default since (`stop.perfect`), so its runs lie elsewhere (`PERFECT`);
with the setting `FORMER` it is the first one. Protocols have had `scale_least` and fscil `novel`
since: cells name their earlier values.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_runs import plan

from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.runs.stream_cache import StreamCache

# name: files, protocol, seed, `--set` items; the name is the learner's
CELLS: dict[str, tuple[str, str, int, str]] = {
    "mlp": ("e", "incremental-class", 0, "protocol.base=2 units=32"),
    "ewc": (
        "e",
        "permutation",
        3,
        "protocol.sessions=3 ewc.lam=100 ewc.stop.rule=epochs ewc.stop.epochs=2",
    ),
    "er": (
        "e",
        "incremental-class",
        1,
        "protocol.order=random protocol.scale=standard er.memory.total=40 er.updates=1 "
        "seeds.order=7 references=2",
    ),
    "icarl-cnn": (
        "e",
        "incremental-class",
        0,
        "protocol.evaluate_every=5 icarl-cnn.batch_size=256 icarl-cnn.lr=8e-4 "
        "icarl-cnn.optimiser=nadam icarl-cnn.stop.rule=patience icarl-cnn.stop.epochs=200 "
        "icarl-cnn.memory.per_class=4 offline.mlp.units=8",
    ),
    "fr": (
        "l",
        "fscil",
        0,
        "protocol.base=3 protocol.way=1 protocol.layers=all protocol.novel=1 fr.epochs=2",
    ),
    "ncm": (
        "l",
        "fscil",
        5,
        "protocol.base=3 protocol.way=1 protocol.novel=1 ncm.metric=cosine seeds.init=9",
    ),
    "lwf": ("e", "iirc", 0, "protocol.step=2 lwf.lam=3 lwf.stop.monitor=pw_js"),
    "er-infinite": (
        "e l",
        "multi-modal",
        2,
        "protocol.join=project protocol.width=10 er-infinite.updates=1",
    ),
    "finetune": (
        "p",
        "incremental-class",
        0,
        "finetune.trunk=resnet8 finetune.images.augment=crop-flip omega=kemker_eq",
    ),
    "offline": ("e", "permutation", 4, "protocol.sessions=2 offline.mlp.stop.patience=3"),
}
FORMER = "offline.mlp.stop.perfect=0"
PERFECT = {
    "offline": {
        "place": "references/offline-fbe6670e-926c9907/seed-4",
        "settings": "0602f3c5931384af4d450bbe595416051fc1f1c1fe5e178b7d78cf4818653d3d",
    },
    "mlp": {"references": "3b73a901adf4314208c40db368f05e01c617d85e8e8baca951bcbbcc4f30e542"},
}
GOLDEN: dict[str, dict[str, str]] = {
    "mlp": {
        "place": "incremental-class-346ae63d/mlp-8b33c73f/seed-0",
        "settings": "279091543f347b26a4a0638fc2e4357bf7c040bdbd304d39ff69af565aa364a2",
        "recipe": "94497afa2d83978cef8c4af9f114c24d867d1a1d8876c9ada94b2d7bd396e0b5",
        "train": "7653e987331e6f52373d770a6a481af742c4b21dd2bd2bd1ded005e0d8cf4de8",
        "eval": "149a8c2444103aacacf43ca11735726216946737fd33dfc970ba594ed4087184",
        "features": "fc7264652bb1e156fccff3915c2abce84e313e89d31be65f8ab415fe2397d6d5",
        "references": "d44c0c8c64fa8028b1e5dfb0b43d00b4b425fefc41aa419b050b291e802259ec",
    },
    "ewc": {
        "place": "permutation-b0a089a1/ewc-6c1cf36a/seed-3",
        "settings": "04d1c53287d4c25311ad684b45c17a5c55b6e742479567a7de381c85bfcdccf1",
        "recipe": "d9437d6715c09a5be10f27f20953f260e946a468924157e7bacaf5c172e8f644",
        "train": "891861bb78813d6a6edf22f9dc1e9e298f39e214ff5d30490c56de9cb522dcd3",
        "eval": "ac5cf355bf59fb738a8da3f6025970c348f6fbe4e5ce7f096dfef42fd13a8ea1",
        "features": "fc7264652bb1e156fccff3915c2abce84e313e89d31be65f8ab415fe2397d6d5",
        "references": "a067db9797495996d3202b7ae3463c9f53f567598c7a880cd5deee81d2d772d5",
    },
    "er": {
        "place": "incremental-class-122627cf/er-819558c6/seed-1-order7",
        "settings": "3b6af247250859954bd5bcd68526ca7b0b5edaa815a2ad063229cbd6fa6f9191",
        "recipe": "5949fbefb54a42bb17ba97e0a7dc5190c813f4234ea3faa74d46d9adfe054d69",
        "train": "9aafc82343df33afc563815d61b17b3d630818bd34c012757f4549aab8fd4613",
        "eval": "a81317c7dfcb22bb2fb072f6e0c3a12473498f9293d1b5dc10dbc8d02d929573",
        "features": "fc7264652bb1e156fccff3915c2abce84e313e89d31be65f8ab415fe2397d6d5",
        "references": "0fdc15537e7762f1d73762d9a7ca5527970bc45f8786092296623bc324bfc771",
    },
    "icarl-cnn": {
        "place": "incremental-class-38093b38/icarl-cnn-353c7cd2/seed-0",
        "settings": "50bf65f4588ac8d844fcbfc09bbac1e178a05a95bbeb36bf043c49d7cf6caeb0",
        "recipe": "705876394df437469f11c33a786788e45f0d5209895b4ead1408305e4becdd26",
        "train": "46860256674e3e18a678a7621a9ecf8697e41c85e29e96cdb249aafb80ffdaf8",
        "eval": "e75229eb9894729ea8b451e9e7a1254f343bdba4bff49983c84d80ce8ea008b0",
        "features": "fc7264652bb1e156fccff3915c2abce84e313e89d31be65f8ab415fe2397d6d5",
        "references": "bed55f6ccae56a60ade5d94abaa73674fa66b31985f613365de367fe86343b3a",
    },
    "fr": {
        "place": "fscil-2035239a/fr-46a0aa04/seed-0",
        "settings": "3c54fa20626df463769cdd30863feef8281eb97a61e6676d11d65bfe7c1fd41b",
        "recipe": "39a6b2dfddd1848e0857d1a1ea209265c379b8866e74c81b742df01d78c379ab",
        "train": "e2af895ebf430e48cce663648dd9339db3d51482c521c6ab3a8adf8332b1b2d7",
        "eval": "e75229eb9894729ea8b451e9e7a1254f343bdba4bff49983c84d80ce8ea008b0",
        "features": "1eb438c594c7a27032ad82a87cadc2395944f35f883debd0b7fb639f918a43c7",
        "references": "762d4a4aa9dfd1c5dea33ad9a70535aa9ee3890c8f50246c4b7a2c04734d11d8",
    },
    "ncm": {
        "place": "fscil-2035239a/ncm-5f35cffd/seed-5-init9",
        "settings": "d0a56a949863d537ea46de01bfdba35e2651577c0480ec77b00d5c917f75f980",
        "recipe": "39a6b2dfddd1848e0857d1a1ea209265c379b8866e74c81b742df01d78c379ab",
        "train": "d90b0aa2dec9ec961df2add84e231294c457883c83af243201d2bd6ecbda1826",
        "eval": "e75229eb9894729ea8b451e9e7a1254f343bdba4bff49983c84d80ce8ea008b0",
        "features": "1eb438c594c7a27032ad82a87cadc2395944f35f883debd0b7fb639f918a43c7",
        "references": "ab16cd9deefb82ec46a26db9a9612ecc8951b1ac5dc5982fa3b66df85fa76d56",
    },
    "lwf": {
        "place": "iirc-7ae0309d/lwf-9042a684/seed-0",
        "settings": "50a4ea54f204b4461f96ee5a09981d0a61b6eb4b5fc66f49afd28638554a8c95",
        "recipe": "a75a7b8945f1d57c7a29f689cbbfd0c99d7541d043205a22d135480d071294de",
        "train": "0b9d0e1b0cd7890c2b73651585aab73858b1d40794bf99b8de83ef7c1d504e49",
        "eval": "44b08c4c30c2e82a36d807a9b5e206a1eb4cb03d705975f191da12ba32b7d00a",
        "features": "fc7264652bb1e156fccff3915c2abce84e313e89d31be65f8ab415fe2397d6d5",
        "references": "ec78c9ec9eb29536ae897447b73a062300ac60bed1918f79be56ff33fa82dcef",
    },
    "er-infinite": {
        "place": "multi-modal-12216f6b/er-infinite-8c1292ee/seed-2",
        "settings": "d85a82e35536092face4ec09bad7a57c8558aa87c1d68fe99d6916c99fc37580",
        "recipe": "bdc634ad5796b50b676516aa92e086e24dbfa2db5575637095f868cbb2258b17",
        "train": "fcf5089924eb232bbdaee63850ac53a222517aef716b05d97a645b8e888d214e",
        "eval": "dd49dc104f03dff15e540b6afcc284ec1783c648a1c4eb880ef2abfd069e2c36",
        "features": "51d0edebc5d2347d51b3bdd97b175b0804cb972bf0f19609733b5cb87c8d1257",
        "references": "c12e3c86f9f3300304bbc7765b5f1a6585c1ed5187c9d1999ec3286982100876",
    },
    "finetune": {
        "place": "incremental-class-0a244d15/finetune-0852169e/seed-0",
        "settings": "393ad0f1984459888668c3f301694f87d17666f29fb96cbc87d037fa45e05a23",
        "recipe": "6eb59cbc84f65ddfdddda8862d6b8cbad8a5c9ab4f31351d1b16dae62efccf94",
        "train": "46860256674e3e18a678a7621a9ecf8697e41c85e29e96cdb249aafb80ffdaf8",
        "eval": "e75229eb9894729ea8b451e9e7a1254f343bdba4bff49983c84d80ce8ea008b0",
        "features": "95aa3667af28982e157bc5c1f41d072d7fd17aec26a7426830478bfa6c3f296a",
        "references": "b2303c64499822fa7903471a6ef9c85126ff7cf5fce87c8ed547c4d0beab5bca",
    },
    "offline": {
        "place": "references/offline-adc6e05c-926c9907/seed-4",
        "settings": "6262b108882144ac4a43549cda0c9a7df25bf337f11868d2e25f7af5db1aa36a",
        "recipe": "c08cb9235ab74866c52205cb8c80ed895eeaf81f1f5ff24fbb5ab23d51c420b6",
        "train": "728f60b2c82ead208a05dc6ae2708c93b2ee3e3b90a5f4593fd7ddaabd749a93",
        "eval": "22f80f4569dea3b5cab14f8997981e006b58d70837b19cdeec68297ce1439a06",
        "features": "fc7264652bb1e156fccff3915c2abce84e313e89d31be65f8ab415fe2397d6d5",
        "references": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, vectors with layers, and images, of one source; their values are whole numbers."""
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
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def places(folder: Path, name: str, *more: str) -> dict[str, str]:
    """The place of a cell, its digests, and the places of its references."""
    files, protocol, seed, items = CELLS[name]
    paths = [str(folder / f"{file}.h5") for file in files.split()]
    settings = ["protocol.scale_least=0", *items.split(), *more]
    (cell,), streams = plan(paths, protocol, [name], [seed], settings), StreamCache()
    reference = streams.reference(cell, folder)
    runs = [r for r in reference.offline_runs if isinstance(r, str)]
    runs += [r for part in reference.offline_runs if isinstance(part, tuple) for r in part]
    return {
        "place": str(streams.run_dir(cell, folder).relative_to(folder)),
        "settings": sha(cell.learner.identity, cell.protocol.identity),
        **streams.stream(cell).digests,
        "references": sha(*runs, *filter(None, [reference.chance_run])),
    }


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_found_where_it_always_was(folder: Path, name: str) -> None:
    assert places(folder, name, FORMER) == GOLDEN[name]


def moved(name: str, new: dict[str, str]) -> set[str]:
    return {key for key, value in GOLDEN[name].items() if new[key] != value}


@pytest.mark.parametrize("name", CELLS)
def test_the_new_default_of_offline_moves_offline_and_nothing_else(folder: Path, name: str) -> None:
    new = places(folder, name)
    other = {"place", "settings"} if name == "offline" else {"references"}
    assert moved(name, new) == other
    if name in PERFECT:
        assert {key: new[key] for key in other} == PERFECT[name]


@pytest.mark.parametrize("name", CELLS)
def test_the_new_default_of_scale_least_moves_every_stream(folder: Path, name: str) -> None:
    """What a stream is follows from its settings alone, though here only some change their bits."""
    new = places(folder, name, FORMER, "protocol.scale_least=50")
    assert {"place", "recipe"} <= moved(name, new) | ({"place"} if name == "offline" else set())


@pytest.mark.parametrize("name", ["mlp", "er", "fr"])
def test_what_the_loss_may_see_moves_a_run_only_if_it_is_less_than_all(
    folder: Path, name: str
) -> None:
    assert not moved(name, places(folder, name, FORMER, "protocol.loss=all"))
    new = places(folder, name, FORMER, "protocol.loss=seen")
    assert moved(name, new) == {"recipe", "train", "place", "settings", "references"}
