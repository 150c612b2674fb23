"""`embedbench reproduce abdelsalam2021`: Abdelsalam et al. (2021) on any hierarchy.

**Departs**: the paper trains residual networks on images; on embeddings learning rates are chosen
for them. Means are over task configurations; each counts with the mean over its seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats, Ints
from embedbench.config.run_seeds import parse_seeds
from embedbench.papers import runs
from embedbench.papers.data import named_files
from embedbench.papers.drawing import draw_curves, learner_styles, legend
from embedbench.papers.paper import Paper, ReproduceRequest, per_file
from embedbench.papers.paper_facts import read_paper
from embedbench.papers.published import PaperTable, Value
from embedbench.papers.runs import read_settings, read_variants
from embedbench.runs.run_job import make_task
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.label_set_predictions import LabelSets
from embedbench.scores.label_set_scores import confusion, introduction_order
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .printed_counts import count_table

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
LEARNERS = read_variants(FACTS["learners"])
BUFFERS = read_variants(FACTS["buffers"])
OFFICIAL: dict[str, dict[str, Any]] = FACTS["official"]
FIGURES: dict[str, dict[str, Any]] = FACTS["figures"]
# joint: all classes at once, complete labels
VARIANTS = {**LEARNERS, **BUFFERS, "joint": runs.Variant("joint", "offline")}
COLUMNS = [*LEARNERS, "joint"]
PROTOCOL, PRESET = "iirc", "iirc"
CHOSEN = "protocol.configuration="  # the setting that selects a task configuration
STAND_IN_CONFIGURATIONS = 5  # the paper's number for ImageNet
BANDS = (
    "means over task configurations, of each the mean over its seeds; bands: the standard "
    "deviation over configurations"
)
CONFUSED_AFTER = (0, 1, 5, 10)  # sessions of Figures A.18 to A.22
FIRST, MIDDLE, LAST = 10, 10, 5  # a confusion matrix shows at most 25 classes
FOLLOWED = 4  # sessions of Figures A.16 and A.17

Read = Callable[[RunRecord], Any]


@dataclass(frozen=True)
class IIRCData:
    """One of the paper's data sets, or a file that replaces one.

    Parameters
    ----------
    file : Path
        Embedding file.
    official : str or None
        Name of the data set. None: the file replaces IIRC-CIFAR, with its own hierarchy.
    """

    file: Path
    official: str | None = None

    @property
    def stands_in(self) -> bool:
        return self.official is None

    @property
    def paper(self) -> dict[str, Any]:
        """The data set whose published values are shown beside ours."""
        return OFFICIAL[self.official or "cifar"]

    @property
    def label(self) -> str:
        """The paper's name, or "emoji for IIRC-CIFAR"."""
        name: str = self.paper["label"]
        return f"{self.file.stem} for {name}" if self.stands_in else name

    @property
    def configurations(self) -> int:
        """Number of task configurations."""
        return STAND_IN_CONFIGURATIONS if self.stands_in else int(self.paper["configurations"])

    @property
    def preset(self) -> str:
        """The paper's settings: for its images and networks, or for embeddings."""
        return str(self.paper["preset"]) if runs.holds_images(self.file) else PRESET


def find_data(
    given: Sequence[str], out: Path, notify: Callable[[str], None] = lambda _: None
) -> dict[str, IIRCData]:
    """The data sets of a reproduction by name; without any, the shipped emoji are used.

    `given` are "cifar=FILE", "imagenet-lite=FILE", "imagenet-full=FILE", or FILE for a stand-in.
    """
    files = named_files(given, OFFICIAL, out, notify)
    return {name: IIRCData(path, official) for name, (path, official) in files.items()}


@dataclass
class IIRCRuns(runs.PaperRuns):
    """The runs of every learner on every task configuration of each data set; `data` by name."""

    data: dict[str, IIRCData] = field(kw_only=True)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(dict.fromkeys(v.learner for v in VARIANTS.values()))
    _chosen: list[int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for item in self.items:
            if item.startswith(CHOSEN):
                self._chosen = parse_seeds(item.removeprefix(CHOSEN))
        self.items = [i for i in self.items if not i.startswith(CHOSEN)]

    def configurations(self, name: str) -> list[int]:
        """Indices of the task configurations: the user's, or all."""
        return self._chosen or list(range(self.data[name].configurations))

    def specs(self, name: str, variant: str, configuration: int) -> list[RunSpec]:
        """One spec per seed, on an official configuration or one of the file's hierarchy."""
        chosen, data = VARIANTS[variant], self.data[name]
        hierarchy = "file" if data.official is None else f"iirc-{data.official}"
        protocol = {"hierarchy": hierarchy, "configuration": configuration}
        fixed = read_settings({"protocol": protocol}) | chosen.fixed
        settings = read_settings({"references": 0})  # no table shows Ω
        return self.plan(
            chosen.learner, PROTOCOL, [data.file], settings, fixed=fixed, preset=data.preset
        )

    def of(self, name: str, variant: str) -> list[list[RunRecord]]:
        """The finished runs that means may include: one list per configuration with runs."""
        each = (self.records(self.specs(name, variant, k)) for k in self.configurations(name))
        return [records for records in each if records]

    def curve(self, name: str, variant: str, read: Read) -> Floats | None:
        """(n, T) a curve for each configuration, mean over its seeds; None without runs.

        Runs with fewer sessions than the others end in NaN.
        """
        means = [
            np.mean([np.array(read(r), dtype=np.float64) for r in records], axis=0)
            for records in self.of(name, variant)
        ]
        if not means:
            return None
        longest = max(map(len, means))
        return np.stack([np.append(m, np.full(longest - len(m), np.nan)) for m in means])

    def sessions(self, name: str) -> int:
        """Number of sessions of the longest finished run; 0 without runs."""
        curves = [self.curve(name, n, reader("pw_js")) for n in LEARNERS]
        return max((c.shape[1] for c in curves if c is not None), default=0)

    def answers(self, name: str, variant: str) -> tuple[LabelSets, Sequence[str]] | None:
        """Label sets and class names of the first finished run; None without runs."""
        for k in self.configurations(name):
            for spec in self.specs(name, variant, k):
                task = make_task(spec, self.out / "runs", self.streams)
                if task.is_done():
                    return LabelSets.load(task.run_dir / "predictions.h5"), task.stream.classes
        return None


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> IIRCRuns:
    """Return the runs on the requested files."""
    return asked.runs(IIRCRuns, data=find_data(asked.data, asked.out, asked.notify))


def plan_runs(runs: IIRCRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once."""
    variants = list(BUFFERS) if "buffer" in tables and "er" in runs.learners else []
    if set(tables) - {"buffer"}:
        variants = [*runs.learners, "joint", *variants]
    specs = []
    for name in runs.data:
        for k in runs.configurations(name):
            by_variant = [runs.specs(name, variant, k) for variant in variants]
            specs += [spec for seed in zip(*by_variant, strict=True) for spec in seed]
    return specs


def reader(name: str) -> Read:
    """A function that reads a curve: R_j of a base score, "newest" (R_jj), or one of the record."""
    if name == "newest":
        return lambda r: np.diagonal(_matrix(r))
    if name in ("pw_js", "js", "exact_match"):
        return lambda r: r.by_score[name].pooled
    return lambda r: (r.curves or {})[name]


def _matrix(record: RunRecord) -> Floats:
    """R_jk for pw-JS, (T, T)."""
    return np.array(record.by_score["pw_js"].R, dtype=np.float64)


def _column(k: int, record: RunRecord) -> Floats:
    column: Floats = _matrix(record)[:, k]
    return column


# --- tables ---


def score_tables(number: str, runs: IIRCRuns) -> list[PaperTable]:
    """Table 5, 6 or 7: pw-JS after every session, of its data set or of files that replace it."""
    return [_scores(runs, name) for name, d in runs.data.items() if d.paper["table"] == number]


def _scores(runs: IIRCRuns, name: str) -> PaperTable:
    """The published table of a data set, with our values beside it."""
    data = runs.data[name]
    curves = {n: runs.curve(name, n, reader("pw_js")) for n in COLUMNS}
    ours = {n: values for n, values in curves.items() if values is not None}
    table = _beside(data.paper, ours, runs.sessions(name))
    if data.stands_in:
        table.stand_in(data.file.stem, data.label)
        table.title = table.title.replace(data.paper["label"], data.label)
        table.notes.append("other classes in other sessions: rows agree in their numbers alone")
    table.notes.append(
        f"in brackets the paper's standard deviation over {data.paper['configurations']} task "
        f"configurations; ± is our 95 % interval over {len(runs.configurations(name))} of them, "
        f"of each the mean over its seeds ({', '.join(map(str, runs.seeds))})"
    )
    return table


def _beside(official: Mapping[str, Any], ours: Mapping[str, Floats], sessions: int) -> PaperTable:
    """A printed table, and beside it our (n, T) values by learner."""
    paper = {row["task"]: row for row in FACTS["printed"]["tables"][official["table"]]}
    last = (sessions or len(paper)) - 1
    columns = [n for n in COLUMNS if n in ours or any(n in row["pw_js"] for row in paper.values())]
    heads = [VARIANTS[n].label for n in columns]
    table = PaperTable.of_facts(FACTS, "scores", columns=heads, label=official["label"])
    table.name = official["table"]
    for t in range(max(last, max(paper)) + 1):
        printed = paper.get(t, {"pw_js": {}, "sd": {}})
        values = {}
        for n, head in zip(columns, heads, strict=True):
            at = 0 if n == "joint" and t == last else t if n != "joint" else -1
            mine = ours.get(n)
            some = mine is not None and 0 <= at < mine.shape[1]
            stat = Stat.of(mine[:, at]) if mine is not None and some else None
            mean, sd = printed["pw_js"].get(n), printed["sd"].get(n)
            values[head] = Value(mean, stat, 2, sd=sd)
        table.rows.append(((str(t),), values))
    return table


def _measures(runs: IIRCRuns, name: str) -> PaperTable:
    """Numbers that the paper's claims are about and that it shows in figures only."""
    table = PaperTable.of_facts(FACTS, "measures", file=name, label=runs.data[name].label)
    reads: list[Read] = [
        lambda r: np.diagonal(_matrix(r))[len(r.pooled) // 2 :].mean(),
        lambda r: _last(r, "labels_predicted") / (_last(r, "labels_true") or np.nan),
        *(partial(_last, name=n) for n in ("labels_newest", "subclass_precision")),
        partial(_last, name="lone_subclass_precision"),
    ]
    for learner, variant in LEARNERS.items():
        if found := runs.of(name, learner):
            values = {
                head: Value(None, Stat.of(np.mean([read(r) for r in each]) for each in found), 2)
                for head, read in zip(table.columns, reads, strict=True)
            }
            table.rows.append(((variant.label,), values))
    return table


measures = per_file(_measures)


def _last(record: RunRecord, name: str) -> float:
    return float((record.curves or {})[name][-1])


# --- figures ---


def figure(key: str, runs: IIRCRuns) -> list[PaperTable]:
    """A figure of `[figures]` for each data set: a picture per part, a curve per learner."""
    return [_figure(runs, name, FIGURES[key], _parts(key, runs, name)) for name in runs.data]


def _parts(key: str, runs: IIRCRuns, name: str) -> dict[str, Read]:
    """The pictures of a figure, and what each reads of a run."""
    if key == "sessions":
        ks = sessions_to_follow(runs.sessions(name))
        return {f"pw-JS on session {k} (R_j{k})": partial(_column, k) for k in ks}
    if key == "depth":  # the paper's hierarchies have two depths
        records = (r for n in LEARNERS for each in runs.of(name, n) for r in each)
        curves = getattr(next(records, None), "curves", None) or {}
        depths = [k for k in curves if k.startswith("depth_")]
        return {f"pw-JS, depth {k.split('_')[1]}": reader(k) for k in depths}
    return {what: reader(k) for what, k in FIGURES[key]["parts"].items()}


def _figure(
    runs: IIRCRuns, name: str, about: Mapping[str, Any], parts: Mapping[str, Read]
) -> PaperTable:
    label, styles, joint = runs.data[name].label, learner_styles(LEARNERS), about.get("joint", True)
    table = _empty(about, name, label)
    for what, read in parts.items():
        drawn = {styles[n]: runs.curve(name, n, read) for n in LEARNERS}
        once = runs.curve(name, "joint", read) if joint else None
        ideal = float("nan") if once is None else float(once[:, -1].mean())
        true = next((v for n in LEARNERS if (v := _true(runs, name, n, about)) is not None), None)
        more = {"unit": about.get("unit", "%"), "deviations": True}
        table.figures += draw_curves(f"{label}: {what}", drawn, ideal=ideal, true=true, **more)
    table.across = 3 if len(table.figures) == 3 else 2
    bands = f"{BANDS}; dashed: joint, all classes at once" if joint else BANDS
    table.notes[:0] = [legend({styles[n]: v.label for n, v in LEARNERS.items()}), bands]
    return table


def _empty(about: Mapping[str, Any], name: str, label: str) -> PaperTable:
    """The table of a figure, without pictures."""
    notes = [about["note"]] if "note" in about else []
    title = f"{about['name']}: {about['title']}, {label}"
    return PaperTable(f"{about['name']} · {name}", title, (), (), notes=notes, across=2)


def _true(runs: IIRCRuns, name: str, learner: str, about: Mapping[str, Any]) -> Floats | None:
    """(1, T) what all learners should reach, where a figure has it."""
    values = runs.curve(name, learner, reader(about["true"])) if "true" in about else None
    return None if values is None else values.mean(axis=0, keepdims=True)


def sessions_to_follow(n_sessions: int) -> list[int]:
    """Sessions to follow: four evenly spaced between the first and the last.

    >>> sessions_to_follow(22), sessions_to_follow(3), sessions_to_follow(0)
    ([4, 8, 13, 17], [1], [])
    """
    steps = np.linspace(0, n_sessions - 1, FOLLOWED + 2)[1:-1].round()
    return sorted({int(k) for k in steps if 0 < k < n_sessions - 1})


def _confusion(runs: IIRCRuns, name: str) -> PaperTable:
    """Figures 6 and A.18 to A.26: labels given to the samples of each class."""
    table = _empty(FIGURES["confusion"], name, runs.data[name].label)
    for learner in LEARNERS:
        if answers := runs.answers(name, learner):
            if not table.figures:
                table.figures += _confusions(*answers, f"{name}, true labels", truth=True)
            caption = f"{name}, {VARIANTS[learner].label}"
            table.figures += _confusions(*answers, caption, truth=False)
    return table


def _confusions(
    p: LabelSets, names: Sequence[str], caption: str, *, truth: bool
) -> list[tuple[str, str]]:
    """A picture after each of the paper's sessions, and one after the last session."""
    from embedbench.reports.matrix_figures import heat_map

    order = introduction_order(p)
    ends = {int(s): m for m, s in enumerate(p.session)}  # the last moment of each session
    pictures = []
    for session in sorted({*CONFUSED_AFTER, max(ends)} & set(ends)):
        chosen = chosen_classes(int(p.seen[ends[session]].sum()))
        shares = confusion(p, ends[session], truth=truth)[np.ix_(chosen, chosen)]
        title = f"{caption}, after session {session}"
        axes: Any = {"axes_names": ("true label", "label given")}
        axes["names"] = [names[c] for c in order[chosen]]
        pictures.append((title, heat_map(shares, title, 1.4 + 0.12 * len(chosen), **axes)))
    return pictures


def chosen_classes(seen: int) -> Ints:
    """Positions, in order of introduction, of the classes that a confusion matrix shows.

    >>> chosen_classes(4)
    array([0, 1, 2, 3])
    >>> len(chosen_classes(60)), chosen_classes(60)[-6:]
    (25, array([54, 55, 56, 57, 58, 59]))
    """
    if seen <= FIRST + MIDDLE + LAST:
        return np.arange(seen)
    between = np.linspace(FIRST, seen - LAST - 1, MIDDLE).round().astype(np.int64)
    return np.concatenate([np.arange(FIRST), between, np.arange(seen - LAST, seen)])


def _buffers(runs: IIRCRuns, name: str) -> PaperTable:
    """Figures A.27 and A.28: ER with more and fewer exemplars per class."""
    label, drawn = runs.data[name].label, {}
    table = _empty(FIGURES["buffer"], name, label)
    table.heads, table.columns = ("learner",), ("pw-JS in the end", "mean over sessions")
    for style, (variant, of) in enumerate(BUFFERS.items()):
        curves = runs.curve(name, variant, reader("pw_js"))
        if curves is not None:
            drawn[style] = curves
            stats = (Stat.of(curves[:, -1]), Stat.of(curves.mean(axis=1)))
            pairs = zip(table.columns, stats, strict=True)
            table.rows.append(((of.label,), {h: Value(None, s, 2) for h, s in pairs}))
    caption = f"{label}: pw-JS of ER by exemplars a class"
    table.figures += draw_curves(caption, drawn, deviations=True)
    table.notes += [legend({i: v.label for i, v in enumerate(BUFFERS.values())}), BANDS]
    return table


SPECIAL = {"confusion": per_file(_confusion), "buffer": per_file(_buffers)}
PAPER = Paper(
    FACTS,
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=lambda: [_beside(official, {}, 0) for official in OFFICIAL.values()],
    exact={number: partial(count_table, number, FACTS) for number in ("1", "2", "3")},
    tables={
        **{number: partial(score_tables, number) for number in ("5", "6", "7")},
        "measures": measures,
        **{key: SPECIAL.get(key) or partial(figure, key) for key in FIGURES},
    },
)
