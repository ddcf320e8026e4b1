"""Errors of the Kafka clients: their meaning for the program, and one line about each for people.

The classes are imported when something failed: a process that never meets a broker does not load the client.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from connectors.kafka.source import Source
from models.errors import InputError, UnavailableError, VeilstreamError

NOT_ALLOWED = "the broker does not allow it; `veilstream topics acls` prints the permissions that are needed"


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Raise a client's error within the block translated by `fault`.

    Parameters
    ----------
    source
        Configuration of the broker, which the message names.

    Raises
    ------
    UnavailableError, InputError
        As `fault` makes them.
    """
    from kafka import errors

    with failed_connections() as connections:
        try:
            yield
        except errors.KafkaError as error:
            raise fault(error, source, connections.last) from None


@contextmanager
def failed_connections() -> Iterator[FailedConnections]:
    """Yield the keeper of the error of the last connection that failed within the block."""
    connections = FailedConnections()
    client_log = logging.getLogger("kafka")
    client_log.addHandler(connections)
    try:
        yield connections
    finally:
        client_log.removeHandler(connections)


class FailedConnections(logging.Handler):
    """Keeps the error of the last connection that failed.

    The client raises only that it had no answer in time. Why each of its connections failed is in its log
    alone: a handshake that the broker did not understand, a certificate that nobody trusts, a refused port.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error that a line of the client's log has as an argument; its text is not read.

        Parameters
        ----------
        record
            A line of the client's log.
        """
        from kafka import errors

        arguments = record.args if isinstance(record.args, tuple) else ()
        for argument in arguments:
            # Only of connections: other errors may name topics, or follow from the timeout that is
            # raised anyway.
            if isinstance(argument, errors.KafkaConnectionError | errors.SaslAuthenticationFailedError):
                # A connection that is lost after refused credentials does not hide them.
                self.last = self.last if refused_credentials(self.last) else argument


def refused_credentials(error: Exception | None) -> bool:
    """Return whether the broker does not accept user and password, or the way in which they are given.

    Parameters
    ----------
    error
        An error of the client, or None.
    """
    from kafka import errors

    return isinstance(error, errors.SaslAuthenticationFailedError | errors.UnsupportedSaslMechanismError)


def of_the_client(error: Exception) -> bool:
    """Return whether an error comes from the broker or the client, and not from the program around them.

    Parameters
    ----------
    error
        Any error.
    """
    from kafka import errors

    return isinstance(error, errors.KafkaError)


def may_pass(error: Exception) -> bool:
    """Return whether the client expects that trying again can help.

    Parameters
    ----------
    error
        An error of the client.
    """
    from kafka import errors

    return isinstance(error, errors.RetriableError)


def undecodable(error: Exception) -> bool:
    """Return whether records were fetched and cannot be decoded: a damaged batch, or a codec without its package.

    Parameters
    ----------
    error
        An error raised while records were fetched.
    """
    from kafka import errors

    if isinstance(error, errors.CorruptRecordError | errors.UnsupportedCodecError):
        return True
    # Decompressors raise errors of their own; the network's are of OSError.
    return not isinstance(error, errors.KafkaError | OSError)


def too_large(error: BaseException) -> bool:
    """Return whether a record is larger than the broker or the producer accepts.

    Parameters
    ----------
    error
        An error of a client.
    """
    # kafka-python and aiokafka have a class of their own of this name.
    return type(error).__name__ == "MessageSizeTooLargeError"


def fault(error: Exception, source: Source, connection: Exception | None = None) -> VeilstreamError:
    """Translate a client's error into one line for people: place, and what to check; no part of the sent data.

    Parameters
    ----------
    error
        The client's error.
    source
        The broker.
    connection
        Error of the last connection that failed before it, if one is known.

    Returns
    -------
    VeilstreamError
        UnavailableError if no broker answers or it is not ready, which may pass by itself. VeilstreamError if the
        broker does not allow the request: an administrator may allow it, and a restart then helps. InputError for all
        others.
    """
    from kafka import errors

    # A transaction whose first request failed raises a plain KafkaError with the error of that request.
    error = next((argument for argument in error.args if isinstance(argument, errors.KafkaError)), error)
    if forbidden(error):
        return VeilstreamError(_explain(error, source, connection))
    away = isinstance(error, errors.KafkaConnectionError | errors.KafkaTimeoutError) or _passes(error)
    return (UnavailableError if away else InputError)(_explain(error, source, connection))


FORBIDDEN = {
    "TopicAuthorizationFailedError": "topic",
    "GroupAuthorizationFailedError": "group",
    "TransactionalIdAuthorizationFailedError": "transactional id",
    "TransactionalIdAuthorizationFailed": "transactional id",  # its name in aiokafka
    "ClusterAuthorizationFailedError": "cluster",
}
"""Errors of a missing permission, by the names of their classes, and the kind of resource that each is about.

kafka-python and aiokafka have a class of their own for each.
"""

TOO_LARGE = (
    "refuses a record for its size; raise max.message.bytes of its topic, or message.max.bytes of the broker "
    "(`veilstream topics check` names the topics of the daemon and the size that they need)"
)

CLOSED = "socket disconnected"
"""Text of a client's error about a connection that the broker has closed."""

NAME_OF_A_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that Kafka allows. Anything else in an error is not shown."""


def not_allowed(error: BaseException) -> VeilstreamError | None:
    """Return one line about a permission or a size that the broker refuses; None for other errors.

    Parameters
    ----------
    error
        An error of a client. Its arguments may name topics.
    """
    if too_large(error):
        return VeilstreamError(f"the broker {TOO_LARGE}")
    kind = FORBIDDEN.get(type(error).__name__)
    if kind is None:
        return None
    argument = error.args[0] if error.args else ()
    candidates = argument if isinstance(argument, set | frozenset | list | tuple) else [argument]
    names = sorted(name for name in candidates if isinstance(name, str) and NAME_OF_A_TOPIC.fullmatch(name))
    place = " ".join([kind, ", ".join(names)]).strip()
    return VeilstreamError(f"{place}: {NOT_ALLOWED}")


def forbidden(error: BaseException) -> bool:
    """Return whether the broker does not give us a permission.

    Parameters
    ----------
    error
        An error of a client.
    """
    return type(error).__name__ in FORBIDDEN


def _passes(error: Exception) -> bool:
    """Return whether a broker gives this error while it starts and does not know its leaders or coordinators yet.

    A topic that it does not know may be one that nobody created.
    """
    from kafka import errors

    if isinstance(error, errors.UnknownTopicOrPartitionError | errors.UnknownTopicIdError):
        return False
    return isinstance(error, errors.UnknownBrokerIdError) or bool(getattr(error, "retriable", False))


def _explain(error: Exception, source: Source, connection: Exception | None) -> str:
    from kafka import errors

    broker = f"broker {source.bootstrap}"
    if refused_credentials(error) or refused_credentials(connection):
        return f"{broker}: refuses the credentials of source.security"
    if isinstance(error, (errors.KafkaConnectionError, errors.KafkaTimeoutError)):
        reason = f"no broker answers us ({type(error).__name__})"
        if connection is not None:
            reason += f", the last connection failed: {_without_type(connection)}"
            if CLOSED in str(connection) and source.security.protocol.startswith("sasl"):
                # The client often loses the broker's answer, since the end of the connection comes with it.
                reason += " (as by a broker that refuses user or password)"
        return f"{broker}: {reason}; check source.bootstrap and source.security"
    if forbidden(error):
        return f"{broker}: {not_allowed(error)}"
    if too_large(error):
        return f"{broker}: {TOO_LARGE}"
    if _passes(error):
        return f"{broker}: is not ready ({type(error).__name__}); try again"
    return f"{broker}: {type(error).__name__}"


def _without_type(error: Exception) -> str:
    """Return the text of a client's error, which begins with the name of its type, in one line."""
    return " ".join(str(error).removeprefix(f"{type(error).__name__}: ").split())
