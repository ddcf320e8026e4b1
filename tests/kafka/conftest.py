"""The broker that the tests of this folder share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker, ForeignBroker, shared_broker


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python leaves a socket open where it is closed while it connects; collected later, it would fail
    whichever test runs at that moment. Only for runs that load this folder."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <(socket.socket|ssl.SSLSocket):ResourceWarning")
    # The line is for the tests. Items collected after the last one meet the current filters.
    warnings.filterwarnings("ignore", r"unclosed <(socket\.socket|ssl\.SSLSocket)", ResourceWarning)


@pytest.fixture(scope="session")
def broker() -> Broker | ForeignBroker:
    """One Kafka for the session; topics and groups are named per test."""
    return shared_broker()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A process name of this test's own."""
    import uuid

    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture(autouse=True)
def broker_log_on_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print the end of the broker's log with a failed test."""
    yield
    report = getattr(request.node, "rep_call", None)
    if report is not None and report.failed and "broker" in request.fixturenames:
        print(request.getfixturevalue("broker").log[-3000:])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Leave the outcome of the call where the fixture above finds it."""
    outcome = yield
    report = outcome.get_result()
    setattr(item, f"rep_{report.when}", report)
