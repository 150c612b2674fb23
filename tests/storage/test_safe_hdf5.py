"""The gate before HDF5 is read: every rule refuses its hostile file, in a process of its own."""

import os
import re
import signal
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from file_helpers import failing, refusal

from embedbench.errors import DamagedFileError
from embedbench.storage import safe_hdf5, untrusted_files, user_cache

Change = Callable[[h5py.File, Path], object]


def virtual(f: h5py.File, path: Path) -> None:
    layout = h5py.VirtualLayout((10,), "<f4")
    layout[:] = h5py.VirtualSource(path, "x", (10,))
    f.create_virtual_dataset("x", layout)


def chunk(data: bytes, mask: int = 0, n: int = 1000) -> Change:
    """A compressed table of one chunk of `n` numbers of 4 bytes, with this stored in its place."""

    def change(f: h5py.File, _: Path) -> None:
        table = f.create_dataset("x", (n,), "<f4", chunks=(n,), compression="gzip")
        table.id.write_direct_chunk((0,), data, mask)

    return change


def zeros(f: h5py.File, _: Path) -> None:
    """Two tables of zeros that take a thousandth of their size."""
    data = zlib.compress(bytes(2**24), 9)
    for name in "xy":
        table = f.create_dataset(name, (17 * 2**24,), "u1", chunks=(2**24,), compression="gzip")
        for number in range(17):
            table.id.write_direct_chunk((number * 2**24,), data)


def table(*args: Any, **settings: Any) -> Change:
    return lambda f, _: f.create_dataset("x", *args, **settings)


def member(name: str, value: Any) -> Change:
    return lambda f, _: f.__setitem__(name, value)


ELSEWHERE = h5py.ExternalLink("other.h5", "/y")
MANY = {str(number): 0 for number in range(untrusted_files.ATTRIBUTES + 1)}
STORED = zlib.compress(np.random.default_rng(0).bytes(65526), 0)  # 2**16 + 1 bytes
NUMBERS = "neither numbers nor"
CASES: dict[str, tuple[Change, str]] = {
    "external storage": (table((9,), "u1", external=[("a", 0, 9)]), "keeps its values"),
    "virtual data set of itself": (virtual, "takes its values|HDF5 crashes"),
    "external link": (member(f"g/{'x' * 57}", ELSEWHERE), f"'/g/{'x' * 57}' is a link"),
    "a long name": (member(f"g/{'x' * 58}", ELSEWHERE), f"'/g/{'x' * 56}…' is a link"),
    "two names": (lambda f, _: f.__setitem__("y", f.create_group("x")), "a second name"),
    "a type as an object": (member("x", np.dtype("<f4")), "neither a group"),
    "deep groups": (member("a/b/c/d/e", 0), "or too deep"),
    "nothing written": (table((10**10,), "S8"), "declares 80,000,000,000 bytes"),
    "no chunk": (table((10**9,), "u1", chunks=(2**20,)), "not all there"),
    "chunks beyond number": (table((10**12,), "u1", chunks=(1,)), "not all there"),
    "a bomb of compression": (zeros, "cannot hold tables"),
    "a bomb in a chunk": (chunk(zlib.compress(bytes(2**21))), "what it declares"),
    "much behind": (chunk(zlib.compress(bytes(4000)).ljust(4127)), "what it declares"),
    "a chunk too short": (chunk(zlib.compress(bytes(3999))), "what it declares"),
    "long, too short": (chunk(STORED, n=16382), "what it declares"),
    "a chunk that skips filters": (chunk(zlib.compress(bytes(4000)), 1), "what it declares"),
    "another filter": (table(data=np.zeros(9), compression="lzf"), "other filters than"),
    "text of any length": (table(data=["a"], dtype=h5py.string_dtype()), NUMBERS),
    "an enumeration": (table(data=np.ones(3, dtype=bool)), NUMBERS),
    "long numbers": (table(data=np.zeros(3, np.longdouble)), NUMBERS),
    "records": (table((3,), np.dtype([("a", "<f4")])), NUMBERS),
    "nothing": (table(data=h5py.Empty("<f4")), "no plain table"),
    "five dimensions": (table(data=np.zeros((1,) * 5)), "'/x' has 5 dimensions"),
    "many attributes": (lambda f, _: f.attrs.update(MANY), "'/' has 1,001 attributes"),
}


def made(path: Path, change: Change, **settings: Any) -> Path:
    with h5py.File(path, "w", **settings) as f:
        change(f, path)
    return path


def opens(path: Path) -> list[str]:
    with safe_hdf5.open_hdf5(path, what="a thing", remedy="make it again") as f:
        return sorted(f)


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_file_is_one_sentence(tmp_path: Path, case: str) -> None:
    change, sentence = CASES[case]
    path = made(tmp_path / "a.h5", change)
    said = refusal(opens, path)
    assert re.search(sentence, said)
    assert str(path) in said
    assert said.endswith("; make it again")


def own_child(data: bytearray, node: int) -> None:
    """HDF5 2.0 walks down such a tree without end."""
    data[node + 5] = 1  # its level: the addresses are those of nodes
    data[node + 48 : node + 56] = node.to_bytes(8, "little")


def moved(place: int) -> Any:
    """To the file's own head, which HDF5 reads as zeros, or so near to its end."""
    return lambda d, n: d.__setitem__(slice(n + 48, n + 56), (place % len(d)).to_bytes(8, "little"))


def beside_the_table(data: bytearray, node: int) -> None:
    data[node + 96 : node + 104] = (30).to_bytes(8, "little")  # the row where it begins


def again(number: int, data: bytearray, node: int) -> None:
    """One of three chunks twice."""
    at, data[node + 6] = node + 24 + 32 * number, 4
    data[at + 32 : node + 176] = data[at : node + 144]


@pytest.mark.parametrize(
    ("n", "change", "sentence"),
    [
        (4000, own_child, "damaged or incomplete"),
        *((30, f, "what it declares") for f in (moved(0), moved(-8), beside_the_table)),
        *((30, partial(again, number), "not all there") for number in (0, 2)),
    ],
)
def test_a_tree_of_chunks_that_lies(tmp_path: Path, n: int, change: Any, sentence: str) -> None:
    path = made(tmp_path / "a.h5", table(data=np.arange(n), chunks=(10,)), libver="earliest")
    data = bytearray(path.read_bytes())
    change(data, data.index(b"TREE\x01"))  # 24 bytes, then keys of 24 bytes and addresses by turns
    path.write_bytes(data)
    assert sentence in refusal(opens, path)


def test_bytes_before_the_file_long_attributes_and_odd_names(tmp_path: Path) -> None:
    path = made(tmp_path / "a.h5", member("x", 0), userblock_size=512)
    assert "that HDF5 skips" in untrusted_files.ask("hdf5", path)["refused"]
    path = made(tmp_path / "a.h5", lambda f, _: f.attrs.update({"x": "größe"}))
    path.write_bytes(path.read_bytes().replace(b"GCOL", b"NONE"))  # where the text lies
    assert "damaged or incomplete" in refusal(opens, path)

    def of_size(size: int) -> Path:
        long: Change = lambda f, _: f.attrs.create("x", np.zeros(size, "u1"))  # noqa: E731
        return made(tmp_path / "b.h5", long, libver="latest")

    assert opens(of_size(2**16)) == []
    assert "longer than 64 kB" in refusal(opens, of_size(2**16 + 1))
    for name in (b"a/b", b"..", b"."):
        path, taken = made(tmp_path / "c.h5", member("!" * len(name), 0)), b"!" * len(name)
        path.write_bytes(path.read_bytes().replace(taken + b"\0", name + b"\0"))
        assert f"of the name {name.decode()!r}" in refusal(opens, path)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    (tmp_path / "text").write_text("hello")
    cases = dict.fromkeys(("fifo", "link", ".", "/dev/zero"), "not a regular file")
    cases |= {"text": "not an HDF5", "no": "link to nothing"}
    for name, sentence in cases.items():
        assert sentence in refusal(opens, tmp_path / name)


@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
def test_honest_files_pass(tmp_path: Path, libver: str) -> None:
    """Every filter that is allowed, old and new forms of the file, attributes of any type."""

    def change(f: h5py.File, path: Path) -> None:
        values = np.random.default_rng(0).integers(-(2**31), 2**31, (2500, 7)).astype("<i4")
        for gzip in (None, "gzip"):
            for shuffle in (False, True):
                settings = {"compression": gzip, "shuffle": shuffle}
                f.create_dataset(f"g/{gzip}{shuffle}", data=values, chunks=(1024, 3), **settings)
        f.create_dataset("a/b/small", data=values[:3, 0], chunks=(3,), compression="gzip")
        chunk(zlib.compress(bytes(4000)).ljust(4000 + 4000 // 64 + 64))(f, path)  # a little behind
        f["text"] = np.array([b"a", b"bc"])
        f["scalar"] = np.array(b"{}")
        f["empty"] = np.zeros((0, 3))
        f["a/b/c/deepest"] = np.zeros((1, 2, 2, 3))
        f.attrs.update({"a": "größe", "b": True, "c": ["x", "y"], "d": f["text"].ref})
        f.attrs.update({"e": np.bytes_("x"), "f": 1})

    path = made(tmp_path / "a.h5", change, libver=libver)
    path.with_name("b.h5").symlink_to(path)
    for name in ("a.h5", "b.h5"):
        assert opens(tmp_path / name) == ["a", "empty", "g", "scalar", "text", "x"]
    with safe_hdf5.open_hdf5(path) as f:
        assert [safe_hdf5.attribute(f, key) for key in "ae"] == ["größe", "x"]
        for key in "bcdf":
            with pytest.raises(ValueError, match="is not a text"):
                safe_hdf5.attribute(f, key)
    with (
        pytest.raises(DamagedFileError, match=r"incomplete .*; mend it"),
        safe_hdf5.open_hdf5(path, remedy="mend it") as f,
    ):
        f["nothing"]


@pytest.mark.parametrize("data", [bytes(4000), zlib.compress(bytes(4000))[:-9]])
def test_a_chunk_that_cannot_be_inflated_is_damage_of_its_rows(tmp_path: Path, data: bytes) -> None:
    """Not of the file: the error comes when they are read."""
    path = made(tmp_path / "a.h5", chunk(data))
    with safe_hdf5.open_hdf5(path) as f, pytest.raises(OSError, match="filter"):
        f["x"][()]


@pytest.mark.parametrize(
    ("most", "there"), [(2**29, 2**20), (200 * 2**40, 2**40), (1032 * 1000 + 2**16, 1000)]
)
def test_what_compressed_data_can_hold(most: int, there: int) -> None:
    assert [untrusted_files.too_large(most + more, there) for more in (0, 1)] == [False, True]


@pytest.mark.parametrize(("n", "said"), [(3, ""), (4, "more than 4 objects"), (5, "is too large")])
def test_many_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, said: str) -> None:
    monkeypatch.setattr(untrusted_files, "OBJECTS", 4)  # the root is one
    monkeypatch.setattr(untrusted_files, "ATTRIBUTES", 1)
    monkeypatch.setattr(untrusted_files, "alive", lambda *_: None)
    path = made(
        tmp_path / "a.h5",
        lambda f, _: [f.create_group(str(k)).attrs.create("x", 0) for k in range(n)],
    )
    assert said in untrusted_files.examine(str(path)).get("refused", "")
    assert bool(said) == bool(untrusted_files.examine(str(path)))


def test_a_file_is_examined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; in any, once it is so old that its times tell of every change."""
    counted, examine = list[Path](), safe_hdf5._examine
    monkeypatch.setattr(safe_hdf5, "_passed", set())
    monkeypatch.setattr(safe_hdf5, "_examine", lambda p, *a: (counted.append(p), examine(p, *a)))
    path = made(tmp_path / "a.h5", member("x", 0))
    for _ in range(2):
        opens(path)
    assert counted == [path]
    monkeypatch.setattr(user_cache, "FRESH", 0.0)
    for _ in range(2):  # the first was too young to be remembered
        safe_hdf5._passed.clear()
        opens(path)
        assert len(counted) == 2
    made(path, member("y", 0))
    assert opens(path) == ["y"]
    assert len(counted) == 3
    made(path, member("z", 0))
    safe_hdf5.trust(path)  # what this process wrote
    assert opens(path) == ["z"]
    assert len(counted) == 3


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "HDF5 crashes"),
        ("print('{}', flush=True), os._exit(1)", "HDF5 crashes"),
        ("return {'damaged': repr(os.read(0, 9))}", "b''"),  # other files' names are not there
        ("untrusted_files.alive(0.05)\n    while True: pass", "to its end"),
        ("untrusted_files.alive(0.05), time.sleep(60)", "to its end"),
        ("try: bytearray(3 * 2**30)\n    except MemoryError: return {'damaged': 'much'}", "much"),
    ],
)
def test_what_ends_the_process(tmp_path: Path, monkeypatch: Any, body: str, sentence: str) -> None:
    script = tmp_path / "untrusted_files.py"
    home = str(Path(untrusted_files.__file__).parent)
    head = f"import os, signal, sys, time\nsys.path.insert(0, {home!r})"
    head += "\nimport untrusted_files\ndef examine(path):\n    "
    script.write_text(f"{head}{body}\nuntrusted_files.examine = examine\nuntrusted_files.serve()")
    path = made(tmp_path / "a.h5", member("x", 0))
    monkeypatch.setattr(untrusted_files, "__file__", str(script))
    monkeypatch.setattr(untrusted_files, "_SERVERS", {})
    with pytest.raises(DamagedFileError, match=sentence):
        opens(path)


def test_what_ended_answers_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, text = made(tmp_path / "a.h5", member("x", 0)), tmp_path / "b.txt"
    text.write_text("none")
    servers = untrusted_files._SERVERS
    assert untrusted_files.ask("hdf5", good) == {}
    first = servers[os.getpid()]
    assert "signature" in untrusted_files.ask("hdf5", text)["damaged"]
    assert servers[os.getpid()] is first

    with monkeypatch.context() as patched:
        patched.setattr(first, "stdout", SimpleNamespace(readline=failing(KeyboardInterrupt())))
        with pytest.raises(KeyboardInterrupt):
            untrusted_files.ask("hdf5", text)
    assert first.wait() == -signal.SIGKILL
    assert untrusted_files.ask("hdf5", good) == {}
    second = servers[os.getpid()]
    second.kill()
    second.wait()
    assert untrusted_files.ask("hdf5", good) == {}
    assert len({first.pid, second.pid, servers[os.getpid()].pid}) == 3


def test_a_file_that_changes_when_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = (made(tmp_path / name, member("x", 0)) for name in ("a.h5", "b.h5"))
    monkeypatch.setattr(safe_hdf5, "_examine", lambda *_: other.replace(path))
    assert "changed while it" in refusal(opens, path)


def test_nothing_else_opens_hdf5_files() -> None:
    root = Path(untrusted_files.__file__).parents[1]
    rooms = ("extract", "models", "protocols")  # links, which rglob does not follow
    paths = [*root.rglob("*.py"), *(path for room in rooms for path in (root / room).glob("*.py"))]
    openers = {p.name for p in paths if re.search(r"(?<!`)h5py\.File\(", p.read_text("utf-8"))}
    assert openers <= {"untrusted_files.py", "safe_hdf5.py", "write_file.py", "array_file.py"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("9.1", {"version": "9.1"}),
        (np.bytes_(b"9.1"), {"version": "9.1"}),
        ("9" * 20, {"version": "9" * 20}),
        ("9" * 21, {}),
        (9, {}),
    ],
)
def test_a_version_that_a_damaged_file_states_is_a_short_text(
    value: Any, said: dict[str, str], tmp_path: Path
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["format_version"] = value
    assert untrusted_files.stated_version(str(tmp_path / "a.h5")) == said
