"""The text of statements: tokens, names, parameters, expressions and lists of columns."""
