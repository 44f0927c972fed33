"""Real CLI agents from npm, installed once for all tests, and how each is pointed at a model on the loopback
interface."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.agents.backends.command_agent import PRESETS
from holdfast.file_lock import held
from holdfast.testing.fake_provider import ToolCall

PACKAGES = ("@anthropic-ai/claude-code@2.1.197", "@openai/codex@0.169.0", "opencode-ai@1.18.33")
INSTALL_S = 240


class NotInstalled(Exception):
    """The CLIs cannot be had here."""


def programs() -> Path:
    """The directory with the programs. They are kept in the cache of the user, under their versions. Raises
    `NotInstalled`."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("there is no npm")
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "holdfast-tests"
    cache.mkdir(parents=True, exist_ok=True)
    versions = "-".join(name.rpartition("@")[2] for name in PACKAGES)
    with held(cache / "npm.lock"):
        place = cache / f"npm-{versions}"
        if not place.exists():
            _install(npm, place.with_suffix(".part"))
            place.with_suffix(".part").rename(place)
    return place / "node_modules" / ".bin"


def _install(npm: str, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    options = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--prefix", str(place))
    try:
        done = subprocess.run(
            [npm, "install", *options, *PACKAGES],
            cwd=place, capture_output=True, text=True, timeout=INSTALL_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm install took longer than {INSTALL_S} s") from None
    if done.returncode:
        raise NotInstalled(f"npm install failed: {done.stderr.strip()[-500:]}")


class RealCli(NamedTuple):
    """One of them, by a command line that lets it write in every role.

    creates   the tool call by which its model creates a file
    runs      the one by which it runs a shell command
    settings  writes its files into its home, and gives the variables that it needs
    """

    name: str
    argv: tuple[str, ...]
    creates: Callable[[Path, str], ToolCall]
    runs: Callable[[str], ToolCall]
    settings: Callable[[Path, str], dict[str, str]]

    @property
    def table(self) -> str:
        """Its table in the settings."""
        words = json.dumps(self.argv)
        return f'[agent.{self.name}]\nparse = "{self.name}"\nargv = {words}\nreads = {words}\n'


LOOPBACK_ONLY = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "npm_config_offline": "true"}
"""They look for updates and plugins at each start; the port is one at which nothing listens."""


def _claude(home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-test", "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
    }  # fmt: skip


def _codex(home: Path, url: str) -> dict[str, str]:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(
        'model = "test"\nmodel_provider = "test"\n[model_providers.test]\nname = "test"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "TEST_MODEL_KEY"\n'
    )
    return {"TEST_MODEL_KEY": "x"}


def _opencode(home: Path, url: str) -> dict[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": "x"}
    model = {"name": "test", "cost": {"input": 3, "output": 15}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "test",
        "options": options,
        "models": {"test": model},
    }
    settings = {
        "provider": {"test": provider}, "model": "test/test", "small_model": "test/test", "autoupdate": False,
        "share": "disabled",
    }  # fmt: skip
    directory = home / ".config" / "opencode"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "opencode.json").write_text(json.dumps(settings))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


CLIS = {
    one.name: one
    for one in (
        RealCli(
            "claude",
            (*PRESETS["claude"].argv, "--allowedTools", "Bash"),
            lambda path, text: ToolCall("Write", {"file_path": str(path), "content": text}),
            lambda line: ToolCall("Bash", {"command": line, "description": "run it"}),
            _claude,
        ),
        RealCli(
            "codex",
            # A sandbox needs a kernel that permits it, which a container may not.
            ("codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-"),
            lambda path, text: ToolCall("exec_command", {"cmd": f"printf %s {shlex.quote(text)} > {path}"}),
            lambda line: ToolCall("exec_command", {"cmd": line}),
            _codex,
        ),
        RealCli(
            "opencode",
            PRESETS["opencode"].argv,
            lambda path, text: ToolCall("write", {"filePath": str(path), "content": text}),
            lambda line: ToolCall("bash", {"command": line, "description": "run it"}),
            _opencode,
        ),
    )
}
