"""What long work says of itself, by a clock that the tests move."""

import io
import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import numpy as np
import pytest
from commands import Call
from rich import progress as bars

from embedbench.cli import command_output
from embedbench.cli.command_output import bar, note
from embedbench.runs import progress_line
from embedbench.runs.progress_line import AtWork, Progress, RunsAtWork
from embedbench.storage import leases


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_line_says_what_how_far_and_how_long(clock: Clock) -> None:
    runs = Progress("runs", clock)
    runs("", 0, 8)
    clock.now += 60
    runs("ncm seed 1", 2, 8)
    # Two in a minute: six more take three.
    assert runs.sentence() == "runs: 2 of 8 · 0:01:00 so far · about 0:03:00 left · ncm seed 1"


def test_a_line_says_how_many_failed(clock: Clock) -> None:
    runs = Progress("run", clock).stage("runs")
    runs("", 0, 8)
    clock.now += 60
    runs("ncm seed 1", 2, 8)
    runs.fail()
    assert runs.sentence().startswith("run: 2 of 8 runs, 1 failed · 0:01:00 so far")


def test_what_fails_is_said_at_once() -> None:
    said: list[str] = []
    with progress_line.show_progress("run", said.append, quiet=False) as runs:
        runs.stage("runs").fail("mlp seed 0 failed")
        assert said == ["mlp seed 0 failed"]


def test_work_that_never_said_how_much_it_is(clock: Clock) -> None:
    order = Progress("order", clock)
    clock.now += 3725
    assert order.sentence() == "order · 1:02:05 so far"


def test_nothing_is_guessed_before_something_is_done(clock: Clock) -> None:
    runs = Progress("runs", clock)
    runs("", 0, 8)
    clock.now += 20
    assert runs.sentence() == "runs: 0 of 8 · 0:00:20 so far · time left not known yet"


def test_what_was_there_before_is_no_pace(clock: Clock) -> None:
    files = Progress("files", clock)
    files(4096, 6144)  # of an interrupted command
    clock.now += 10
    files(5120, 6144)
    assert "about 0:00:10 left" in files.sentence()


def test_time_before_the_work_began_is_no_pace(clock: Clock) -> None:
    files = Progress("files", clock)
    clock.now += 600  # the model was loaded
    files(0, 100)
    clock.now += 10
    files(50, 100)
    assert "0:10:10 so far · about 0:00:10 left" in files.sentence()


def test_the_next_piece_of_work_has_a_pace_of_its_own(clock: Clock) -> None:
    trials = Progress("trials", clock)
    trials("tuning mlp", 0, 4)
    clock.now += 400
    trials("tuning mlp", 4, 4)
    trials("tuning ewc", 0, 4)
    clock.now += 10
    trials("tuning ewc", 2, 4)
    assert "about 0:00:10 left" in trials.sentence()


def test_parts_of_what_is_at_work_count(clock: Clock) -> None:
    runs = Progress("run", clock).stage("runs", lambda: AtWork("ewc, session 6 of 10", 0.5))
    runs("ewc seed 0", 0, 2)
    clock.now += 30
    assert runs.sentence() == (
        "run: 0 of 2 runs · 0:00:30 so far · about 0:01:30 left · ewc, session 6 of 10"
    )


def test_all_done_has_no_time_left(clock: Clock) -> None:
    runs = Progress("runs", clock)
    runs("", 3, 3)
    assert runs.sentence() == "runs: 3 of 3 · 0:00:00 so far"


def _first_line(capfd: pytest.CaptureFixture[str], unit: str, *what: str | int) -> str:
    """The first line of work that waits until a line was written."""
    written = threading.Event()

    def write(sentence: str) -> None:
        note(sentence)
        written.set()

    with progress_line.show_progress(unit, write, quiet=False) as advance:
        advance(*what)
        assert written.wait(60)
    return capfd.readouterr().err.splitlines()[0]


def test_a_log_gets_lines_though_nobody_is_called(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 0.01)
    assert _first_line(capfd, "runs", "", 0, 8).startswith("runs: 0 of 8 · 0:00:00 so far")


def test_a_terminal_that_cannot_redraw_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert _first_line(capfd, "runs", "", 0, 8).startswith("runs: 0 of 8 · 0:00:00 so far")


def test_lines_come_every_half_minute() -> None:
    assert progress_line.EVERY <= 25


@pytest.mark.parametrize("is_terminal", [False, True])
def test_quiet_work_says_nothing(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with bar("runs", quiet=True) as advance:
        advance("", 0, 8)
    assert capfd.readouterr().err == ""


def test_quiet_work_has_no_thread() -> None:
    before = threading.active_count()
    with bar("runs", quiet=True):
        assert threading.active_count() == before


def test_a_reader_that_has_gone_ends_the_lines_and_not_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 0.001)
    writers = list[threading.Thread]()
    called = threading.Event()

    def write(_: str) -> None:
        writers.append(threading.current_thread())
        called.set()
        raise BrokenPipeError

    with progress_line.show_progress("runs", write, quiet=False):
        assert called.wait(60)
        writers[0].join(60)
        assert not writers[0].is_alive()


def test_moving_does_not_write(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 3600.0)
    with bar("files", quiet=False) as advance:
        for done in range(10_000):
            advance(done, 10_000)
    assert capfd.readouterr().err == ""


def test_the_end_of_the_work_does_not_wait_for_the_next_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 3600.0)
    with bar("files", quiet=False):
        (writer,) = [t for t in threading.enumerate() if t.name == "progress"]
    assert not writer.is_alive()


def test_names_are_mere_text(clock: Clock) -> None:
    runs = Progress("runs", clock)
    runs("\x1b[2Jevil\nname", 1, 1)
    assert "\x1b" not in runs.sentence()


def _at_work(root: Path, number: int) -> AtWork:
    """What is said of so many runs in their third session of five, and one that waits."""
    labels = {root / f"seed-{n}": f"mlp seed {n}" for n in range(number + 1)}
    runs = RunsAtWork()
    runs.plan(labels)
    with ExitStack() as stack:
        for run_dir in list(labels)[:number]:
            lease = leases.take(leases.lease_path(run_dir))
            assert lease is not None
            stack.enter_context(lease).note("session 2/5")
            lease.beat()
        return runs()


def test_the_runs_at_work_are_named_with_their_sessions(tmp_path: Path) -> None:
    text = "mlp seed 0 (session 3 of 5), mlp seed 1 (session 3 of 5)"
    assert _at_work(tmp_path, 2).text == text


def test_finished_sessions_are_parts_of_runs(tmp_path: Path) -> None:
    assert _at_work(tmp_path, 2).parts == pytest.approx(0.8)  # two of five, twice


def test_a_line_names_three_runs(tmp_path: Path) -> None:
    assert _at_work(tmp_path, 5).text.endswith("mlp seed 2 (session 3 of 5), and 2 more")


def test_no_run_at_work_is_no_text(tmp_path: Path) -> None:
    assert RunsAtWork()() == AtWork("", 0.0)


def _lines_of(call: Call, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The lines that a command writes where it stops at each move until a line was written."""
    turn = threading.Condition()
    lines = 0
    move = Progress.__call__

    def write(sentence: str) -> None:
        nonlocal lines
        note(sentence)
        with turn:
            lines += 1
            turn.notify_all()

    def wait_for_a_line(progress: Progress, *what: str | int) -> None:
        move(progress, *what)
        with turn:
            seen = lines  # the next line may have been worded before the move, the one after not
            assert turn.wait_for(lambda: lines > seen + 1, 60)

    def show(what: str, _: object, quiet: bool) -> AbstractContextManager[Progress]:
        return progress_line.show_progress(what, write, quiet)

    monkeypatch.setattr(progress_line, "EVERY", 0.005)
    monkeypatch.setattr(command_output, "show_progress", show)
    monkeypatch.setattr(Progress, "__call__", wait_for_a_line)
    code, _, err = call(*words)
    assert code == 0
    return err.splitlines()


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """Forty samples of two classes, as npz."""
    y = np.arange(40) % 2
    path = tmp_path / "a.npz"
    np.savez(path, features=np.eye(2, dtype=np.float32)[y] + np.arange(40)[:, None] / 99, labels=y)
    return path


def test_import_into_a_log(
    call: Call, features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["import", str(features), "--out", str(tmp_path / "a.h5")]
    lines = _lines_of(call, monkeypatch, *words)
    assert any(line.startswith("import: 0 of 40 rows · 0:00:00 so far") for line in lines)


def test_trials_and_runs_into_a_log(
    call: Call, features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, runs = str(tmp_path / "a.h5"), str(tmp_path / "runs")
    call("import", str(features), "--out", file)
    words = ["run", file, "--protocol", "incremental-class", "--learner", "slda", "--out", runs]
    words += ["--set", "references=0", "--tune", "slda.shrinkage=0.1,0.2", "--tune-seeds", "100"]
    lines = _lines_of(call, monkeypatch, *words, "--jobs", "1", "--device", "cpu")
    said = [line.split(" · ")[0] for line in lines if line.startswith("run: ")]
    assert list(dict.fromkeys(said)) == [
        *(f"run: {n} of 2 trials" for n in range(3)),
        *(f"run: {n} of 2 runs" for n in range(3)),  # chance and slda
    ]


def test_the_bar_of_a_terminal_says_what_failed_and_what_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = list[str]()
    monkeypatch.setattr(bars.Progress, "update", lambda *_, **to: shown.append(to["description"]))
    runs = Progress("run")
    with progress_line._bar(runs):
        runs.stage("runs").fail()
        runs.say_limit("decoding is the limit (2 of 3 s)")
        runs("ncm seed 1", 2, 8)
    assert shown == ["runs", "1 failed · ncm seed 1 · decoding is the limit"]


class Kernel(io.StringIO):
    """Stderr as a notebook has it."""


Kernel.__module__ = "ipykernel.iostream"


def notebook_stderr(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Set in the test itself: pytest sets its own before each."""
    kernel = Kernel()
    monkeypatch.setattr(sys, "stderr", kernel)
    monkeypatch.setattr(progress_line, "OFTEN", 0.01)
    return kernel


def test_a_notebook_has_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    in_notebook = notebook_stderr(monkeypatch)
    with progress_line.show_progress("run", print, quiet=False) as advance:
        advance.stage("runs")(1, 4)
        time.sleep(0.2)
    states = in_notebook.getvalue().split("\r")
    assert "\n" not in in_notebook.getvalue()
    assert states[1].startswith("run: 1 of 4 runs")


def test_the_line_of_a_notebook_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    in_notebook = notebook_stderr(monkeypatch)
    with progress_line.show_progress("run", print, quiet=False):
        time.sleep(0.2)
    assert in_notebook.getvalue().split("\r")[-2].strip() == ""
