"""Sentences on names: a suggestion without a long list, a long value cut; an error's place."""

from embedbench.errors import DamagedFileError, short, unknown


def test_a_suggestion_stands_without_a_long_list() -> None:
    many = [f"{c}-name" for c in "abcdefghijk"]
    near = "unknown learner 'b-nam'. Did you mean 'b-name'?"
    assert str(unknown("learner", "b-nam", many)) == near
    listed = ", ".join(many[:10])
    assert str(unknown("learner", "b-nam", many[:10])) == f"{near} Known: {listed}."
    long = [f"x{n:03}" for n in range(1100)]
    listed = ", ".join(long[:60])
    cut = f"unknown learner 'zzz'. Known: {listed} and 1,040 more."
    assert str(unknown("learner", "zzz", long)) == cut
    assert (short("x" * 58), short("x" * 59)) == (repr("x" * 58), f"'{'x' * 58}…")


def test_an_error_at_a_place_stays_of_its_kind() -> None:
    error = DamagedFileError("row 3", "make it again", expected="finite", got=1)
    assert type(error.at("a.h5")) is DamagedFileError


def test_an_error_at_a_place_keeps_its_fields() -> None:
    error = DamagedFileError("row 3", "make it again", expected="finite", got=1)
    assert vars(error.at("a.h5")) == vars(error)
