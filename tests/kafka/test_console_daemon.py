"""The console of a running daemon: pause, resume and a decision reach it, and the pages show their results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, Site, publication
from tests.serving import Console, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]


def _order(console: Console, order: str) -> str:
    answer = console.send("/order", {"csrf": console.csrf(), "order": order, "publication": "research"})
    assert answer.status == 303, answer.shown
    return console.ask("/").shown


def test_decisions_and_orders_of_the_console_reach_the_daemon(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """One held release of a daemon is approved in the browser, and leaves. A pause is seen on the page till its resume.
    An order about a publication that there is none of is refused, and nothing is sent."""
    held = publication("research", "{ new_cases = 5 }", f'approval = "required"\n{IDENTITY}')
    site = Site(broker.bootstrap, name, tmp_path, held)
    console = None
    try:
        site.start("coordinator")
        site.start("ingest")
        site.send(scenario.events(cases=6))
        ledger = site.output() / "operator" / "ledger.sqlite"
        site.wait(lambda: ledger.is_file() and bool(site.ledger("seal")), "a held release")
        console = start(site.output(), tmp_path / "console.log", "-c", str(site.config))
        console.sign_in()
        site.wait(lambda: "research, release 1" in console.ask("/held").shown, "the release in the queue")

        assert "The order to pause research is at offset" in _order(console, "pause")
        site.wait(lambda: "Paused : research" in console.ask("/").shown, "the pause on the page")
        wrong = {"csrf": console.csrf(), "order": "pause", "publication": "nobody"}
        assert "There is no publication" in console.send("/order", wrong).shown
        wrong = {"csrf": console.csrf(), "order": "erase", "publication": "research"}
        assert "no such order" in console.send("/order", wrong).shown
        assert "The order to resume research" in _order(console, "resume")
        site.wait(lambda: "Paused" not in console.ask("/").shown, "the resume on the page")

        page = console.ask("/held/research/1").text
        seen = page.split('name="seen" value="')[1].split('"')[0]
        fields = {"csrf": console.csrf(), "seen": seen, "by": "Dr. A. Officer", "why": "fine", "decision": "approve"}
        answer = console.send("/held/research/1", fields)
        assert (answer.status, answer.headers["location"]) == (303, "/held")
        assert "The order to approve release 1 of research is at offset" in console.ask("/held").shown
        public = site.output() / "public" / "research" / "release-000001" / "manifest.json"
        site.wait(public.is_file, "the approved release")
        site.wait(lambda: "Dr. A. Officer fine" in console.ask("/decisions").shown, "the decision in the log")
        commands = [record["name"] for _, record in site.json("delta") if record["t"] == "cmd"]
        assert commands == ["pause", "resume", "approve"]
    finally:
        if console is not None:
            assert console.end() == 0
        site.close()


def test_a_held_release_is_shown_with_the_attacks_before_it(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """`assess = true` in a daemon: the page of a held release has the result, and nothing of it leaves with it."""
    held = publication("research", "{ new_cases = 40 }", f'approval = "required"\nassess = true\n{IDENTITY}')
    site = Site(broker.bootstrap, name, tmp_path, held)
    console = None
    try:
        site.start("coordinator")
        site.start("ingest")
        site.send(scenario.events(cases=41))
        assessment = site.output() / "operator" / "research" / "000001" / "assessment.json"
        site.wait(assessment.is_file, "the attacks before the release")
        console = start(site.output(), tmp_path / "console.log", "-c", str(site.config))
        console.sign_in()
        site.wait(lambda: "research, release 1" in console.ask("/held").shown, "the release in the queue")
        document = json.loads(assessment.read_text(encoding="utf-8"))
        (assessed,) = document["assessments"]
        assert assessed["both_ways"] == 1
        page = console.ask("/held/research/1")
        assert "Attacks on held-out cases" in page.shown
        # Each half is released word for word, and somebody who knows a whole case finds it at distance 0.
        measures = [measure for profile in assessed["profiles"] for measure in profile["measures"]]
        assert {measure["attack"] for measure in measures} >= {"membership", "reconstruction"}
        outcome = "A leak was seen by" if any(measure.get("seen") for measure in measures) else "No attack saw a leak"
        assert outcome in page.shown
        assert "operator/research/000001/assessment.json" in page.shown

        seen = page.text.split('name="seen" value="')[1].split('"')[0]
        fields = {"csrf": console.csrf(), "seen": seen, "by": "Dr. A. Officer", "why": "fine", "decision": "approve"}
        assert console.send("/held/research/1", fields).status == 303
        public = site.output() / "public" / "research" / "release-000001" / "manifest.json"
        site.wait(public.is_file, "the approved release")
        names = [path.name for path in (site.output() / "public").rglob("*")]
        assert not any("assess" in name for name in names)
        assert "assess" not in public.read_text(encoding="utf-8")
        assert assessment.is_file()
        assert json.loads(site.command("verify", str(site.output()), "--json"))["publications"][0]["releases"] == 1
    finally:
        if console is not None:
            assert console.end() == 0
        site.close()
