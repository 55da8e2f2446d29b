"""An S3 protocol server on this machine, started as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

BUCKET = "segmeter-test"
KEY, SECRET = "AKIATESTKEYOFNOBODY", "wJalr/secret+of/nobody+at/all"


def settings(port: int) -> dict[str, str]:
    """What a client finds the server and its credentials by: variables of the environment."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


@contextmanager
def s3_server() -> Iterator[str]:
    """A server with one bucket, named to this process and its children; its address."""
    import fsspec

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = [sys.executable, "-c", SERVE, str(port)]
    process = subprocess.Popen(serving, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with mock.patch.dict(os.environ, settings(port)):
            _wait_for(process, f"http://127.0.0.1:{port}/moto-api/")
            fsspec.filesystem("s3").mkdir(BUCKET)
            yield f"s3://{BUCKET}"
    finally:
        process.kill()
        process.wait()


# Requests one after another: the server looks whether a file exists and writes it in two steps, and
# of two conditional writes at once both succeeded. A real S3 does this in one step.
SERVE = """
import sys
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), create_backend_app("s3"), threaded=False)
"""


def _wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    pause = threading.Event()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None:
        try:
            opener.open(address).close()
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            pause.wait(0.05)
        else:
            return
    raise RuntimeError("the S3 server did not start")
