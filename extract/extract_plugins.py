"""Plugins of extraction: backbones and sources of other packages."""

import hashlib
import inspect
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from embedbench import plugins
from embedbench.errors import UserError, keep_inside
from embedbench.networks.paper_networks import timm
from embedbench.networks.weights import file_sha256
from embedbench.storage.regular_files import explain_errors
from embedbench.text.undecoded_text import check_text

from .backbone import OURS, Backbone
from .source import Source

HUBS = ("hf:", "hf-hub:", "hf_hub:", "local-dir:")  # names of models, not of modules
_PATH = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")  # package.module:name


def backbone_class(name: str) -> type[Backbone] | None:
    """The class of a backbone from outside; None: one of ours, or of a library of models."""
    if name in OURS or name.startswith(HUBS):
        return None
    if ":" not in name and (
        name not in plugins.entry_points_by_name("backbones") or timm.is_model(name)
    ):
        return None
    cls: type[Backbone] = plugins.subclass("backbones", name, Backbone)
    return cls


def outside_backbone(
    name: str, cls: type[Backbone], device: torch.device, **given: Any
) -> Backbone:
    """Make a backbone from outside; its library in the provenance is the package of its code.

    Code in no package is named as it was typed, and its version is the SHA-256 of its file. The
    device is passed on where `__init__` takes it; else the backbone stays on the CPU. A file of
    weights is named by its SHA-256 unless the backbone states one. Of `given`, which are `weights`,
    `layers`, `dtype` and `size`, those that are empty or float32 are left out.
    """
    options = {option: value for option, value in given.items() if value and value != "float32"}
    taken = inspect.signature(cls).parameters
    if "device" in taken:
        options["device"] = device
    failed = f"the backbone {name} cannot be opened"
    with explain_errors(failed), keep_inside("it"):
        made = cls(**options)
        declared = json.loads(json.dumps([made.backbone, made.preprocessing]))
    if not all(isinstance(part, dict) and part for part in declared):
        raise UserError(f"{name} must state `backbone` and `preprocessing`, two dictionaries.")
    check_text(declared, f"what {name} states")
    library, version = plugins.find_package(cls) or (name, f"sha256 {_code(cls)}")
    weights = given.get("weights")
    known = {"name": name, "weights_id": "", "weights_sha256": ""}
    if weights and weights.is_file():
        known |= {"weights_id": weights.name, "weights_sha256": file_sha256(weights)}
    stated = {key: value for key, value in declared[0].items() if value or key not in known}
    made.backbone = {**known, **stated, "library": library, "library_version": version}
    made.preprocessing = declared[1]
    made.also_decides = {"code": plugins.code_digest(cls)}
    return made


def _code(cls: type) -> str:
    """SHA-256 of the file that a class is written in."""
    try:
        return hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()
    except (OSError, TypeError):  # it is written in no file
        return ""


def is_outside(source: str) -> bool:
    """Whether the name of a source, before an `@`, means a function from outside."""
    name = source.partition("@")[0]
    if os.path.lexists(os.path.expanduser(source)):
        return False
    return bool(_PATH.fullmatch(name)) or name in plugins.entry_points_by_name("sources")


def outside_source(source: str) -> Source:
    """Open a source from outside: the function is called with the text after `@`."""
    name, _, argument = source.partition("@")
    function = plugins.load("sources", name)
    with explain_errors(f"the source {name} cannot be opened"), keep_inside("it"):
        made = function(argument)
    if not isinstance(made, Source):
        raise UserError(f"{name} must return an embedbench Source, it returned {type(made)}.")
    check_text([made.name, made.licence, made.revision], f"what {name} states")
    n = len(made.ids)
    rows = (made.labels, made.split, made.domain, made.group, made.time)
    if any(row is not None and len(row) != n for row in rows):
        raise UserError(
            f"{name} has {n} ids; labels, split, domain, group and time must have as many entries"
        )
    if len(made.parents) != len(made.classes):
        raise UserError(f"{name} has {len(made.classes)} classes and {len(made.parents)} parents.")
    return replace(made, package=plugins.find_package(function))
