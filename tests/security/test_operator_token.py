"""The operator's listener: for this machine, or for who shows the token."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from streamproc.errors import InvalidInput
from streamproc.service.http_server import TOKEN_FILE, Address, read_token
from tests.stream.conftest import DeployStudy

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return path


def ask(address: str, path: str, authorization: str | None = None, host: str | None = None) -> tuple[int, str]:
    headers = {} if authorization is None else {"Authorization": authorization}
    headers |= {} if host is None else {"Host": host}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://{address}{path}", headers=headers), timeout=30
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            assert error.code != 401 or error.headers["WWW-Authenticate"] == "Bearer"
            return error.code, error.read().decode()


def test_beyond_this_machine_what_is_private_needs_the_token(deploy_study: DeployStudy, token_file: Path) -> None:
    deployed = deploy_study("embedded")
    arguments = ("--public", "127.0.0.1:0", "--operator", "0.0.0.0:0")
    role = deployed.start("run", *arguments, environ={TOKEN_FILE: str(token_file)})
    public, operator = (role.says("listening", times).rpartition("address=")[2] for times in (1, 2))
    operator = operator.replace("0.0.0.0", "127.0.0.1")

    status, private = ask(operator, "/metrics", f"Bearer {TOKEN}")
    assert status == 200
    assert "streamproc_watermark" in private
    for wrong in (None, TOKEN, f"Bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}", "Bearer \xff"):
        status, said = ask(operator, "/metrics", wrong)
        assert status == 401
        assert "streamproc_" not in said
    assert ask(operator, "/nowhere")[0] == 401
    # Probes need no token, and their answers say nothing about people.
    assert ask(operator, "/livez") == (200, "ok\n")
    assert ask(operator, "/readyz")[1] in ("ready\n", "not ready\n")

    status, shown = ask(public, "/metrics")
    assert status == 200
    assert "streamproc_watermark" not in shown
    assert TOKEN not in role.log
    assert role.stop().code == 0


def test_without_a_token_a_name_that_leads_to_this_machine_is_not_enough(deploy_study: DeployStudy) -> None:
    role = deploy_study("embedded").start("run", "--operator", "127.0.0.1:0")
    operator = role.says("listening").rpartition("address=")[2]
    port = operator.rpartition(":")[2]

    for called in (operator, "127.0.0.1", f"localhost:{port}", f"[::1]:{port}", "[::1]"):
        assert ask(operator, "/metrics", host=called)[0] == 200
    for called in (
        "example.org",
        f"example.org:{port}",
        "127.0.0.1.example.org",
        "localhost.example.org",
        f"192.0.2.1:{port}",
    ):
        status, said = ask(operator, "/metrics", host=called)
        assert status == 403
        assert "streamproc_" not in said
    assert role.stop().code == 0


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9101", "example.org:9101"])
def test_without_a_token_it_listens_nowhere_else(deploy_study: DeployStudy, address: str) -> None:
    ended = deploy_study("embedded").call("run", "--operator", address)

    assert ended.code == 2
    assert ended.complaint.count("\n") == 1
    assert f"--operator {address.replace('[', '').replace(']', '')}: others can reach it" in ended.complaint
    assert TOKEN_FILE in ended.complaint


@pytest.mark.parametrize(
    ("text", "host", "is_loopback"),
    [
        (":9101", "127.0.0.1", True),
        ("127.0.0.1:9101", "127.0.0.1", True),
        ("127.9.9.9:9101", "127.9.9.9", True),
        ("localhost:9101", "localhost", True),
        ("[::1]:9101", "::1", True),
        ("0.0.0.0:9101", "0.0.0.0", False),
        ("[::]:9101", "::", False),
        ("localhost.example.org:9101", "localhost.example.org", False),
    ],
)
def test_what_only_this_machine_reaches(text: str, host: str, is_loopback: bool) -> None:
    address = Address.parse(text)

    assert (address.host, address.is_loopback) == (host, is_loopback)


@pytest.mark.parametrize("content", ["", "\n", "short", "sixteen letters and spaces", "no-ascii-at-all-é"])
def test_a_token_that_is_none_is_refused_and_not_shown(token_file: Path, content: str) -> None:
    token_file.write_text(content)

    with pytest.raises(InvalidInput, match=TOKEN_FILE) as refused:
        read_token({TOKEN_FILE: str(token_file)})
    assert not content.strip() or content.strip() not in str(refused.value)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="absent: cannot be read: No such file"):
        read_token({TOKEN_FILE: str(tmp_path / "absent")})
