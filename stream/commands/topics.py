"""`veilstream topics create|check|acls`: create and check the topics of a process; print their permissions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Daemon"

app = typer.Typer(
    help="Create or check the topics of a process, or print the permissions that they need.", no_args_is_help=True
)

Config = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)]


@app.command()
def create(
    config: Config,
    source_partitions: Annotated[
        int | None, typer.Option("--source-partitions", min=1, help="Create missing source topics too.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Create missing topics; existing ones are left unchanged and checked."""
    from connectors.kafka import topics
    from stream.daemon.start import daemon_settings

    settings, source = daemon_settings(config)
    planned_topics = topics.plans(settings.process.name, source)
    if source_partitions is not None:
        planned_topics += [topics.TopicPlan(name, source_partitions) for name in source.topics]
    with topics.admin(source) as client:
        created = topics.create(client, planned_topics, source)
        problems = topics.check(client, planned_topics)
    return _report(created, [problem.text for problem in problems], json)


@app.command()
def check(config: Config, json: options.Json = False) -> int:
    """Check topics as an operator needs them: each exists, can be read, has its settings; exit 1 if one does not."""
    from connectors.kafka import topics
    from stream.daemon.start import daemon_settings

    settings, source = daemon_settings(config)
    planned_topics = topics.plans(settings.process.name, source)
    planned_topics += [topics.TopicPlan(name, None) for name in source.topics]
    with topics.admin(source) as client:
        problems = topics.check(client, planned_topics)
        permissions = topics.check_permissions(client, settings.process.name, source, "operator")
        named = {problem.resource for problem in problems}
        # Write to a source topic is only for `publish`: an operator may well lack it.
        forbidden = [problem for problem in permissions if problem.forbidden]
        problems += [problem for problem in forbidden if problem.resource not in named]
    return _report([], [problem.text for problem in problems], json)


class AclRole(StrEnum):
    """The role whose permissions are printed."""

    ingest = "ingest"
    coordinator = "coordinator"
    operator = "operator"
    all = "all"


@app.command()
def acls(
    config: Config,
    role: Annotated[AclRole, typer.Option("--role", help="Role whose permissions are printed.")] = AclRole.all,
    principal: Annotated[
        str, typer.Option("--principal", help="Principal that receives them, as the broker names it.")
    ] = "User:veilstream",
    json: options.Json = False,
) -> int:
    """Print the permissions that each role needs on the broker, as command lines of kafka-acls.sh; asks no broker."""
    from connectors.kafka import topics
    from stream.daemon.start import daemon_settings

    settings, source = daemon_settings(config)
    roles = [name for name in topics.ROLES if role.value in (name, "all")]
    permissions_of_role = {name: topics.permissions(settings.process.name, source, name) for name in roles}
    if json:
        rows = [
            {"role": name, "principal": principal, "kind": permission.kind, "names": permission.names}
            | {"operations": permission.operations}
            for name, permissions in permissions_of_role.items()
            for permission in permissions
        ]
        emit_json({"acls": rows})
        return 0
    for name, permissions in permissions_of_role.items():
        typer.echo(f"# {name}")
        for line in topics.acl_commands(permissions, source, principal):
            typer.echo(line)
    return 0


def _report(created: list[str], problems: list[str], json: bool) -> int:
    if json:
        emit_json({"created": created, "problems": problems})
    else:
        for name in created:
            tables().print(f"created {name}")
        for problem in problems:
            tables().print(problem)
        if not problems:
            tables().print("all topics are as they should be")
    return 1 if problems else 0
