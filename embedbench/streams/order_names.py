"""The names of class orders, for lists and `run --order`: no file is opened for them."""

_PAPER = "Masana et al. (2020)"
ANNEALED = f"{_PAPER}; a file, by embedbench order"
# Every order that has a name: what it is, with its source, and how many classes it orders. `run`
# takes those that need no data by name; the others `order` writes to a file.
NAMED = {
    "natural": ("as in the file", "any"),
    "number": ("by number, of classes that are all named by numbers", "any"),
    "random": ("drawn by the seed", "any"),
    "size": ("largest classes first, for run --order alone", "any"),
    "icarl1993": ("drawn by NumPy's seed 1993, as in iCaRL's code (Rebuffi et al., 2017)", "any"),
    "icarl_87": ("of CIFAR-100, begins with 87, as libraries repeat it from iCaRL's code", "100"),
    "coarse": ("group by group of the file's hierarchy, or of CIFAR-100's superclasses", "any"),
    "max-confusion": (f"classes that a probe confuses lie side by side, {ANNEALED}", "any"),
    "min-confusion": (f"classes that a probe confuses lie far apart, {ANNEALED}", "any"),
    "increasing-task-confusion": (
        f"late sessions are the most confused, {ANNEALED}",
        "any",
    ),
    "equal-task-confusion": (f"all confusion within sessions, {ANNEALED}", "any"),
    "decreasing-task-confusion": (
        f"early sessions are the most confused, {ANNEALED}",
        "any",
    ),
    **{
        f"cifar100-{kind}-confusion": (f"of CIFAR-100, published by {_PAPER}", "100")
        for kind in ("max", "min", "increasing-task", "equal-task", "decreasing-task")
    },
}
PUBLISHED = tuple(name for name in NAMED if name.startswith("cifar100-"))
BY_CONFUSION = tuple(name for name, (what, _) in NAMED.items() if what.endswith(ANNEALED))
ORDERS = tuple(name for name in NAMED if name not in BY_CONFUSION)  # of `run --order`
