"""Which error of a Kafka client is a matter of time, and which one of the configuration."""

from __future__ import annotations

import pytest
from kafka import errors

from connectors.kafka.source import Source
from connectors.kafka.topics import fault

SOURCE = Source(topics=("events",), bootstrap="127.0.0.1:9092")


@pytest.mark.parametrize(
    "error",
    [
        errors.KafkaConnectionError,
        errors.KafkaTimeoutError,
        errors.UnknownBrokerIdError,
        errors.NodeNotReadyError,
        errors.NotLeaderForPartitionError,
    ],
)
def test_a_broker_that_is_just_starting_again_is_away(error: type[errors.KafkaError]) -> None:
    """Exit code 1: a service manager starts the process again. With 2 it would stay down for good."""
    assert fault(error(), SOURCE).exit_code == 1


@pytest.mark.parametrize(
    "error",
    [errors.SaslAuthenticationFailedError, errors.TopicAuthorizationFailedError, errors.UnknownTopicOrPartitionError],
)
def test_what_a_person_has_to_mend_is_no_matter_of_time(error: type[errors.KafkaError]) -> None:
    assert fault(error(), SOURCE).exit_code == 2
