"""The catalogue that users hold: names of tables, and statements on them."""

from typing import Any

from lakebed.sql.names import Names
from lakebed.sql.statements import execute


class Catalog(Names):
    """The tables of a warehouse, for statements and for `lakebed.sql`."""

    def sql(self, text: str, /, **parameters: Any) -> Any:
        """Execute a statement on the tables of this warehouse; see `lakebed.sql`.

        Args:
            text: One statement.
            parameters: A value for each `:name` in the statement.
        """
        return execute(self, text, parameters)
