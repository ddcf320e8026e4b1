"""The smallest Faust application: prints every value that it receives, and commits it."""

from __future__ import annotations

import sys
from pathlib import Path

import faust


def main(bootstrap: str, group: str, topic: str, folder: str) -> None:
    app = faust.App(
        group,
        broker=f"kafka://{bootstrap}",
        datadir=folder,
        topic_allow_declare=False,
        topic_disable_leader=True,
        broker_session_timeout=10,
        broker_heartbeat_interval=3,
        broker_commit_interval=0.5,
        web_enabled=False,
    )
    events = app.topic(topic, value_serializer="raw", key_serializer="raw")

    @app.agent(events)
    async def echo(stream: faust.Stream) -> None:
        async for event in stream.noack().events():
            with Path(folder, "seen").open("a") as seen:
                seen.write(f"{event.message.partition} {event.message.offset} {event.value.decode()}\n")
            event.ack()

    Path(folder).mkdir(parents=True, exist_ok=True)
    faust.Worker(app, loglevel="INFO", quiet=True).execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
