"""How docstrings become pages: examples are code, and signs of mathematics are not taken for markup."""

import re
from inspect import cleandoc
from pkgutil import resolve_name
from typing import Any

import griffe


def shown(text: str) -> str:
    """A docstring as Markdown: `>>>` examples in fences, and `<` and `*` in sentences as they are."""
    parts = []
    for block in text.split("\n\n"):
        if block.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{block}\n```")
            continue
        pieces = re.split(r"(`[^`]*`)", block)
        plain = [re.sub(r"(?<!\w)\*\*(?=\w)|\*", lambda m: "\\*" * len(m[0]), piece) for piece in pieces[::2]]
        pieces[::2] = [piece.replace("<", "&lt;") for piece in plain]
        parts.append("".join(pieces))
    return "\n\n".join(parts)


class Docstrings(griffe.Extension):
    """Applies `shown` to every docstring that is collected."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """An object was read."""
        if not obj.is_alias and obj.docstring is not None:
            if obj.is_class and any("option(" in str(member.value) for member in obj.attributes.values()):
                obj.docstring.value = cleandoc(resolve_name(obj.path).__doc__)  # with the options, which the class adds
            obj.docstring.value = shown(obj.docstring.value)
