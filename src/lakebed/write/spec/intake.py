"""How a write handles rows whose columns differ from the table's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intake:
    """How a write handles rows whose columns differ from the table's.

    With `evolve`, new columns and wider types are added to the table; with `fill_missing`, a
    missing column is null if it is nullable. With `flagged`, the rows have a column of flags
    (`merge/run.py`), which marks the rows to delete; such deletes have no ordering values. With
    `supersedes`, the rows are new versions of rows that were read, and win in every column group.
    """

    evolve: bool = False
    fill_missing: bool = False
    flagged: bool = False
    supersedes: bool = False
