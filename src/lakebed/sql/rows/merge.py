"""MERGE INTO."""

from typing import Any

from lakebed.errors import UnsupportedError
from lakebed.sql.session import Session
from lakebed.sql.syntax.words import Words


def merge(session: Session, words: Words) -> Any:
    """Execute MERGE INTO."""
    del session, words
    raise UnsupportedError("MERGE INTO")
