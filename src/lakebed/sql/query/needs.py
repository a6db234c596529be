"""Which columns of a table a query needs.

A column is needed if its name occurs anywhere in the query, since every reference to it contains
the name, or if a `*` that covers the table is part of the result. So more may be read than is
needed, never less.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from lakebed.sql.query.tables import Reference

# A regular expression as a column name, which a setting of Spark allows.
_PATTERN = re.compile(r"[()*+|\[\]^$]")


_VALUES = (TokenType.STRING, TokenType.NUMBER)


@dataclass(slots=True)
class Needs:
    """The names and stars of a query."""

    tree: exp.Expression
    tokens: Collection[Token]
    references: Collection[Reference]
    _exposed: dict[int, bool] = field(default_factory=dict)

    def columns(self, reference: Reference) -> list[str] | None:
        """Return the needed columns, in the table's order; None for all columns that `*` means."""
        names = self._names(reference)
        known = reference.source.schema.names
        needed = [name for name in known if name.lower() in names]
        if self._needs_all(reference):
            plain = reference.source.columns()
            meta = [name for name in needed if name not in plain]
            return [*plain, *meta] if meta else None
        # Rows are counted by any column.
        return needed or known[:1]

    def _names(self, reference: Reference) -> set[str]:
        """Return the words of the query that may name a column of the table.

        Words are tokens, because in the tree a column such as `user` can be a function.
        """
        direct = {one.alias.lower() for one in self.references}
        derived = {
            one.alias.lower()
            for one in self.tree.find_all(exp.Subquery, exp.CTE, exp.Lateral)
            if one.alias
        }
        others = direct - derived - {reference.alias.lower()}
        elsewhere = set()
        for node in self.tree.find_all(exp.Identifier):
            parent = node.parent
            of_table = isinstance(parent, exp.Table) and parent.args.get("this") is node
            of_other = (
                isinstance(parent, exp.Column)
                and parent.args.get("this") is node
                and parent.table.lower() in others
            )
            if of_table or of_other:
                elsewhere.add(node.meta.get("start"))
        parameters = {one.end + 1 for one in self.tokens if one.token_type is TokenType.COLON}
        return {
            token.text.lower()
            for token in self.tokens
            if token.token_type not in _VALUES and token.start not in elsewhere | parameters
        }

    def _needs_all(self, reference: Reference) -> bool:
        tree = self.tree
        if any(tree.find_all(exp.Pivot)) or any(
            join.method == "NATURAL" for join in tree.find_all(exp.Join)
        ):
            return True
        if any(
            node.quoted and _PATTERN.search(node.name)
            for node in tree.find_all(exp.Identifier)
            if not isinstance(node.parent, exp.Table)
        ):
            return True
        select = reference.node.find_ancestor(exp.Select)
        if select is None or not _is_plain_source(reference.node, select):
            return True
        return self._is_covered(select, reference.alias)

    def _is_covered(self, select: exp.Select, alias: str) -> bool:
        """Return whether a star in `select` that covers the source `alias` is part of the result."""
        for star in select.find_all(exp.Star):
            if star.find_ancestor(exp.Select) is not select or isinstance(star.parent, exp.Count):
                continue
            column = star.parent if isinstance(star.parent, exp.Column) else None
            if column is not None and column.table and column.table.lower() != alias.lower():
                continue
            outermost = column or star
            if outermost.parent is not select or self._is_exposed(select):
                return True
        return False

    def _is_exposed(self, query: exp.Expression) -> bool:
        """Return whether all columns of a query are needed by the one around it."""
        key = id(query)
        if key not in self._exposed:
            self._exposed[key] = True  # of a query that refers to itself
            self._exposed[key] = self._find_exposed(query)
        return self._exposed[key]

    def _find_exposed(self, query: exp.Expression) -> bool:
        if query.args.get("distinct") is not None or query is self.tree:
            return True
        parent = query.parent
        alias = parent.args.get("alias") if parent is not None else None
        if not isinstance(alias, exp.TableAlias) or alias.args.get("columns"):
            return True
        if isinstance(parent, exp.CTE):
            users = [
                node
                for node in self.tree.find_all(exp.Table)
                if node.name.lower() == alias.name.lower() and node.args.get("db") is None
            ]
        elif isinstance(parent, exp.Subquery):
            users = [parent]
        else:
            return True
        for user in users:
            select = user.find_ancestor(exp.Select)
            name = user.alias or alias.name
            if select is None or not _is_plain_source(user, select):
                return True
            if self._is_covered(select, name):
                return True
        return False


def _is_plain_source(node: exp.Expression, select: exp.Select) -> bool:
    """Return whether a node is a source of `select` itself, without a column list or a pivot."""
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
        return False
    parent = node.parent
    return isinstance(parent, (exp.From, exp.Join)) and parent.parent is select
