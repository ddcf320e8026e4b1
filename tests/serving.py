"""A running console for tests: `veilstream serve` as its own process, and a browser that sends the given requests."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from stream.commands import execute
from tests import preloaded
from tests.conftest import DECLARED

SECONDS = 120


@dataclass(frozen=True)
class Answer:
    """Answer of the server; `headers` by small name."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def shown(self) -> str:
        """The text of the page without its markup."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.text)).split())


@dataclass
class Console:
    """The process, its standard output, and one browser's cookie."""

    process: preloaded.PreloadedProcess
    printed: Path
    url: str
    port: int
    log: Path
    cookie: str = ""

    @property
    def token(self) -> str:
        """Of the address that was printed."""
        return parse_qs(urlsplit(self.url).query)["token"][0]

    def ask(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | str | None = None
    ) -> Answer:
        """One request, its path and headers as they are given; the cookie and the Host header by default."""
        sent = {"Host": f"127.0.0.1:{self.port}", **({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        line = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        data = body.encode() if isinstance(body, str) else body
        if data is not None:
            sent.setdefault("Content-Length", str(len(data)))
        for name, value in sent.items():
            line.putheader(name, value)
        line.endheaders()
        if data is not None:
            line.send(data)
        try:
            return _read(line.getresponse())
        finally:
            line.close()

    def send(self, path: str, fields: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        """A form, as a browser sends it."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.ask(path, "POST", {**kind, **(headers or {})}, urlencode(fields))

    def sign_in(self) -> Answer:
        """Open the printed address; the cookie is kept."""
        answer = self.ask(f"/?token={self.token}", headers={"Cookie": ""})
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def csrf(self, path: str = "/") -> str:
        """The secret of the forms of a page."""
        return re.findall(r'name="csrf" value="([^"]+)"', self.ask(path).text)[0]

    def end(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.close()

    def close(self) -> None:
        """Check that its standard output is the one line."""
        assert self.printed.read_text().count("\n") == 1


def _read(response: HTTPResponse) -> Answer:
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
    return Answer(response.status, headers, response.read().decode())


def start(output: Path, log: Path, *more: str) -> Console:
    """`veilstream serve OUTPUT --port 0 --json`, once it is ready; its stderr goes to `log`."""
    words = ["serve", str(output), "--port", "0", "--json", *more]
    printed = log.with_name(f"{log.name}.printed")
    with open(os.devnull, "rb") as nothing, printed.open("w") as stdout, log.open("w") as errors:
        process = preloaded.start("stream.commands", words, os.environ, nothing, stdout, errors)
    while not printed.read_text().endswith("\n"):
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    address = json.loads(printed.read_text())
    return Console(process, printed, address["url"], address["port"], log)


SCRIPT = "<script>console.error('ran')</script>"
IMAGE = '"><img src="http://127.0.0.1:9/label.png" onerror="console.error(1)">'
WARD = """
[process]
name = "ward"
sensitive = ["diagnosis"]
[[publication]]
name = "research"
audience = "university"
approval = "required"
window = { new_cases = 40 }
mechanism = { kind = "identity", attribute = "ac" }
audit = { bk_length = 1, n = [0] }
gate = { min_ka = 40, on_violation = "warn" }
[[publication]]
name = "teaching"
audience = "school"
approval = "required"
window = { new_cases = 60 }
mechanism = { kind = "baseline-1", K = 5 }
[[publication]]
name = "statistics"
audience = "public"
approval = "required"
start = 2025-01-01T00:00:00Z
window = { every = "2d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.5, delta_dp = 1e-3 }
gate = { max_epsilon = 2 }
"""


def held_folder(folder: Path) -> Path:
    """An output folder with a release of `research`, one of `teaching` and one of `statistics` that wait for a person.
    Activities are markup."""
    value = IMAGE.replace('"', '""')
    rows = [
        f"c{case},{act},2025-01-{1 + case // 24:02}T{case % 24:02}:{minute:02}:00Z,{value}"
        for case in range(90)
        for minute, act in enumerate(("in", SCRIPT, "out") if case % 3 else ("in", "out"))
    ]
    rows = [",".join(part if part.isalnum() else f'"{part}"' for part in row.split(",")) for row in rows]
    (folder / "ward.csv").write_text("\n".join(["case,act,time,diagnosis", *rows]) + "\n")
    (folder / "ward.toml").write_text(WARD + DECLARED)
    columns = ["--columns", "case=case,activity=act,time=time"]
    command = ["replay", str(folder / "ward.csv"), "-c", str(folder / "ward.toml"), "-o", str(folder / "out"), *columns]
    assert execute(command) in (0, 3)
    return folder / "out"
