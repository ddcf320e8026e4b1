"""Parts on which the console's safety rests: addresses, tokens, sessions."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from models.errors import InputError
from stream.operator.console import sessions
from stream.operator.console.address import Address, address
from stream.operator.console.sessions import IDLE_SECONDS, MOST_SESSIONS, Sessions, new_token, read_token, same


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8765", "localhost:9", "LOCALHOST", "[::1]:8765", "127.5.0.1"])
def test_loopback_names_are_known_at_any_port(host: str) -> None:
    """An ssh tunnel shows the console at a port of its own."""
    assert Address().origin_of(host) == f"http://{host}"


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "a@127.0.0.1"]
    + ["127.0.0.1:8765/x", "127.0.0.1:port", "127.0.0.1:0", "10.0.0.1", "[::1", "127.0.0.1, evil.example", "127.1:80 x"]
    + ["0.0.0.0:8765", "localhost.", "[fe80::1]", "127.0.0.1:99999"],
)
def test_every_other_name_is_refused(host: str) -> None:
    """Names that a stranger can give this address, and texts that only look like ours."""
    assert Address().origin_of(host) is None


def test_behind_a_proxy_its_name_is_the_only_one() -> None:
    """The loopback names too are refused: the proxy has to pass the Host header on."""
    where = address("0.0.0.0", "https://Console.Example:8443")
    assert where.url(1) == "https://console.example:8443/"
    assert where.origin_of("console.example:8443") == "https://console.example:8443"
    assert [where.origin_of(one) for one in ("127.0.0.1:8443", "console.example", "evil.example:8443")] == [None] * 3


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "console.example", ""])
def test_a_host_that_the_network_can_reach_is_refused(host: str) -> None:
    """One clear sentence that names both ways out."""
    with pytest.raises(InputError, match=r"without encryption; .* ssh tunnel.*--behind-proxy https://NAME"):
        address(host, None)


@pytest.mark.parametrize(
    "proxy", ["http://a.example", "a.example", "https://", "https://a.example/x", "https://a:b@c", "https://a:x"]
)
def test_a_proxy_without_tls_or_a_name_of_its_own_is_refused(proxy: str) -> None:
    """The token would go over the network in plain text, or the cookie to other pages of the proxy."""
    with pytest.raises(InputError, match="--behind-proxy"):
        address("127.0.0.1", proxy)


def _file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_of_a_file_is_its_one_line(tmp_path: Path) -> None:
    """The line feed at the end is none of it."""
    token = new_token()
    assert read_token(_file(tmp_path, f"{token}\n")) == token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o777])
def test_a_token_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    """It was readable by others, so a new one has to be made."""
    with pytest.raises(InputError, match="chmod 600, and make a new one"):
        read_token(_file(tmp_path, new_token(), mode))


@pytest.mark.parametrize("text", ["", "short", "a" * 31, "two words " * 9, "line\n" * 9, "é" * 40])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, text: str) -> None:
    """And the message does not hold it."""
    with pytest.raises(InputError, match="no token of at least 32 characters") as raised:
        read_token(_file(tmp_path, text))
    assert not text.strip() or text.strip() not in str(raised.value)


def test_a_token_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """As is a folder."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError):
            read_token(path)


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `compare_digest`, over sums of one length: neither the first difference nor the length takes its own time."""
    asked = []
    real = hmac.compare_digest

    def spy(one: bytes, other: bytes) -> bool:
        asked.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(sessions.hmac, "compare_digest", spy)
    assert not same("a", "b" * 500)
    assert same("é\udcff", "é\udcff")
    assert Sessions("right").enter("wrong") is None
    assert asked == [(32, 32)] * 3


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_nobody_used_it_for_a_day_of_work() -> None:
    """Each request keeps it; a stranger's name is none."""
    clock = Clock()
    known = Sessions("t", clock)
    name = known.enter("t") or ""
    assert known.of("") is None
    assert known.of(f"{name}x") is None
    for _ in range(3):
        clock.now += IDLE_SECONDS
        assert known.of(name) is not None
    clock.now += IDLE_SECONDS + 1
    assert known.of(name) is None


def test_leaving_ends_one_session() -> None:
    """The others continue."""
    known = Sessions("t")
    one, other = known.enter("t") or "", known.enter("t") or ""
    known.leave(one)
    assert known.of(one) is None
    assert known.of(other) is not None


def test_sessions_are_bounded_and_have_secrets_of_their_own() -> None:
    """The one that was quiet for longest goes first."""
    clock = Clock()
    known = Sessions("t", clock)
    names = []
    for _ in range(MOST_SESSIONS + 1):
        clock.now += 1
        names.append(known.enter("t") or "")
    found = [known.of(name) for name in names]
    assert [number for number, one in enumerate(found) if one is None] == [0]
    secrets = {one.csrf for one in found if one} | set(names)
    assert len(secrets) == 2 * MOST_SESSIONS + 1
