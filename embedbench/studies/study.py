"""Studies: files × protocols × orders × learners × values of their grids × seeds.

A command line is a study, and a study file is one, see `study_file`. `resolve` makes its runs.
"""

from dataclasses import dataclass, field

from .set_and_tune_options import Lists, Settings


@dataclass(frozen=True, kw_only=True)
class Study:
    """The request of a command line or a study file. None and empty: not given.

    What is not described here is the option of its name.

    Parameters
    ----------
    files : tuple of tuple of str
        Those of each stream.
    protocols, learners, orders, vary : tuple of str
        Names; `orders` are values of `protocol.order`, `vary` are kinds of seed.
    seeds : tuple of int
        One run of each learner a seed; empty is 0.
    preset : str or None
        The name or the file of a preset; several with commas, see `split_regimes`.
    unknown : str or None
        The file of samples that no session teaches.
    tune_seeds : tuple of int
        Those of the trials; empty: three that `seeds` has not.
    set : dict of Key to str
        What `--set` gives. A protocol's name instead of `protocol` means this protocol alone.
    tune, grid : dict of Key to tuple of str
        Values to choose from, and values that are all run.
    engine_set : dict of str to str
        Settings of the engine.
    """

    files: tuple[tuple[str, ...], ...] = ()
    protocols: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    orders: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()
    preset: str | None = None
    trunk: str | None = None
    weights: str | None = None
    augment: str | None = None
    answers: str | None = None
    unknown: str | None = None
    omega_reference: str | None = None
    tune_sessions: int | None = None
    tune_seeds: tuple[int, ...] = ()
    trials: int | None = None
    budget_mb: float | None = None
    budget_passes: float | None = None
    engine: str | None = None
    resources: str | None = None
    threads: int | None = None
    device: str | None = None
    set: Settings = field(default_factory=dict)
    tune: Lists = field(default_factory=dict)
    grid: Lists = field(default_factory=dict)
    engine_set: dict[str, str] = field(default_factory=dict)
