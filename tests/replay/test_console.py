"""The console as a browser meets it: who gets in, what every answer carries, what is refused, and decisions."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from stream.commands import execute
from stream.operator.approval import held
from stream.operator.console.guard import MOST_BODY
from stream.operator.console.sessions import new_token
from stream.operator.history import ledger_view
from tests.conftest import ROOT
from tests.serving import IMAGE, SCRIPT, Answer, Console, held_folder, start

PAGES = ("/", "/held", "/held/research/1", "/decisions", "/report")
FORMS = ("/order", "/sign-out", "/held/research/1")
DECISION = {"by": "Dr. A. Officer", "why": "read and fine", "decision": "approve"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three held releases, that no test changes."""
    return held_folder(tmp_path_factory.mktemp("held"))


@pytest.fixture(scope="module")
def console(made: Path) -> Iterator[Console]:
    """A console on it that is only read, and signed in."""
    running = start(made, made.parent / "console.log")
    running.sign_in()
    yield running
    assert running.end() == 0


# who gets in


def test_the_printed_address_signs_in_and_leaves_the_address(console: Console) -> None:
    """A cookie that no script reads and no other site's request brings along; the token goes from the address."""
    answer = console.ask(f"/?token={console.token}", headers={"Cookie": ""})
    assert (answer.status, answer.headers["location"], answer.text) == (303, "/", "")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith(f"veilstream-{console.port}=")
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert console.token not in cookie


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/?tokens=x", "/held/research/99", "/operator/key"])
def test_without_a_session_every_page_is_the_same(console: Console, path: str) -> None:
    """Nobody learns which pages there are; a cookie of another browser's making is none."""
    for cookie in ("", f"veilstream-{console.port}=guess", console.cookie.replace("-", "_", 1)):
        answer = console.ask(path, headers={"Cookie": cookie})
        assert answer.status == 401
        assert "Sign in first" in answer.shown
        assert "held0" not in answer.text, "not even where the folder is"
        assert "set-cookie" not in answer.headers
        assert not {"research", "teaching", "Held"} & set(answer.shown.split())


@pytest.mark.parametrize("token", ["", "x", "é", "%00"])
def test_a_wrong_token_is_refused(console: Console, token: str) -> None:
    """In the address and in the form."""
    in_address = console.ask(f"/?token={token.replace('é', '%C3%A9')}", headers={"Cookie": ""})
    in_form = console.send("/sign-in", {"token": token}, headers={"Cookie": ""})
    for answer in (in_address, in_form):
        assert answer.status == 401
        assert "not the one of this console" in answer.shown
        assert "set-cookie" not in answer.headers


def test_the_form_takes_the_token(console: Console) -> None:
    """For who reads it from a file."""
    answer = console.send("/sign-in", {"token": f" {console.token}\n"}, headers={"Cookie": ""})
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_sign_out_ends_the_session_and_no_other(console: Console) -> None:
    """The cookie is worth nothing any more, also where the browser kept it."""
    before = console.cookie
    console.sign_in()
    own = console.cookie
    answer = console.send("/sign-out", {"csrf": console.csrf()})
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert console.ask("/").status == 401
    console.cookie = before
    assert own != before
    assert console.ask("/").status == 200


def test_a_token_of_a_file_is_not_printed(made: Path, tmp_path: Path) -> None:
    """The address is printed without it; the form takes it."""
    token = new_token()
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    running = start(made, tmp_path / "log", "--token-file", str(tmp_path / "token"))
    try:
        assert running.url == f"http://127.0.0.1:{running.port}/"
        assert running.send("/sign-in", {"token": token}).status == 303
    finally:
        assert running.end() == 0
    assert token not in (tmp_path / "log").read_text()


# every answer


@pytest.mark.parametrize("path", [*PAGES, "/style.css", "/nothing", "/held/nothing/1"])
def test_every_answer_carries_the_headers(console: Console, path: str) -> None:
    """Nothing is kept by a cache, framed, guessed at, or run; errors too."""
    answers = [console.ask(path), console.ask(path, headers={"Cookie": ""}), console.ask(path, "PUT")]
    answers += [console.ask(path, headers={"Host": "evil.example"})]
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
        assert not any(name.startswith("script") for name in policy)
        assert "aiohttp" not in str(answer.headers)


def test_no_page_holds_a_script_or_a_style_of_its_own(console: Console) -> None:
    """So that the policy of the console's pages needs no exception; the report's has one sum and lengths of bars."""
    for path in PAGES:
        answer = console.ask(path)
        assert answer.status == 200
        assert "<script" not in answer.text
        assert " on" not in {part[:3] for part in answer.text.split("<")[1:]}
        policy = answer.headers["content-security-policy"]
        if path == "/report":
            assert "style-src-elem 'sha256-" in policy
        else:
            assert "style-src 'self'" in policy
            assert "unsafe" not in policy
            assert "<style" not in answer.text
            assert "style=" not in answer.text


def test_labels_that_are_markup_stand_as_text(console: Console) -> None:
    """Activities and sensitive values of a log are shown letter by letter."""
    answer = console.ask("/report")
    assert SCRIPT in answer.shown.replace("&#39;", "'") or "&lt;script&gt;" in answer.text
    assert SCRIPT not in answer.text
    assert IMAGE not in answer.text
    assert "<img" not in answer.text


# what is refused


@pytest.mark.parametrize("path", [*PAGES, "/style.css"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "10.0.0.1:8765"])
def test_another_name_is_refused_with_the_right_cookie_too(console: Console, path: str, host: str) -> None:
    """DNS rebinding: the browser would send a page's requests here under the page's own name."""
    answer = console.ask(path, headers={"Host": host})
    assert answer.status == 400
    assert "not known under this name" in answer.shown
    assert "csrf" not in answer.text


def test_the_token_opens_nothing_under_another_name(console: Console) -> None:
    """No cookie is set for it."""
    answer = console.ask(f"/?token={console.token}", headers={"Host": "evil.example", "Cookie": ""})
    assert answer.status == 400
    assert "set-cookie" not in answer.headers


def test_two_host_headers_are_refused(console: Console) -> None:
    """A proxy in between could have read the other header."""
    hosts = [f"Host: 127.0.0.1:{console.port}", "Host: evil.example"]
    for both in (hosts, hosts[::-1]):
        answer = _raw(console, "GET / HTTP/1.1", *both)
        assert answer.status == 400


def _raw(console: Console, *lines: str) -> Answer:
    with socket.create_connection(("127.0.0.1", console.port), timeout=60) as line:
        sent = [*lines, f"Cookie: {console.cookie}", "Connection: close", "", ""]
        line.sendall("\r\n".join(sent).encode())
        response = HTTPResponse(line)
        response.begin()
        return Answer(response.status, {}, response.read().decode())


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("sent", ["nothing", "empty", "another session's", "a guess"])
def test_a_form_without_its_sessions_secret_changes_nothing(console: Console, made: Path, path: str, sent: str) -> None:
    """CSRF: the cookie alone, which a browser sends by itself, is not enough."""
    before = console.cookie
    other = console.csrf()
    console.sign_in()
    mine = console.csrf()
    assert other != mine
    given = {"nothing": {}, "empty": {"csrf": ""}, "another session's": {"csrf": other}, "a guess": {"csrf": mine[:-1]}}
    answer = console.send(path, {**DECISION, **given[sent]})
    assert answer.status == 403
    assert "nothing was changed" in answer.shown
    assert console.ask("/").status == 200, "still signed in"
    assert len(held(made)) == 3
    console.cookie = before


@pytest.mark.parametrize("path", [*FORMS, "/sign-in"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_a_form_of_another_site_is_refused_with_all_its_secrets(
    console: Console, path: str, headers: dict[str, str]
) -> None:
    """Also one of another port of this host, which is another program."""
    sent = {name: value.format(port=console.port) for name, value in headers.items()}
    answer = console.send(path, {**DECISION, "csrf": console.csrf(), "token": console.token}, headers=sent)
    assert answer.status == 403
    assert "another site" in answer.shown


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", PAGES)
def test_other_methods_are_refused(console: Console, method: str, path: str) -> None:
    """405 with the methods that there are."""
    answer = console.ask(path, method)
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]
    assert "does not answer to this method" in answer.shown


@pytest.mark.parametrize("path", ["/", "/held", "/decisions", "/report"])
def test_pages_take_no_forms_and_forms_are_no_pages(console: Console, path: str) -> None:
    """Nothing is changed by a GET."""
    assert console.send(path, {"csrf": console.csrf()}).status == 405
    assert [console.ask(form).status for form in ("/order", "/sign-out", "/sign-in")] == [405] * 3


@pytest.mark.parametrize(
    "path",
    [
        "/../operator/key",
        "/..%2foperator%2fkey",
        "/held/../../operator/key",
        "/held/..%2f..%2foperator%2fkey",
        "/held/%2e%2e/1",
        "/held/..%2fresearch/1",
        "/held/research%2f../1",
        "/held/research/1/../../../operator/key",
        "/held/research%00/1",
        "/held/research/1%2f..",
        "/held/research/01",
        "/held/research/-1",
        "/held/research/9999999999999999999",
        "//etc/passwd",
        "/operator/key",
        "/public",
        "/public/",
        "/operator/",
        "/held/",
        "/style.css/",
        "/static/",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..\\operator\\key",
    ],
)
def test_no_path_leads_to_a_file_or_a_list_of_files(console: Console, made: Path, path: str) -> None:
    """One page for whatever is not there; no file is opened by a name that a browser sent."""
    answer = console.ask(path)
    key = (made / "operator" / "key").read_text().strip()
    assert answer.status == 404
    assert key not in answer.text
    assert "ledger" not in answer.text


@pytest.mark.parametrize("path", [*FORMS, "/sign-in"])
def test_a_large_form_is_refused(console: Console, path: str) -> None:
    """By its length, and in chunks that say none."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = console.ask(path, "POST", kind, "why=" + "x" * MOST_BODY)
    assert answer.status == 413
    chunk = "why=" + "x" * 2 * MOST_BODY
    chunked = {**kind, "Transfer-Encoding": "chunked", "Content-Length": ""}
    del chunked["Content-Length"]
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{console.port}", *(f"{k}: {v}" for k, v in chunked.items())]
    with socket.create_connection(("127.0.0.1", console.port), timeout=60) as line:
        head = "\r\n".join([*lines, f"Cookie: {console.cookie}", "", ""])
        line.sendall(f"{head}{len(chunk):x}\r\n{chunk}\r\n0\r\n\r\n".encode())
        response = HTTPResponse(line)
        response.begin()
        assert response.status == 413


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", ""])
def test_only_plain_forms_are_read(console: Console, kind: str) -> None:
    """No files, no JSON that a script elsewhere could send without asking."""
    assert console.ask("/order", "POST", {"Content-Type": kind}, "{}").status == 415


@pytest.mark.parametrize("body", [b"csrf=\xff\xfe", b"csrf=%ff", b"&".join(b"a%d=1" % one for one in range(50))])
def test_a_form_that_cannot_be_read_is_one_clear_page(console: Console, body: bytes) -> None:
    """Bytes that are not text, and more fields than any page has."""
    answer = console.ask("/order", "POST", {"Content-Type": "application/x-www-form-urlencoded"}, body)
    assert answer.status == 400
    assert "cannot be read" in answer.shown


def test_the_access_log_holds_no_secret(made: Path, tmp_path: Path) -> None:
    """No token, cookie, form or query; control characters of a path cannot move a terminal's cursor."""
    running = start(made, tmp_path / "log")
    running.sign_in()
    csrf = running.csrf("/held/research/1")
    running.ask("/?token=wrong-token-in-the-address", headers={"Cookie": ""})
    running.ask("/held?why=secret-in-the-query")
    running.ask("/x%1b%5b2Jy%0aforged")
    assert _raw(running, f"BREW /?token={running.token} HTTP/1.1", f"X\x00Y: {csrf}").status == 400, "no HTTP at all"
    running.send("/held/research/1", {"csrf": csrf, **DECISION, "by": "Name-In-Form", "why": "secret-reason"})
    assert running.end() == 0
    log = (tmp_path / "log").read_text()
    lines = log.splitlines()
    assert "GET /held/research/1 200" in log
    assert "POST /held/research/1 409" in log
    assert "GET /x%1b%5b2Jy%0aforged 404" in log
    for secret in (running.token, running.cookie.split("=")[1], csrf, "wrong-token", "secret", "Name-In"):
        assert secret not in log
    assert "\x1b" not in log
    assert all(line.startswith("{") for line in lines)
    assert "Traceback" not in log


# decisions


def _decide(running: Console, page: str = "/held/research/1", **fields: str) -> Answer:
    shown = running.ask(page).text
    seen = shown.split('name="seen" value="')[1].split('"')[0]
    return running.send(page, {"csrf": running.csrf(page), "seen": seen, **DECISION, **fields})


def test_the_queue_shows_what_waits_and_why(console: Console) -> None:
    """All, each with its verdict, the gate's reasons, and a page with the statement of its manifest."""
    shown = console.ask("/held").shown
    assert "research, release 1" in shown
    assert "teaching, release 1" in shown
    assert "LIMITED If it leaves, the verdict reads" in shown
    assert "ka" in shown
    page = console.ask("/held/research/1").shown
    (research,) = [one for one in held(Path(str(console.log)).parent / "out") if one.publication == "research"]
    for text in ("Not promised", research.manifest["config_digest"], research.manifest["files"][0]["sha256"]):
        assert text in page


def test_figures_appear_with_their_bounds(console: Console) -> None:
    """Groups that are too small are marked; of releases with noise the budget appears there, and no share of events."""
    page = console.ask("/held/research/1")
    assert "KA 26 40" in page.shown
    assert '<tr class="below">' in page.text
    assert "Kept 100 %" in page.shown
    page = console.ask("/held/statistics/1")
    assert "epsilon 0.5 2" in page.shown
    assert "SAFE" in page.shown
    assert '<tr class="below">' not in page.text
    assert "Kept" not in page.shown


def test_an_approved_release_is_published_and_logged(own: Console, tmp_path: Path) -> None:
    """As `veilstream approve` does it: visible to recipients, in the ledger under the name that was given."""
    public = tmp_path / "out" / "public" / "research" / "release-000001"
    assert not public.exists()
    answer = _decide(own)
    assert (answer.status, answer.headers["location"]) == (303, "/decisions")
    assert (public / "manifest.json").is_file()
    shown = own.ask("/decisions").shown
    assert "Release 1 of research is approved." in shown
    assert "Dr. A. Officer read and fine" in shown
    assert "is approved." not in own.ask("/decisions").shown, "said once"
    (entry,) = ledger_view(tmp_path / "out").decisions
    assert (entry.body.by, entry.body.why, entry.body.decision) == ("Dr. A. Officer", "read and fine", "approved")
    assert own.ask("/held/research/1").status == 404
    assert "teaching" in own.ask("/held").shown
    assert execute(["verify", str(tmp_path / "out")]) == 0


def test_a_rejected_release_never_leaves(own: Console, tmp_path: Path) -> None:
    """Its number is used up; a second decision finds nothing."""
    page = own.ask("/held/research/1").text
    seen = page.split('name="seen" value="')[1].split('"')[0]
    assert _decide(own, decision="reject").status == 303
    assert not list((tmp_path / "out").glob("public/research/*"))
    assert "rejected" in own.ask("/decisions").shown
    again = own.send("/held/research/1", {"csrf": own.csrf(), "seen": seen, **DECISION})
    assert again.status == 404


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"by": ""}, "your name missing"),
        ({"why": "  \n "}, "the reason missing"),
        ({"decision": ""}, "the decision missing"),
        ({"decision": "publish"}, "approve or reject"),
        ({"by": "", "why": "", "decision": ""}, "your name and the reason and the decision missing"),
        ({"by": "x" * 2001}, "your name is longer than 2000 characters"),
        ({"why": "a\x00b"}, "the reason holds a control character"),
    ],
)
def test_a_form_that_is_not_filled_in_decides_nothing(
    console: Console, made: Path, fields: dict[str, str], message: str
) -> None:
    """The page comes again and says what is missing, with what was written already."""
    answer = _decide(console, **fields)
    assert answer.status == 422
    assert message in answer.shown
    if "why" not in fields:
        assert "read and fine" in answer.text
    assert len(held(made)) == 3
    assert not ledger_view(made).decisions


def test_a_page_about_other_bytes_decides_nothing(console: Console, made: Path) -> None:
    """The page that was read and the release that is decided on have one manifest, by its sum."""
    for seen in ("", "0" * 64):
        answer = _decide(console, seen=seen)
        assert answer.status == 409
        assert "Read it again" in answer.shown
    assert len(held(made)) == 3


def test_name_and_reason_that_are_markup_stand_as_text(own: Console) -> None:
    """In the form that comes again, in the notice and in the log; line breaks become spaces."""
    again = _decide(own, why=f"{SCRIPT}</textarea>", by="")
    assert SCRIPT not in again.text
    assert _decide(own, by=IMAGE, why=f"one\r\n{SCRIPT}", decision="reject").status == 303
    answer = own.ask("/decisions")
    assert f"one {SCRIPT}" in answer.shown
    assert SCRIPT not in answer.text
    assert "<img" not in answer.text


def test_an_order_without_a_daemon_is_refused(console: Console) -> None:
    """With what to do; the page offers none."""
    answer = console.send("/order", {"csrf": console.csrf(), "order": "pause", "publication": ""})
    assert answer.status == 409
    assert "-c FILE" in answer.shown
    assert 'action="/order"' not in console.ask("/").text


# start and end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_0(made: Path, tmp_path: Path, number: int) -> None:
    """Stopped on purpose, also with a browser's line still open."""
    running = start(made, tmp_path / "log")
    with socket.create_connection(("127.0.0.1", running.port), timeout=60):
        running.process.send_signal(number)
        assert running.process.wait(120) == 0
    running.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "--behind-proxy https://NAME"),
        (["--host", "::"], "--behind-proxy https://NAME"),
        (["--behind-proxy", "http://a.example"], "https address of the proxy"),
        (["--token-file", "{folder}/none"], "cannot be read"),
        (["--token-file", "{folder}/open"], "chmod 600"),
        (["-c", "{folder}/ward.toml"], "no [source] table"),
        (["--port", "{taken}"], "--port 0"),
        (["--port", "65536"], "65535"),
    ],
)
def test_bad_usage_is_one_line(
    made: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and nothing listens."""
    (tmp_path / "open").write_text("x" * 40)
    (tmp_path / "open").chmod(0o644)
    shutil.copy(made.parent / "ward.toml", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [one.format(folder=tmp_path, taken=taken.getsockname()[1]) for one in arguments]
        assert execute(["serve", str(made), "--port", "0", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("veilstream: ")
    assert message in said.err
    assert len(said.err.splitlines()) == 1


def test_a_folder_that_is_none_of_ours_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything listens."""
    assert execute(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "no operator/ledger.sqlite here" in capsys.readouterr().err


def test_a_folder_without_any_attempt_has_pages_that_say_so(made: Path, tmp_path: Path) -> None:
    """Each of them: a daemon may have started a minute ago."""
    configuration = tmp_path / "later.toml"
    later = (made.parent / "ward.toml").read_text().replace("new_cases = ", "new_cases = 10").replace('"2d"', '"365d"')
    configuration.write_text(later)
    columns = ["--columns", "case=case,activity=act,time=time"]
    log = str(made.parent / "ward.csv")
    assert execute(["replay", log, "-c", str(configuration), "-o", str(tmp_path / "out"), *columns]) == 3
    running = start(tmp_path / "out", tmp_path / "log")
    try:
        running.sign_in()
        sentences = {"/": "NOTHING RELEASED", "/report": "NOTHING RELEASED", "/held": "Nothing is held"}
        sentences["/decisions"] = "No decision was made yet"
        for path, sentence in sentences.items():
            answer = running.ask(path)
            assert (answer.status, sentence in answer.shown) == (200, True), path
    finally:
        running.end()


def test_behind_a_proxy_only_its_name_is_known(made: Path, tmp_path: Path) -> None:
    """The cookie then goes over TLS alone, and forms come from the proxy's address."""
    running = start(made, tmp_path / "log", "--behind-proxy", "https://console.example")
    try:
        assert running.url.startswith("https://console.example/?token=")
        assert running.ask("/").status == 400
        name = {"Host": "console.example"}
        answer = running.ask(f"/?token={running.token}", headers=name)
        assert answer.status == 303
        assert "Secure" in answer.headers["set-cookie"]
        running.cookie = answer.headers["set-cookie"].partition(";")[0]
        assert running.ask("/", headers=name).status == 200
        csrf = running.ask("/", headers=name).text.split('name="csrf" value="')[1].split('"')[0]
        for origin, status in (("http://console.example", 403), ("https://console.example", 303)):
            assert running.send("/sign-out", {"csrf": csrf}, headers={**name, "Origin": origin}).status == status
    finally:
        assert running.end() == 0


def test_the_daemon_needs_nothing_of_the_console() -> None:
    """Its modules load without one of the console's."""
    code = "import sys, stream.daemon.roles, stream.run.replay; print([m for m in sys.modules if 'console' in m])"
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=900, env=os.environ
    )
    assert [one for one in eval(process.stdout) if one.startswith("stream")] == []
