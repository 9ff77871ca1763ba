"""What got through each step of a run, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sase.pictures.picture import BLUE, INK, RED, Chart, Picture

if TYPE_CHECKING:
    from sase.analysis.stages import Stage


def stages(counted: Sequence[Stage]) -> Picture:
    """The stages of `Query.stages`: a bar for what is left, and a red one for what a step took away."""
    from sase.analysis.stages import table

    return Picture("What got through each step", table(counted), lambda: _chart(counted))


def _chart(stages: Sequence[Stage]) -> Chart:
    import altair as alt

    rows: list[dict[str, Any]] = []
    step = ""
    for at, stage in enumerate(stages):
        taken = stage.removed or 0
        only_taken = stage.what.startswith(("removed by ", "killed by "))
        left = 0 if only_taken else stage.left
        note = ("" if only_taken else f"{left:,}") + (f"  −{taken:,}" if taken else "")
        rows.append(
            {
                "at": at,
                "step": stage.step if stage.step != step else "",
                "what": stage.what,
                "left": left,
                "all": left + taken,
                "note": note,
            }
        )
        step = stage.step
    data = alt.InlineData(values=rows)
    y = alt.Y("at:O", axis=None)
    largest = max(row["all"] for row in rows)
    # Symmetric log: the bars of a million events and of seven matches are both to be seen, and nothing has no bar.
    scale = alt.Scale(type="symlog", domain=[0, max(largest, 1)])
    x = alt.X("left:Q", scale=scale, axis=None)
    longest = max(len(str(row["what"])) for row in rows)
    indent = 110 + min(longest, 60) * 6.7
    base = alt.Chart(data).encode(y=y)
    bars = [
        base.mark_bar(color=RED, opacity=0.75, height=11).encode(x=x, x2=alt.X2("all:Q")),
        base.mark_bar(color=BLUE, opacity=0.85, height=11).encode(x=x),
    ]
    look: dict[str, Any] = {"baseline": "middle", "color": INK, "fontSize": 11}
    texts = [
        base.mark_text(align="left", dx=6, **look).encode(x=alt.X("all:Q", scale=scale), text="note:N"),
        base.mark_text(align="left", fontWeight="bold", **look).encode(x=alt.value(-indent), text="step:N"),
        base.mark_text(align="left", limit=400, **look).encode(x=alt.value(110 - indent), text="what:N"),
    ]
    return alt.layer(*bars, *texts).properties(
        width=330,
        height=alt.Step(19),
        title=alt.Title(
            "bars on a logarithmic scale", orient="bottom", anchor="start", fontSize=10, fontWeight="normal"
        ),
    )
