"""Describe a publication for a catalogue of data: DCAT-AP 3 and PROV-O, as JSON-LD.

Everything comes from the public manifests and from the file of facts. The record may go wherever the releases go, if
the facts may: the controller is its publisher, and the purpose is part of the description.

References
----------
DCAT-AP 3.0.0 (SEMIC): dataset series, datasets, distributions, catalogue record.
PROV-O (W3C Recommendation, 2013): entities, activities, agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from models.errors import InputError
from stream.operator import health_profile
from stream.operator.health_profile import HealthFacts
from stream.operator.report.statement import PublishedRelease

CONTEXT: Mapping[str, Any] = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "prov": "http://www.w3.org/ns/prov#",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
"""Prefixes are part of the record: nobody has to load a context from elsewhere to read it."""

SHA256 = {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"}
MEDIA_TYPES = "https://www.iana.org/assignments/media-types/"
FORMATS = {
    ".xes": "application/xml",
    ".bpmn": "application/xml",
    ".pnml": "application/xml",
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".parquet": "application/vnd.apache.parquet",
}
GZIP = "application/gzip"

PROMISED = {
    "guaranteed": "Guaranteed",
    "to_whom": "To whom",
    "against_whom": "Against whom",
    "relation": "Relation",
    "not_guaranteed": "Not guaranteed",
}
"""Parts of a promise in the description of a dataset, with their headings."""


def record(
    series: Sequence[PublishedRelease],
    *,
    url: str | None,
    facts: Mapping[str, str],
    health: HealthFacts | None = None,
) -> Mapping[str, Any]:
    """Return the record of a publication as a JSON-LD document.

    Parameters
    ----------
    series
        All releases of the publication, in order.
    url
        Address of the folder of the publication. If not set, datasets have no distributions, since these
        need an address.
    facts
        Of dossier.toml: the controller is the publisher; the purpose is part of the description.
    health
        Facts for HealthDCAT-AP; if not set, the record is one of DCAT-AP alone.

    Raises
    ------
    InputError
        If HealthDCAT-AP asks for a controller or an address that is missing.
    """
    if health is not None and (url is None or "controller" not in facts):
        lacking = "--url, since each dataset needs a file" if url is None else "controller in the file of facts"
        raise InputError(f"HealthDCAT-AP also asks for {lacking}")
    last = series[-1].manifest
    process, publication = str(last["process"]), str(last["publication"])
    # Records need an identifier also before anybody knows where the releases will be offered.
    base = f"urn:veilstream:{quote(process, safe='')}:{quote(publication, safe='')}"
    if url:
        base = url.rstrip("/")
    publisher = _publisher(base, facts)
    source: dict[str, Any] = {
        "@id": f"{base}#source",
        "@type": "prov:Entity",
        "dct:title": _english(f"Event log of the process {process}"),
        "dct:description": _english("Personal data. It is held by the controller and not described here."),
    }
    nodes: list[dict[str, Any]] = [_catalogue_record(base, last), _series(base, last, publisher, facts), source]
    if publisher is not None:
        nodes.append(publisher)
    earlier: str | None = None
    for release in series:
        nodes += _release(base, release, earlier, publisher, has_address=url is not None)
        earlier = _iri(base, release.number)
    if health is None:
        return {"@context": CONTEXT, "@graph": nodes}
    manifests = {_iri(base, release.number): release.manifest for release in series}
    health_profile.extend(nodes, health, base, manifests)
    return {"@context": {**CONTEXT, **health_profile.PREFIXES}, "@graph": nodes}


def _publisher(base: str, facts: Mapping[str, str]) -> dict[str, Any] | None:
    if "controller" not in facts:
        return None
    return {"@id": f"{base}#controller", "@type": ["foaf:Agent", "prov:Agent"], "foaf:name": facts["controller"]}


def _catalogue_record(base: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@id": f"{base}#record",
        "@type": "dcat:CatalogRecord",
        "foaf:primaryTopic": {"@id": f"{base}#series"},
        "dct:modified": _moment(manifest["published"]),
    }


def _series(
    base: str, manifest: Mapping[str, Any], publisher: Mapping[str, Any] | None, facts: Mapping[str, str]
) -> dict[str, Any]:
    """Return the dataset series: the publication as a whole."""
    sentences = [
        f"Anonymized event logs of the process {manifest['process']}, for the audience {manifest['audience']}."
    ]
    if "purpose" in facts:
        sentences.append(f"Purpose: {facts['purpose'].removesuffix('.')}.")
    node = {
        "@id": f"{base}#series",
        "@type": "dcat:DatasetSeries",
        "dct:title": _english(f"{manifest['process']}: {manifest['publication']}"),
        "dct:description": _english(" ".join(sentences)),
        "dct:modified": _moment(manifest["published"]),
    }
    return node if publisher is None else {**node, "dct:publisher": {"@id": publisher["@id"]}}


def _release(
    base: str,
    release: PublishedRelease,
    earlier: str | None,
    publisher: Mapping[str, Any] | None,
    *,
    has_address: bool,
) -> list[dict[str, Any]]:
    """Return the dataset of a release with its distributions, the activity that made it, and the program."""
    manifest, iri = release.manifest, _iri(base, release.number)
    software, mechanism = manifest["software"], manifest["mechanism"]
    agent = f"urn:veilstream:software:{quote(str(software['version']), safe='')}"
    files = [_distribution(iri, entry, manifest) for entry in manifest["files"]] if has_address else []
    dataset: dict[str, Any] = {
        "@id": iri,
        "@type": ["dcat:Dataset", "prov:Entity"],
        "dct:title": _english(f"{manifest['process']}: {manifest['publication']}, release {release.number}"),
        "dct:description": _english(_description(manifest)),
        "dct:identifier": f"sha256:{release.digest}",
        "dct:issued": _moment(manifest["published"]),
        "dcat:version": str(release.number),
        "dcat:inSeries": {"@id": f"{base}#series"},
        "prov:wasDerivedFrom": {"@id": f"{base}#source"},
        "prov:wasGeneratedBy": {"@id": f"{iri}#build"},
    }
    if earlier is not None:
        dataset["dcat:prev"] = {"@id": earlier}
    if publisher is not None:
        dataset["dct:publisher"] = {"@id": publisher["@id"]}
        dataset["prov:wasAttributedTo"] = {"@id": publisher["@id"]}
    if files:
        dataset["dcat:distribution"] = [{"@id": file["@id"]} for file in files]
    parameters = ", ".join(f"{name} = {_text(value)}" for name, value in mechanism["parameters"].items())
    build = {
        "@id": f"{iri}#build",
        "@type": "prov:Activity",
        "dct:title": _english(f"Anonymization by {mechanism['kind']}"),
        "dct:description": _english(f"{mechanism['kind']}: {parameters}"),
        "prov:used": {"@id": f"{base}#source"},
        "prov:endedAtTime": _moment(manifest["published"]),
        "prov:wasAssociatedWith": {"@id": agent},
    }
    program = {
        "@id": agent,
        "@type": ["prov:SoftwareAgent", "prov:Agent"],
        "dct:title": _english(f"{software['name']} {software['version']}"),
    }
    return [dataset, *files, build, program]


def _description(manifest: Mapping[str, Any]) -> str:
    """Return the promise, and what a reader of the log has to know."""
    promise = manifest["promise"]
    sentences = [f"{heading}: {promise[key]}." for key, heading in PROMISED.items() if promise.get(key)]
    return " ".join([*sentences, *manifest["reading"]])


def _distribution(iri: str, entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the distribution of a file, with its size and checksum, so that a copy can be checked."""
    name = str(entry["path"])
    address = f"{iri}/{quote(name)}"
    is_packed = name.endswith(".gz")
    suffix = f".{name.removesuffix('.gz').rsplit('.', 1)[-1]}"
    node: dict[str, Any] = {
        "@id": f"{address}#file",
        "@type": "dcat:Distribution",
        "dct:title": _english(name),
        "dcat:accessURL": {"@id": address, "@type": "http://www.w3.org/2000/01/rdf-schema#Resource"},
        "dcat:downloadURL": {"@id": address, "@type": "http://www.w3.org/2000/01/rdf-schema#Resource"},
        "dcat:byteSize": {"@value": str(entry["bytes"]), "@type": "xsd:decimal"},
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": SHA256,
            "spdx:checksumValue": {"@value": entry["sha256"], "@type": "xsd:hexBinary"},
        },
        "dct:issued": _moment(manifest["published"]),
    }
    if suffix in FORMATS:
        node["dcat:mediaType"] = _media_type(FORMATS[suffix])
    if is_packed:
        node["dcat:compressFormat"] = _media_type(GZIP)
    return node


def _media_type(name: str) -> Mapping[str, str]:
    return {"@id": f"{MEDIA_TYPES}{name}", "@type": "dct:MediaType"}


def _iri(base: str, number: int) -> str:
    separator = ":" if base.startswith("urn:") else "/"
    return f"{base}{separator}release-{number:06d}"


def _english(text: str) -> Mapping[str, str]:
    return {"@value": text, "@language": "en"}


def _moment(text: str) -> Mapping[str, str]:
    return {"@value": text, "@type": "xsd:dateTime"}


def _text(value: Any) -> str:
    """Return a value of a parameter as people read it."""
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "none"
    return "not set" if value is None else str(value)
