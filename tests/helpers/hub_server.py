"""A hub in one thread: enough of the Hugging Face hub's protocol to push to it and to read from it.

Spoken: create, repository info, paths-info, preupload, LFS batch, PUT, verify, commit, and resolve
with ranges. Files above `REGULAR` bytes go through LFS, as do `.h5` files.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
import yaml
from file_server import Handler

WRITER, READER = "hf_writes_0123456789", "hf_reads_0123456789"  # tokens
REGULAR = 10_000
LICENCES = {"apache-2.0", "cc0-1.0", "cc-by-4.0", "mit", "other", "unknown"}  # some that it knows


@dataclass
class Repository:
    """A data set on the hub: commits, oldest first, each with all its files."""

    private: bool
    commits: list[tuple[str, dict[str, bytes]]]

    @property
    def head(self) -> tuple[str, dict[str, bytes]]:
        return self.commits[-1]

    def at(self, revision: str) -> tuple[str, dict[str, bytes]]:
        return (
            self.head if revision == "main" else next(c for c in self.commits if c[0] == revision)
        )

    def add(self, files: dict[str, bytes]) -> str:
        sha = hashlib.sha1(f"{len(self.commits)}{sorted(files)}".encode()).hexdigest()
        self.commits.append((sha, files))
        return sha


@dataclass
class Hub:
    """What a hub holds, and what it was asked.

    `requests` lists (method, first line, token, bytes sent); `stopped` is a part of the path of
    requests that are cut off.
    """

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    stopped: str = ""

    def add(self, name: str, files: dict[str, bytes], *, private: bool = False) -> str:
        """Put a data set on the hub, or a commit more; returns the commit."""
        repository = self.repositories.setdefault(name, Repository(private, []))
        earlier = repository.head[1] if repository.commits else {}
        return repository.add({**earlier, **files})

    def asked(self, method: str, part: str) -> int:
        """Number of requests of a method whose path has a part."""
        return sum(m == method and part in path for m, path, _, _ in self.requests)


class _Handler(Handler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        hub, path = self.store, unquote(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        hub.requests.append((self.command, self.requestline, token, body))
        if hub.stopped and hub.stopped in path:
            self.close_connection = True
            return
        if path == "/api/repos/create":
            self._create(token, json.loads(body))
        elif path == "/api/validate-yaml":
            self._validate(json.loads(body)["content"])
        elif path.startswith("/lfs/"):
            self._store(path.removeprefix("/lfs/"), body)
        elif m := re.fullmatch(r"/datasets/(.+)\.git/info/lfs/objects/batch", path):
            self._batch(json.loads(body))
        elif m := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(token, *m.groups())
        elif m := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/([\w-]+)/([^/]+).*)?", path):
            self._api(token, m[1], m[2] or "revision", m[3] or "main", body)
        else:
            self._json(404, {"error": f"no {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815

    def _json(self, status: int, data: Any) -> None:
        body = json.dumps(data).encode()
        about = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self._end(status, body, **about)

    def _may_write(self, token: str) -> bool:
        if token == WRITER:
            return True
        status = 403 if token == READER else 401
        self._json(status, {"error": "Forbidden" if token == READER else "Invalid credentials"})
        return False

    def _files(self, token: str, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and its files; that this reader sees no such repository is the answer."""
        repository = self.store.repositories.get(name)
        if repository is None or (repository.private and token not in (READER, WRITER)):
            status = 404 if token in (READER, WRITER) else 401
            self._end(status, **{"X-Error-Code": "RepoNotFound"})
            return None
        return repository.at(revision)

    def _create(self, token: str, asked: dict[str, Any]) -> None:
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if not self._may_write(token):
            return
        if name in self.store.repositories:
            self._json(409, {"error": "it is there already", "url": name})
        else:
            private = asked.get("visibility") == "private"
            self.store.add(name, {".gitattributes": b""}, private=private)
            self._json(200, {"url": f"{self.store.url}/datasets/{name}", "name": name})

    def _validate(self, page: str) -> None:
        """As the hub does, refuse a page whose metadata is no YAML or lacks a licence it knows."""
        data = yaml.safe_load(page.split("---")[1])
        errors = [] if data["license"] in LICENCES else [{"message": "unknown license"}]
        self._json(400 if errors else 200, {"errors": errors, "warnings": []})

    def _batch(self, asked: dict[str, Any]) -> None:
        for item in asked["objects"]:
            if item["oid"] not in self.store.objects:
                item["actions"] = {"upload": {"href": f"{self.store.url}/lfs/{item['oid']}"}}
        self._json(200, {"transfer": "basic", "objects": asked["objects"]})

    def _store(self, oid: str, body: bytes) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.store.objects[oid] = body
        self._end(200)

    def _api(self, token: str, name: str, what: str, revision: str, body: bytes) -> None:
        commit = self._files(token, name, revision)
        if commit is None:
            return
        repository = self.store.repositories[name]
        if what == "revision":
            files = [{"rfilename": path} for path in commit[1]]
            info = {"id": name, "sha": commit[0], "private": repository.private, "tags": []}
            self._json(200, {**info, "siblings": files, "downloads": 0, "likes": 0})
        elif what == "paths-info":
            paths = parse_qs(body.decode()).get("paths", [])
            self._json(200, [_info(p, commit[1][p]) for p in paths if p in commit[1]])
        elif what == "preupload":
            files = json.loads(body)["files"]
            for file in files:
                large = _is_large(file["path"], file["size"])
                file |= {"uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
            self._json(200, {"files": files})
        else:
            self._commit(name, repository, [json.loads(line) for line in body.splitlines()])

    def _commit(self, name: str, repository: Repository, lines: list[dict[str, Any]]) -> None:
        files, head = dict(repository.head[1]), lines[0]["value"]
        if head.get("parentCommit") not in (None, repository.head[0]):
            self._json(412, {"error": "A commit has happened since"})
            return
        for value in (line["value"] for line in lines[1:]):
            large = self.store.objects.get(value.get("oid"))
            files[value["path"]] = large or base64.b64decode(value["content"])
        sha = repository.add(files)
        url = f"{self.store.url}/datasets/{name}/commit/{sha}"
        self._json(200, {"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})

    def _resolve(self, token: str, name: str, revision: str, path: str) -> None:
        commit = self._files(token, name, revision)
        if commit:
            sha = hashlib.sha256(commit[1][path]).hexdigest()
            about = {"X-Repo-Commit": commit[0], "X-Linked-ETag": f'"{sha}"'}
            self._send(commit[1][path], "", **about)


def _is_large(path: str, size: int) -> bool:
    return path.endswith(".h5") or size > REGULAR


def _info(path: str, data: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    info = {"type": "file", "path": path, "size": len(data), "oid": blob}
    if _is_large(path, len(data)):
        sha = hashlib.sha256(data).hexdigest()
        info["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 134}
    return info


@contextmanager
def serving() -> Iterator[Hub]:
    """Run a hub on a free port of this machine."""
    hub = Hub()
    with _Handler.listening(hub) as hub.url:
        yield hub


def use(monkeypatch: pytest.MonkeyPatch, hub: Hub, token: str | None = WRITER) -> None:
    """Let this process take the server for the hub, with a token in the environment."""
    from huggingface_hub import constants

    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nonexistent/token")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
