"""Domain-incremental: the same classes in every session, each time from another domain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from embedbench.array_types import Array
from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.streams import make_sessions as tools
from embedbench.streams.class_order import numbers_of
from embedbench.streams.load_table import load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.streams.taught_classes import NO_SPLIT, keep_classes


@dataclass(kw_only=True)
class DomainIncremental(Protocol):
    """Domain-incremental learning: a session for each domain, all classes in every session.

    The domain of a sample is in the file's column `domain`. All classes are known from the first
    session on. A domain that lacks a class teaches and tests the classes that it has. A class that
    no taught domain has is left out.

    **Source**: van de Ven et al. (2022), "Three types of incremental learning": the same classes,
    the domain not known at test. With `test="all"`: Lomonaco and Maltoni (2017), CORe50, new
    instances (NI): one fixed test set, from domains of its own, after every session.

    **Departs**: van de Ven et al. have all classes in every domain. Where one is missing we keep
    the rule that the classes are known in advance. Ω_new is divided by α_ideal, as on permutation
    streams, which are domain-incremental too.

    Parameters
    ----------
    domains : str
        Order of the domains: "natural" (sorted by name), "random" (drawn from the seed), or names
        with commas. Domains that are not named are not taught, and tested only with `test="all"`.
    sessions : int
        Number of sessions; neighbouring domains share one, the first sessions get one more if the
        numbers do not fit. 0: one session a domain.
    test : str
        "domain": each session has the test samples of its own domains. "all": all test samples are
        one eval set, which counts from session 0 on; they may be of domains that are never taught.
    loss : str
        "all": one head for all sessions. "session": a head a session, as of `permutation`.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> from embedbench import build_stream
    >>> from embedbench.files.import_features import import_file
    >>> path = f"{mkdtemp()}/toy.npz"
    >>> x, y, light = np.random.rand(80, 4), np.tile([0, 1], 40), np.repeat(["day", "night"], 40)
    >>> np.savez(path, features=x, labels=y, domain=light)
    >>> file = import_file(path, f"{path}.h5", split="0.25")
    >>> len(build_stream(file, "domain-incremental").sessions)
    2
    """

    domains: str = "natural"
    sessions: Annotated[int, at_least(0, 10_000)] = 0
    test: Literal["domain", "all"] = "domain"
    loss: Literal["all", "session"] = later("all", earlier="all")

    name: ClassVar[str] = "domain-incremental"
    normalise_new: ClassVar[bool] = True
    reveals_no_future: ClassVar[bool] = False  # all classes are known before they are taught
    checked: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"domains": "random", "sessions": 2},
        {"domains": "random", "test": "all"},
        {"loss": "session"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "session" and self.test == "all":
            raise UserError(
                "protocol.loss=session answers by the head of a sample's session, and "
                "protocol.test=all has test samples of no session",
                "leave one of the two out",
            )

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        file = self.take_file(files)
        domain = file.column("domain")
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        names, left_out = self._names(file, domain, split, seed)
        taught = split.train[np.isin(domain[split.train], names)]
        file = keep_classes(file, file.labels[taught], "that no taught domain has")
        split = split.where(file.split != NO_SPLIT)
        if self.sessions == 1 or self.sessions > len(names):
            raise UserError(
                "protocol.sessions",
                expected=f"2 to {len(names)} for {len(names)} domains, or 0",
                got=self.sessions,
            )
        groups = np.array_split(names, self.sessions or len(names))
        parts = [self._part(split, domain, group) for group in groups]
        if self.test == "all":  # the first session has the one eval set
            parts = [replace(part, test=split.test[:0]) for part in parts]
            parts[0] = replace(parts[0], test=split.test)
        sizes = np.array([np.count_nonzero(domain[split.train] == name) for name in names])
        few = tools.mean_rows(sizes, len(groups[0])) < self.scale_least
        table, features, fitted = load_table(file, self.scale, parts[0].train, few=few)
        everything = np.arange(file.samples.n_leaves)
        nothing = everything[:0]
        pairs = [
            tools.make_session(
                table,
                file,
                part,
                classes=everything if len(part.test) else nothing,
                introduces=nothing if k else everything,
            )
            for k, part in enumerate(parts)
        ]
        if self.loss == "session":
            pairs = tools.own_losses(pairs)
        stream = self.make_stream(
            tools.flat_spec(table, file, loss=self.loss),
            pairs,
            [file],
            features,
            samples=(file.digests["samples"], file.digests["columns"]),
            can_reveal=self.test == "domain",
            fitted=fitted,
            notes=self._notes(names, left_out),
        )
        return stream.revealed() if self.loss == "session" else stream

    def later_readings(self, files: Sequence[EmbeddingFile]) -> tuple[str, ...]:
        readings = super().later_readings(files)
        if self.domains in ("natural", "random"):  # all are taught
            return readings
        file = self.take_file(files)
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        domain = file.column("domain")
        names, _ = self._names(file, domain, split, 0)
        rows = split.train[np.isin(domain[split.train], names)]
        if keep_classes(file, file.labels[rows], "") is file:
            return readings
        return (*readings, "classes that no taught domain has are left out")

    def _notes(self, names: Array, left_out: int) -> tuple[str, ...]:
        """How many domains are not taught; and numbers that are sorted as text."""
        notes = (f"domains that are not taught: {left_out}",) if left_out else ()
        numbers = numbers_of(names.tolist())
        if self.domains != "natural" or numbers is None or numbers == sorted(numbers):
            return notes
        by_number = ",".join(name for _, name in sorted(zip(numbers, names.tolist(), strict=True)))
        return (
            *notes,
            f"the domains are numbers in the order of text; protocol.domains={by_number} has them "
            "by number",
        )

    def _names(
        self, file: EmbeddingFile, domain: Array, split: tools.Split, seed: int
    ) -> tuple[Array, int]:
        """The domains in the order of the sessions, and how many are left out."""
        known = np.unique(domain[split.train] if self.test == "all" else domain)
        if len(known) < 2:
            raise UserError(
                f"all samples of {file.path.name} are of one domain, and {self.name} takes several",
                "run it under --protocol incremental-class",
            )
        if self.domains == "natural":
            return known, 0
        if self.domains == "random":
            return np.random.default_rng(seed).permutation(known), 0
        names = [name.strip() for name in self.domains.split(",")]
        if len(names) < 2 or len(set(names)) < len(names) or not {*names} <= {*known.tolist()}:
            raise UserError(
                "protocol.domains",
                expected=f"two or more of {', '.join(known[:20])}, each once",
                got=self.domains,
            )
        return np.array(names), len(known) - len(names)

    def _part(self, split: tools.Split, domain: Array, names: Array) -> tools.Split:
        """The samples of a session; one with nothing to learn or to test is refused."""
        part = split.where(np.isin(domain, names))
        if not len(part.train) or (self.test == "domain" and not len(part.test)):
            what = "test" if len(part.train) else "training"
            raise UserError(
                f"no {what} samples for the session of {', '.join(names[:3].tolist())}",
                "name the other domains with --set protocol.domains=A,B, use --set "
                "protocol.test=all for one test set of all domains, or give the file a split "
                "that cuts every domain (--split)",
            )
        return part
