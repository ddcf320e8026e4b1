"""Errors of the Kafka clients: their meaning for the program, and one line about each for people.

The classes are imported when something failed: a process that never meets a broker does not load the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from connectors.kafka.source import Source
from models.errors import InputError, UnavailableError, VeilstreamError


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Raise a client's error within the block translated by `fault`."""
    from kafka import errors

    try:
        yield
    except errors.KafkaError as error:
        raise fault(error, source) from None


def of_the_client(error: Exception) -> bool:
    """Return whether an error comes from the broker or the client, and not from the program around them."""
    from kafka import errors

    return isinstance(error, errors.KafkaError)


def may_pass(error: Exception) -> bool:
    """Return whether the client expects that trying again can help."""
    from kafka import errors

    return isinstance(error, errors.RetriableError)


def undecodable(error: Exception) -> bool:
    """Return whether records were fetched and cannot be decoded: a damaged batch, or a codec without its package."""
    from kafka import errors

    if isinstance(error, errors.CorruptRecordError | errors.UnsupportedCodecError):
        return True
    # Decompressors raise errors of their own; the network's are of OSError.
    return not isinstance(error, errors.KafkaError | OSError)


def too_large(error: Exception) -> bool:
    """Return whether a record is larger than the broker or the producer accepts."""
    from kafka import errors

    return isinstance(error, errors.MessageSizeTooLargeError)


def fault(error: Exception, source: Source) -> VeilstreamError:
    """Translate a client's error into one line for people: place, and what to check; no part of the sent data.

    Returns
    -------
    VeilstreamError
        UnavailableError if no broker answers or it is not ready, which may pass by itself. VeilstreamError if the
        broker does not allow the request: an administrator may allow it, and a restart then helps. InputError for all
        others.
    """
    from kafka import errors

    if _forbidden(error):
        return VeilstreamError(_explain(error, source))
    away = isinstance(error, errors.KafkaConnectionError | errors.KafkaTimeoutError) or _passes(error)
    return (UnavailableError if away else InputError)(_explain(error, source))


def _forbidden(error: Exception) -> bool:
    from kafka import errors

    return isinstance(
        error,
        errors.TopicAuthorizationFailedError
        | errors.GroupAuthorizationFailedError
        | errors.TransactionalIdAuthorizationFailedError
        | errors.ClusterAuthorizationFailedError,
    )


def _passes(error: Exception) -> bool:
    """Return whether a broker gives this error while it starts and does not know its leaders or coordinators yet.

    A topic that it does not know may be one that nobody created.
    """
    from kafka import errors

    if isinstance(error, errors.UnknownTopicOrPartitionError | errors.UnknownTopicIdError):
        return False
    return isinstance(error, errors.UnknownBrokerIdError) or bool(getattr(error, "retriable", False))


def _explain(error: Exception, source: Source) -> str:
    from kafka import errors

    broker = f"broker {source.bootstrap}"
    if isinstance(error, (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)):
        return f"{broker}: refuses the credentials of source.security"
    if isinstance(error, (errors.KafkaConnectionError, errors.KafkaTimeoutError)):
        return f"{broker}: no broker answers us ({type(error).__name__}); check source.bootstrap and source.security"
    if _forbidden(error):
        error_name = type(error).__name__
        return (
            f"{broker}: does not allow this ({error_name}); "
            "`veilstream topics acls` prints the permissions that are needed"
        )
    if _passes(error):
        return f"{broker}: is not ready ({type(error).__name__}); try again"
    return f"{broker}: {type(error).__name__}"
