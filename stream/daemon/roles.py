"""The roles of a daemon process, from its configuration to its exit code."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.kafka.faults import not_allowed
from models.errors import InputError, VeilstreamError, shortage
from stream.ledger.layout import OperatorLayout
from stream.release.failpoints import Hook, nothing

if TYPE_CHECKING:
    from stream.config.settings import Settings

log = logging.getLogger("veilstream")


def run_ingest(config: Path, output: Path) -> int:
    """Run an ingest worker; as many as the source topics have partitions share the work."""
    from connectors.kafka.events import LEFT_OUT, POISONS
    from stream.daemon import logs, start
    from stream.daemon.faust_app import run
    from stream.daemon.ingest import ingest_app
    from stream.daemon.worker_status import WorkerStatusFile
    from stream.run.observer import serve

    signal.signal(signal.SIGTERM, _quit)
    settings, source = start.daemon_settings(config)
    logs.configure(settings.log.level, settings.log.format)
    metrics = serve(settings)  # before anything can fail: else a restart loop would look like a process that is down
    start.check_topics(settings, source, "ingest")
    key = start.pseudonym_key(settings, output)
    if metrics is not None:
        metrics.rebalanced(0)
        metrics.dead_letters(POISONS)
        metrics.leaves_out(LEFT_OUT)
    app, worker = ingest_app(settings, source, key, OperatorLayout(output).faust("ingest"), metrics)
    log.info("ingest starts: process %s, topics %s", settings.process.name, ", ".join(source.topics))
    worker.check.watch()
    worker.contact.watch()
    worker.status = WorkerStatusFile(output, source.heartbeat)
    return ending(lambda: run(app), output)


def run_coordinator(config: Path, output: Path, at: Hook = nothing) -> int:
    """Run a coordinator: active if the group assigns it the partition, a standby otherwise.

    Parameters
    ----------
    config, output
        Configuration file and folder.
    at
        Hook of the fault kit.
    """
    with _failed_start_in_status(output):
        return _run_coordinator(config, output, at)


@contextmanager
def _failed_start_in_status(output: Path) -> Iterator[None]:
    """Record an error before the state is open in the status of the folder, which else shows the run before."""
    try:
        yield
    except VeilstreamError as error:
        from stream.daemon.status import StatusFile, end_text

        StatusFile(output).stopped(end_text(error))
        raise


def _run_coordinator(config: Path, output: Path, at: Hook) -> int:
    from stream.daemon import logs, start
    from stream.daemon.coordinator import coordinator_app
    from stream.daemon.faust_app import run
    from stream.daemon.state_machine import CoordinatorContext
    from stream.daemon.tracing import Tracing
    from stream.run.observer import MetricsObserver, serve, watch_space

    signal.signal(signal.SIGTERM, _quit)
    settings, source = start.daemon_settings(config)
    logs.configure(settings.log.level, settings.log.format)
    _has_publications(settings, config)
    metrics = serve(settings)  # as in `run_ingest`
    if metrics is not None:
        metrics.active(False)
        metrics.rebalanced(0)
        watch_space(metrics, settings, output)
    start.check_topics(settings, source, "coordinator")
    start.pseudonym_key(settings, output)
    watch = None if metrics is None else MetricsObserver(settings, metrics)
    tracing = spans = None
    if settings.tracing.endpoint is not None:
        tracing = Tracing(settings.process.name, settings.tracing.endpoint, at)
        at = spans = tracing.spans
    host = CoordinatorContext(settings, source, output, start.source_partitions(source), at, watch, spans)
    app, coordinator = coordinator_app(host, OperatorLayout(output).faust("coordinator"))
    log.info("coordinator starts: process %s", settings.process.name)
    coordinator.check.watch()
    coordinator.contact.watch()
    coordinator.status_topic.watch()
    code = ending(lambda: run(app, on_stop=coordinator.close), output)
    if tracing is not None:
        tracing.close()
    return code


def _quit(_number: int, _frame: object) -> None:
    """Handle SIGTERM before Faust has its own handler: nothing has begun, and a requested stop is not a failure.

    This raises nothing, since the Kafka client would take an exception for a failed request and continue.
    """
    logging.shutdown()
    os._exit(0)


def ending(work: Any, output: Path) -> int:
    """Run `work` and return an exit code; an error that ends it becomes one line (its type, no content).

    The line of a full disk names the output folder if the error names no file.
    """
    try:
        work()
    except VeilstreamError as error:
        log.error("stops: %s", error)
        return error.exit_code
    except OSError as error:
        short = shortage(error, str(output))
        if short is None:
            log.error("crashed: %s", type(error).__name__, exc_info=error)
        else:
            log.error("stops: %s", short)  # no stack: nothing is wrong with the program
        return 1
    except Exception as error:  # the last place: the process ends, and the service manager restarts it
        refusal = not_allowed(error)
        if refusal is None:
            log.error("crashed: %s", type(error).__name__, exc_info=error)
        else:
            log.error("stops: %s", refusal)
        return 1
    log.info("stopped")
    return 0


WAITING = (2, 4)
"""Exit codes that a restart does not mend: wrong configuration, and a host that must not release."""


def run_waiting(config: Path, output: Path, role: str) -> int:
    """Run as `run_all` does, but do not end if a restart cannot help.

    The process then logs why, answers 200 at /healthz and 503 at /readyz, and waits for SIGTERM. Docker and Kubernetes
    restart a container whatever its exit code.
    """
    try:
        code = run_all(config, output, ("ingest", "coordinator") if role == "all" else (role,))
    except VeilstreamError as error:
        if error.exit_code not in WAITING:
            raise
        log.error("stops: %s", error)
        code = error.exit_code
    if code in WAITING:
        from stream.daemon.health import serve_refusal

        stop_signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
        serve_refusal(_health_port(config), role, code)
        log.warning("refused (exit %d): waits for SIGTERM and does nothing until a person has looked", code)
        signal.sigwait(stop_signals)
    return code


def _health_port(config: Path) -> int | None:
    """Return the port from the configuration, which may itself be invalid; then from the environment."""
    from stream.config.sources import load

    try:
        return load(config).health_port
    except VeilstreamError:
        text = os.environ.get("VEILSTREAM_HEALTH_PORT", "")
        return int(text) if text.isdecimal() else None


def run_all(config: Path, output: Path, roles: Sequence[str] = ("ingest", "coordinator")) -> int:
    """Run one ingest worker and one coordinator, each in a process of its own; end with the first of them."""
    signal.signal(signal.SIGTERM, _quit)
    has_status = "coordinator" in roles
    with _failed_start_in_status(output) if has_status else nullcontext():
        _refuse_once(config, roles)
    environments = {role: _environment(config, role if len(roles) > 1 else "") for role in roles}
    command = [sys.executable, "-m", "stream.commands", "run", "-c", str(config), "-o", str(output), "--role"]
    children: list[subprocess.Popen[bytes]] = []
    stopped_by: list[int] = []

    def forward(number: int, _frame: object) -> None:
        stopped_by.append(number)
        for child in children:
            child.send_signal(number)

    stop_signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)  # a signal that comes now waits until the children run
    for number in stop_signals:
        signal.signal(number, forward)
    for role, environment in environments.items():
        children.append(subprocess.Popen([*command, role], env=environment, preexec_fn=_unblock))  # noqa: S603, PLW1509
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals)
    index, code = _wait(children)
    role = list(environments)[index]
    if code >= 0:
        return code
    if -code in stopped_by:  # a signal that was passed on to a role that had only begun is not a failure
        return 0
    # A killed role has written nothing about its end.
    hint = ": the kernel does so when memory is short" if -code == signal.SIGKILL else ""
    log.error("stops: %s ended its %s role%s", signal.Signals(-code).name, role, hint)
    return 1


def _refuse_once(config: Path, roles: Sequence[str]) -> None:
    """Refuse settings that a role would refuse, in one line for both roles."""
    from stream.config.sources import load
    from stream.daemon import logs

    settings = load(config)
    logs.configure(settings.log.level, settings.log.format)
    if settings.source is None:
        from stream.daemon import start

        start.daemon_settings(config)  # refuses this configuration; imported here, since the imports cost time
    if "coordinator" in roles:
        _has_publications(settings, config)


def _has_publications(settings: Settings, config: Path) -> None:
    if not settings.publication:
        raise InputError(f"{config}: no [[publication]]: there is nothing to release")


def _unblock() -> None:
    """Unblock signals in a child before its program begins: the mask is inherited."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})


def _environment(config: Path, role: str) -> dict[str, str]:
    """Return the environment of one role.

    Two processes cannot share a port, so the coordinator of `--role all` uses the next one for metrics and health.
    """
    from stream.config.sources import load

    settings = load(config)
    ports = {"VEILSTREAM_METRICS__PORT": settings.metrics.port, "VEILSTREAM_HEALTH_PORT": settings.health_port}
    if role != "coordinator":
        return dict(os.environ)
    return {**os.environ, **{name: str(port + 1) for name, port in ports.items() if port}}


def _wait(children: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """Wait for the first child that ends, and stop the others.

    Returns its index and its exit code (minus the signal that ended it).
    """
    pid, status = os.waitpid(-1, 0)
    ended = 0
    for index, child in enumerate(children):
        if child.pid == pid:
            ended = index
            continue
        child.terminate()
        child.wait()
    return ended, os.waitstatus_to_exitcode(status)
