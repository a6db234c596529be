"""moto's S3 server as a process of its own."""

import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import boto3

_SERVER = pathlib.Path(__file__).with_name("s3_server.py")


@dataclass(frozen=True)
class S3Server:
    port: int
    bucket: str = "lakebed-test"

    def options(self, port: int | None = None) -> dict[str, str]:
        return {
            "endpoint": f"http://127.0.0.1:{port or self.port}",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region": "us-east-1",
            "allow_http": "true",
        }

    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )


@contextmanager
def running_s3_server() -> Iterator[S3Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = S3Server(probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, str(_SERVER), str(server.port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "moto's server stopped"
                assert time.monotonic() < deadline, "moto's server did not start"
                time.sleep(0.05)
        server.client().create_bucket(Bucket=server.bucket)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=10)
