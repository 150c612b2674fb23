"""The columns of the layers that a learner uses, of a stream that has some."""

from embedbench.errors import UserError, unknown
from embedbench.learning import StreamSpec


def layer_slices(spec: StreamSpec, names: str, learner: str) -> dict[str, tuple[int, int]]:
    """Columns of the layers in `names`, "all" or with commas: the first, the one after the last.

    `learner` is its name, for messages.
    """
    if not spec.layers:
        raise UserError(
            f"{learner} needs intermediate embeddings, and this stream has none: make a file that "
            "has them with embedbench extract … --layers last4"
        )
    listed = spec.layers if names == "all" else names.replace(" ", "").split(",")
    for name in listed:
        if name not in spec.layers:
            raise unknown("layer", name, spec.layers)
    return {name: spec.layers[name] for name in listed}
