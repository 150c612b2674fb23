"""A byte budget: what a learner may keep, against what it really holds."""

from pathlib import Path
from typing import Any

import pytest
from image_files import pixel_file
from plan_runs import plan
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.view import rows_of
from embedbench.studies.exemplars_in_equal_bytes import TOTAL, few, fit_budget, fit_settings

LEARNERS = ("er", "derpp", "gdumb", "icarl", "il2m", "mir", "gss")
BUDGETS = [("er", 0.004), ("icarl", 0.004), *((n, 0.0061) for n in LEARNERS)]
SMALL = ["units=8", "stop.rule=epochs", "stop.epochs=1"]


def cells(place: Path, names: list[str], items: list[str], sizes: Any = (40,) * 6) -> list[RunSpec]:
    path = place / "file.h5"
    if not path.exists():
        make_file(place, sizes, [0] * 6, [2] * 6, width=10)
    # without a stopping rule
    once = {n: SMALL[: 1 if n in ("er", "agem", "derpp") else None] for n in names}
    mine = [f"{n}.{item}" for n, short in once.items() for item in short]
    given = [*mine, "protocol.sessions=3", *items]
    return plan([str(path)], "incremental-class", names, [0], given)


def kept(cell: RunSpec) -> int:
    settings: Any = cell.learner.settings
    return int(settings.memory.total)


@pytest.mark.parametrize(("name", "megabytes"), BUDGETS)
def test_one_exemplar_more_would_not_fit(name: str, megabytes: float, tmp_path: Path) -> None:
    """6 classes of 36 training samples; each exemplar has ten float32, a label, some logits."""
    (cell,) = fit_budget(cells(tmp_path, [name], []), megabytes)
    _, logs = run_stream(StreamCache().stream(cell), cell.learner.fresh(), cell.seeds)
    held = sum(logs[-1].footprint.values())
    total = kept(cell)
    each = 10 * 4 + 8 + {"derpp": 6 * 4, "gss": 4}.get(name, 0)
    assert held <= megabytes * 1e6
    # a class's share is a whole number of exemplars, so up to one a class is left
    assert held > megabytes * 1e6 - 6 * each - each
    assert logs[-1].footprint["samples"] <= total * each


def test_a_quantised_exemplar_counts_with_its_codes(tmp_path: Path) -> None:
    """Five parts of two columns: an exemplar of `remind` is five bytes and a label."""
    fixed = ["remind.units=8", "remind.codes=5", "remind.base_samples=40"]
    (cell,) = fit_budget(cells(tmp_path, ["remind"], fixed), 0.0144)
    _, logs = run_stream(StreamCache().stream(cell), cell.learner.fresh(), cell.seeds)
    held = logs[-1].footprint
    assert (held["codebooks"], held["samples"]) == (256 * 10 * 4, 13 * kept(cell))
    assert 14400 - 6 * 13 - 13 < sum(held.values()) <= 14400


def test_whole_samples_fit_too_until_the_quantiser_is_trained(tmp_path: Path) -> None:
    """216 samples of ten float32 and a label, where 1,000 are asked for."""
    (cell,) = fit_budget(cells(tmp_path, ["remind"], ["remind.units=8", "remind.codes=5"]), 0.0144)
    settings: Any = cell.learner.settings
    learner, stream = cell.learner.fresh(), StreamCache().stream(cell)
    held = []
    observe = learner.observe

    def observed(x: Any, y: Any) -> None:
        observe(x, y)
        held.append(learner.footprint().total)

    learner.observe = observed  # type: ignore[method-assign]
    run_stream(stream, learner, cell.seeds)
    assert max(held) <= 14400
    assert held[-1] > 14400 - 12 * 13
    fixed = max(held) - 13 * settings.memory.total
    assert settings.base_samples == (14400 - fixed) // 48 + 1 < 1000


def test_a_budget_with_room_for_the_base_leaves_it_alone(tmp_path: Path) -> None:
    (cell,) = fit_budget(cells(tmp_path, ["remind"], ["remind.units=8"]), 1.0)
    assert cell.learner.settings.base_samples == 1000  # type: ignore[attr-defined]


def test_a_byte_budget_of_images_counts_bytes(tmp_path: Path) -> None:
    """Images of 3 x 3 x 4; six classes; a label each, and their logits."""
    items = ["protocol.sessions=3", "trunk=resnet8"]
    (cell,) = plan([str(pixel_file(tmp_path).path)], "incremental-class", ["derpp"], [0], items)
    less, more = (fit_settings(cell, megabytes) for megabytes in (1.0, 1.0044))
    assert less
    assert more
    assert more[TOTAL] - less[TOTAL] == pytest.approx(4400 / (36 + 8 + 24), abs=1)


@pytest.mark.parametrize("name", ["icarl", "gdumb"])
def test_classes_of_one_sample_do_not_count_as_smaller(name: str, tmp_path: Path) -> None:
    (cell,) = fit_budget(cells(tmp_path, [name], []), 0.0061)
    (tmp_path / "rare").mkdir()
    rare = cells(tmp_path / "rare", [name], [], sizes=[40, 1, 40, 40, 1, 40])
    assert kept(fit_budget(rare, 0.0061)[0]) == kept(cell)


def test_a_budget_without_room_is_refused_with_the_smallest_that_has(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, ["icarl"], [])
    with pytest.raises(UserError, match=r"icarl holds .* --budget-mb to") as caught:
        fit_settings(cell, 0.001)
    least = float(str(caught.value).partition("--budget-mb to ")[2].split()[0])
    room = fit_settings(cell, least + 0.01)
    assert room  # for exemplars of 48 bytes each
    assert fit_settings(cell, least + 0.01 - (room[TOTAL] - 6) * 48e-6) == {TOTAL: 6}
    (cell,) = cells(tmp_path, ["er"], ["er.memory.select=all"])
    with pytest.raises(UserError, match=r"er\.memory\.select=all keeps"):
        fit_settings(cell, 1.0)


def test_learners_without_exemplars_are_left_as_they_are(tmp_path: Path) -> None:
    planned = cells(tmp_path, ["mlp", "gdumb"], [])
    assert fit_budget(planned, None) == planned
    mlp, gdumb = fit_budget(planned, 0.01)
    assert mlp is planned[0]
    assert gdumb.command == f"{planned[1].command} --set gdumb.memory.total={kept(gdumb)}"


def test_the_probe_has_every_session_and_few_samples(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, ["er"], [])
    stream = StreamCache().stream(cell)
    probe = few(stream)
    assert [len(s.x) for s in probe.sessions] == [8, 8, 8]
    assert [len(s.val_x) for s in probe.sessions] == [len(e.x) for e in probe.eval_sets] == [2] * 3
    for s, p in zip(stream.sessions, probe.sessions, strict=True):
        assert set(rows_of(p.x)) <= set(rows_of(s.x))
        assert set(p.classes) == set(s.classes)
