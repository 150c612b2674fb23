"""Code from outside: by path, by entry point, and the package that it came from."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedbench import plugins
from embedbench.errors import UserError

CODE = '''"""A module."""

class Thing:
    """One thing. """

def helper(scores, reference):
    """Help.

    More."""
    return 0.5
'''


def install(site: Path, package: str, points: str, version: str = "1.0", dist: str = "") -> Path:
    """A package with a module `mod`, as pip would install it into `site`."""
    folder = site / package
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raised = []\n")
    (folder / "mod.py").write_text(CODE)
    info = site / f"{dist or package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {dist or package}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(points)
    (info / "RECORD").write_text(f"{package}/__init__.py,,\n{package}/mod.py,,\n")
    return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of installed packages, the only one; the working directory is another."""
    (tmp_path / "site").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    others = (p for p in sys.path if p and not p.endswith("site-packages"))
    monkeypatch.setattr(sys, "path", [*others, str(tmp_path / "site")])
    before = set(sys.modules)
    yield tmp_path / "site"
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("kiln", "oven", "loose", "loose_base", "loose_top"):
            del sys.modules[name]


def test_an_entry_point_is_offered_loaded_and_traced(site: Path) -> None:
    assert plugins.entry_points_by_name("metrics") == {}
    install(site, "kiln", "[embedbench.metrics]\nhelp = kiln.mod:helper\n", dist="embedbench-kiln")
    (entry,) = plugins.entry_points_by_name("metrics").values()
    assert plugins.origin(entry) == "embedbench-kiln 1.0"
    assert "kiln" not in sys.modules  # nothing is imported to be listed
    function = plugins.load("metrics", "help")
    assert function(None, None) == 0.5
    thing = plugins.load("trackers", "kiln.mod:Thing")
    for found in (function, thing, thing()):
        assert plugins.find_package(found) == ("embedbench-kiln", "1.0")
    assert plugins.entry_points_by_name("protocols") == {}
    install(site, "oven", "", version="2.5")  # which is traced by its files
    assert plugins.find_package(plugins.load("metrics", "oven.mod:helper")) == ("oven", "2.5")


def test_a_package_in_development_is_traced_by_where_it_lies(site: Path, tmp_path: Path) -> None:
    source = tmp_path / "source of mine"
    source.mkdir()
    sys.path.append(str(source))
    for package, url, expected in (
        ("kiln", source.as_uri(), ("kiln", "1.0")),
        ("oven", tmp_path.joinpath("other").as_uri(), None),  # its name, and code of another place
    ):
        info = install(site, package, f"[embedbench.metrics]\n{package} = {package}.mod:helper\n")
        (site / package).rename(source / package)
        (info / "RECORD").write_text("")
        (info / "direct_url.json").write_text(json.dumps({"url": url}))
        assert plugins.find_package(plugins.load("metrics", package)) == expected


def test_loose_files_and_ours_are_of_no_package(site: Path) -> None:
    info = install(site, "embedbench", "[embedbench.metrics]\na = embedbench.mod:helper\n")
    url = Path(plugins.__file__).parents[1].as_uri()  # ours, installed for development
    (info / "direct_url.json").write_text(json.dumps({"url": url}))
    Path("loose.py").write_text(CODE)
    for thing in (plugins.load("metrics", "loose:helper"), plugins.load, 5, json.dumps):
        assert plugins.find_package(thing) is None


def test_names_that_nothing_has(site: Path) -> None:
    install(site, "kiln", "[embedbench.trackers]\nlines = kiln.mod:Thing\nbad = kiln.mod:No\n")
    for name, sentence in (
        ("line", "unknown tracker 'line'. Did you mean 'lines'? Known: bad, lines, wandb."),
        ("bad", "cannot import the tracker 'bad' of kiln 1.0"),
        ("kiln.mod:No", "module 'kiln.mod' has no 'No'"),
        ("nowhere:No", "cannot import 'nowhere'"),
    ):
        with pytest.raises(UserError) as error:
            plugins.load("trackers", name, ["wandb"])
        assert str(error.value).startswith(sentence)
    with pytest.raises(UserError, match=r"'kiln\.mod:Thing' .* Path"):
        plugins.subclass("trackers", "kiln.mod:Thing", Path)


def test_two_packages_with_one_name(site: Path) -> None:
    for package in ("kiln", "oven"):
        install(site, package, f"[embedbench.metrics]\nhelp = {package}.mod:helper\n")
    with pytest.raises(UserError, match=r"'help'.* kiln\.mod:helper or oven\.mod:helper"):
        plugins.load("metrics", "help")
    assert plugins.load("metrics", "oven.mod:helper")(None, None) == 0.5


def test_only_a_name_by_path_adds_the_working_directory(site: Path) -> None:
    install(site, "kiln", "[embedbench.metrics]\nhelp = kiln.mod:helper\n")
    assert plugins.load("metrics", "help") is plugins.outside("kiln.mod:helper")  # imported already
    assert str(Path.cwd()) not in sys.path
    Path("loose.py").write_text(CODE)
    plugins.load("metrics", "loose:helper")
    assert sys.path[0] == str(Path.cwd())


def test_wrong_entry_points_do_not_end_a_command(site: Path) -> None:
    """One names no module, one a module without a file, one a module that ends Python."""
    entries = "[embedbench.metrics]\nnone = no module\nbare = sys:exit\nends = kiln.ends:f\n"
    install(site, "kiln", entries)
    (site / "kiln" / "ends.py").write_text("raise SystemExit('ended')")
    for name in ("none", "ends"):
        with pytest.raises(UserError, match=f"import .*metric '{name}' of kiln 1.0"):
            plugins.load("metrics", name)
    sys.path.append(str(site / "kiln"))
    with pytest.raises(UserError, match=r"'ends' for 'ends:f': .* SystemExit: ended"):
        plugins.outside("ends:f")
    import kiln.mod  # type: ignore[import-not-found]

    assert plugins.find_package(kiln.mod.Thing) == ("kiln", "1.0")


def test_the_code_of_a_class_is_that_of_its_file_and_of_its_bases(site: Path) -> None:
    (Path.cwd() / "loose_base.py").write_text("class Base:\n    pass\n")
    (Path.cwd() / "loose_top.py").write_text(
        "from loose_base import Base\nclass Top(Base):\n    pass\n"
    )
    files = [(Path.cwd() / f"loose_{name}.py").read_bytes() for name in ("top", "base")]
    digests = b"".join(hashlib.sha256(text).digest() for text in files)
    made = plugins.code_digest(plugins.outside("loose_top:Top"))
    assert made == hashlib.sha256(digests).hexdigest()


def test_the_code_of_a_class_without_a_file_is_unknown() -> None:
    assert plugins.code_digest(type("Bare", (), {"__module__": "nowhere"})) == ""
