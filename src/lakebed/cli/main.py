"""Put the commands together."""

import typer

from lakebed.cli import health, look, maintain, savepoints, serving

app = typer.Typer(
    name="lakebed",
    help="Look after lakehouse tables: see, maintain, verify and repair them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    look.show,
    look.timeline,
    look.files,
    maintain.compact,
    maintain.clean,
    maintain.cluster,
    maintain.archive,
    maintain.rollback,
    maintain.restore,
    maintain.upgrade,
    maintain.downgrade,
    health.verify,
    health.repair,
    serving.serve,
):
    app.command()(command)
app.add_typer(savepoints.app, name="savepoint")


def main() -> None:
    """Run the command line."""
    app()
