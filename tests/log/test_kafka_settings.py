"""Kafka's settings of the environment: each mistake is one line that names the variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproc.errors import InvalidInput
from streamproc.log.kafka.settings import KafkaSettings, Timeouts

SERVERS = ("localhost:9092", "other:9093")


def parse(tmp_path: Path, **given: str) -> KafkaSettings:
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "not.pem").write_text("no certificate")
    return KafkaSettings.parse(
        SERVERS, {f"STREAMPROC_KAFKA_{name}": value.replace("TMP", str(tmp_path)) for name, value in given.items()}
    )


def test_without_settings_it_is_plaintext(tmp_path: Path) -> None:
    settings = parse(tmp_path)

    assert settings.options()["bootstrap_servers"] == list(SERVERS)
    assert settings.options()["security_protocol"] == "PLAINTEXT"


def test_a_password_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    settings = parse(
        tmp_path, SECURITY="SASL_PLAINTEXT", MECHANISM="SCRAM-SHA-256", USER="ann", PASSWORD_FILE="TMP/password"
    )

    assert settings.options()["sasl_plain_password"] == "secret"
    assert settings.options()["sasl_mechanism"] == "SCRAM-SHA-256"
    assert "secret" not in repr(settings)


def test_tls_checks_the_broker_and_its_name(tmp_path: Path) -> None:
    context = parse(tmp_path, SECURITY="SSL").tls

    assert context is not None
    assert context.check_hostname


def test_time_outs_are_those_of_the_environment_where_it_has_any(tmp_path: Path) -> None:
    assert parse(tmp_path).timeouts == Timeouts(session=10.0, transaction=60.0)
    assert parse(tmp_path, SESSION_TIMEOUT="6", TRANSACTION_TIMEOUT="7.5").timeouts == Timeouts(6.0, 7.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"SESSION_TIMEOUT": "0.5"}, "SESSION_TIMEOUT: got '0.5', allowed: 1 to 1800 seconds"),
        ({"SESSION_TIMEOUT": "ten"}, "SESSION_TIMEOUT: got 'ten', allowed: 1 to 1800 seconds"),
        ({"TRANSACTION_TIMEOUT": "901"}, "TRANSACTION_TIMEOUT: got '901', allowed: 1 to 900 seconds"),
        ({"TRANSACTION_TIMEOUT": "nan"}, "TRANSACTION_TIMEOUT: got 'nan', allowed: 1 to 900 seconds"),
        ({"SECURITY": "TLS"}, "SECURITY: got 'TLS', allowed: PLAINTEXT, SSL, SASL_SSL, SASL_PLAINTEXT"),
        ({"USER": "ann"}, "USER: is set, but STREAMPROC_KAFKA_SECURITY is PLAINTEXT, which does not use it"),
        ({"SECURITY": "SASL_PLAINTEXT", "CA": "TMP/ca"}, "CA: is set, but"),
        ({"SECURITY": "SASL_SSL"}, "expected STREAMPROC_KAFKA_USER and STREAMPROC_KAFKA_PASSWORD_FILE too"),
        ({"SECURITY": "SASL_SSL", "USER": "ann", "PASSWORD_FILE": "TMP/absent"}, "cannot be read: No such file"),
        ({"SECURITY": "SASL_SSL", "USER": "ann", "PASSWORD_FILE": "TMP/empty"}, "is empty"),
        (
            {"SECURITY": "SASL_SSL", "USER": "ann", "PASSWORD_FILE": "TMP/password", "MECHANISM": "GSSAPI"},
            "MECHANISM: got 'GSSAPI', allowed: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN",
        ),
        ({"SECURITY": "SSL", "CA": "TMP/absent"}, "_CA: .*cannot be read: No such file"),
        ({"SECURITY": "SSL", "CA": "TMP/not.pem"}, "_CA: .*expected PEM"),
        ({"SECURITY": "SSL", "CERT": "TMP/not.pem"}, "expected both or neither"),
        ({"SECURITY": "SSL", "CERT": "TMP/not.pem", "KEY": "TMP/not.pem"}, "_CERT: .*expected PEM"),
        ({"SECURITY": "SSL", "CERT": "TMP/not.pem", "KEY": "TMP/absent"}, "_KEY: .*absent: cannot be read: No such file"),
        ({"SECURITY": "SSL", "CERT": "TMP/absent", "KEY": "TMP/not.pem"}, "_CERT: .*absent: cannot be read: No such file"),
        ({"PASSWORD": "secret"}, "STREAMPROC_KAFKA_PASSWORD: no such setting; did you mean STREAMPROC_KAFKA_PASSWORD_FILE"),
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, "STREAMPROC_KAFKA_SECURITY_PROTOCOL: no such setting"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        parse(tmp_path, **given)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_setting(tmp_path: Path) -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_CLIENTS", "PORT", "PORT_9092_TCP", "PORT_9092_TCP_ADDR")

    assert parse(tmp_path, **dict.fromkeys(names, "10.0.0.1")) == parse(tmp_path)


@pytest.mark.parametrize(("mechanism", "warned"), [("PLAIN", True), ("SCRAM-SHA-512", False)])
def test_a_password_in_the_clear_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str, warned: bool
) -> None:
    said = list[str]()
    monkeypatch.setattr("streamproc.log.kafka.settings.warn_once", said.append)

    parse(tmp_path, SECURITY="SASL_PLAINTEXT", MECHANISM=mechanism, USER="ann", PASSWORD_FILE="TMP/password")

    assert any("so the password can be read on the network" in line for line in said) == warned


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)])
def test_a_password_file_that_everybody_can_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, warned: bool
) -> None:
    said = list[str]()
    monkeypatch.setattr("streamproc.storage.environment.warn_once", said.append)
    (tmp_path / "password").touch()
    (tmp_path / "password").chmod(mode)

    parse(tmp_path, SECURITY="SASL_PLAINTEXT", USER="ann", PASSWORD_FILE="TMP/password")

    assert any("everybody on this machine can read" in line for line in said) == warned
