"""Restate: `restate_server.py serve HOME MODE PROGRAM`; the server PROGRAM, and a service in Python, on loopback only.

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
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from measure import INTO_THE_STEP_S, bytes_under, lines_of, seconds, seconds_at_once
from protocol import serve

HERE = Path(__file__).parent
HOST = "127.0.0.1"


class RestateWorker:
    """A server and a service; a kill is the service's, the server lives, as it is meant to."""

    def __init__(self, home: Path, program: str) -> None:
        self._data = home / "data"
        self._home = home
        self._kills = 0
        self._ingress, self._admin, self._node, self._port = _free_ports(4)
        self._service: subprocess.Popen[bytes] | None = None
        self._server = self._start_server(program)
        try:
            self._start_service()
            _until(lambda: _call(self._admin, "GET", "/health") == 200)
            uri = {"uri": f"http://{HOST}:{self._port}"}
            _until(lambda: _call(self._admin, "POST", "/deployments", uri) < 300)
            _until(lambda: _call(self._ingress, "POST", "/bench/sequential", 1) == 200)
        except BaseException:
            self.close()
            raise
        self.version = f"server {_say(program, '--version').split()[-1]}, SDK {version('restate-sdk')}"
        log = tomllib.loads(_say(program, "--dump-config"))["log-server"]
        synced = "without" if log["rocksdb-disable-wal-fsync"] else "with"
        self.setting = f"a server of its own, one node, log {synced} fsync"
        self.durability = "as it ships: a step is on the disk before the next one begins"

    def sequential(self, steps: int) -> float:
        return steps / seconds(lambda: self._run("sequential", steps))

    def many(self, runs: int, steps: int) -> float:
        return runs * steps / seconds_at_once(runs, lambda: self._run("sequential", steps))

    def many_async(self, runs: int, steps: int) -> float:
        return runs * steps / seconds_at_once(runs, lambda: self._run("sequential_async", steps))

    def one_step_runs(self, runs: int) -> float:
        connection = http.client.HTTPConnection(HOST, self._ingress, timeout=60)
        try:
            return runs / seconds(lambda: [_run(connection, "sequential", 1) for _ in range(runs)])
        finally:
            connection.close()

    def kill_to_rerun(self) -> float:
        self._kills += 1
        marks = self._home / f"marks-{self._kills}"
        self._run("killed/send", str(marks))
        lines_of(marks, 1)
        time.sleep(INTO_THE_STEP_S)
        assert self._service is not None
        os.kill(self._service.pid, signal.SIGKILL)
        killed = time.time()
        self._service.wait()
        self._start_service()
        return (float(lines_of(marks, 2)[1]) - killed) * 1000

    def disk(self, steps: int, size: int) -> dict[str, float]:
        """What its files grow by: the log and the journal in its database, before they are trimmed and compacted."""
        before = bytes_under(self._data)
        self._run("texts", [steps, size])
        return {"": (bytes_under(self._data) - before) / (steps * size)}

    def close(self) -> None:
        for process in (self._service, self._server):
            if process is not None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _run(self, handler: str, argument: object) -> None:
        """One run, on a connection of its own."""
        connection = http.client.HTTPConnection(HOST, self._ingress, timeout=60)
        try:
            _run(connection, handler, argument)
        finally:
            connection.close()

    def _start_server(self, program: str) -> subprocess.Popen[bytes]:
        environ = {
            **os.environ,
            "RESTATE_BIND_IP": HOST,
            "RESTATE_BIND_PORT": str(self._node),
            "RESTATE_INGRESS__BIND_PORT": str(self._ingress),
            "RESTATE_ADMIN__BIND_PORT": str(self._admin),
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "warn",
        }
        where = ["--base-dir", str(self._data), "--node-name", "bench", "--no-logo"]
        return subprocess.Popen([program, *where], env=environ, stdout=sys.stderr)

    def _start_service(self) -> None:
        command = [sys.executable, str(HERE / "restate_service.py"), f"{HOST}:{self._port}"]
        self._service = subprocess.Popen(command, stdout=sys.stderr)


def _call(port: int, method: str, path: str, body: object = None) -> int:
    """The status of one request on a connection of its own."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        return _request(connection, method, path, body)
    finally:
        connection.close()


def _run(connection: http.client.HTTPConnection, handler: str, argument: object) -> None:
    status = _request(connection, "POST", f"/bench/{handler}", argument)
    if status >= 300:
        raise RuntimeError(f"the ingress answered {status}")


def _request(connection: http.client.HTTPConnection, method: str, path: str, body: object) -> int:
    connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def _say(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind((HOST, 0))
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
