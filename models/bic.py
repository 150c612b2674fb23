import copy
import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.array_types import Bools
from embedbench.config.fields_added_later import later
from embedbench.config.run_seeds import generator
from embedbench.config.setting_ranges import above, within
from embedbench.errors import UserError
from embedbench.learning import Context, Exemplars, ReplayLearner, Seeds, Session, StreamSpec, Tags
from embedbench.learning.exemplars import Memory, require_exemplars, session_classes
from embedbench.learning.loss import Objective, distilling_loss, set_loss, soft_targets
from embedbench.learning.network import predict
from embedbench.learning.sample_containers import with_data

PENALTY = 0.1  # weight of (α - 1)²/2 and β²/2, added to the cross-entropy


@dataclass
class BiC(ReplayLearner):
    """Bias correction: distillation with exemplars; two numbers a session then undo the bias.

    The answer for a class that session s introduced is α_s z + β_s.

    A session is learned with all exemplars except a hold-out. The loss is (1 - λ) cross-entropy + λ
    distillation; λ is the old classes' share of all classes. Then the network is frozen, and the
    newest (α, β) are fitted on the hold-out; those of older sessions do not change. The targets of
    distillation are the old network's corrected answers, and the answers in training are corrected,
    too. For label sets, binary cross-entropy is used to learn, as in `icarl`, and to fit (α, β).

    **Source**: Wu et al. (2019), "Large scale incremental learning"; T = 2, a tenth of the
    exemplars held out.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s. The paper corrects only
    the newest classes; one pair per session is FACIL's way. The two numbers are the optimum of a
    convex loss; libraries use 200 epochs of gradient descent. The paper's code and FACIL add
    .1 β²/2 to this loss; we also add .1 (α - 1)²/2, without which separable classes have no
    optimum. The hold-out has equally many samples of every class: a tenth of the smallest list of
    exemplars, at least one. For the session's classes it is drawn from the session, at most half of
    a class. For old classes it is drawn anew in every session, from exemplars that were trained on;
    with `hold_out_kept` it is set aside for good, as in FACIL. A class that comes again keeps the
    (α, β) of the session that introduced it. For label sets there is no source: a sample is in the
    hold-out for the first label that its session introduced; the loss of the fit is the mean over
    the newest classes. A rule that watches pw-JS or accuracy watches the uncorrected answers.

    **Measured**: on Spoken100 (ten sessions, preset `league`, four epochs, three seeds)
    `hold_out_kept` has the same final accuracy, 56.3 % for 56.2, forgets less (12.9 for 16.0) and
    learns less (67.5 for 70.6).

    Parameters
    ----------
    temperature : float
        T > 0.
    hold_out : float
        Share of a class's exemplars to hold out, in (0, 1).
    memory : Memory
        At least one exemplar per class, "herding", "random" or "all".
    hold_out_kept : bool
        When a class is new, set its share of the exemplars aside (rounded up, at most half of the
        class; with "all", a share of the class). No session trains on these samples, and they count
        as exemplars. As the quota shrinks, so does each class's part. Not for label sets.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "bic"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    temperature: Annotated[float, above(0)] = 2.0
    hold_out: Annotated[float, within("(0, 1)")] = 0.1
    memory: Memory = field(default_factory=Memory)
    hold_out_kept: bool = later(False, earlier=False)

    tags: ClassVar[Tags] = Tags(stores_samples=True, multilabel=True, images=True)
    state: ClassVar[dict[str, str]] = {
        **ReplayLearner.state,
        "biases": "biases",
        "session_of": "biases",
        "kept": "samples",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_exemplars(self, "fits its corrections to exemplars")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        if self.hold_out_kept and spec.multilabel:
            raise UserError(
                "bic.hold_out_kept is for streams of one label a sample", "drop it here"
            )
        self.kept = Exemplars(Memory(select="all"), spec, seeds.memory, device)  # never trained on
        self.biases = torch.zeros(0, 2, device=device)  # (sessions, 2): α, β
        # the session that introduced a class; 0 for unseen classes, too
        self.session_of = torch.zeros(spec.n_classes, dtype=torch.int64, device=device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        present = session_classes(session)
        seen = set(self.exemplars.classes)
        old = sorted(seen - present)
        new = sorted(present - seen)
        self.session_of[new] = len(self.biases)
        self.biases = torch.cat([self.biases, self.biases.new_tensor([[1.0, 0.0]])])
        held, held_y = None, None
        if self.hold_out_kept:
            session = self._set_aside(session, new)
        joined = self.exemplars.join(session)
        if old and new and self.hold_out_kept:
            held = self.kept.x
            held_y = self.kept.y
        elif old and new:
            joined, held, held_y = self._hold_out(joined, old)
        log = self.train(joined, ctx, objective=self._objective(old, sorted(present | seen)))
        if held is not None and held_y is not None and len(held):
            self.biases[-1] = self._fitted(held, held_y, new, sorted(present | seen))
        self.exemplars.choose(session, self.features)
        alpha, beta = self.biases[-1].tolist()
        return log | {"alpha": alpha, "beta": beta, "held_out": 0 if held is None else len(held)}

    def _hold_out(self, joined: Session, old: list[int]) -> tuple[Session, Tensor, Tensor]:
        """The session without a class-balanced part, and that part: x (h, D), y (h,) or (h, C)."""
        y = torch.from_numpy(joined.y)
        n_new = len(y) - len(self.exemplars)
        lists = y  # the class that each sample counts for
        if y.ndim == 2:
            first = _first_of(y[:n_new], sorted(session_classes(joined)))
            lists = torch.cat([first, self.exemplars.lists.cpu()])
        mixed = torch.randperm(len(y), generator=generator(self.seeds.memory, self.learned))
        fresh = mixed[mixed < n_new]
        sources = {c: (mixed if c in old else fresh) for c in set(lists.tolist()) if c >= 0}
        rows = {c: index[lists[index] == c] for c, index in sources.items()}
        size = max(1, int(self.hold_out * min((len(rows[c]) for c in old if c in rows), default=0)))
        taken = [r[: size if c in old else min(size, len(r) // 2)] for c, r in rows.items()]
        held = torch.cat(taken)
        left = torch.ones(len(y), dtype=torch.bool)
        left[held] = False
        x = joined.x.batch(held.to(self.device), self.device)
        return _rows_of(joined, left.numpy()), x, y[held].to(self.device)

    def _set_aside(self, session: Session, new: list[int]) -> Session:
        """Move a share of the classes `new` to the permanent hold-out; return the rest.

        The quota of a class is split between its hold-out and its exemplars.
        """
        quota = self.memory.quota(len({*self.exemplars.classes, *new}))
        mixed = np.random.default_rng([self.seeds.memory, self.learned]).permutation(len(session.y))
        apart = np.zeros(len(session.y), dtype=bool)
        for c in new:
            rows = mixed[session.y[mixed] == c]
            size = held_size(self.hold_out, len(rows) if quota is None else quota)
            apart[rows[: min(size, len(rows) // 2)]] = True
        if quota is not None:
            size = held_size(self.hold_out, quota)
            self.kept.memory = Memory(per_class=size, select="random")
            self.exemplars.memory = replace(self.memory, total=None, per_class=quota - size)
        if apart.any() or len(self.kept):
            self.kept.choose(_rows_of(session, apart), lambda x: x)
        return _rows_of(session, ~apart)

    def _fitted(self, x: Tensor, y: Tensor, new: list[int], seen: list[int]) -> Tensor:
        """The (α, β) of the classes `new` that fit the hold-out best."""
        logits = self.corrected(predict(self.net, x))
        if y.ndim == 2:
            return fitted_bias(logits[:, new], y[:, new], range(len(new)))
        place = {c: k for k, c in enumerate(seen)}
        labels = torch.tensor([place[c] for c in y.tolist()], device=self.device)
        return fitted_bias(logits[:, seen], labels, [place[c] for c in new])

    def _objective(self, old: list[int], seen: list[int]) -> Objective:
        classes = torch.tensor(seen, device=self.device)
        share = len(old) / len(seen)
        parts = (1 - share, share)
        t = self.temperature
        if not self.spec.multilabel:
            return distilling_loss(self.net, classes, [old], t, parts, self.corrected)
        teacher = copy.deepcopy(self.net)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = self.corrected(self.net(x))
            before = self.corrected(predict(teacher, x))
            return set_loss(logits, soft_targets(y, before, old), classes)

        return loss

    def corrected(self, logits: Tensor) -> Tensor:
        """α_s z + β_s for every class, s the session that introduced it, (n, C)."""
        alpha, beta = self.biases[self.session_of].T  # (C,)
        out: Tensor = logits * alpha + beta
        return out

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return self.corrected(predict(self.net, x))


def held_size(share: float, quota: int) -> int:
    """Samples of a class in the permanent hold-out: `share` of its quota, rounded up, never all.

    >>> held_size(0.1, 20), held_size(0.1, 5), held_size(0.1, 1)
    (2, 1, 0)
    """
    return min(math.ceil(share * quota - 1e-9), quota - 1)


def _rows_of(session: Session, chosen: Bools) -> Session:
    """The session's `chosen` training samples, (n,)."""
    x = session.x.select(chosen.nonzero()[0])
    return with_data(session, x, session.y[chosen], ids=session.ids[chosen])


def _first_of(y: Tensor, classes: list[int]) -> Tensor:
    """The first of `classes` in each label set of y (n, C), (n,); -1 if there is none."""
    given = y[:, classes]
    first = torch.tensor(classes)[given.int().argmax(1)]
    return first.masked_fill(~given.any(1), -1)


def fitted_bias(logits: Tensor, y: Tensor, new: Collection[int]) -> Tensor:
    """The (α, β) of the classes `new` that minimise the cross-entropy, with equal weight per class.

    The logits (n, k) of old classes are corrected already. y are labels (n,) in [0, k), or label
    sets (n, k): for these it is the binary cross-entropy, with equal weight per sample.
    """
    logits = logits.double()
    weight = torch.full((len(y),), 1 / len(y), dtype=torch.float64, device=logits.device)
    if y.ndim == 1:
        counts = torch.bincount(y, minlength=logits.shape[1]).double()
        weight = 1 / (counts[y] * (counts > 0).sum())  # (n,), sums to 1
    is_new = torch.zeros(logits.shape[1], dtype=torch.float64, device=logits.device)
    is_new[list(new)] = 1
    bias = torch.tensor([1.0, 0.0], dtype=torch.float64, device=logits.device, requires_grad=True)
    optimiser = torch.optim.LBFGS([bias], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        moved = logits * (1 + is_new * (bias[0] - 1)) + is_new * bias[1]
        if y.ndim == 2:
            losses = nn.functional.binary_cross_entropy_with_logits(
                moved, y.double(), reduction="none"
            ).mean(1)
        else:
            losses = nn.functional.cross_entropy(moved, y, reduction="none")
        loss = (weight * losses).sum()
        loss = loss + PENALTY / 2 * ((bias[0] - 1) ** 2 + bias[1] ** 2)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return bias.detach().float()
