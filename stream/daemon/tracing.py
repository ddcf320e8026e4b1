"""OpenTelemetry spans of a decision, for an operator who follows a release through a tracing system.

The stages of a release call a hook at each durable step (`stream.release.failpoints`). The spans are the times between
these calls, so that the pipeline does not depend on tracing.

    cut: charge -> build -> audit -> seal -> publish
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from models.errors import InputError
from stream.release.failpoints import Failpoint, Hook, nothing
from stream.release.manifest import software
from stream.values.log_fields import current_log_fields

log = logging.getLogger("veilstream")

SPAN_BEHIND: Mapping[Failpoint, str] = {
    Failpoint.OPENED: "charge",
    Failpoint.CHARGED: "build",
    Failpoint.BUILT: "audit",
    Failpoint.FILES_WRITTEN: "seal",
    Failpoint.SEALED: "publish",
}
"""The span that begins at a point. `audit` contains the gate and the writing of the files."""

OUTCOMES: Mapping[Failpoint, str] = {
    Failpoint.PUBLISHED: "published",
    Failpoint.HELD: "held",
    Failpoint.WITHHELD: "withheld",
}
"""The points at which a decision ends."""

ATTRIBUTES = ("publication", "cut", "release")
"""Fields of log lines that become attributes: names of the configuration, a position and a number. Nothing else is set,
and no exception is recorded, since its text could hold content."""

FLUSH_MS = 5000
"""Longest wait for the collector at a stop."""


class ReleaseSpans:
    """A hook that turns the steps of each decision into spans.

    Parameters
    ----------
    tracer
        The tracer of OpenTelemetry.
    at
        Hook that is called too, at each step.
    """

    def __init__(self, tracer: Any, at: Hook = nothing) -> None:
        self._tracer, self._at = tracer, at
        self._cut: Any = None
        self._stage: Any = None

    def __call__(self, point: Failpoint) -> None:
        """Pass a step on; end the span that it ends, and begin the one that it begins."""
        self._at(point)
        if point is Failpoint.OPENED:
            # Close the span of an earlier attempt that failed. Usually its process has ended, and nothing is open.
            self._end("failed")
            self._cut = self._tracer.start_span("cut", attributes=_attributes())
        if self._cut is None:
            return  # a step of a recovery, or of a person's decision
        if self._stage is not None and (point in SPAN_BEHIND or point in OUTCOMES):
            self._stage.end()
            self._stage = None
        if point in SPAN_BEHIND:
            self._stage = self._start_stage(SPAN_BEHIND[point])
        elif point in OUTCOMES:
            self._end(OUTCOMES[point])

    def decided(self) -> None:
        """End the spans of a decision that ended at no step of its own: its release waits for its moment."""
        self._end("waiting")

    def _start_stage(self, name: str) -> Any:
        from opentelemetry.trace import set_span_in_context

        return self._tracer.start_span(name, context=set_span_in_context(self._cut), attributes=_attributes())

    def _end(self, outcome: str) -> None:
        if self._stage is not None:
            self._stage.end()
        if self._cut is not None:
            self._cut.set_attributes({**_attributes(), "veilstream.outcome": outcome})
            self._cut.end()
        self._cut = self._stage = None


def _attributes() -> dict[str, str | int]:
    fields = current_log_fields()
    return {f"veilstream.{name}": fields[name] for name in ATTRIBUTES if name in fields}


class Tracing:
    """The spans of a process, and their way to a collector.

    Parameters
    ----------
    process
        Name of the process.
    endpoint
        Address of the collector (OTLP over HTTP), such as `http://localhost:4318`.
    at
        Hook that is called too.

    Raises
    ------
    InputError
        If the extra `otel` is not installed.
    """

    def __init__(self, process: str, endpoint: str, at: Hook = nothing) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise InputError("tracing.endpoint is set: install the extra for it (veilstream[otel])") from None
        # Not Resource.create: its detectors would add the command line and the environment.
        names = {"service.name": "veilstream", "service.version": software()["version"], "veilstream.process": process}
        self._provider = TracerProvider(resource=Resource(names), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.spans = ReleaseSpans(self._provider.get_tracer("veilstream"), at)

    def close(self) -> None:
        """Send the spans that were not sent, if the collector answers in time."""
        if not self._provider.force_flush(FLUSH_MS):
            log.warning("tracing: the collector does not answer; the last spans are lost")
