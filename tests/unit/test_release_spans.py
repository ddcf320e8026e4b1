"""Spans of a decision: their order, their outcome, and that they hold nothing of a record."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.errors import InputError
from stream.config.settings import Settings
from stream.daemon.state_machine import ActiveCoordinator
from stream.daemon.tracing import ReleaseSpans, Tracing
from stream.release.contract import Attempt
from stream.release.failpoints import Failpoint
from tests.unit.test_pipeline_rules import DP, IDENTITY, _attempt, _service, _settings

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

CUT = "p@1.0.0"


@pytest.fixture
def exported() -> tuple[Any, Any]:
    """A tracer, and what it exports."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


def _decided(folder: Path, settings: Settings, exported: tuple[Any, Any], attempt: Attempt) -> dict[str, Any]:
    """Decide one cut as a coordinator does; the spans by name."""
    tracer, exporter = exported
    spans = ReleaseSpans(tracer)
    with _service(folder, settings, spans) as service:  # type: ignore[arg-type]
        engine: Any = ActiveCoordinator.__new__(ActiveCoordinator)
        engine.service = service
        engine.host = SimpleNamespace(spans=spans)
        engine._decide(SimpleNamespace(id=attempt.cut, publication="p"), attempt)
    finished = exporter.get_finished_spans()
    assert len({span.name for span in finished}) == len(finished)
    return {span.name: span for span in finished}


RELEASED = ["charge", "build", "audit", "seal", "publish", "cut"]


@pytest.mark.parametrize(
    ("publication", "traces", "names", "outcome"),
    [
        ({"mechanism": IDENTITY}, ("ab",) * 50, RELEASED, "published"),
        ({"mechanism": IDENTITY, "approval": "required"}, ("ab",) * 50, RELEASED, "held"),
        ({"mechanism": DP, "publish_after": "1h"}, ("ab",) * 200, RELEASED, "waiting"),
        ({"mechanism": IDENTITY, "gate": {"min_ka": 90}, "audit": {"n": [0]}}, ("ab",) * 50, None, "withheld"),
    ],
    ids=["published", "held", "waiting", "withheld"],
)
def test_the_stages_of_a_decision_are_spans_of_its_cut(
    tmp_path: Path,
    exported: tuple[Any, Any],
    publication: dict[str, Any],
    traces: tuple[str, ...],
    names: list[str] | None,
    outcome: str,
) -> None:
    """One after the other, each within the cut; the cut has the outcome, and only these attributes are set."""
    attempt = _attempt(CUT, traces, moment=0)
    spans = _decided(tmp_path, _settings(publication), exported, attempt)
    expected = names if names is not None else ["charge", "build", "audit", "cut"]
    assert list(spans) == expected
    cut = spans["cut"]
    attributes = {"veilstream.publication": "p", "veilstream.cut": CUT, "veilstream.release": 1}
    assert dict(cut.attributes) == {**attributes, "veilstream.outcome": outcome}
    stages = [spans[name] for name in expected[:-1]]
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        assert stage.parent.span_id == cut.context.span_id
        assert cut.start_time <= stage.start_time <= stage.end_time <= cut.end_time
        assert following is None or stage.end_time <= following.start_time
        assert set(stage.attributes) <= set(attributes)
        assert not stage.events


def test_a_decision_that_fails_ends_with_the_next_one(exported: tuple[Any, Any]) -> None:
    """Nothing of the error is recorded: its text could hold content."""
    tracer, exporter = exported
    spans = ReleaseSpans(tracer)
    for point in (Failpoint.OPENED, Failpoint.CHARGED, Failpoint.OPENED):
        spans(point)
    finished = exporter.get_finished_spans()
    assert [span.name for span in finished] == ["charge", "build", "cut"]
    assert finished[-1].attributes["veilstream.outcome"] == "failed"
    assert all(not span.events and span.status.is_unset for span in finished)


def test_steps_outside_of_a_decision_make_no_span(exported: tuple[Any, Any]) -> None:
    """Recovery, a person's decision and checkpoints call the hook too; it passes every step on."""
    tracer, exporter = exported
    passed: list[Failpoint] = []
    spans = ReleaseSpans(tracer, passed.append)
    for point in Failpoint:
        if point is not Failpoint.OPENED:
            spans(point)
    spans.decided()
    assert exporter.get_finished_spans() == ()
    assert passed == [point for point in Failpoint if point is not Failpoint.OPENED]


def test_a_collector_receives_the_spans_and_nothing_of_the_host() -> None:
    """By OTLP over HTTP: the resource has name and version of the program and the process, no command line."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received: list[tuple[str, Any]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        tracing = Tracing("clinic", f"http://127.0.0.1:{server.server_port}/")
        for point in (Failpoint.OPENED, Failpoint.CHARGED, Failpoint.WITHHELD):
            tracing.spans(point)
        tracing.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    ((path, request),) = received
    assert path == "/v1/traces"
    (resource,) = request.resource_spans
    keys = {attribute.key for attribute in resource.resource.attributes}
    assert keys == {"service.name", "service.version", "veilstream.process"}
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["charge", "build", "cut"]


def test_without_the_extra_the_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InputError, match=r"veilstream\[otel\]"):
        Tracing("p", "http://localhost:4318")
