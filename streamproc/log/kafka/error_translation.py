"""What aiokafka raises, in the words of the port."""

from __future__ import annotations

import logging

from aiokafka import errors as kafka

from streamproc.errors import Fenced, LogError, NotAllowed, RecordTooLarge
from streamproc.log.port import MAX_RECORD_BYTES

# aiokafka writes keys and values into its debug messages, and a line for each of its retries. What matters reaches us as
# an exception or an answer that fails to come; the rest stays silent whatever level the program logs at.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
# It also writes to connections that are lost, until it notices; then the loop says this, and a command would show it.
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
    """The port's error for what aiokafka raised while it did `what`; `otherwise` if it is none with a meaning of its own."""
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
    """The same for an error code in a broker's answer."""
    return translate_error(kafka.for_code(code)(), what, otherwise)


def _name(error: BaseException) -> str:
    """Without the arguments, which may be whole requests."""
    message = getattr(error, "message", None)
    return message if isinstance(message, str) and message else type(error).__name__
