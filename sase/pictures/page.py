"""Pages that need nothing but themselves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sase.pictures.picture import Picture, library

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; line-height: 1.5;
  font-family: system-ui, sans-serif; color: light-dark(#1f2328, #e6e6e6); background: light-dark(#ffffff, #15181c); }
h1 { font-size: 1.4rem; margin: 0 0 1rem } h2 { font-size: 1.05rem; margin: 2rem 0 0.5rem }
pre { overflow-x: auto; padding: 0.75rem 1rem; border-radius: 6px; background: light-dark(#f4f5f7, #1f242b);
  font-size: 0.85rem; line-height: 1.45 }
.picture { overflow-x: auto }
"""


def page(title: str, parts: Sequence[Picture | str]) -> str:
    """A page of pictures and of HTML that is ready."""
    pictures = [part for part in parts if isinstance(part, Picture)]
    script = library() if any(picture.moves for picture in pictures) else ""
    alone = len(parts) == 1
    body = "\n".join(_picture(part, alone) if isinstance(part, Picture) else part for part in parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n{script}\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _picture(picture: Picture, alone: bool) -> str:
    heading = "" if alone else f"<h2>{escape(picture.title)}</h2>\n"
    return f'<section>{heading}<div class="picture">{picture.fragment()}</div></section>'
