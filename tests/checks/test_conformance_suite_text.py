"""What is printed of checks that fail: one fault is said once, and where it is."""

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
