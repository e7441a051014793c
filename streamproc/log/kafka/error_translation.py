"""Translates errors of aiokafka to the errors of the `Log` port."""

from __future__ import annotations

import logging

from aiokafka import errors as kafka

from streamproc.errors import Fenced, LogError, NotAllowed, RecordTooLarge
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
