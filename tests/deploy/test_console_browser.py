"""The console in a real headless Chromium: four widths, paper, dark, the keyboard alone, and pages of strangers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stream.operator.approval import held
from tests.deploy.browsing import open_page, press
from tests.deploy.test_report_browser import faults
from tests.serving import Console, held_folder, start

pytestmark = pytest.mark.chromium

PAGES = {"overview": "/", "held": "/held", "release": "/held/research/1", "decisions": "/decisions", "error": "/none"}

LOOKS = "light,tablet,phone-dark,print"
"""Each width and both schemes of colour once."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console with three held releases, signed in."""
    folder = tmp_path_factory.mktemp("console")
    running = start(held_folder(folder), folder / "log")
    running.sign_in()
    yield running
    running.end()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_clean(console: Console, name: str, pictures: Path | None) -> None:
    """No message of the browser, no request to elsewhere, no overflow, nothing of axe, each stop seen and reached."""
    folder = pictures and pictures / "console" / name
    found = open_page(f"http://127.0.0.1:{console.port}{PAGES[name]}", folder, cookie=console.cookie, looks=LOOKS)
    wanted = ["error: Failed to load resource: the server responded with a status of 404 (Not Found)"]
    for seen in found.values():
        assert seen.pop("messages") == (wanted if name == "error" else [])
        seen["messages"] = []
    assert faults(found) == []
    assert found["light"]["keys"]["stops"] > 4
    assert (found["light"]["keys"]["unreached"], found["light"]["keys"]["unseen"]) == (0, [])


def test_the_report_is_as_clean_under_its_policy(console: Console, pictures: Path | None) -> None:
    """Its style and the lengths of its bars pass the console's policy, and nothing else has to."""
    folder = pictures and pictures / "console" / "report"
    found = open_page(f"http://127.0.0.1:{console.port}/report", folder, cookie=console.cookie, looks=LOOKS)
    assert faults(found) == []
    assert found["light"]["ground"] != found["phone-dark"]["ground"], "its style is applied"


def test_the_sign_in_page_is_clean(console: Console, pictures: Path | None) -> None:
    """A browser without a session sees the sign-in page only."""
    found = open_page(f"http://127.0.0.1:{console.port}/", pictures and pictures / "console" / "sign-in", looks=LOOKS)
    for seen in found.values():
        assert "401" in seen["messages"].pop()
    assert faults(found) == []
    assert found["light"]["keys"]["unreached"] == 0


def test_a_release_is_approved_by_the_keyboard_alone(tmp_path: Path) -> None:
    """From the printed address to the log of decisions; Enter in a field decides nothing before a choice is made."""
    running = start(held_folder(tmp_path), tmp_path / "log")
    try:
        steps = [
            {"to": "Held releases"},
            {"press": "Enter", "wait": "load"},
            {"to": "research, release 1"},
            {"press": "Enter", "wait": "load"},
            {"to": "Your name"},
            {"type": "Dr. A. Officer"},
            {"press": "Enter"},
            {"to": "Why"},
            {"type": "read and fine"},
            {"to": "Approve"},
            {"press": "Space"},
            {"to": "Record the decision"},
            {"press": "Enter", "wait": "load"},
        ]
        found = press(running.url, steps)
    finally:
        assert running.end() == 0
    assert found["url"] == f"http://127.0.0.1:{running.port}/decisions"
    assert "Release 1 of research is approved." in found["text"]
    assert "Dr. A. Officer" in found["text"]
    assert found["messages"] == []
    assert found["cookies"] == [{"name": f"veilstream-{running.port}", "httpOnly": True, "sameSite": "Strict"}]
    assert [one.publication for one in held(tmp_path / "out")] == ["statistics", "teaching"]
    assert (tmp_path / "out" / "public" / "research" / "release-000001" / "manifest.json").is_file()


class Stranger(BaseHTTPRequestHandler):
    """A page of another site that frames the console and sends its form with every secret that it could have got."""

    page = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_strangers_page_can_neither_frame_it_nor_send_its_form(console: Console, tmp_path: Path, name: str) -> None:
    """In a browser that is signed in: from another port of this host, and from another name."""
    csrf = console.csrf()
    origin = f"http://127.0.0.1:{console.port}"
    fields = {"csrf": csrf, "by": "x", "why": "y", "decision": "reject"}
    inputs = "".join(f'<input type="hidden" name="{one}" value="{value}">' for one, value in fields.items())
    Stranger.page = (
        f'<!doctype html><title>stranger</title><iframe src="{origin}/held/research/1"></iframe>'
        f'<form method="post" action="{origin}/held/research/1">{inputs}<button>Win</button></form>'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        there = f"http://{name}:{server.server_address[1]}/"
        steps = [{"open": there}, {"to": "Win"}, {"press": "Enter", "wait": "load"}]
        found = press(console.url, steps)
    finally:
        server.shutdown()
        server.server_close()
    assert any("frame" in message.lower() for message in found["messages"]), found["messages"]
    assert "Record the decision" not in found["text"]
    assert "another site" in found["text"] or "Sign in first" in found["text"]
    assert len(held(console.log.parent / "out")) == 3
