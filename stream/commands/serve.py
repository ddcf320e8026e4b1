"""`veilstream serve DIR`: the operator's console in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json

PANEL = "Operate"
PORT = 8765


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False)
    ],
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="Of the running daemon: orders reach it.", show_default=False),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = PORT,
    host: Annotated[str, typer.Option("--host", help="Loopback addresses only, unless behind a proxy.")] = "127.0.0.1",
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            "--behind-proxy",
            metavar="https://NAME",
            help="A proxy with TLS shows the console under this address, and no other.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Token for signing in (mode 600); without it a new one is made and printed.",
            show_default=False,
        ),
    ] = None,
    show_values: options.ShowValues = True,
    json: options.Json = False,
) -> None:
    """Serve the operator's console until SIGTERM: live report, held releases, approve, reject, pause, resume."""
    from stream.daemon import logs
    from stream.operator.console.address import address
    from stream.operator.console.guard import Guard
    from stream.operator.console.orders import orders_from
    from stream.operator.console.pages import Pages
    from stream.operator.console.reading import folder as output_folder
    from stream.operator.console.server import Console, listen, serve
    from stream.operator.console.sessions import Sessions, new_token, read_token
    from stream.operator.history import refuse_other_process

    console_address = address(host, behind_proxy)
    output = output_folder(folder, show_values=show_values)
    token = read_token(token_file) if token_file else new_token()
    orders = orders_from(config) if config else None
    if orders is not None:
        refuse_other_process(orders.settings, folder)
    with listen(console_address.host, port) as listening:
        listening_port = int(listening.getsockname()[1])
        # browsers send the cookies of a host to each of its ports: two consoles need two names
        guard = Guard(console_address, Sessions(token), Pages(str(folder)), f"veilstream-{listening_port}")
        url = console_address.url(listening_port)
        shown = url if token_file else f"{url}?token={token}"
        logs.configure()
        serve(Console(output, guard, orders), listening, lambda: _ready(shown, listening_port, json=json))


def _ready(url: str, port: int, *, json: bool) -> None:
    if json:
        emit_json({"url": url, "port": port})
    else:
        typer.echo(url)
