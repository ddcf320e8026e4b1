"""Faust application 1: wiring of the ingest worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.columns import ColumnNames
from connectors.kafka.event_batches import batch_decoder
from connectors.kafka.events import Schema, decoder
from connectors.kafka.formats import formats
from connectors.kafka.source import Source
from connectors.times import nanoseconds
from stream.config.settings import Settings
from stream.daemon.batch_consumer import WAITING, BatchApp
from stream.daemon.delta_batches import BatchWriter
from stream.daemon.deltas import DeltaWriter
from stream.daemon.faust_app import CrashingSupervisor, application, offer_health
from stream.daemon.faust_consumer import App
from stream.daemon.ingest import Ingest
from stream.values.pseudonym import Pseudonyms

if TYPE_CHECKING:
    from stream.run.exporter import Metrics


def delta_writer(settings: Settings, source: Source, key: bytes) -> BatchWriter:
    """Make the delta writer of a configuration. Attributes that nobody needs are not decoded."""
    process = settings.process
    schema = Schema(
        names=ColumnNames.of(process.columns.changed),
        attributes=tuple(dict.fromkeys((*process.kept, *process.attributes.person, *source.kept))),
        timezone=process.timezone,
        event_id=source.event_id,
        end=source.end,
        format=source.format,
        time_unit=source.time_unit,
        lifecycle=process.lifecycle,
    )
    writer = DeltaWriter(
        decode=decoder(schema),
        pseudonyms=Pseudonyms(key),
        max_skew_ns=int(source.max_skew * 1_000_000_000),
        limit=source.delta_batch_bytes,
        dlq_payload=source.dlq_payload,
        earliest=None if process.earliest is None else nanoseconds(process.earliest),
        raw_resources=process.raw_resources,
        person=process.person,
        formats=formats(
            schema,
            registry=source.registry,
            mappings=source.mapping,
            snapshots=source.snapshots == "take",
            reader_schema=source.reader_schema,
        ),
    )
    return BatchWriter(writer, batch_decoder(schema))


def ingest_app(
    settings: Settings, source: Source, key: bytes, folder: Path, metrics: Metrics | None = None
) -> tuple[App, Ingest]:
    """Make the Faust application and its worker."""
    process = settings.process.name
    app = application(process, "ingest", source, folder, kind=BatchApp, stream_buffer_maxsize=WAITING)
    worker = Ingest(app, process, source, delta_writer(settings, source, key), metrics)
    events = app.topic(*source.topics, key_serializer="raw", value_serializer="raw", allow_empty=True)

    @app.agent(events, name="ingest", supervisor_strategy=CrashingSupervisor)
    async def take(stream: Any) -> None:
        async for fetch in stream.noack().events():
            await worker.batch(fetch.message)

    @app.timer(interval=source.heartbeat)  # type: ignore[untyped-decorator]
    async def report() -> None:
        await worker.report()

    offer_health(app, settings.health_port, worker.probe)
    return app, worker
