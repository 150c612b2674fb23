"""The settings of all learners: their defaults, their documentation, and where they come from."""

import dataclasses
import hashlib
import inspect
import json
import re
from typing import Any

import pytest

from embedbench.config.fields_added_later import identity
from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.learning.learner import Learner, learns_sessions
from embedbench.learning.net_learner import NetLearner
from embedbench.models.er import ER
from embedbench.models.fr import FR
from embedbench.models.si import SI
from embedbench.runs.learner_and_protocol_names import (
    ALIASES,
    alias_settings,
    learner_class,
    learner_names,
)

# SHA-256 of the JSON of the settings that a run has without --set, as a record's place is made
# from it: another value here makes finished runs run again. Learners that join later may be left
# out.
GOLDEN = {
    "agem": "1b8646f55c5a3b45",
    "alice": "34e2097b118d8065",
    "bic": "a5c3f1a7a7c1d533",
    "c-fscil": "e3ec8a4320d6195f",
    "chance": "44136fa355b3678a",
    "derpp": "f01301ca9b44fed4",
    "er": "f33f759ea760ed1c",
    "er-ace": "74ade2152e1345a4",
    "er-infinite": "b8b1db09cbc87c76",
    "ewc": "d38d183060c56990",
    "fecam": "0a9483e80f3e2974",
    "fel": "a8c0e4cdafe67d88",
    "finetune": "5dcd185eab605161",
    "fr": "47bfca9cfc74dcc7",
    "gdumb": "4a87b378f30e2373",
    "geppnet": "3bd165fa12318d34",
    "geppnet-stm": "a33ca52ae82e880a",
    "gss": "8ee627eaf4f663dd",
    "icarl": "0cd6f3d141cb8aaf",
    "icarl-cnn": "56ce43f32e1bb19a",
    "icarl-norm": "9f5541d9e30e2054",
    "il2m": "138ba704db5262d3",
    "incremental-joint": "bfdee4805fcb8d64",
    "joint": "bfdee4805fcb8d64",
    "lucir": "a08121d7eacc161a",
    "lwf": "bba8a780b5256dd8",
    "mas": "1477fb99a828aa3c",
    "mir": "b45b9c47f655755a",
    "mlp": "5dcd185eab605161",
    "nc-fscil": "114f2cd2d1e0be45",
    "ncm": "ea9dd47852b73610",
    "offline": "e8b7b66b8a4e75cd",
    "pathnet": "26f2a188506f7969",
    "prototype": "6b67fce03ddcbe23",
    "ranpac": "340349bc18be0d83",
    "remind": "e0f312337f2e376c",
    "si": "49afde09f50e06bb",
    "slda": "512661814b58eb88",
    "teen": "9c13a5155fbdc7bf",
}
PATIENT = {
    "batch_size": 256,
    "lr": 8e-4,
    "optimiser": "nadam",
    "stop": {"rule": "patience", "epochs": 200},
}
EARLIER: dict[str, dict[str, Any]] = {  # the defaults then
    "agem": {"lr": 0.05},
    "derpp": {"lr": 0.02, "updates": 1},
    **dict.fromkeys(("icarl", "icarl-cnn", "icarl-norm"), PATIENT),
    "ranpac": {"lam_rule": "session"},
    "slda": {"shrinkage": 1e-4},
    **{n: {"updates": 1} for n in ("er", "er-ace", "er-infinite", "gss", "mir", "remind")},
}
OWN = [name for name in learner_names() if name not in ALIASES]
NET_LEARNERS = [name for name in OWN if issubclass(learner_class(name), NetLearner)]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_default_settings_are_those_of_finished_runs(name: str) -> None:
    then = alias_settings(name) | EARLIER.get(name, {})
    learner = make(learner_class(name), then, name=name)
    text = json.dumps(identity(learner), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == GOLDEN[name]


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


def documented(cls: type) -> set[str]:
    """The names in the section Parameters of a class's own docstring."""
    _, _, section = inspect.cleandoc(cls.__dict__.get("__doc__") or "").partition("\nParameters\n")
    section, _, _ = section.partition("\nExamples\n")
    heads = re.findall(r"^\w+(?:, \w+)*(?= :|$)", section, re.MULTILINE)
    return {name for head in heads for name in head.split(", ")}


@pytest.mark.parametrize("name", OWN)
def test_every_setting_is_documented(name: str) -> None:
    """In the docstring of the learner, or of a base that it shares."""
    cls = learner_class(name)
    known = set().union(*map(documented, cls.__mro__))
    assert {f.name for f in dataclasses.fields(cls)} <= known


def test_documented_names_are_read() -> None:
    assert documented(SI) == {"c", "xi"}
    assert {"trunk", "stop", "images"} <= documented(NetLearner)
    assert {"w_cos", "w_different", "layers"} <= documented(FR)


def test_settings_shared_by_all_can_be_set() -> None:
    made: Any = make(ER, {"lr": "0.3", "stop.epochs": "7"}, name="er")
    assert (made.lr, made.stop.epochs, made.batch_size, made.units) == (0.3, 7, 64, 400)
    with pytest.raises(UserError, match=r"^er\.lr must be above 0, got 0\.0$"):
        make(ER, {"lr": "0"}, name="er")


@pytest.mark.parametrize("name", OWN)
def test_a_learner_knows_its_name(name: str) -> None:
    assert learner_class(name).name == name


def test_a_learner_from_outside_has_the_name_of_its_file_or_its_own() -> None:
    class Mine(SI):
        __module__ = "package.my_file"

    class Named(SI):
        name = "other"

    assert Mine.name == "my-file"
    assert Named.name == "other"
    assert not hasattr(Learner, "name")
    with pytest.raises(UserError, match=r"^my-file\.lr must be above 0, got -1"):
        Mine(lr=-1)
