"""A hub in one thread: enough of the Hugging Face hub's protocol to push to it and to read from it.

Spoken: create, repository info, paths-info, preupload, LFS batch, PUT, verify, commit, and resolve
with ranges. Files above `REGULAR` bytes go through LFS, as do `.h5` files.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

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

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if revision == "main":
            return self.head
        return next((c for c in self.commits if c[0] == revision), None)

    def add(self, files: dict[str, bytes]) -> str:
        sha = hashlib.sha1(f"{len(self.commits)}{sorted(files)}".encode()).hexdigest()
        self.commits.append((sha, files))
        return sha


@dataclass
class Hub:
    """What a hub holds, and what it was asked.

    `requests` lists (method, path, token, bytes sent); `stopped` is a part of the path of requests
    that are cut off.
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


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        hub.requests.append((self.command, self.path, token, body))
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
            self._batch(token, json.loads(body))
        elif m := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(token, *m.groups())
        elif m := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/([\w-]+)/([^/]+).*)?", path):
            self._api(token, m[1], m[2] or "revision", m[3] or "main", body)
        else:
            self._json(404, {"error": f"no {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815

    def _json(self, status: int, data: Any, **headers: str) -> None:
        self._send(status, json.dumps(data).encode(), **{"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _may_write(self, token: str) -> bool:
        if token == WRITER:
            return True
        status = 403 if token == READER else 401
        self._json(status, {"error": "Forbidden" if token == READER else "Invalid credentials"})
        return False

    def _found(self, token: str, name: str) -> Repository | None:
        repository = self.hub.repositories.get(name)
        if repository and not (repository.private and token not in (READER, WRITER)):
            return repository
        status = 404 if token in (READER, WRITER) else 401
        self._send(status, b"{}", **{"X-Error-Code": "RepoNotFound"})
        return None

    def _create(self, token: str, asked: dict[str, Any]) -> None:
        if self._may_write(token):
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            if name in self.hub.repositories:
                self._json(409, {"error": "it is there already", "url": name})
                return
            self.hub.add(
                name, {".gitattributes": b""}, private=asked.get("visibility") == "private"
            )
            self._json(200, {"url": f"{self.hub.url}/datasets/{name}", "name": name})

    def _validate(self, page: str) -> None:
        """As the hub does, refuse a page whose metadata is no YAML or lacks a licence it knows."""
        data = yaml.safe_load(page.split("---")[1])
        errors = [] if data["license"] in LICENCES else [{"message": "unknown license"}]
        self._json(400 if errors else 200, {"errors": errors, "warnings": []})

    def _batch(self, token: str, asked: dict[str, Any]) -> None:
        if self._may_write(token):
            objects = []
            for item in asked["objects"]:
                href = f"{self.hub.url}/lfs/{item['oid']}"
                new = item["oid"] not in self.hub.objects
                objects.append({**item, **({"actions": {"upload": {"href": href}}} if new else {})})
            self._json(200, {"transfer": "basic", "objects": objects})

    def _store(self, oid: str, body: bytes) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.objects[oid] = body
        self._send(200, b"")

    def _api(self, token: str, name: str, what: str, revision: str, body: bytes) -> None:
        repository = self._found(token, name)
        if repository is None:
            return
        commit = repository.at(revision)
        if commit is None:
            self._send(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
        elif what == "revision":
            files = [{"rfilename": path} for path in commit[1]]
            info = {"id": name, "sha": commit[0], "private": repository.private, "tags": []}
            self._json(200, {**info, "siblings": files, "downloads": 0, "likes": 0})
        elif what == "paths-info":
            paths = parse_qs(body.decode()).get("paths", [])
            self._json(200, [_info(p, commit[1][p]) for p in paths if p in commit[1]])
        elif not self._may_write(token):
            return
        elif what == "preupload":
            asked = [(f["path"], f["size"]) for f in json.loads(body)["files"]]
            modes = ("lfs" if p.endswith(".h5") or n > REGULAR else "regular" for p, n in asked)
            answers = zip(asked, modes, strict=True)
            files = [
                {"path": p, "uploadMode": mode, "shouldIgnore": False} for (p, _), mode in answers
            ]
            self._json(200, {"files": files})
        else:
            self._commit(name, repository, [json.loads(line) for line in body.splitlines()])

    def _commit(self, name: str, repository: Repository, lines: list[dict[str, Any]]) -> None:
        files, head = dict(repository.head[1]), lines[0]["value"]
        if head.get("parentCommit") not in (None, repository.head[0]):
            self._json(412, {"error": "A commit has happened since"})
            return
        for line in lines[1:]:
            value = line["value"]
            lfs = line["key"] == "lfsFile"
            content = self.hub.objects[value["oid"]] if lfs else base64.b64decode(value["content"])
            files[value["path"]] = content
        sha = repository.add(files)
        url = f"{self.hub.url}/datasets/{name}/commit/{sha}"
        self._json(200, {"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})

    def _resolve(self, token: str, name: str, revision: str, path: str) -> None:
        repository = self._found(token, name)
        if repository is None:
            return
        commit = repository.at(revision)
        if commit is None or path not in commit[1]:
            code = "RevisionNotFound" if commit is None else "EntryNotFound"
            self._send(404, b"{}", **{"X-Error-Code": code})
            return
        data, headers = commit[1][path], {"X-Repo-Commit": commit[0], "Accept-Ranges": "bytes"}
        headers["ETag"] = f'"{hashlib.sha256(data).hexdigest()}"'
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked is None:
            self._send(200, data, **headers)
            return
        first, last = int(asked[1]), int(asked[2] or len(data) - 1)
        part = data[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        self._send(206, part, **headers)


def _info(path: str, data: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    info = {"type": "file", "path": path, "size": len(data), "oid": blob}
    if path.endswith(".h5") or len(data) > REGULAR:
        sha = hashlib.sha256(data).hexdigest()
        info["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 134}
    return info


@contextmanager
def serving() -> Iterator[Hub]:
    """Run a hub on a free port of this machine."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


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
