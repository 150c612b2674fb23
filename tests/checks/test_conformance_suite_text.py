"""What is printed of checks that fail: one fault is said once, and where it is."""

from typing import Any

from embedbench.checks import conformance_suite


def test_an_error_behind_several_failures_is_said_once() -> None:
    class Faulty:
        def start(self) -> None:
            raise TypeError("no width")

    def one(cls: "type[Faulty]") -> None:
        """Can be started."""
        cls().start()

    def other(cls: "type[Faulty]") -> None:
        """Has another fault."""
        raise KeyError("x")

    results = conformance_suite.run_checks([other, *[one] * 3], Faulty)
    lines = conformance_suite.check_text(results).splitlines()
    assert "raised KeyError: 'x'" in lines[2]
    assert "start raised TypeError: no width" in lines[5]
    assert [line.endswith(" s): as one") for line in lines[6:8]] == [True, True]
    assert lines[-1] == "0 of 4 checks passed, 4 failed by 2 faults"


def test_one_line_with_several_numbers_is_one_fault() -> None:
    class Faulty:
        def scores(self, n: int) -> None:
            raise ValueError(f"{n} rows")

    def few(cls: "type[Faulty]") -> None:
        """Scores few."""
        cls().scores(2)

    def many(cls: "type[Faulty]") -> None:
        """Scores many."""
        cls().scores(3)

    text = conformance_suite.check_text(conformance_suite.run_checks([few, many], Faulty))
    assert text.endswith("0 of 2 checks passed, 2 failed by 1 fault")


def test_a_fault_says_where_it_is() -> None:
    class Faulty:
        def scores(self) -> None:
            raise ValueError("no rows")

    def one(cls: "type[Faulty]") -> None:
        """Scores."""
        cls().scores()

    (result,) = conformance_suite.run_checks([one], Faulty)
    line = Faulty.scores.__code__.co_firstlineno + 1
    assert result.place == f"test_conformance_suite_text.py, line {line}"


def test_one_error_in_the_words_of_two_checks_is_one_fault() -> None:
    said = "TypeError: objective() missing 1 required positional argument: 'y'"
    how: dict[str, Any] = {"demand": "Learns.", "passed": False, "seconds": 0.0}
    placed = conformance_suite.CheckResult(
        "one", message=f"learn raised {said}", place="sig.py, line 49", **how
    )
    around = conformance_suite.CheckResult("two", message=f"a session of one: {said}", **how)
    text = conformance_suite.check_text([placed, around])
    assert "two  (0.0 s): as one" in text
    assert text.endswith("0 of 2 checks passed, 2 failed by 1 fault")


def test_one_error_at_two_places_is_two_faults() -> None:
    how: dict[str, Any] = {
        "demand": "Learns.",
        "passed": False,
        "seconds": 0.0,
        "message": "ValueError: x",
    }
    results = [
        conformance_suite.CheckResult(name, place=f"mine.py, line {line}", **how)
        for name, line in (("one", 3), ("two", 9))
    ]
    assert conformance_suite.check_text(results).endswith("0 of 2 checks passed")
