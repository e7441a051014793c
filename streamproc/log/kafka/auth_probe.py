"""A single test connection. Clients of aiokafka do not distinguish a broker that is away from one that denies access."""

from __future__ import annotations

import os
import socket
import ssl
from asyncio import IncompleteReadError

from aiokafka.conn import create_conn
from aiokafka.errors import IllegalSaslStateError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

from streamproc.errors import LogUnavailable, NotAllowed
from streamproc.log.kafka.error_translation import DENIED, translate_error
from streamproc.log.kafka.settings import PREFIX, KafkaSettings

_BROKEN = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors of a connection that ended during the handshake, for example because the broker is restarting."""

_TLS_ALERT = 0x1503
"""First two bytes of a TLS alert."""


async def probe_broker(host: str, port: int, settings: KafkaSettings, timeout: float) -> None:
    """Connect, authenticate and disconnect. Raises NotAllowed, or LogUnavailable whose message is only the reason."""
    try:
        connection = await create_conn(host, port, request_timeout_ms=int(1000 * timeout), **settings.security_options())
    except (OSError, KafkaError, TimeoutError, ValueError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, (ssl.SSLError, IncompleteReadError)) else error
        denial = _denial(cause, settings)
        if denial is not None:
            raise NotAllowed(f"connecting to {host}:{port}: {denial}") from None
        raise LogUnavailable(_reason(cause, settings)) from None
    connection.close()


def _denial(error: BaseException, settings: KafkaSettings) -> str | None:
    """Return why a retry is useless, or None if a retry may succeed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate cannot be trusted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, _BROKEN):
        return _of_tls(error, settings)
    if isinstance(error, SaslAuthenticationFailed):
        return f"the broker does not accept user {settings.user} with the password in {PREFIX}PASSWORD_FILE"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"the broker does not offer {PREFIX}MECHANISM {settings.mechanism}"
    if isinstance(error, IllegalSaslStateError):
        return f"the broker does not use SASL on this port, but {PREFIX}SECURITY is {settings.security}"
    if isinstance(error, DENIED):
        return str(translate_error(error, "the broker denies access", NotAllowed))
    if isinstance(error, ValueError):
        return "the broker could not prove that it knows the password; another server may be using its address"
    if isinstance(error, IncompleteReadError) and (error.expected or 0) >> 16 == _TLS_ALERT and settings.tls is None:
        return f"the broker answers in TLS, but {PREFIX}SECURITY is {settings.security}"
    return None


def _of_tls(error: ssl.SSLError, settings: KafkaSettings) -> str:
    reason = (error.reason or "unknown").replace("_", " ").lower()
    if "alert" not in reason or "certificate" not in reason:
        return f"TLS failed: {reason}"
    if settings.certificate is None:
        return f"the broker requires a client certificate: set {PREFIX}CERT and {PREFIX}KEY"
    return f"the broker does not accept the certificate {PREFIX}CERT, which may be expired or untrusted ({reason})"


def _reason(error: BaseException, settings: KafkaSettings) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror)  # Its error number is not an errno.
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    if isinstance(error, (ConnectionError, ssl.SSLError)) and settings.tls is not None:
        return "the broker closes the connection during the TLS handshake"
    return "no answer"
