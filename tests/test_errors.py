"""Sentences on names: a suggestion without a long list, a long value cut."""

from embedbench.errors import short, unknown


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
