"""Time of the last answer of a broker to this process, which is requested at every heartbeat.

Without it a process looks well while the broker is away: its event loop runs, its timers run, and its client tries to
connect without an end. A thread of its own asks, over a connection of its own, so that neither a long step nor a client
that waits hides the answer or its absence.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from connectors.kafka.lineage import LogClient
from connectors.kafka.source import Source
from models.errors import VeilstreamError

log = logging.getLogger("veilstream")

SILENT_SECONDS = 30.0
"""Without an answer for so long the broker counts as away. A question waits ten seconds for its answer and for an
election: with less, one lost answer would make a process not ready."""


def no_contact(_at: float) -> None:
    """Report nothing: the process serves no metrics."""


def no_question(_client: LogClient) -> None:
    """Ask nothing more than whether a broker answers."""


class BrokerContact:
    """Asks the broker for the leaders of `topics` every `interval` seconds and keeps the time of the last answer.

    Made when the broker has just answered (the check of the topics at the start).

    Parameters
    ----------
    source
        Configuration of the broker.
    topics
        Topics whose leaders are asked for.
    interval
        Seconds between two requests.
    report
        Called with the time of each answer, in seconds since 1970.
    ask
        A further question after each answer, which a long step of the process must not delay. Its errors count as no
        answer.
    """

    def __init__(
        self,
        source: Source,
        topics: Sequence[str],
        interval: float,
        report: Callable[[float], None] = no_contact,
        ask: Callable[[LogClient], None] = no_question,
    ) -> None:
        self._client = LogClient(source)
        self._where, self._topics, self._interval = source.bootstrap, topics, interval
        self._report, self._ask = report, ask
        self._last_answer = time.monotonic()
        self.at = time.time()
        """Time of the last answer, seconds since 1970."""
        self._logged = False

    @property
    def seconds(self) -> float:
        """Since the last answer."""
        return time.monotonic() - self._last_answer

    @property
    def away(self) -> bool:
        """Whether the broker has not answered for too long."""
        return self.seconds > SILENT_SECONDS

    def watch(self) -> None:
        """Start the requests; the thread ends with the process."""
        self.answered()
        threading.Thread(target=self._watch, name="broker contact", daemon=True).start()

    def answered(self) -> None:
        """Record an answer of the broker."""
        self._last_answer, self.at = time.monotonic(), time.time()
        self._report(self.at)
        if self._logged:
            log.warning("broker %s: answers again", self._where)
        self._logged = False

    def _watch(self) -> None:
        while True:
            try:
                self._client.leaders(self._topics)
                self.answered()
                self._ask(self._client)
            except VeilstreamError as error:
                if self.away and not self._logged:
                    log.error("no contact with the broker for %.0f s: %s", self.seconds, error)
                    self._logged = True
            time.sleep(self._interval)
