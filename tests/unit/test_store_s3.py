"""Releases on a real S3-compatible server (moto's, in a process of its own), and behind a network that fails."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from connectors.store.base import Prepared, Store
from connectors.store.blobs import open_blobs
from connectors.store.objects import ObjectStore
from connectors.store.open import open_store
from models.errors import InputError, RefusedError, UnavailableError
from models.eventlog import EventLog
from stream.config import sources
from stream.operator.verify import verify
from stream.release.contract import Attempt, Decision, Exposure
from stream.release.failpoints import Failpoint, Faults
from stream.run.service import ReleaseService
from stream.testing.proxy import Proxy
from tests.conftest import missing

BUCKET = "s3://releases/hospital"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of the server."""
    if not all(importlib.util.find_spec(name) for name in ("moto", "s3fs")):
        missing("s3", "moto and s3fs are not installed (extra `test`)")
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], stdout=written, stderr=written
        )
    try:
        yield _port(log, process)
    finally:
        process.terminate()
        process.wait()


def _port(log: Path, process: subprocess.Popen[bytes]) -> int:
    for _look in range(600):
        text = log.read_text()
        if "Running on http://127.0.0.1:" in text:
            return int(text.split("Running on http://127.0.0.1:")[1].split()[0])
        assert process.poll() is None, text
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture
def network(server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The way to an empty bucket. The client tries once: what it does on its own has a test of its own."""
    import s3fs

    for method in ("POST", "PUT"):  # the server forgets everything; then the bucket
        path = "moto-api/reset" if method == "POST" else "releases"
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{server}/{path}", method=method)
        ) as answer:
            assert answer.status == 200
    proxy = Proxy()
    proxy.start("127.0.0.1", server)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    yield proxy
    proxy.close()
    s3fs.S3FileSystem.clear_instance_cache()


def prepared(store: Store, number: int, body: bytes = b"released") -> Prepared:
    return store.prepare("p", number, {"log.csv": lambda path: _write(path, body)}, {"version": 1})


def _write(path: Path, body: bytes) -> None:
    path.write_bytes(body)


def test_a_release_is_there_whole_and_its_number_is_taken(network: Proxy, tmp_path: Path) -> None:
    """Listed, read back, refused a second time; another publication is another series."""
    store = open_store(BUCKET, private=tmp_path)
    assert (store.publications(), store.releases("p")) == ([], [])
    one = prepared(store, 1)
    assert store.commit(one, 1) == f"{BUCKET}/public/p/release-000001"
    assert (store.publications(), store.releases("p")) == (["p"], [1])
    assert store.manifest_sha256("p", 1) == one.manifest_sha256
    assert store.read_manifest("p", 1)["files"][0]["path"] == "log.csv"
    with pytest.raises(RefusedError, match="exists already"):
        store.commit(prepared(store, 1), 1)
    assert not store.exists("q", 1)


def test_the_store_itself_refuses_a_second_object(
    network: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two coordinators that lost their fence both look before either writes: the conditional put decides. The same
    bytes again are an upload that continues."""
    store = open_store(BUCKET, private=tmp_path)
    first, second = prepared(store, 1), prepared(store, 1, b"others")
    again = prepared(store, 1)
    monkeypatch.setattr(ObjectStore, "exists", lambda *_: False)
    store.commit(first, 1)
    with pytest.raises(RefusedError, match=r"log\.csv exists already"):
        store.commit(second, 1)
    store.commit(again, 1)
    assert store.manifest_sha256("p", 1) == first.manifest_sha256


def test_a_network_that_fails_is_one_line_and_the_upload_goes_on(network: Proxy, tmp_path: Path) -> None:
    """Every question and the upload; then the sealed bytes are put where they belong."""
    store = open_store(BUCKET, private=tmp_path)
    one = prepared(store, 1)
    network.cut()
    for ask in (
        lambda: store.commit(one, 1),
        lambda: store.exists("p", 1),
        lambda: store.releases("p"),
        lambda: store.publications(),
        lambda: store.manifest_bytes("p", 1),
        lambda: open_blobs(BUCKET, "operator/x").put("checkpoints/0", b"state"),
        lambda: open_blobs(BUCKET, "operator/x").get("checkpoints/0"),
    ):
        with pytest.raises(UnavailableError, match=r"s3://releases/hospital.* does not answer"):
            ask()
    network.heal()
    assert store.releases("p") == []
    assert store.resume("p", 1, one.name, one.manifest_sha256)
    assert store.releases("p") == [1]


def test_a_short_failure_is_not_seen(network: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries again by itself: connections that end under way, and a network that comes back."""
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 5)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    store = open_store(BUCKET, private=tmp_path)
    assert store.releases("p") == []
    network.reset()  # the connections that the client keeps
    store.commit(prepared(store, 1), 1)
    assert store.releases("p") == [1]


def test_a_bucket_that_is_not_there_is_said(network: Proxy, tmp_path: Path) -> None:
    """Bad configuration: exit code 2. It is not made: a misspelt name would publish in a bucket that nobody reads."""
    store = open_store("s3://elsewhere/hospital", private=tmp_path)
    for _attempt in range(2):
        with pytest.raises(InputError, match="no such bucket"):
            store.commit(prepared(store, 1), 1)
    with pytest.raises(InputError, match="no such bucket"):
        open_blobs("s3://elsewhere/hospital", "operator/x").put("checkpoints/0", b"state")


def _decided(service: ReleaseService, number: int) -> Decision:
    log = EventLog.from_traces([(("a", "b"), None)] * 30)
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    return service.pipelines["p"].attempt(Attempt(f"p/{number}/0/0", "manual", 0, exposure, {}))


def test_a_network_that_fails_behind_the_seal_neither_burns_nor_doubles(network: Proxy, tmp_path: Path) -> None:
    """It is gone from the seal of release 1 on. A start meanwhile ends with one line and leaves the number; the start
    after it publishes the sealed bytes, and the series continues."""
    config = tmp_path / "veilstream.toml"
    config.write_text(
        f'store = "{BUCKET}"\n[[publication]]\nname = "p"\nwindow = {{ manual = true }}\n'
        'mechanism = { kind = "identity" }\n'
        "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
    )

    def opened(gone: str = "") -> ReleaseService:
        at = {gone: network.cut}
        return ReleaseService(
            sources.load(config), tmp_path / "out", faults=Faults(lambda point: at.get(str(point), int)())
        )

    service = opened(str(Failpoint.SEALED))
    with pytest.raises(UnavailableError):
        _decided(service, 1)
    service.close()
    with pytest.raises(UnavailableError):
        opened()
    network.heal()
    service = opened()
    try:
        store, account = service.store, service.pipelines["p"].account
        assert store.releases("p") == [1]
        assert store.manifest_sha256("p", 1) == account.seals[1].body.manifest
        assert _decided(service, 1).sequence == 1
        assert _decided(service, 2).sequence == 2
        assert store.releases("p") == [1, 2]
        assert account.burned == {}
        manifest = json.loads(store.manifest_bytes("p", 2))  # type: ignore[attr-defined]
        assert manifest["chain"]["previous_manifest"] == account.seals[1].body.manifest
    finally:
        service.close()
    assert verify(tmp_path / "out", BUCKET).holds
    network.cut()
    with pytest.raises(UnavailableError, match="does not answer"):
        verify(tmp_path / "out", BUCKET)
    assert os.listdir(tmp_path / "out" / "operator" / "staging" / "p") == []
