"""The programs of an operator, run as processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.calls import call
from tests.rig.service import Service

PROGRAMS = {
    "module": [sys.executable, "-m", "myna"],
    "script": [str(Path(sys.executable).parent / "myna")],
}


def run(service: Service, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAMS[program], *arguments],
        env=service.env,
        cwd=service.folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_key_issued_while_the_service_runs_works_at_once(service: Service, program: str) -> None:
    name = f"by-{program}"
    assert run(service, program, "account", "add", name, "--units", "3", "--json").returncode == 0
    ended = run(service, program, "key", "issue", name, "--name", "n", "--scope", "chat", "--json")
    assert ended.returncode == 0, ended.stderr
    issued = json.loads(ended.stdout)
    assert set(issued) == {"id", "name", "key", "masked", "scopes", "expires_at"}
    assert issued["scopes"] == ["chat"]
    assert issued["expires_at"] == 0
    assert call("GET", f"{service.base_url}/me", key=issued["key"]).status == 200


def test_a_refused_command_exits_with_1_and_the_reason(service: Service) -> None:
    ended = run(service, "module", "account", "grant", "nobody-of-this-name", "5", "--json")
    assert ended.returncode == 1
    assert ended.stderr.strip()
    assert "Traceback" not in ended.stderr


def test_an_invalid_setting_exits_with_2_before_anything_starts(service: Service) -> None:
    for name in ("MYNA_PORT", "MYNA_CALL_DEADLINE_S", "MYNA_BODY_MAX_BYTES", "MYNA_DATABASE_URL"):
        ended = service.command("serve", env={name: "nonsense"})
        assert ended.code == 2, name
        assert name in ended.stderr
        assert "Traceback" not in ended.stderr


def test_readyz_needs_no_key(service: Service) -> None:
    assert call("GET", f"{service.root_url}/readyz").status == 200


def test_forked_commands_behave_like_processes(service: Service) -> None:
    for arguments in (("audit", "--json"), ("account", "grant", "nobody-of-this-name", "5", "--json")):
        alone, forked = run(service, "module", *arguments), service.command(*arguments)
        assert (alone.returncode, alone.stderr) == (forked.code, forked.stderr)
