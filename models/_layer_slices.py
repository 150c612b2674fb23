"""The columns of the layers that a learner uses, of a stream that has some."""

from embedbench.errors import unknown
from embedbench.learning import StreamSpec


def layer_slices(spec: StreamSpec, names: str) -> dict[str, tuple[int, int]]:
    """Columns, the first and the one after the last: of the final embedding, then of some layers.

    `names` are the layers', "all" or with commas. The final embedding has the name "".
    """
    listed = spec.layers if names == "all" else names.replace(" ", "").split(",")
    for name in listed:
        if name not in spec.layers:
            raise unknown("layer", name, spec.layers)
    width = min(first for first, _ in spec.layers.values())
    return {"": (0, width), **{name: spec.layers[name] for name in listed}}
