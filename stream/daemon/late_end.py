"""A stop that takes too long is ended. The thread that does it is started with the process: where memory is short, none
could be started at the moment of the stop, and the stop would be lost."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from models.errors import VeilstreamError

log = logging.getLogger("veilstream")

STOP_SECONDS = 20.0
"""A stop that was asked for takes at most this long, below the 30 s that Kubernetes gives. A release that is being
built and not sealed by then is dropped: its charge stands, and the next start builds it under the same number."""

Why = Callable[[], BaseException | None]


class LateEnd:
    """Ends this process some seconds after it is asked to, if it still runs then."""

    def __init__(self, seconds: float = STOP_SECONDS, *, end: Callable[[int], object] = os._exit) -> None:
        self._seconds, self._end = seconds, end
        self._asked = threading.Event()
        self._code = 0
        self._why: Why = lambda: None
        threading.Thread(target=self._run, name="late end", daemon=True).start()

    def ask(self, code: int, *, why: Why = lambda: None) -> None:
        """Begin to count, the first time. `why`: what ended the work, if anything did; the log would say it only after
        the stop, so it is said at the end, and gives the exit code."""
        if not self._asked.is_set():
            self._code, self._why = code, why
            self._asked.set()

    def _run(self) -> None:
        self._asked.wait()
        threading.Event().wait(self._seconds)
        reason = self._why()
        if isinstance(reason, VeilstreamError):
            log.error("stops: %s", reason)
        elif reason is not None:
            log.error("crashed: %s", type(reason).__name__)
        log.warning("the stop took too long: what was under way is dropped, the next start does it again")
        logging.shutdown()
        self._end(reason.exit_code if isinstance(reason, VeilstreamError) else self._code)
