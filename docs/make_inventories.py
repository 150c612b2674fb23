"""Write inventories/*.inv: the names of other projects that our docstrings use, with their pages.

Run it when `make docs` says that a reference target was not found: python docs/make_inventories.py
"""

from pathlib import Path
from types import SimpleNamespace as Fake

from sphinx.util.inventory import InventoryFile

ABC, NP, PT = "library/collections.abc.html", "reference/generated/{0}.html", "generated/{0}.html"
NAMES = {  # project: (name, kind, page)
    "python": [
        ("pathlib.Path", "class", "library/pathlib.html"),
        ("collections.abc.Callable", "class", ABC),
        ("collections.abc.Mapping", "class", ABC),
        ("collections.abc.Sequence", "class", ABC),
    ],
    "numpy": [("numpy.ndarray", "class", NP), ("numpy.dtype", "class", NP)],
    "torch": [("torch.Tensor", "class", "tensors.html"), ("torch.nn.Module", "class", PT)],
}

for project, names in NAMES.items():
    objects = [(n, n, kind, page.format(n), n, 1) for n, kind, page in names]
    domain = Fake(name="py", get_objects=lambda objects=objects: objects)
    env = Fake(config=Fake(project=project, version=""), domains=Fake(sorted=lambda d=domain: [d]))
    path = Path(__file__).parent / "inventories" / f"{project}.inv"
    InventoryFile.dump(path, env, Fake(get_target_uri=str))
