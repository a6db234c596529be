"""The command that serves the local page."""

from typing import Annotated

import typer

from lakebed.cli.answer import answering
from lakebed.cli.arguments import Debug, Json, Settings, pairs
from lakebed.ui.server import PageServer, checked_port
from lakebed.ui.site import Site


def ui(
    path: Annotated[str, typer.Argument(help="A table, or a folder of tables: a folder or a URL.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; other machines then need the token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 8780,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Serve a read-only page on a table or a folder of tables, until interrupted."""
    with answering(as_json=as_json, debug=debug) as answer:
        server = PageServer(Site(path, pairs(options)), host, checked_port(port))
        with server:
            url = {"url": server.url}
            answer.give(url, lambda console: console.print(f"{server.url}   (Ctrl+C ends it)"))
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return
