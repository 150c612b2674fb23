"""Files of the Hugging Face hub, or of a server that speaks its protocol (`HF_ENDPOINT`).

The hub's client resolves names and logs in. It begins an interrupted download anew, so bytes are
read by `http_files`.
"""

import os
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from embedbench.errors import UserError

from . import http_files
from .remote_file import Remote, access_denied, lost, missing
from .uri import Name


def ask(name: Name) -> Remote:
    """Ask the hub for the facts of a file; of a branch or a tag, for its commit now.

    Raises
    ------
    UserError
        It cannot be had; the sentence says why.
    """
    from huggingface_hub import get_hf_file_metadata, get_token, hf_hub_url

    part, endpoint = name.hub, os.environ.get("HF_ENDPOINT") or None
    try:
        url = hf_hub_url(
            part.repo, part.path, repo_type=part.kind, revision=part.revision, endpoint=endpoint
        )
        about = get_hf_file_metadata(url, timeout=http_files.SECONDS)
    except Exception as error:  # without a network, many kinds of errors occur
        raise _refused(name, error) from None
    if about.commit_hash is None:
        raise UserError(f"{name.url} is on a server that does not name its commit; use https://")
    same = urlsplit(about.location)[:2] == urlsplit(url)[:2]
    token = get_token() if same else None
    login = {"Authorization": f"Bearer {token}"} if token else {}
    fixed = part.at(about.commit_hash)
    remote = http_files.ask(http_files.Address(about.location, fixed, login))
    sha256 = about.etag if about.etag and len(about.etag) == 64 else None
    if about.size not in (None, remote.size):
        raise UserError(f"{fixed} has {remote.size:,} bytes, and the hub says {about.size:,}")
    return replace(remote, version=about.commit_hash, commit=about.commit_hash, sha256=sha256)


def _refused(name: Name, error: Any) -> UserError:
    """The sentence for an error of the hub's client."""
    from huggingface_hub import errors

    part, url = name.hub, name.url
    page = f"https://huggingface.co/{'datasets/' if part.kind == 'dataset' else ''}{part.repo}"
    login = "log in with `hf auth login`, or set HF_TOKEN"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return access_denied(url, f"ask for access at {page}, and {login}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return access_denied(url, f"there is no {part.kind} {part.repo}, or it is private: {login}")
    if isinstance(error, errors.RevisionNotFoundError):
        return missing(url, f"revision {part.revision!r} of")
    if isinstance(error, errors.EntryNotFoundError):
        return missing(url)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UserError(f"{url} is not in the cache, and HF_HUB_OFFLINE forbids to ask the hub")
    if isinstance(error, errors.HFValidationError):
        return UserError(f"{url} is no name of the hub; check the names before and after the /")
    if status in (401, 403):
        return access_denied(url, f"the hub refuses it (status {status}); {login}")
    return lost(url, error)
