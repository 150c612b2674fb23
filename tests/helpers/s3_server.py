"""An S3 of moto's on this machine; skips where s3fs or moto is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest

KEY, SECRET = "AKIASECRET", "hush-0123456789"


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let s3:// mean this server; it holds no bucket."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield
    finally:
        fsspec.filesystem("s3").clear_instance_cache()  # the next test has another server
        server.stop()
