"""The settings of all learners: their defaults, their documentation, and where they come from."""

import dataclasses
import hashlib
import inspect
import json
import re
from typing import Any

import pytest
from file_helpers import says
from teaching import start

from embedbench.config.fields_added_later import identity
from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.learning.learner import Learner, learns_sessions
from embedbench.learning.net_learner import NetLearner
from embedbench.models.si import SI
from embedbench.runs.learner_and_protocol_names import (
    ALIASES,
    alias_settings,
    learner_class,
    learner_names,
)
from embedbench.streams.stream import StreamSpec

# SHA-256 of the JSON of the settings that a run has without --set, as a record's place is made
# from it: another value here makes finished runs run again. Learners that join later may be left
# out.
HASHES = """
acil:a130f262ca561c81 agem:1b8646f55c5a3b45 alice:34e2097b118d8065
bic:a5c3f1a7a7c1d533 c-fscil:e3ec8a4320d6195f chance:44136fa355b3678a
derpp:f01301ca9b44fed4 eeil:a93f486bf05fb107 er:f33f759ea760ed1c
er-ace:74ade2152e1345a4 er-infinite:b8b1db09cbc87c76 ewc:d38d183060c56990
exstream:7964a983c03a8a6f fearnet:0c0c070b72629823 fecam:0a9483e80f3e2974
fel:a8c0e4cdafe67d88 finetune:5dcd185eab605161 fr:47bfca9cfc74dcc7
gdumb:4a87b378f30e2373 geppnet:3bd165fa12318d34 geppnet-stm:a33ca52ae82e880a
gss:8ee627eaf4f663dd icarl:0cd6f3d141cb8aaf icarl-cnn:56ce43f32e1bb19a
icarl-norm:9f5541d9e30e2054 il2m:138ba704db5262d3 incremental-joint:bfdee4805fcb8d64
joint:bfdee4805fcb8d64 knn:4a83513b578c72c8 layup:66e492e06837c9d2
lucir:a08121d7eacc161a lwf:bba8a780b5256dd8 mas:1477fb99a828aa3c
mir:b45b9c47f655755a mlp:5dcd185eab605161 naive-bayes:0e647d6a9f27d16a
nc-fscil:114f2cd2d1e0be45 ncm:ea9dd47852b73610 offline:e8b7b66b8a4e75cd
one-vs-rest:4cc712e88251f5c4 pathnet:26f2a188506f7969 perceptron:44136fa355b3678a
prototype:6b67fce03ddcbe23 randumb:4af29d0fb166f70f ranpac:340349bc18be0d83
remind:e0f312337f2e376c si:49afde09f50e06bb slda:512661814b58eb88
teen:9c13a5155fbdc7bf wa:52d484695598930b
"""
NEWER = """
agem:2dc8ac609e034477 derpp:d6ffd99d6f1fcfe1 er:36953f34e81629ae er-ace:e629b67d35d54db6
er-infinite:4b39f7519c2e24c3 gss:c12e22bff55021ba icarl:14b1355befb402a0
icarl-cnn:a75428614d3cfa46 icarl-norm:e5976b23266d2838 mir:f7ccb87f460896e2
offline:6efe7f1a9098b8c0 ranpac:83a3f1d3f0cfb235 remind:fdd3de1c4ae4325b slda:888f9276dcf9f3d3
"""  # of the defaults now, where the first ones were others
GOLDEN, LATEST = (dict(p.split(":") for p in table.split()) for table in (HASHES, NEWER))
PATIENT: dict[str, Any] = {"batch_size": 256, "lr": 8e-4, "optimiser": "nadam"}
PATIENT |= {"stop": {"rule": "patience", "epochs": 200}}
EARLIER: dict[str, dict[str, Any]] = {  # the defaults then
    "agem": {"lr": 0.05},
    "derpp": {"lr": 0.02, "updates": 1},
    **dict.fromkeys(("icarl", "icarl-cnn", "icarl-norm"), PATIENT),
    "offline": {"learner": "mlp"},
    "ranpac": {"lam_rule": "session"},
    "slda": {"shrinkage": 1e-4},
    **{n: {"updates": 1} for n in ("er", "er-ace", "er-infinite", "gss", "mir", "remind")},
}

# Of a setting a value that is refused, and one at its bound that is not.
BOUNDS = {
    "acil": "projections:0:1 lam:0:1e-9",
    "agem": "memory.select:herding:reservoir",
    "alice": "scale:0:1e-9 margin:-.1:0 mixes:-1:0 shots:0:1 lr:0:1e-9",
    "bic": "temperature:0:1e-9 hold_out:1:.99 hold_out:0:.01 memory.per_class:0:1",
    "c-fscil": "mode:4:3 mode:0:1 nudge_lr:0:1e-9 units:0:1",
    "derpp": "alpha:-1:0 beta:inf:0",
    "eeil": "lam:-1:0 finetune_rate:0:1e-9 memory.per_class:0:1 memory.select:all:random "
    "passes:1:0",
    "er": "memory.select:herding:random memory.total:none:0 optimiser:sdg:sgd "
    "fill:epoch:first-epoch replay_weight:mean:sessions replay_by:draws:step memory_batch:-1:1",
    "ewc": "lam:-1:0 lam:nan:1 lam:inf:1 lam_start:0:1e-9 lam_decay:1:.99 lam_drop:2:1 gamma:1.5:1 "
    "fisher_samples:0:1 fisher:exakt:exact merge:per_task:per_session optimiser_state:keep:kept",
    "exstream": "buffer:kmean:kmeans replays:0:1 memory.per_class:-1:0 units:0:1",
    "fearnet": "covariance:diag:diagonal optimiser:adamm:adam epsilon:0:1e-9 period:0:1 "
    "pseudo:-1:0",
    "fecam": "beta:0:1 gamma1:0:1e-9 gamma2:1.5:1 covariance:bass:base",
    "fel": "value:signs:sign optimiser_state:keep:kept lr_later:0:1e-9 fan_in:1:2 fan_in:401:400 "
    "k_pos:-1:0 k_neg:1976:1975",
    "fr": "w_cos:-1:0 epochs:0:1 hidden:0:1 momentum:1:.99 ensemble:cosin:cosine "
    "optimiser:nadam:adam",
    "gdumb": "lr_min:.1:.05 clip:0:1e-9",
    "geppnet": "som.side:0:1 som.iterations:10:20000 som.hold:20001:20000 som.eps:1:.99 "
    "som.eps_end:0:1e-9 som.eps_later:-.1:0 som.sigma:0:1e-3 som.sigma_end:0:1e-3 "
    "som.kappa:0:1e-9 som.ema:1.1:1 som.sharpness:nan:1e-9 som.lr:-1:0 rehearsal.iterations:0:1 "
    "rehearsal.share:1.5:1 rehearsal.draws:balance:balanced",
    "geppnet-stm": "memory:0:1 period:0:1 sleep:0:1",
    "gss": "memory.select:reservoir:gradients memory.total:none:0 compared:0:1 averaged:0:1",
    "icarl": "memory.per_class:0:1 memory.total:-1:1 memory.select:balanced:random",
    "il2m": "rectified:logit:logits memory.select:balanced:random",
    "joint": "weights:new:kept lr:0:1e-9",
    "knn": "k:0:1 metric:cosinus:cosine memory.select:herding:balanced",
    "lucir": "lam:-1:0 margin:-.1:0 negatives:0:1 eta:0:1e-9 memory.select:balanced:random",
    "lwf": "lam:-1:0 temperature:0:1e-9 memory.select:balanced:random among:seen:stream",
    "mas": "lam:-1:0",
    "mir": "candidates:0:1 memory.select:gradients:reservoir",
    "naive-bayes": "shrinkage:0:1 likelihood:gauss:gaussian",
    "mlp": "units:0:1 layers:-1:0 batch_size:0:1 lr:0:1e-9 weight_decay:-.1:0 optimiser:sdg:sgd "
    "stop.rule:patiense:plateau stop.monitor:acuracy:accuracy stop.ties:last:earlier "
    "stop.epochs:0:1 stop.first_epochs:0:1 stop.patience:-1:0 stop.factor:0:.5 stop.factor:1:.5 "
    "stop.factor:nan:.5 images.augment:crop:none images.amp:fp16:none",
    "nc-fscil": "lr:0:1e-9",
    "ncm": "metric:cosin:cosine average:units:unit",
    "one-vs-rest": "score:ratios:ratio",
    "pathnet": "contestants:batch:batched population:1:2 active:0:1 patience:-1:0 val_samples:0:1 "
    "lr:nan:0",
    "prototype": "classifier.base:train:trained classifier.epochs:0:1",
    "randumb": "features:0:1 gamma:0:1e-9 shrinkage:0:1e-9 ensemble:0:1",
    "ranpac": "projections:0:1 lam:-1:0 lam_rule:sessions:session lam_sessions:0:1",
    "remind": "codes:0:1 base_samples:0:1 memory.select:herding:reservoir",
    "si": "c:-1:0 xi:0:1e-9",
    "slda": "weight:classes:class shrinkage:0:1 base_samples:-1:0",
    "teen": "alpha:1.5:1 scale:0:1e-9",
    "wa": "temperature:0:1e-9 memory.select:balanced:random",
}
OWN = [name for name in learner_names() if name not in ALIASES]
IMAGES = "agem bic chance er icarl joint lucir mlp offline derpp eeil er-ace ewc gdumb gss il2m lwf"
IMAGES += " mas mir si wa"
SETS = IMAGES.split()[:9]  # learn label sets, too
NET_LEARNERS = [name for name in OWN if issubclass(learner_class(name), NetLearner)]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_default_settings_are_those_of_finished_runs(name: str) -> None:
    now = alias_settings(name)
    for given, digest in ((now | EARLIER.get(name, {}), GOLDEN[name]), (now, LATEST.get(name))):
        text = json.dumps(identity(make(learner_class(name), given, name=name)), sort_keys=True)
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == (digest or GOLDEN[name])


def test_the_settings_of_a_net_learner_stand_in_one_place() -> None:
    """A learner writes a shared setting again only where its default is another one."""
    shared = {f.name: f for f in dataclasses.fields(NetLearner)}
    assert len(shared) == 11
    assert {"er", "ewc", "lucir", "mlp"} <= {*NET_LEARNERS}
    for name in NET_LEARNERS:
        cls = learner_class(name)
        settings = {f.name for f in dataclasses.fields(cls)}  # not those it makes fixed
        for field in set(inspect.get_annotations(cls)) & set(shared) & settings:
            assert getattr(cls(), field) != getattr(NetLearner(), field), (name, field)


def test_a_net_learner_alone_learns_nothing() -> None:
    assert not learns_sessions(NetLearner())
    with pytest.raises(TypeError, match="NetLearner has no learn"):
        NetLearner().learn(None, None)  # type: ignore[arg-type]  # neither is looked at


@pytest.mark.parametrize("name", BOUNDS)
def test_a_value_outside_the_bounds_of_a_setting_is_refused(name: str) -> None:
    for setting, wrong, right in (item.split(":") for item in BOUNDS[name].split()):
        make(learner_class(name), {setting: right}, name=name)
        with pytest.raises(UserError, match=rf"[._]{setting.rpartition('.')[2]}\b"):
            make(learner_class(name), {setting: wrong}, name=name)


def documented(cls: type) -> set[str]:
    """The names in the section Parameters of a class's own docstring."""
    _, _, section = inspect.cleandoc(cls.__dict__.get("__doc__") or "").partition("\nParameters\n")
    section, _, _ = section.partition("\nExamples\n")
    heads = re.findall(r"^\w+(?:, \w+)*(?= :|$)", section, re.MULTILINE)
    return {name for head in heads for name in head.split(", ")}


@pytest.mark.parametrize("name", OWN)
def test_every_setting_is_documented_and_a_learner_knows_its_name(name: str) -> None:
    """In the docstring of the learner, or of a base that it shares."""
    cls = learner_class(name)
    assert {f.name for f in dataclasses.fields(cls)} <= set().union(*map(documented, cls.__mro__))
    assert cls.name == name
    assert cls.tags.images == (name in IMAGES.split())
    assert cls.tags.multilabel == (name in SETS)


def test_a_learner_from_outside_has_the_name_of_its_file_or_its_own() -> None:
    class Mine(SI):
        __module__ = "package.my_file"

    class Named(SI):
        name = "other"

    assert Mine.name == "my-file"
    assert Named.name == "other"
    assert not hasattr(Learner, "name")
    with pytest.raises(UserError, check=says(what="my-file.lr", got=-1)):
        Mine(lr=-1)


LAYERED = StreamSpec((12,), 3, layers={"a": (4, 8), "b": (8, 12)})


@pytest.mark.parametrize(
    ("home", "settings", "numbers"),
    [
        ("pathnet", {"modules": 4, "units": 5, "layers": 3}, 4 * 5 * (12 + 5 + 5)),
        ("randumb", {"features": 6, "ensemble": 2}, 2 * 6 * (6 + 12 + 2 * 3)),
        ("ranpac", {"projections": 5}, 5 * (2 * 5 + 12)),  # two moments, with held-out samples
        ("ranpac", {"projections": 5, "lam_sessions": 2}, 5 * (2 * 5 + 12)),
        ("ranpac", {"projections": 5, "lam_sessions": 1}, 5 * (5 + 12)),
        ("ranpac", {"projections": 5, "lam": 1.0}, 5 * (5 + 12)),
        ("ranpac", {"projections": 5, "lam_rule": "session"}, 5 * (5 + 12)),
        ("fearnet", {"hidden": 5, "code": 4}, 2 * (12 * 5 + 5 * 4) + 4 * 3),
        ("layup", {}, (2 + 4) * 12 * 12),
        ("fr", {}, 4 * 2 * 4 * 4),
        ("fr", {"hidden": 5}, 4 * 2 * 4 * (4 + 5)),
        ("fel", {"units": 5, "fel_units": 50}, 5 * (12 + 50)),
        ("exstream", {"memory.per_class": 2}, 3 * 2 * 12),
        ("acil", {"projections": 5}, 5 * (5 + 12)),
        ("_som", {"som.side": 3}, 3 * 3 * (12 + 3)),
    ],
)
def test_the_bounded_size(home: str, settings: Any, numbers: int, monkeypatch: Any) -> None:
    asked: list[int] = []
    place = f"embedbench.models.{home}.check_size"
    monkeypatch.setattr(place, lambda _, numbers: asked.append(numbers))
    name = "geppnet" if home == "_som" else home
    start(make(learner_class(name), settings, name=name), LAYERED)
    assert asked == [numbers]
