"""The bytes of ledger entries: what each type writes, and what is read of this and of earlier programs."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from models.dp.budget import Charge
from stream.daemon.delta_topic import Anchor, note
from stream.ledger import entries
from stream.ledger.entries import (
    ApprovalBody,
    ApprovalEntry,
    BurnedEntry,
    ClaimBody,
    ClaimEntry,
    Entry,
    ErasedBody,
    ErasedEntry,
    NoteBody,
    NoteEntry,
    PublishedEntry,
    SealBody,
    SealEntry,
    WithheldBody,
    WithheldEntry,
    charge_entry,
    read_entry,
    write_entry,
)

FILE = '{"path":"log.csv.gz","sha256":"ab","bytes":3}'

WRITTEN: list[tuple[Entry, str]] = [
    (
        charge_entry("p", "c", Charge(Fraction(1, 3), Fraction(0))),
        '{"kind":"charge","publication":"p","cut":"c","body":{"epsilon":"1/3","delta":"0"}}',
    ),
    (
        charge_entry("p", "c", Charge(Fraction(1), Fraction(1, 7)), redraw=2),
        '{"kind":"charge","publication":"p","cut":"c","body":{"epsilon":"1","delta":"1/7","redraw":2}}',
    ),
    (
        SealEntry(
            publication="p",
            sequence=1,
            body=SealBody(files=(), manifest="m", temporary="t", operator="q", plan="d"),
        ),
        '{"kind":"seal","publication":"p","sequence":1,'
        '"body":{"files":[],"manifest":"m","temporary":"t","operator":"q","plan":"d"}}',
    ),
    (
        SealEntry(
            publication="p",
            cut="c",
            sequence=4,
            owner="o",
            body=SealBody(
                files=({"path": "log.csv.gz", "sha256": "ab", "bytes": 3},),
                manifest="m",
                temporary="t",
                operator="q",
                publish_at=9,
                resources="process",
                audience="all",
            ),
        ),
        '{"kind":"seal","publication":"p","cut":"c","sequence":4,"owner":"o","body":{"files":[' + FILE + '],"manifest":'
        '"m","temporary":"t","operator":"q","publish_at":9,"resources":"process","audience":"all"}}',
    ),
    (
        WithheldEntry(publication="p", cut="c", body=WithheldBody(["ka: 1 is below 2"], {"trigger": "every"})),
        '{"kind":"withheld","publication":"p","cut":"c","body":{"reasons":["ka: 1 is below 2"],"audit":{"trigger":'
        '"every"}}}',
    ),
    (
        WithheldEntry(publication="p", cut="c", body=WithheldBody(["x"], {"cut": {"id": "c"}})),
        '{"kind":"withheld","publication":"p","cut":"c","body":{"reasons":["x"],"audit":{"cut":{"id":"c"}}}}',
    ),
    (
        WithheldEntry(publication="p", cut="c", body=WithheldBody(["held: release 4 waits"]), waits_for=4),
        '{"kind":"withheld","publication":"p","cut":"c","body":{"reasons":["held: release 4 waits"],"audit":{}},'
        '"waits_for":4}',
    ),
    (
        ApprovalEntry(
            publication="p",
            sequence=4,
            owner="o",
            body=ApprovalBody(decision="refused", by="Ann", why="x", at=9, reasons=("ba: 1 is below 2",)),
        ),
        '{"kind":"approval","publication":"p","sequence":4,"owner":"o","body":{"decision":"refused","by":"Ann","why":"x"'
        ',"at":9,"reasons":["ba: 1 is below 2"]}}',
    ),
    (
        ApprovalEntry(publication="p", sequence=4, body=ApprovalBody(decision="approved", by="Ann", why="x", at=9)),
        '{"kind":"approval","publication":"p","sequence":4,"body":{"decision":"approved","by":"Ann","why":"x","at":9}}',
    ),
    (
        BurnedEntry(publication="p", cut="c", sequence=4),
        '{"kind":"burned","publication":"p","cut":"c","sequence":4}',
    ),
    (PublishedEntry(publication="p", sequence=4), '{"kind":"published","publication":"p","sequence":4}'),
    (
        ErasedEntry(publication="p", body=ErasedBody(cases=1, tombstones=("ff",), releases=())),
        '{"kind":"erased","publication":"p","body":{"cases":1,"tombstones":["ff"],"releases":[]}}',
    ),
    (
        ClaimEntry(publication="", body=ClaimBody(log="l", config="c", key="k")),
        '{"kind":"note","publication":"","body":{"log":"l","config":"c","key":"k"}}',
    ),
    (
        NoteEntry(publication="p", body=NoteBody(first_seen=0)),
        '{"kind":"note","publication":"p","body":{"first_seen":0}}',
    ),
    (
        NoteEntry(publication="p", body=NoteBody(gap=3, missing=("s/1: offsets 0 to 9 are missing",))),
        '{"kind":"note","publication":"p","body":{"gap":3,"missing":["s/1: offsets 0 to 9 are missing"]}}',
    ),
]
"""As programs before the types wrote them, key by key."""


@pytest.mark.parametrize(("entry", "line"), WRITTEN)
def test_the_bytes_are_those_of_earlier_programs(entry: Entry, line: str) -> None:
    """Also their order, and what is left out: the ledger topic is compared with its copy byte for byte."""
    assert write_entry(entry) == line.encode()
    assert read_entry(line.encode()) == entry


def test_an_anchor_is_a_note() -> None:
    """Of the daemon, with the same keys as ever; a moment 0 and an offset 0 appear there too."""
    line = b'{"kind":"note","publication":"","body":{"delta":{"log":"t","base":0,"first":0}}}'
    assert write_entry(note(Anchor("t"))) == line
    found = read_entry(line)
    assert isinstance(found, NoteEntry)
    assert found.body.delta is not None
    assert found.body.delta.log == "t"


def test_seals_of_earlier_programs_lack_what_came_later() -> None:
    """No moment, no audience, no form of resources."""
    line = '{"kind":"seal","publication":"p","cut":"c","sequence":1,"body":{"files":[' + FILE + '],"manifest":"m",'
    found = read_entry((line + '"temporary":"t","operator":"q"}}').encode())
    assert isinstance(found, SealEntry)
    assert (found.body.publish_at, found.body.audience, found.body.resources) == (None, None, "")


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"gift","publication":"p"}',
        b'{"kind":"charge","publication":"p","cut":"c","body":{"epsilon":"1"}}',
        b'{"kind":"seal","publication":"p","sequence":1,"body":{"files":[]}}',
        b'{"kind":"note","publication":"p","body":[]}',
        b'{"kind":"note","publication":"p","body":3}',
        b'{"publication":"p"}',
        b"not json",
    ],
)
def test_what_is_no_entry_is_refused(line: bytes) -> None:
    """A charge without its amount counts for nothing else: budgets are never guessed."""
    with pytest.raises(msgspec.DecodeError):
        read_entry(line)


@pytest.mark.parametrize(
    "kind", [one for one in vars(entries).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
)
def test_what_is_on_record_cannot_be_changed_by_who_reads_it(kind: type[msgspec.Struct]) -> None:
    """Every entry and body is frozen, and those of several fields take them by name."""
    config = kind.__struct_config__
    assert config.frozen
    if kind not in (entries.ChargeBody, entries.DeltaAnchor) and len(kind.__struct_fields__) > 2:
        with pytest.raises(TypeError, match="positional"):
            kind(None)


def test_what_is_not_said_is_not_written() -> None:
    """The bytes of an entry name what it has, and nothing that it has by default: cut, number, owner, empty bodies."""
    assert write_entry(PublishedEntry(publication="p", sequence=3)) == (
        b'{"kind":"published","publication":"p","sequence":3}'
    )
    assert write_entry(charge_entry("p", "p@1.0.0", Charge(Fraction(1, 2)))) == (
        b'{"kind":"charge","publication":"p","cut":"p@1.0.0","body":{"epsilon":"1/2","delta":"0"}}'
    )
    assert write_entry(NoteEntry(publication="p", cut="", sequence=0, owner="", body=NoteBody(gap=7))) == (
        b'{"kind":"note","publication":"p","body":{"gap":7}}'
    )


def test_a_charge_of_earlier_programs_has_no_terms_of_a_series() -> None:
    """Nobody's number of cases was declared under it."""
    body = msgspec.json.decode(b'{"epsilon":"1","delta":"0"}', type=entries.ChargeBody)
    assert (body.redraw, body.scope, body.cases_per_person, body.enforced) == (0, "", 0, False)
