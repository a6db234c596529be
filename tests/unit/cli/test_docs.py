"""The page on the command names all of it."""

import re
from pathlib import Path

import pytest

from lakebed.cli.answer import FINE, PROBLEM, RETRY, USAGE
from lakebed.cli.commands import COMMANDS, load
from lakebed.cli.maintain import SETTINGS
from lakebed.model.options.option import options_of
from lakebed.services.verify.findings import Code, Mend

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")


def commands():
    """Return every command by its words."""

    def walk(command, words):
        held = getattr(command, "commands", None)
        if held is None:
            yield words, command
            return
        for name, inner in held.items():
            yield from walk(inner, (*words, name))

    return [found for name in COMMANDS for found in walk(load(name), (name,))]


@pytest.mark.parametrize(("words", "command"), commands(), ids=lambda value: str(value)[:40])
def test_the_page_names_every_command_and_every_option(words, command):
    assert re.search(rf"\b{' '.join(words)}\b", PAGE), words
    for parameter in command.params:
        for spelled in parameter.opts:
            if spelled.startswith("--") and spelled not in ("--help", "--option"):
                assert spelled in PAGE, (words, spelled)


def test_the_page_lists_the_exit_codes_and_what_findings_are_called():
    for code in (FINE, PROBLEM, USAGE, RETRY):
        assert re.search(rf"^\| {code} \|", PAGE, re.MULTILINE)
    for code in Code:
        assert f"`{code}`" in PAGE, code
    for mend in Mend:
        assert f"`{mend}`" in PAGE, mend


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_by_its_own_help(name):
    assert load(name).help == COMMANDS[name][1]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_help_of_a_service_lists_the_options_that_it_takes(name):
    taken = [option for kind in SETTINGS[name] for option in options_of(kind).values()]
    assert len(taken) >= 4
    for option in taken:
        assert f"{option.name}={option.kind.default}: {option.effect}" in load(name).epilog
