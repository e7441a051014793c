"""Translates errors of aiokafka to the errors of the `Log` port.

Clients of aiokafka do not distinguish a broker that is away from one that denies access. `probe_broker` does: it makes a
single test connection.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from asyncio import IncompleteReadError

from aiokafka import errors as kafka
from aiokafka.conn import create_conn

from streamproc.errors import Fenced, LogError, LogUnavailable, NotAllowed, RecordTooLarge
from streamproc.log.kafka.settings import PREFIX, KafkaSettings
from streamproc.log.port import MAX_RECORD_BYTES

# aiokafka logs keys and values in debug messages, and a line for each retry. Errors that matter are raised, so its logger is
# silenced at every log level.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
# aiokafka writes to lost connections until it detects the loss. asyncio then logs this message, which users would see.
LOST_CONNECTION = "socket.send() raised exception."
logging.getLogger("asyncio").addFilter(lambda record: record.msg != LOST_CONNECTION)

FENCED = (
    kafka.ProducerFenced,
    kafka.InvalidProducerEpoch,
    kafka.InvalidProducerIdMapping,
    kafka.InvalidTxnState,
    kafka.TransactionCoordinatorFenced,
    kafka.UnknownProducerId,
)
DENIED = (
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
    kafka.SaslAuthenticationFailed,
    kafka.AuthenticationFailedError,
    kafka.AuthenticationMethodNotSupported,
    kafka.UnsupportedSaslMechanismError,
    kafka.IllegalSaslStateError,
    kafka.SecurityDisabled,
    kafka.PolicyViolationError,
)
TOO_LARGE = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)

_BROKEN = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors of a connection that ended during the handshake, for example because the broker is restarting."""

_TLS_ALERT = 0x1503
"""First two bytes of a TLS alert."""


def translate_error(error: BaseException, what: str, otherwise: type[LogError], *, size: int = 0) -> LogError:
    """Return the port's error for an error of aiokafka during `what`. An error without a counterpart becomes `otherwise`."""
    for each in (error, error.__cause__):
        if isinstance(each, FENCED):
            return Fenced(f"{what}: another process took over, or the transaction timed out")
        if isinstance(each, DENIED):
            return NotAllowed(f"{what}: the broker does not allow it: {_name(each)}")
        if isinstance(each, TOO_LARGE):
            return RecordTooLarge(what, size, MAX_RECORD_BYTES)
    if isinstance(error, TimeoutError):
        return otherwise(f"{what}: no answer from the broker in time")
    return otherwise(f"{what}: {_name(error)}")


def translate_error_code(code: int, what: str, otherwise: type[LogError]) -> LogError:
    """Return the port's error for an error code in a broker's response."""
    return translate_error(kafka.for_code(code)(), what, otherwise)


def _name(error: BaseException) -> str:
    """Return the message or the name of an error, without its arguments, which may contain whole requests."""
    message = getattr(error, "message", None)
    return message if isinstance(message, str) and message else type(error).__name__


async def probe_broker(host: str, port: int, settings: KafkaSettings, timeout: float) -> None:
    """Connect, authenticate and disconnect. Raises NotAllowed, or LogUnavailable whose message is only the reason."""
    try:
        connection = await create_conn(host, port, request_timeout_ms=int(1000 * timeout), **settings.security_options())
    except (OSError, kafka.KafkaError, TimeoutError, ValueError) as error:
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
    if isinstance(error, kafka.SaslAuthenticationFailed):
        return f"the broker does not accept user {settings.user} with the password in {PREFIX}PASSWORD_FILE"
    if isinstance(error, kafka.UnsupportedSaslMechanismError):
        return f"the broker does not offer {PREFIX}MECHANISM {settings.mechanism}"
    if isinstance(error, kafka.IllegalSaslStateError):
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
