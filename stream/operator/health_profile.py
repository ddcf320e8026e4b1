"""HealthDCAT-AP: what a catalogue of health data asks for beyond DCAT-AP.

The profile applies if the file of facts has a table `[catalogue]`: only people know the body that gives access and the
category of the data by the EHDS Regulation. Everything else is in the manifests.

References
----------
HealthDCAT-AP, Release 8 (European Commission, DG SANTE), classes Dataset, Distribution, Agent and the CSVW description
of variables; its mandatory properties for PUBLIC, RESTRICTED and NON_PUBLIC data.
Regulation (EU) 2025/327 (EHDS), Articles 51 and 77.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import InputError
from stream.operator.dossier.facts import CATALOGUE

PREFIXES: Mapping[str, str] = {
    "csvw": "http://www.w3.org/ns/csvw#",
    "cv": "http://data.europa.eu/m8g/",
    "dcatap": "http://data.europa.eu/r5r/",
    "healthdcatap": "http://healthdataportal.eu/ns/health#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
}

EHDS = "http://data.europa.eu/eli/reg/2025/327/oj"
CATEGORIES = "https://hdeu-dcat.data.health.europa.eu/resource/authority/healthcategories/"
AUTHORITY = "http://publications.europa.eu/resource/authority/"
ACCESS_RIGHTS = ("PUBLIC", "RESTRICTED", "NON_PUBLIC")

ALWAYS = ("health_category", "access_rights", "hdab", "hdab_contact", "contact")
"""Keys that each record needs."""

NON_PUBLIC = ("keywords", "dataset_type")
"""Keys that a record of non-public data needs, too."""

COLUMNS: Mapping[str, tuple[str, str]] = {
    "activity": ("string", "Name of a step of a case; the order of the rows is the order of the steps."),
    "resource": ("string", "Employee of the step, in the form that promise.employees of the manifest states."),
    "relative_time": ("dateTime", "Time of the step, as the manifest states under time_basis and reading."),
}
"""Type and description of the columns that every process has; others are attributes of cases."""


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """Facts about a publication that HealthDCAT-AP asks for.

    Parameters
    ----------
    health_category
        Code of the EU vocabulary for Article 51 EHDS (`EHRS`), or its address.
    access_rights
        One of `ACCESS_RIGHTS`.
    hdab, hdab_contact
        The Health Data Access Body, and its e-mail address or page.
    contact
        E-mail address or page of the controller.
    keywords
        Words to find the data by, separated by commas.
    dataset_type
        Code of the EU vocabulary of types of datasets (`STATISTICAL`), or its address.
    """

    health_category: str
    access_rights: str
    hdab: str
    hdab_contact: str
    contact: str
    keywords: str = ""
    dataset_type: str = ""


def read_health_facts(path: Path) -> HealthFacts | None:
    """Read the table `[catalogue]` of a file of facts; None if there is none.

    Raises
    ------
    InputError
        If a key is unknown or missing, or a value is not of its form.
    """
    # The file was read and found to be TOML before (`read_facts`).
    table = tomllib.loads(path.read_text(encoding="utf-8")).get(CATALOGUE)
    if table is None:
        return None
    place = f"{path}: [{CATALOGUE}]"
    if not isinstance(table, dict):
        raise InputError(f"{place}: must be a table")
    allowed_keys = {*ALWAYS, *NON_PUBLIC}
    for key, value in table.items():
        if key not in allowed_keys:
            raise InputError(f"{place}: unknown key {key!r}; the keys are {', '.join((*ALWAYS, *NON_PUBLIC))}")
        if not isinstance(value, str) or not value.isprintable():
            raise InputError(f"{place}: {key}: must be text in quotes, on one line")
    required_keys = list(ALWAYS)
    if table.get("access_rights") == "NON_PUBLIC":
        required_keys += NON_PUBLIC
    missing = [key for key in required_keys if not table.get(key, "").strip()]
    if missing:
        raise InputError(f"{place}: HealthDCAT-AP also asks for {', '.join(missing)}")
    facts = HealthFacts(**table)
    if facts.access_rights not in ACCESS_RIGHTS:
        raise InputError(f"{place}: access_rights must be {', '.join(ACCESS_RIGHTS)}, not {facts.access_rights!r}")
    for key in ("contact", "hdab_contact"):
        if not table[key].startswith(("https://", "http://")) and "@" not in table[key]:
            raise InputError(f"{place}: {key}: must be an e-mail address or the address of a page")
    for key in ("health_category", "dataset_type"):
        code = table.get(key, "")
        if code and not code.startswith(("https://", "http://")) and not code.replace("_", "").isalnum():
            raise InputError(f"{place}: {key}: must be a code of the EU vocabulary such as EHRS, or its address")
    return facts


def contact_point(contact: str) -> Mapping[str, Any]:
    """Return how an agent is reached, for publishers and access bodies."""
    if "@" in contact and not contact.startswith("http"):
        return {"@type": "cv:ContactPoint", "cv:email": contact.removeprefix("mailto:")}
    return {"@type": "cv:ContactPoint", "cv:contactPage": {"@id": contact}}


def extend(
    nodes: list[dict[str, Any]], facts: HealthFacts, base: str, manifests: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the properties of the profile to the nodes of a DCAT-AP record.

    Parameters
    ----------
    nodes
        The nodes of the record; changed here.
    facts
        The facts.
    base
        Address of the publication.
    manifests
        The manifest of each dataset, by the address of the dataset.
    """
    law = {"@id": EHDS, "@type": "http://data.europa.eu/eli/ontology#LegalResource"}
    access_body = {
        "@id": f"{base}#hdab",
        "@type": "foaf:Agent",
        "foaf:name": facts.hdab,
        "cv:contactPoint": contact_point(facts.hdab_contact),
    }
    for node in nodes:
        kinds = [node["@type"]] if isinstance(node["@type"], str) else node["@type"]
        if "dcat:DatasetSeries" in kinds or "dcat:Distribution" in kinds:
            node["dcatap:applicableLegislation"] = law
        if node["@id"] == f"{base}#controller":
            node["cv:contactPoint"] = contact_point(facts.contact)
        if "dcat:Dataset" in kinds:
            node["dcatap:applicableLegislation"] = law
            node |= _dataset(facts, base, node["@id"], manifests[node["@id"]])
    nodes.append(access_body)


def _dataset(facts: HealthFacts, base: str, iri: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a dataset."""
    node: dict[str, Any] = {
        "dct:accessRights": {"@id": f"{AUTHORITY}access-right/{facts.access_rights}", "@type": "dct:RightsStatement"},
        "dcat:theme": _concept(f"{AUTHORITY}data-theme/HEAL", "Health"),
        "healthdcatap:hdab": {"@id": f"{base}#hdab"},
        "healthdcatap:healthCategory": {"@id": _address(facts.health_category, CATEGORIES)},
        "healthdcatap:hasStructuredData": {"@value": True},
        "healthdcatap:hasVariables": _variables(iri, manifest),
        "dcat:contactPoint": _kind(facts.contact),
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "rdfs:label": f"Anonymized by {manifest['mechanism']['kind']} from the event log of {manifest['process']}.",
        },
    }
    keywords = [word.strip() for word in facts.keywords.split(",") if word.strip()]
    if keywords:
        node["dcat:keyword"] = keywords
    if facts.dataset_type:
        node["dct:type"] = _concept(_address(facts.dataset_type, f"{AUTHORITY}dataset-type/"), facts.dataset_type)
    return node


def _variables(iri: str, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of a release; those of attributes are named, and their values are not described."""
    columns = []
    for name in manifest["carries"]:
        datatype, description = COLUMNS.get(name, ("string", "Attribute of the case."))
        column = {"@type": "csvw:Column", "csvw:name": name, "csvw:title": name, "csvw:datatype": datatype}
        columns.append({**column, "dct:description": description})
    title = f"Events of release {manifest['sequence']}"
    table = {"@id": f"{iri}#table", "@type": "csvw:Table", "dct:title": title, "csvw:column": columns}
    return {"@id": f"{iri}#variables", "@type": "csvw:TableGroup", "dct:title": title, "csvw:table": table}


def _kind(contact: str) -> Mapping[str, Any]:
    """Return how the controller is reached about a dataset."""
    if contact.startswith("http"):
        return {"@type": "vcard:Kind", "vcard:hasURL": {"@id": contact}}
    return {"@type": "vcard:Kind", "vcard:hasEmail": {"@id": f"mailto:{contact.removeprefix('mailto:')}"}}


def _concept(address: str, label: str) -> Mapping[str, Any]:
    """Return an entry of a vocabulary with its label, which DCAT-AP asks for."""
    return {"@id": address, "@type": "skos:Concept", "skos:prefLabel": {"@value": label, "@language": "en"}}


def _address(code: str, vocabulary: str) -> str:
    return code if code.startswith("http") else f"{vocabulary}{code}"
