"""Python source, or plain text, with highlighting, in colours that suit a light page and a dark one."""

from __future__ import annotations

from dataclasses import dataclass

# Token classes of Pygments → the colours of Jupyter's own editor, and ones of middling lightness elsewhere.
_COLOURS = {
    ("k", "kc", "kd", "kn", "kr", "ow"): "var(--jp-mirror-editor-keyword-color, #2e8b57)",
    ("s", "s1", "s2", "sa", "sd", "se", "si", "sx"): "var(--jp-mirror-editor-string-color, #c0504d)",
    ("c", "c1", "ch", "cm", "cs"): "var(--jp-mirror-editor-comment-color, #808a8a)",
    ("mi", "mf", "mh", "mo", "il"): "var(--jp-mirror-editor-number-color, #3a8a3a)",
    ("nf", "nc", "nd"): "var(--jp-mirror-editor-def-color, #4a7fd4)",
}


@dataclass(frozen=True)
class Source:
    text: str
    plain: bool = False

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer, TextLexer

        rules = "".join(
            f"{', '.join(f'.sase-source .{name}' for name in names)} {{ color: {colour} }}\n"
            for names, colour in _COLOURS.items()
        )
        code = highlight(self.text, TextLexer() if self.plain else PythonLexer(), HtmlFormatter(nowrap=True))
        return (
            f"<style>\n{rules}</style>"
            f'<pre class="sase-source" style="overflow-x: auto; line-height: 1.35"><code>{code}</code></pre>'
        )
