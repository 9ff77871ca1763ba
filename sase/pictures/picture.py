"""A picture: text at once, and a chart when somebody looks.

Charts are Altair's; vl-convert turns them into SVG without a browser, and carries the JavaScript that makes them move,
so nothing is fetched from anywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from sase.compiler.core.errors import OptionError

Chart = Any
"""A chart of Altair, whose types would take longer to write than the chart."""

SHRUNK = 0.8

MISSING = "pictures need Altair: pip install 'sase[notebook]'"


@dataclass(frozen=True, repr=False)
class Picture:
    """`print` it, `save` it as .html, .svg or .txt, or leave it at the end of a cell."""

    title: str
    text: str
    draw: Callable[[], Chart]
    moves: bool = False
    """Whether there is more to see when it is zoomed and pointed at."""

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    @property
    def chart(self) -> Chart:
        """Altair's chart, to be changed or put beside others."""
        require()
        import altair

        return (
            self.draw()
            .properties(background="transparent")
            .configure(
                font="system-ui, sans-serif",
                view=altair.ViewConfig(stroke=None),
                axis=altair.AxisConfig(
                    labelColor=INK, titleColor=INK, domainColor=GREY, tickColor=GREY, gridColor=GREY, gridOpacity=0.2
                ),
                legend=altair.LegendConfig(labelColor=INK, titleColor=INK),
                title=altair.TitleConfig(color=INK),
            )
        )

    def svg(self) -> str:
        """SVG in the colour of the text around it, so that it fits light and dark pages."""
        import vl_convert

        svg: str = vl_convert.vegalite_to_svg(self.chart.to_dict(), vl_version=_version())
        # On a narrow page it shrinks as far as its letters can be read; the rest is scrolled.
        width = float(svg.partition('width="')[2].partition('"')[0])
        style = f"max-width: max(100%, {SHRUNK * width:.0f}px); height: auto"
        label = f'<svg role="img" aria-label="{escape(self.title)}" style="{style}" '
        return svg.replace("<svg ", label, 1)

    def html(self) -> str:
        """A page of its own that needs no network."""
        from sase.pictures.page import page

        return page(self.title, [self])

    def save(self, path: str | Path) -> None:
        """Writes .html, .svg or .txt, as the name ends."""
        match Path(path).suffix.lower():
            case ".html" | ".htm":
                content = self.html()
            case ".svg":
                content = self.svg().replace(">", f">{_OWN_COLOUR}", 1)
            case ".txt":
                content = self.text
            case other:
                raise OptionError(
                    f"a picture is saved as .html, .svg or .txt, not as {other or 'a file without suffix'}"
                )
        write(path, content)

    def fragment(self) -> str:
        """What stands in a page: the picture as it is, and the script that makes it move once the library is there."""
        if not self.moves:
            return self._or_text(self.svg())
        # Escaped, so that nothing in the data can end the script.
        spec = json.dumps(self.chart.to_dict(), ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
        name = f"sase-{hashlib.sha256(spec.encode()).hexdigest()[:12]}"
        script = _SCRIPT % {"name": name, "spec": spec}
        place = f'<div class="{name}">{self.svg()}</div>'
        return f"{self._or_text(place)}<script>{script}</script>"

    def _or_text(self, drawn: str) -> str:
        """A notebook that is not trusted loses styles, scripts and drawings, and keeps what their letters say: with the
        styles gone, the text is shown in place of that."""
        text = f"<pre>{escape(self.text)}</pre><small>Trust this notebook to see the picture.</small>"
        place = '<div class="sase-drawn" style="overflow-x: auto" hidden="hidden">'
        return f'{_STYLE}<div class="sase-text">{text}</div>{place}{drawn}</div>'

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        try:
            html = self.fragment()
        except OptionError:
            return {"text/plain": f"{self!r}\n{MISSING}"}
        if self.moves and _Shipped.needed():
            html = library() + html
        return {"text/plain": repr(self), "text/html": html}


def write(path: str | Path, content: str) -> None:
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from None


def require() -> None:
    """Says what to install where a picture cannot be drawn."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise OptionError(MISSING) from None


class _Shipped:
    """The JavaScript goes to a notebook once, with the first picture that needs it; and again with the cell of that
    picture, whose earlier output goes. So a saved notebook has it, whatever was run again before."""

    library = False
    cell: str | None = None

    @classmethod
    def needed(cls) -> bool:
        cell = _cell()
        if cls.library and (cell is None or cell != cls.cell):
            return False
        cls.library, cls.cell = True, cell
        return True


def _cell() -> str | None:
    """The cell that is running, where the notebook tells."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent("shell") if kernel is not None else {}
    identity: str | None = parent.get("metadata", {}).get("cellId")
    return identity


@lru_cache(maxsize=1)
def library() -> str:
    """Vega, in a script element."""
    import vl_convert

    announce = "window.saseVegaEmbed = vegaEmbed; window.dispatchEvent(new Event('sase-vega'));"
    bundle = vl_convert.javascript_bundle(announce, vl_version=_version())
    return f"{LIBRARY_START}(function () {{{bundle}}})();</script>"


LIBRARY_START = '<script class="sase-vega">'

# The picture is replaced only when the moving one is there: without scripts, the still one stays.
_SCRIPT = """(function () {
const spec = %(spec)s;
spec.width = "container"; spec.autosize = {type: "fit-x", contains: "padding"};
function draw() { document.querySelectorAll(".%(name)s").forEach(function (place) {
  const target = document.createElement("div"); target.style.width = "100%%";
  place.replaceChildren(target);
  const room = spec.usermeta;
  spec.config.legend.columns = Math.max(1, Math.floor((target.clientWidth - room.beside) / room.column));
  window.saseVegaEmbed(target, spec, {actions: false, renderer: "svg"}).then(function (result) {
    place.vegaView = result.view; }); }); }
if (window.saseVegaEmbed) draw(); else window.addEventListener("sase-vega", draw, {once: true});
})();"""

_STYLE = """<style>
.sase-text { display: none } .sase-drawn { display: block !important }
#vg-tooltip-element { pointer-events: none } /* no obstacle for the pointer on its way to what lies below */
</style>"""

_OWN_COLOUR = "<style>svg { color: #1f2328 } @media (prefers-color-scheme: dark) { svg { color: #e6e6e6 } }</style>"


def _version() -> str:
    """The Vega-Lite that Altair speaks."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])


# ---- colours ------------------------------------------------------------------------------------

# Text takes the colour of the page's text. The others are of middling lightness: they stand out on white and on black.
INK = "currentColor"
GREY = "#8a919c"
RED = "#e5484d"
BLUE = "#3d8ad9"
PALETTE = ("#3d8ad9", "#d98324", "#3fa36b", "#9a74d6", "#2aa3a8", "#cf629c", "#a5805a", "#7f9a2f")
