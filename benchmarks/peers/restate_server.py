"""Restate: `restate_server.py serve HOME MODE SERVER`; the server, and a service in Python, on loopback only.

The server runs with its defaults on one node. A step is `ctx.run_typed`; a run is one request to its ingress, so
that a run's figures have a round trip over HTTP in them, as every user's have.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from protocol import rate, serve, wait_for_lines

HERE = Path(__file__).parent
JSON = {"content-type": "application/json"}


class RestateWorker:
    def __init__(self, home: Path, program: str) -> None:
        self._home = home
        self._kills = 0
        self._ingress, self._admin, self._node, self._port = _free_ports(4)
        self._service: subprocess.Popen[bytes] | None = None
        self._server = self._start_server(program)
        try:
            self._start_service()
            _until(lambda: self._call(self._admin, "GET", "/health") == 200)
            _until(lambda: self._call(self._admin, "POST", "/deployments", self._deployment()) < 300)
            _until(lambda: self._call(self._ingress, "POST", "/bench/sequential", 1) == 200)
        except BaseException:
            self.close()
            raise
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True
        ).stdout.split()
        self.version = f"server {told[-1]}, SDK {version('restate-sdk')}"
        self.setting = "a server of its own, one node, log with fsync"
        self.durability = "as it ships: a step is committed before the next one begins"

    def sequential(self, steps: int) -> float:
        return rate(steps, lambda: self._run(steps))

    def many(self, runs: int, steps: int) -> float:
        with ThreadPoolExecutor(runs) as pool:
            return rate(runs * steps, lambda: list(pool.map(self._run, [steps] * runs)))

    def one_step_runs(self, runs: int) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", self._ingress, timeout=60)

        def work() -> None:
            for _ in range(runs):
                connection.request("POST", "/bench/sequential", "1", JSON)
                connection.getresponse().read()

        return rate(runs, work)

    def kill_to_rerun(self) -> float:
        """The service is killed and started again; the server lives, as it is meant to."""
        self._kills += 1
        marks = self._home / f"marks-{self._kills}"
        self._call(self._ingress, "POST", "/bench/killed/send", str(marks))
        wait_for_lines(marks, 1)
        assert self._service is not None
        os.kill(self._service.pid, signal.SIGKILL)
        killed = time.time()
        self._service.wait()
        self._start_service()
        return (float(wait_for_lines(marks, 2)[1]) - killed) * 1000

    def close(self) -> None:
        for process in (self._service, self._server):
            if process is not None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _run(self, steps: int) -> None:
        status = self._call(self._ingress, "POST", "/bench/sequential", steps)
        if status != 200:
            raise RuntimeError(f"the ingress answered {status}")

    def _call(self, port: int, method: str, path: str, body: object = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body), JSON)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def _deployment(self) -> dict[str, object]:
        return {"uri": f"http://127.0.0.1:{self._port}"}

    def _start_server(self, program: str) -> subprocess.Popen[bytes]:
        environ = {
            **os.environ,
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_BIND_PORT": str(self._node),
            "RESTATE_INGRESS__BIND_PORT": str(self._ingress),
            "RESTATE_ADMIN__BIND_PORT": str(self._admin),
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "warn",
        }
        where = ["--base-dir", str(self._home / "data"), "--node-name", "bench", "--no-logo"]
        return subprocess.Popen([program, *where], env=environ, stdout=sys.stderr)

    def _start_service(self) -> None:
        command = [sys.executable, str(HERE / "restate_service.py"), f"127.0.0.1:{self._port}"]
        self._service = subprocess.Popen(command, stdout=sys.stderr)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _until(good: Callable[[], bool], timeout_s: float = 40) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if good():
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"Restate is not ready after {timeout_s:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    serve(lambda: RestateWorker(Path(sys.argv[2]), sys.argv[4]))
