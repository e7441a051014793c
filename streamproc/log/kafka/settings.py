"""How to reach Kafka: the servers of the URL, and what the environment says about security and time-outs."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamproc.errors import InvalidInput
from streamproc.storage.environment import KNOWN as KNOWN_VARIABLES
from streamproc.storage.environment import check_environment
from streamproc.storage.filesystem import display_path
from streamproc.storage.secret_files import read_secret, warn_if_open, warn_once

PREFIX = "STREAMPROC_KAFKA_"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
KNOWN = tuple(name.removeprefix(PREFIX) for name in KNOWN_VARIABLES if name.startswith(PREFIX))
"""The settings, without their prefix."""


@dataclass(frozen=True)
class Timeouts:
    """How long the brokers wait for a process that has fallen silent. In seconds."""

    session: float = 10.0
    """A gatherer that was not heard of for so long loses its partitions to the others. Heartbeats come more often.
    Short: a crash is noticed soon. Long: a busy machine is not taken for a dead one. Brokers allow 6..1800 s unless their
    `group.min.session.timeout.ms` and `group.max.session.timeout.ms` say otherwise."""
    transaction: float = 60.0
    """A transaction that a synthesizer left open for so long is aborted, and readers can go on behind it. A new synthesizer
    ends that of the one before at once, so this matters only until there is one. It must be longer than a period takes to
    publish: a 90 MB transaction takes 3 s. Brokers allow up to `transaction.max.timeout.ms`, 900 s unless told otherwise."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Timeouts:
        """From the values of SESSION_TIMEOUT and TRANSACTION_TIMEOUT, where they are set."""
        return cls(
            _seconds("SESSION_TIMEOUT", given, cls.session, most=1800.0),
            _seconds("TRANSACTION_TIMEOUT", given, cls.transaction, most=900.0),
        )


@dataclass(frozen=True)
class KafkaSettings:
    """Every client of one connection is made with these."""

    servers: tuple[str, ...]
    """`host:port` of some brokers; the others are learned from them."""
    security: str = "PLAINTEXT"
    mechanism: str = MECHANISMS[0]
    """For SASL_SSL and SASL_PLAINTEXT."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    """For SSL and SASL_SSL; the broker's name is always checked."""
    certificate: str | None = None
    """The file of ours, for a broker that asks for it."""
    instance: str | None = None
    """A name this process keeps when it restarts: its partitions wait for it until the session times out."""
    timeouts: Timeouts = Timeouts()

    @classmethod
    def parse(cls, servers: tuple[str, ...], environ: Mapping[str, str]) -> KafkaSettings:
        """From STREAMPROC_KAFKA_SECURITY, _MECHANISM, _USER, _PASSWORD_FILE, _CA, _CERT, _KEY, _INSTANCE, _SESSION_TIMEOUT
        and _TRANSACTION_TIMEOUT."""
        check_environment(environ)
        given = {name: environ[PREFIX + name] for name in KNOWN if environ.get(PREFIX + name)}
        security = _one_of("SECURITY", given, PROTOCOLS)
        sasl, tls = security.startswith("SASL_"), security.endswith("SSL")
        for wanted, names in ((sasl, ("MECHANISM", "USER", "PASSWORD_FILE")), (tls, ("CA", "CERT", "KEY"))):
            for name in names:
                if name in given and not wanted:
                    raise InvalidInput(f"{PREFIX}{name}: is set, but {PREFIX}SECURITY is {security}, which does not use it")
        if sasl and not {"USER", "PASSWORD_FILE"} <= set(given):
            raise InvalidInput(f"{PREFIX}SECURITY is {security}: expected {PREFIX}USER and {PREFIX}PASSWORD_FILE too")
        if (security, given.get("MECHANISM")) == ("SASL_PLAINTEXT", "PLAIN"):
            warn_once(f"{PREFIX}MECHANISM is PLAIN without TLS: whoever listens on the network learns the password")
        return cls(
            servers,
            security,
            _one_of("MECHANISM", given, MECHANISMS),
            given.get("USER"),
            read_secret(f"{PREFIX}PASSWORD_FILE", Path(given["PASSWORD_FILE"])) if sasl else None,
            _tls(given) if tls else None,
            given.get("CERT"),
            given.get("INSTANCE"),
            Timeouts.parse(given),
        )

    def options(self) -> dict[str, Any]:
        """As the constructors of aiokafka take them."""
        return {"bootstrap_servers": list(self.servers), **self.security_options()}

    def security_options(self) -> dict[str, Any]:
        """Those that a single connection takes too."""
        return {
            "security_protocol": self.security,
            "ssl_context": self.tls,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }


def _one_of(name: str, given: Mapping[str, str], allowed: tuple[str, ...]) -> str:
    value = given.get(name, allowed[0])
    if value not in allowed:
        raise InvalidInput(f"{PREFIX}{name}: got {value!r}, allowed: {', '.join(allowed)}")
    return value


def _seconds(name: str, given: Mapping[str, str], default: float, *, most: float) -> float:
    try:
        value = float(given.get(name, default))
    except ValueError:
        value = math.nan
    if not 1 <= value <= most:
        raise InvalidInput(f"{PREFIX}{name}: got {given[name]!r}, allowed: 1 to {most:g} seconds")
    return value


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    if ("CERT" in given) != ("KEY" in given):
        raise InvalidInput(f"{PREFIX}CERT and {PREFIX}KEY: expected both or neither")
    name = "CA"
    try:
        context = ssl.create_default_context(cafile=given.get("CA"))
        if "CERT" in given:
            for name in ("KEY", "CERT"):
                Path(given[name]).open("rb").close()  # OpenSSL does not tell which of the two it cannot read
            # An encrypted key would make OpenSSL ask on the terminal.
            context.load_cert_chain(given["CERT"], given["KEY"], password=lambda: b"")
            warn_if_open(f"{PREFIX}KEY", Path(given["KEY"]))
    except ssl.SSLError as error:
        raise InvalidInput(
            f"{PREFIX}{name}: {display_path(Path(given[name]))}: expected PEM: {error.reason or error}"
        ) from None
    except OSError as error:
        raise InvalidInput(f"{PREFIX}{name}: {display_path(Path(given[name]))}: cannot be read: {error.strerror}") from None
    return context


MIN_BROKER_TIMEOUT_S = 2.0
"""Seconds for one broker to answer, at least, unless the whole call has less."""


def metadata_timeout(timeout: float) -> float:
    """Of a call that may take so many seconds: for what any broker answers at once."""
    return max(timeout / 8, min(timeout, MIN_BROKER_TIMEOUT_S))


def produce_timeout(timeout: float) -> float:
    """The same for what may take a broker longer, such as a record that all copies must have.

    Two may be silent one after the other, and still a third is asked in time.
    """
    return max(timeout / 3, min(timeout, MIN_BROKER_TIMEOUT_S))


def milliseconds(seconds: float) -> int:
    """As aiokafka counts."""
    return int(1000 * seconds)
