"""Who is not let in, or does not trust who answers, hears why in one line at once, with exit 5."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.broker.secure import SecureBroker
from tests.security.principals import ANALYST, GATHERER
from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import Program

pytestmark = pytest.mark.kafka

Environment = dict[str, str]
K = "STREAMPROC_KAFKA_"
WRONG = "a-password-that-is-wrong"


@pytest.fixture
def deployed(deploy_study: DeployStudy, secure_broker: SecureBroker) -> DeployedStudy:
    return deploy_study("embedded")


def verify(deployed: DeployedStudy, url: str, environ: Environment) -> tuple[int, str]:
    with patch.dict(os.environ, environ):
        ended = deployed.call("verify", "--broker", url)
    return ended.code, ended.complaint


def wrong_password(broker: SecureBroker) -> tuple[str, Environment]:
    wrong = broker.password_file("wrong", WRONG)
    return broker.url_of_scram, broker.environment(ANALYST) | {f"{K}PASSWORD_FILE": str(wrong)}


def unknown_user(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_scram, broker.environment(ANALYST) | {f"{K}USER": "nobody"}


def other_mechanism(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_scram, broker.environment(ANALYST) | {f"{K}MECHANISM": "SCRAM-SHA-256"}


def untrusted_authority(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_scram, broker.environment(ANALYST) | {f"{K}CA": str(broker.certificates.stranger)}


def another_name(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_scram.replace("localhost", "127.0.0.1"), broker.environment(ANALYST)


def another_advertised_name(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_another_name, broker.environment(ANALYST)


def expired(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_mutual_tls, broker.mutual_environment(broker.certificates.expired_client(ANALYST))


def foreign(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_mutual_tls, broker.mutual_environment(broker.certificates.foreign_client(ANALYST))


def no_certificate(broker: SecureBroker) -> tuple[str, Environment]:
    environ = broker.mutual_environment(broker.certificates.client(ANALYST))
    return broker.url_of_mutual_tls, {name: environ[name] for name in (f"{K}SECURITY", f"{K}CA")}


def no_tls(broker: SecureBroker) -> tuple[str, Environment]:
    return broker.url_of_scram, {}


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (wrong_password, f"the broker does not accept user analyst with the password in {K}PASSWORD_FILE"),
        (unknown_user, f"the broker does not accept user nobody with the password in {K}PASSWORD_FILE"),
        (other_mechanism, f"the broker does not offer {K}MECHANISM SCRAM-SHA-256"),
        (untrusted_authority, "the broker's certificate cannot be trusted: unable to get local issuer certificate"),
        (another_name, "certificate is not valid for '127.0.0.1'"),
        (another_advertised_name, "certificate is not valid for '127.0.0.1'"),
        (expired, f"the broker does not accept the certificate {K}CERT, which may be expired"),
        (foreign, f"the broker does not accept the certificate {K}CERT, which may be expired or untrusted"),
        (no_certificate, f"the broker requires a client certificate: set {K}CERT and {K}KEY"),
        (no_tls, f"the broker answers in TLS, but {K}SECURITY is PLAINTEXT"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_reason_is_one_line(
    deployed: DeployedStudy,
    secure_broker: SecureBroker,
    attempt: Callable[[SecureBroker], tuple[str, Environment]],
    said: str,
) -> None:
    code, complaint = verify(deployed, *attempt(secure_broker))

    assert code == 5
    assert complaint.count("\n") == 1
    assert said in complaint
    assert WRONG not in complaint


def test_who_has_the_right_certificate_is_that_principal(deployed: DeployedStudy, guarded_broker: SecureBroker) -> None:
    environ = guarded_broker.mutual_environment(guarded_broker.certificates.client(ANALYST))
    with patch.dict(os.environ, environ):
        may = deployed.call("verify", "--broker", guarded_broker.url_of_mutual_tls)
    assert may.code == 5  # an analyst of another study
    assert f"topic {deployed.topics.ledger}: the broker does not allow it" in may.complaint


def test_a_role_does_not_wait_for_a_broker_that_denies_it(deployed: DeployedStudy, secure_broker: SecureBroker) -> None:
    url, environ = wrong_password(secure_broker)
    role = deployed.start("gather", "--broker", url, "--debug", environ=environ)

    ended = role.end()

    assert ended.code == 5
    assert "does not accept user analyst" in ended.complaint
    assert "trying again" not in ended.complaint


def shown_of(role: Program, name: str) -> str:
    """What everybody on the machine can read of it; for a moment, while its program is being loaded, that is nothing."""
    while not (shown := Path(f"/proc/{role.pid}/{name}").read_text()):
        assert role.runs
    return shown


def test_a_password_is_nowhere_to_be_seen(deployed: DeployedStudy, secure_broker: SecureBroker, tmp_path: Path) -> None:
    password = secure_broker.passwords[GATHERER]
    environ = secure_broker.environment(GATHERER)
    waiting = deployed.start("gather", "--broker", "kafka://127.0.0.1:1", environ=environ)
    argv, variables = (shown_of(waiting, name) for name in ("cmdline", "environ"))
    waiting.kill()

    ended = deployed.start("gather", "--broker", secure_broker.url_of_scram, "--debug", "--log-json", environ=environ).end()

    assert ended.code == 5  # connected, and then not allowed to see this study
    assert "the broker does not allow it" in ended.complaint or "this user may not see it" in ended.complaint
    for shown in (argv, variables, ended.complaint, ended.out):
        assert password not in shown
    assert environ[f"{K}PASSWORD_FILE"] in variables


def test_a_password_file_that_everybody_can_read_is_said(deployed: DeployedStudy, secure_broker: SecureBroker) -> None:
    shared = secure_broker.password_file("shared", secure_broker.passwords[ANALYST])
    shared.chmod(0o644)
    environ = secure_broker.environment(ANALYST) | {f"{K}PASSWORD_FILE": str(shared)}

    ended = deployed.start("status", "--broker", "kafka://127.0.0.1:1", "--timeout", "0.2", environ=environ).end()

    assert ended.complaint.count(f"{K}PASSWORD_FILE: everybody on this machine can read") == 1
