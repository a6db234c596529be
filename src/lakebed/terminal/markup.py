"""HTML as strings that are escaped once: where a value becomes part of a page or a notebook."""

from collections.abc import Iterable
from html import escape as _escape

_VOID = frozenset({"br", "img", "input", "link", "meta"})


class Html(str):
    """A string that is HTML already and is not escaped again."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as HTML; HTML stays as it is, None becomes nothing."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else _escape(str(value), quote=True))


def join(children: Iterable[object], between: str = "") -> Html:
    """Return the children one after the other."""
    return Html(_escape(between).join(map(text, children)))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; attributes that are None or False are left out.

    An underscore at the end of an attribute's name is dropped, others become hyphens.

    >>> element("a", "x < y", href="/t?a=1&b=2", class_="wide", hidden=True, title=None)
    '<a href="/t?a=1&amp;b=2" class="wide" hidden>x &lt; y</a>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        named = key.rstrip("_").replace("_", "-")
        parts.append(named if value is True else f'{named}="{text(value)}"')
    start = f"<{' '.join(parts)}>"
    return Html(start if name in _VOID else f"{start}{join(children)}</{name}>")
