"""Settings of the connection to Kafka: servers from the URL, security and timeouts from the environment."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamproc.errors import InvalidInput
from streamproc.storage.environment import KNOWN as KNOWN_VARIABLES
from streamproc.storage.environment import check_environment, read_secret, warn_if_open, warn_once
from streamproc.storage.filesystem import display_path

PREFIX = "STREAMPROC_KAFKA_"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
KNOWN = tuple(name.removeprefix(PREFIX) for name in KNOWN_VARIABLES if name.startswith(PREFIX))
"""Names of the settings without the prefix."""


@dataclass(frozen=True)
class Timeouts:
    """Time that brokers wait for a process that does not respond, in seconds."""

    session: float = 10.0
    """A gatherer that sends no heartbeat for this time loses its partitions to the others. With a short value a crash is
    detected soon; with a long value a busy machine keeps its partitions. Brokers allow 6 to 1800 s by default
    (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`)."""
    transaction: float = 60.0
    """A transaction that a synthesizer leaves open for this time is aborted, and readers can continue after it. A new
    synthesizer aborts it at once, so this matters only until one is started. It must be longer than publishing a period
    takes: a transaction of 90 MB takes 3 s. Brokers allow up to `transaction.max.timeout.ms`, by default 900 s."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Timeouts:
        """Parse SESSION_TIMEOUT and TRANSACTION_TIMEOUT. Raises InvalidInput."""
        return cls(
            _seconds("SESSION_TIMEOUT", given, cls.session, most=1800.0),
            _seconds("TRANSACTION_TIMEOUT", given, cls.transaction, most=900.0),
        )


@dataclass(frozen=True)
class KafkaSettings:
    """Settings of every client of a connection."""

    servers: tuple[str, ...]
    """`host:port` of some brokers. Clients learn the others from them."""
    security: str = "PLAINTEXT"
    mechanism: str = MECHANISMS[0]
    """For SASL_SSL and SASL_PLAINTEXT."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    """For SSL and SASL_SSL. The host name of the broker is always checked."""
    certificate: str | None = None
    """File of the client certificate, for a broker that requires one."""
    instance: str | None = None
    """Static group member id. After a restart the process gets its partitions back if the session has not timed out."""
    timeouts: Timeouts = Timeouts()

    @classmethod
    def parse(cls, servers: tuple[str, ...], environ: Mapping[str, str]) -> KafkaSettings:
        """Parse STREAMPROC_KAFKA_SECURITY, _MECHANISM, _USER, _PASSWORD_FILE, _CA, _CERT, _KEY, _INSTANCE, _SESSION_TIMEOUT
        and _TRANSACTION_TIMEOUT. Raises InvalidInput."""
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
            warn_once(f"{PREFIX}MECHANISM is PLAIN without TLS, so the password can be read on the network")
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
        """Return keyword arguments for the constructors of aiokafka's clients."""
        return {"bootstrap_servers": list(self.servers), **self.security_options()}

    def security_options(self) -> dict[str, Any]:
        """Return keyword arguments for a single connection of aiokafka."""
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
                Path(given[name]).open("rb").close()  # OpenSSL does not report which of the two it cannot read.
            # Without a password callback, OpenSSL asks on the terminal for the password of an encrypted key.
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
"""Minimum time for a request to one broker, in seconds, unless the timeout of the whole call is shorter.

Timeouts for a single broker are shorter than the timeout of a call, so that after one silent broker there is time to try
another.
"""


def metadata_timeout(timeout: float) -> float:
    """Return the seconds to wait for one broker's metadata, within a call that may take `timeout` seconds."""
    return max(timeout / 8, min(timeout, MIN_BROKER_TIMEOUT_S))


def produce_timeout(timeout: float) -> float:
    """Return the seconds to wait for one broker's response that may take longer, such as an acknowledgement by all replicas.

    After two silent brokers there is time left for a third.
    """
    return max(timeout / 3, min(timeout, MIN_BROKER_TIMEOUT_S))


def milliseconds(seconds: float) -> int:
    """Convert seconds to the milliseconds that aiokafka expects."""
    return int(1000 * seconds)
