"""offline: its learner on the merged stream."""

import numpy as np
import pytest
from toy import class_stream

from embedbench.config.fields_added_later import identity
from embedbench.errors import UserError
from embedbench.learning import Seeds, Stop, StreamSpec
from embedbench.models.mlp import MLP
from embedbench.models.offline import Offline
from embedbench.models.slda import SLDA
from embedbench.runs.stream_runner import run_stream


def test_offline_is_the_mlp_on_the_merged_stream_with_its_size() -> None:
    stream = class_stream([[0, 1], [2], [3]], spread=1.0)
    learner = Offline(mlp=MLP(units=10, stop=Stop(epochs=5)))
    offline, logs = run_stream(stream, learner, Seeds.of(4))
    plain, _ = run_stream(stream.merged(), MLP(units=10, stop=Stop(epochs=5)), Seeds.of(4))
    assert len(logs) == len(offline.session) == 1
    for name, value in vars(plain).items():
        np.testing.assert_array_equal(getattr(offline, name), value)
    assert learner.footprint() == learner.mlp.footprint()


def test_offline_may_be_slda_on_the_merged_stream() -> None:
    stream = class_stream([[0, 1], [2], [3]], spread=1.0, n_train=700)  # more than one batch
    offline, logs = run_stream(stream, Offline(learner="slda"), Seeds.of(4))
    plain, _ = run_stream(stream.merged(), SLDA(), Seeds.of(1))
    assert [log.log for log in logs] == [{"epochs": 1}]
    np.testing.assert_array_equal(offline.answer, plain.answer)
    old = Offline(learner="mlp")
    assert identity(old) == {"mlp": identity(old.mlp)}  # older runs stay finished


@pytest.mark.parametrize("spec", [StreamSpec((4,), 3, multilabel=True), StreamSpec((3, 8, 8), 3)])
def test_the_reference_slda_takes_vectors_with_one_class(spec: StreamSpec) -> None:
    with pytest.raises(UserError, match="slda takes vectors"):
        Offline(learner="slda").start(spec, Seeds.of(0), "cpu")
