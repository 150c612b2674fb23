"""Weights from the hub, against a small server of our own that wants a token."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from embedbench.errors import UserError
from embedbench.extract.open_backbone import choose_backbone
from embedbench.learning.trunk import weights_file
from embedbench.networks.paper_networks import known_weights
from embedbench.networks.published_weights import LICENCE, SHA256, shipped_weights

WEIGHTS = b"the weights"
PAGE = "/org/{}/resolve/main/{}"


class Hub(BaseHTTPRequestHandler):
    """Files of three repositories; two of them want a token."""

    asked: ClassVar[list[str]] = []
    files: ClassVar[dict[str, str]] = {  # address: what it wants
        PAGE.format("open", "pytorch_model.bin"): "",
        PAGE.format("gated", "model.safetensors"): "GatedRepo",
        PAGE.format("private", "model.safetensors"): "RepoNotFound",
    }

    def do_HEAD(self) -> None:
        self.asked.append(self.path)
        error = self.files.get(self.path, "EntryNotFound")
        if error != "EntryNotFound" and self.headers.get("Authorization") == "Bearer hf_secret":
            error = ""
        self.send_response({"": 200, "EntryNotFound": 404}.get(error, 401))
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("ETag", '"5d41"')
        self.send_header("X-Repo-Commit", "0123456789" * 4)
        self.send_header("Content-Length", "0" if error else str(len(WEIGHTS)))
        self.end_headers()
        if self.command == "GET" and not error:
            self.wfile.write(WEIGHTS)

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Hub.asked.clear()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def fetch(endpoint: str, home: Path, token: str, *names: str) -> list[str]:
    """The content of each one's weights, or the sentence that says why there are none.

    In a process of its own: the hub's client reads its environment when it is imported.
    """
    code = (
        "import json, sys\n"
        "from embedbench.errors import UserError\n"
        "from embedbench.networks.published_weights import hub_weights\n"
        "def fetch(name):\n"
        "    try:\n"
        "        return hub_weights(name, {'hf_hub_id': 'org/' + name})[0].read_text()\n"
        "    except UserError as error:\n"
        "        return str(error)\n"
        "print(json.dumps([fetch(name) for name in sys.argv[1:]]))\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    env = {**clean, **settings, **({"HF_TOKEN": token} if token else {})}
    done = subprocess.run(
        [sys.executable, "-c", code, *names], env=env, capture_output=True, text=True, check=True
    )
    result: list[str] = json.loads(done.stdout)
    return result


def test_with_a_token_and_then_from_the_cache(hub: str, tmp_path: Path) -> None:
    names = ("gated", "private", "open")
    assert fetch(hub, tmp_path, "hf_secret", *names) == [WEIGHTS.decode()] * 3
    Hub.asked.clear()
    assert fetch(hub, tmp_path, "", *names) == [WEIGHTS.decode()] * 3
    assert not Hub.asked


def test_without_a_token(hub: str, tmp_path: Path) -> None:
    *closed, public, missing = fetch(hub, tmp_path, "", "gated", "private", "open", "missing")
    for name, sentence in zip(("gated", "private"), closed, strict=True):
        told = f"'{name}'", f"https://huggingface.co/org/{name}", "HF_TOKEN", "\n"
        assert [words in sentence for words in told] == [True, True, True, False]
    assert public == WEIGHTS.decode()
    assert "could not be fetched (FileNotFoundError)" in missing


def test_offline(tmp_path: Path) -> None:
    (sentence,) = fetch("http://127.0.0.1:9", tmp_path, "", "gated")
    assert "could not be fetched (ConnectError)" in sentence
    assert "--weights FILE" in sentence
    assert "--weights shipped with tf_efficientnet_lite0" in sentence
    assert "'pixels' and 'none', which need none" in sentence


def test_shipped_weights_for_backbones_and_trunks() -> None:
    file = shipped_weights("tf_efficientnet_lite0.in1k")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256
    said = known_weights({"library": "timm", "weights_sha256": SHA256})
    assert said == {"weights": {"licence": LICENCE}} == {"weights": {"licence": "apache-2.0"}}
    assert f"`{file.name}` `{SHA256}`" in file.with_name("NOTICE.md").read_text(encoding="utf-8")
    assert choose_backbone("photos", "tf_efficientnet_lite0", "shipped")[1] == file
    assert weights_file("timm:tf_efficientnet_lite0", "shipped") == file
    with pytest.raises(UserError, match="not of resnet18"):
        choose_backbone("photos", "resnet18", "shipped")
    with pytest.raises(UserError, match="not of resnet32"):
        weights_file("resnet32", "shipped")
