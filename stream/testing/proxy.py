"""A TCP proxy whose network can be cut, stalled, slowed or reset from outside: partitions without privileges."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

CHUNK = 65_536


class Proxy:
    """Listens on `port` of the loopback and passes every connection on to a target that may be named later.

    Runs in a thread of its own. `cut` ends all connections and refuses new ones; `stall` holds every byte, as a network
    that drops packets does, and gives them on at `heal`; `slow` holds each chunk for a time; `reset` ends what is open.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._target = ("127.0.0.1", 0)
        self._refuses, self._delay = False, 0.0
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self, host: str, port: int) -> None:
        """Begin to pass connections on to this address."""
        self._target = (host, port)
        self._socket.listen()
        self._thread.start()

    def cut(self) -> None:
        """End every connection, and refuse each new one."""
        self._refuses = True
        self.reset()

    def stall(self) -> None:
        """Hold every byte in both directions; connections stay open."""
        self._call(self._flows.clear)

    def slow(self, seconds: float) -> None:
        """Hold each chunk for so long."""
        self._delay = seconds

    def reset(self) -> None:
        """End every open connection; new ones are accepted."""
        self._call(self._abort_all)

    def heal(self) -> None:
        """Restore the network; bytes that were held are passed on."""
        self._refuses, self._delay = False, 0.0
        self._call(self._flows.set)

    def close(self) -> None:
        """End every connection and the thread."""
        if self._thread.is_alive():
            self.cut()
            self._call(self._loop.stop)
            self._thread.join()
        self._socket.close()
        self._loop.close()

    def _call(self, work: object) -> None:
        self._loop.call_soon_threadsafe(work)  # type: ignore[arg-type]  # a callable without arguments

    def _abort_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._socket))
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._flows.wait()
            if self._refuses:
                return
            from_target, back = await asyncio.open_connection(*self._target)
            self._open.add(back)
            try:
                ways = [asyncio.ensure_future(self._pass(*way)) for way in ((reader, back), (from_target, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
            finally:
                self._open.discard(back)
                back.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # the target is away, or the proxy is closing: the connection ends, as on a real network
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
