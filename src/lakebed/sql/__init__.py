"""SQL: parsed by sqlglot, executed by the public API, or by Spark on DataFrames of the API.

`lakebed.sql` is the function of `lakebed.sql.front`. This package has the same name, so a call of
the package is a call of that function: importing one of its modules binds the package in place of
the function.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, spark: Any, text: str, /, **parameters: Any) -> Any:
        """Execute a statement; see `lakebed.sql.front.sql`."""
        from lakebed.sql.front import sql  # noqa: PLC0415 - the package is imported by its modules

        return sql(spark, text, **parameters)


sys.modules[__name__].__class__ = _CallablePackage
