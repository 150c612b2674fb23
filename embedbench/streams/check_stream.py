"""A stream made by hand: what no learner could be given is refused before a run."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from embedbench.config.typed_calls import check_type, is_whole
from embedbench.errors import UserError

from .stream import EvalSet, Session, Stream, StreamSpec
from .view import View


def check_stream(stream: Stream) -> None:
    """Refuse sessions and eval sets that do not fit the spec of their stream.

    Raises
    ------
    UserError
        It names the first part that is wrong.
    """
    _check_spec(stream.spec)
    if not len(stream.sessions) or not len(stream.eval_sets):
        raise UserError("this stream has no session or no eval set", "give it one of each")
    for i, session in enumerate(stream.sessions):
        check_type(session, Session, f"sessions[{i}]")
        _check_session(session, stream.spec, f"sessions[{i}]")
    for i, part in enumerate(stream.eval_sets):
        check_type(part, EvalSet, f"eval_sets[{i}]")
        _check_samples(part.x, part.y, part.ids, stream.spec, f"eval_sets[{i}]")
        for name in ("classes", "candidates"):
            _check_mask(getattr(part, name), stream.spec, f"eval_sets[{i}].{name}")


def _check_spec(spec: StreamSpec) -> None:
    check_type(spec, StreamSpec, "spec")
    sizes = spec.input_shape
    if not (isinstance(sizes, tuple) and len(sizes) in (1, 3) and all(map(_is_size, sizes))):
        raise UserError("input_shape", expected="(D,), or (C, H, W) of images", got=sizes)
    if not _is_size(spec.n_classes):
        raise UserError("n_classes", expected="a whole number from 1", got=spec.n_classes)
    check_type(spec.multilabel, bool, "multilabel")
    check_type(spec.layers, dict[str, tuple[int, int]], "layers")


def _is_size(value: Any) -> bool:
    return is_whole(value) and 0 < value < 2**31


def _check_session(session: Session, spec: StreamSpec, name: str) -> None:
    _check_samples(session.x, session.y, session.ids, spec, name)
    _check_samples(session.val_x, session.val_y, None, spec, f"{name}.val")
    classes = session.classes
    if not _are_classes(classes, spec.n_classes):
        raise UserError(
            f"{name}.classes", expected=f"an array of classes below {spec.n_classes}", got=classes
        )
    _check_mask(session.loss_classes, spec, f"{name}.loss_classes")


def _check_samples(x: Any, y: Any, ids: Any, spec: StreamSpec, name: str) -> None:
    """Refuse samples that are no view of the spec's shape, or labels and ids of other samples."""
    check_type(x, View, f"{name}.x")
    if x.shape != spec.input_shape:
        expected = f"samples of shape {spec.input_shape}"
        raise UserError(f"{name}.x", expected=expected, got=x.shape)
    for said in _faults_of_labels(y, len(x), spec):
        raise UserError(f"{name}.y", expected=said, got=y)
    whole = isinstance(ids, np.ndarray) and ids.shape == (len(x),) and ids.dtype.kind in "iu"
    if ids is not None and not whole:
        raise UserError(f"{name}.ids", expected=f"{len(x)} whole numbers", got=ids)


def _faults_of_labels(y: Any, n: int, spec: StreamSpec) -> Iterator[str]:
    if spec.multilabel:
        shape = (n, spec.n_classes)
        if not (isinstance(y, np.ndarray) and y.dtype == np.bool_ and y.shape == shape):
            yield f"an array of truth values of shape {shape}"
    elif not (_are_classes(y, spec.n_classes) and y.shape == (n,)):
        yield f"an array of {n} classes below {spec.n_classes}"


def _are_classes(values: Any, n_classes: int) -> bool:
    """Whether values are an array (k,) of classes."""
    if not (isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu"):
        return False
    return not values.size or bool(0 <= values.min() <= values.max() < n_classes)


def _check_mask(mask: Any, spec: StreamSpec, name: str) -> None:
    shape = (spec.n_classes,)
    fits = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == shape
    if mask is not None and not fits:
        raise UserError(name, expected=f"an array of truth values of shape {shape}", got=mask)
