"""Errors that end a command with one sentence and exit code 2, and those of other people's code."""

import difflib
import importlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

FEW = 10  # known names that are listed beside a suggestion
LONG = 60  # characters of a value, and names of a list, that a sentence quotes


class UserError(Exception):
    """Bad input: says what was expected, what came, and what to do.

    The command line prints it without a traceback and exits with code 2. `what` is a fault, or with
    `expected` the name of an input; `got` is its value, `remedy` says what to do.

    >>> str(UserError("--out is a directory", "name a file"))
    '--out is a directory; name a file'
    >>> str(UserError("sessions", expected="2 to 9", got=1))
    'sessions must be 2 to 9, got 1'
    """

    def __init__(self, what: str, remedy: str = "", *, expected: str = "", got: Any = ...) -> None:
        self.what = what
        self.remedy = remedy
        self.expected = expected
        self.got = got
        sentence = f"{what} must be {expected}" if expected else what
        if got is not ...:
            sentence += f", got {short(got)}"
        if remedy:
            sentence += f"; {remedy}"
        super().__init__(sentence)

    @classmethod
    def worded(cls, sentence: str, **fields: Any) -> Self:
        """An error with a sentence of its own, and fields."""
        error = cls(sentence)
        vars(error).update(fields)
        return error

    def reworded(self, sentence: str) -> Self:
        """The same error, its fields included, with another sentence."""
        return self.worded(sentence, **vars(self))

    def at(self, place: object) -> Self:
        """The same error with the place where it arose before the sentence.

        >>> str(UserError("sessions", expected="2 to 9", got=1).at("study.toml"))
        'study.toml: sessions must be 2 to 9, got 1'
        """
        return self.reworded(f"{place}: {self}")


class DamagedFileError(UserError):
    """An embedding file whose bytes do not match its checksums."""


# --- code of other people ---


class CodeExitError(Exception):
    """Code that was called did neither return nor raise an Exception: it called `sys.exit`, say."""


@contextmanager
def keep_inside(who: str) -> Iterator[None]:
    """Make an Exception of what leaves the code within and is none, such as SystemExit.

    It would pass every `except Exception`, and end the program, with exit code 0 if it says so.
    KeyboardInterrupt leaves as it is. The code within must not yield: whoever closes a generator
    raises GeneratorExit in it.

    Parameters
    ----------
    who : str
        Whose code it is, as the beginning of a sentence.

    Raises
    ------
    CodeExitError
        Who left, and with what.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise CodeExitError(
            f"{who} left with {error_text(error)}, which is no Exception"
        ) from error


def error_text(error: BaseException) -> str:
    """An error for a sentence: its kind and what it says; of our own errors the words alone.

    It is made for errors of any code: one may have no text, or fail to make it.

    >>> error_text(KeyError("a")), error_text(ValueError()), error_text(UserError("no file"))
    ("KeyError: 'a'", 'ValueError', 'no file')
    """
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"{kind} (it has no readable text)"
    if text and isinstance(error, UserError | CodeExitError):
        return text
    return f"{kind}: {text}" if text else kind


def unknown(
    kind: str,
    name: str,
    known: Iterable[str],
    better: Sequence[str] = (),
    *,
    at: object = "",
    more: str = "",
) -> UserError:
    """Return the error for an unknown name; it suggests the nearest known one, its `expected`.

    Names in `better` are suggested first. A long list of names is left out where one is near. `at`
    is the file that has the name; `more` ends the sentence.

    >>> str(unknown("learner", "ewcc", ["mlp", "ewc"]))
    "unknown learner 'ewcc'. Did you mean 'ewc'? Known: ewc, mlp."
    """
    names = sorted(known)
    near = next(iter(better or difflib.get_close_matches(name, names, cutoff=0.5)), "")
    hint = f"Did you mean {near!r}?" if near else ""
    listed = ""
    if not near or len(names) <= FEW:
        listed = f"Known: {list_first(names, LONG) or 'none'}."
    sentence = " ".join(filter(None, (f"unknown {kind} {short(name)}.", hint, listed, more)))
    fields = {"what": f"unknown {kind}", "got": name, "expected": near}
    return UserError.worded(f"{at}: {sentence}" if at else sentence, **fields)


def list_first(names: Sequence[str], most: int) -> str:
    """The first names in a sentence, and how many others there are.

    >>> list_first(["a", "b", "c"], 2), list_first(["a"], 2)
    ('a, b and 1 more', 'a')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def import_extra(module: str, extra: str, what: str) -> Any:
    """Import a module of a package that an extra brings; a UserError says that `what` needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{what} needs {module}", f"install it with pip install 'embedbench-cl[{extra}]'"
        ) from error


def short(value: Any) -> str:
    """A value as Python writes it, cut where it is long, for error messages."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
