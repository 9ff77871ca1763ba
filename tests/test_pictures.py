"""Pictures: what their text says, that they can be drawn, and that no value in them becomes markup or script."""

from __future__ import annotations

import builtins
import re
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from sase.analysis.stages import Stage
from sase.cli import main
from sase.compiler.core.errors import OptionError
from sase.pictures.diagram import CHAR
from sase.pictures.picture import BLUE, RED
from sase.pictures.scene import Limits, scene
from sase.pictures.stages import BAR
from sase.pictures.timeline import CROSS, Layout
from sase.pictures.timeline_text import duration
from sase.pictures.variants import with_killer

EXAMPLES = Path(__file__).parent.parent / "examples"
CATALOG = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "string"} for name in ("A", "B", "C")})
QUERY = "EVENT SEQ(A x, !(B n), C z) WHERE [id] WITHIN 10"
SVG = "{http://www.w3.org/2000/svg}"


def events(spark: SparkSession, *rows: tuple[str, int, int | None]) -> DataFrame:
    values = [(kind, ts, key, f"{kind}{ts}") for kind, ts, key in rows]
    return spark.createDataFrame(values, "type string, ts bigint, id bigint, v string")


def shown(query: sase.Query, given: DataFrame, lanes: int = 8, limit: int = 100) -> Any:
    return scene(query, given, None, Limits(lanes, limit))


# ---- the pattern and the plan -------------------------------------------------------------------


def example(name: str, catalog: str, **options: Any) -> sase.Query:
    return sase.compile(
        (EXAMPLES / f"{name}.sase").read_text(), sase.Catalog.load(EXAMPLES / f"{catalog}.toml"), **options
    )


def test_the_automaton_asks_each_condition_as_soon_as_it_can_be_answered() -> None:
    assert (
        str(sase.nfa(example("q3", "q3")))
        == """\
( 0 )  start
  │    A x1
  │      x1.attr3 = '1'
  ▼
( 1 )
  │    B x2
  │      [attr1]
  │      [attr2]
  ▼
( 2 )
  │    D x4
  │      [attr1]
  │      [attr2]
  │      x1.attr4 < x4.attr4
  │      x4.ts - x1.ts < 6
  │    ✗ no C x3
  │        [attr1]
  │        [attr2]
  ▼
((3))  match"""
    )


def test_a_trailing_negation_stands_at_the_end_with_its_window() -> None:
    assert str(sase.nfa(sase.compile("EVENT SEQ(A x, !(B n)) WHERE [id] WITHIN 10", CATALOG))).endswith(
        "((1))  match\n       ✗ no B n within 10\n           [id]"
    )


def test_the_plan_shows_the_strategy() -> None:
    text = str(sase.plan(example("shoplifting", "retail")))
    assert text.splitlines()[1].split()[:2] == ["TF", "Transformation"]
    assert "stacks partitioned by [id]" in text and "no y between x and z (in the stacks)" in text
    basic = str(sase.plan(example("shoplifting", "retail", negation="anti-join", equivalence="selection")))
    assert re.search(r"NG  Negation +no y between x and z with \[id\] \(anti-join\)", basic)
    assert re.search(r"σ  Selection +\[id\]", basic)


@pytest.mark.parametrize(
    "strategy", [{}, {"negation": "anti-join", "equivalence": "selection", "negation_place": "before"}]
)
def test_the_counts_of_a_run_are_on_the_edges_bottom_up(spark: SparkSession, strategy: dict[str, Any]) -> None:
    given = events(spark, ("A", 1, 1), ("C", 2, 1), ("A", 1, 2), ("B", 2, 2), ("C", 3, 2), ("C", 2, 3))
    query = sase.compile(QUERY, CATALOG, slice="off", **strategy)
    edges = re.findall(r"↑ (.*)", str(sase.plan(query, query.stages(given))))
    if strategy:
        # TF, σ, NG, SC, SS, events: without partitions, any A goes with any later C.
        assert edges == ["1 match", "1", "5", "6 sequences", "2 x · 3 z", "6 events"]
    else:
        assert edges == ["1 match", "1 sequence", "2 x · 2 z", "6 events"]


# ---- the timeline -------------------------------------------------------------------------------


def test_matches_and_what_was_forbidden_are_told_apart(spark: SparkSession) -> None:
    given = events(spark, ("A", 1, 1), ("C", 2, 1), ("A", 4, 2), ("B", 5, 2), ("B", 6, 2), ("C", 7, 2), ("A", 3, 3))
    seen = shown(sase.compile(QUERY, CATALOG), given)
    assert seen.lanes == ("id 1", "id 2")
    at = [(event.type, event.at) for event in seen.events]
    assert at == [("A", 1), ("C", 2), ("A", 4), ("B", 5), ("B", 6), ("C", 7)]
    assert [run.events for run in seen.matches] == [(("x", 0), ("z", 1))]
    assert [(run.events, run.killers) for run in seen.killed] == [((("x", 2), ("z", 5)), (("n", 3), ("n", 4)))]
    lines = str(sase.timeline(sase.compile(QUERY, CATALOG).run(given))).splitlines()
    assert [line.replace("─", "") for line in lines] == [
        "id 1  xz",
        "      match x 1 → z 2",
        "id 2  xnnz",
        "      no match x 4 → z 7, for n 5, n 6",
        "      1 … 7",
    ]
    assert len(lines[0]) == len(lines[2]) == 66 and lines[2].index("x") == 36  # in the middle of 1 … 7


@pytest.mark.parametrize(
    ("pattern", "kept", "forbidden"),
    [
        ("SEQ(!(B n), A x, C z)", [(4, 6), (15, 17)], [(4, 6)]),
        ("SEQ(A x, !(B n), C z)", [(4, 6), (15, 17)], []),
        ("SEQ(A x, C z, !(B n))", [(4, 6), (15, 17)], [(15, 17)]),
    ],
)
def test_what_forbids_agrees_with_the_query_at_any_place(
    spark: SparkSession, pattern: str, kept: list[Any], forbidden: list[Any]
) -> None:
    """The window of a first and of a last negation, as with_killer turns it into one of a sequence."""
    given = events(spark, ("B", 1, 1), ("A", 4, 1), ("C", 6, 1), ("A", 15, 1), ("C", 17, 1), ("B", 19, 1))
    seen = shown(sase.compile(f"EVENT {pattern} WHERE [id] WITHIN 8", CATALOG), given)
    places = lambda runs: [tuple(seen.events[number].at for _, number in run.events) for run in runs]  # noqa: E731
    assert places(seen.killed) == forbidden
    assert sorted(places(seen.matches) + places(seen.killed)) == kept


def test_matches_in_any_order_bind_what_they_bind(spark: SparkSession) -> None:
    """Each in the order of time, with what it collects; a variable of another branch is not there."""
    query = sase.compile("EVENT OR(AND(A x, B y, NOT C n), SEQ(A x, ALL(B t), C z)) WHERE [id] WITHIN 8", CATALOG)
    given = events(spark, ("A", 1, 1), ("B", 3, 1), ("C", 5, 1), ("B", 11, 2), ("A", 12, 2))
    lines = [line.strip() for line in str(sase.timeline(query.run(given))).splitlines()]
    assert [line for line in lines if "match" in line] == [
        "match x 1 → z 5, with t 3",
        "no match x 1 → y 3, for n 5",
        "match y 11 → x 12",
    ]
    assert "<svg" in sase.timeline(query.run(given)).svg()


def test_the_events_of_a_pattern_in_any_order_stand_in_the_order_that_it_asks_for() -> None:
    query = sase.compile(
        "EVENT OR(SEQ(A x, AND(B y, C z)), AND(A x, NOT C n)) WHERE [id] AND x.v = 'a' AND y.v = z.v WITHIN 8", CATALOG
    )
    assert str(sase.nfa(query)).splitlines() == [
        *(
            "either",
            "  A x",
            "    x.v = 'a'",
            "  B y  after x",
            "  C z  after x",
            "  [id]",
            "  y.v = z.v",
            "  within 8",
        ),
        *("or", "  A x", "    x.v = 'a'", "  within 8", "  ✗ no C n", "      [id]", "match"),
    ]
    svg = ElementTree.fromstring(sase.nfa(query).svg())
    heights = {
        text.text: float((text.get("transform") or "").partition(",")[2].rstrip(")")) for text in svg.iter(f"{SVG}text")
    }
    with pytest.raises(OptionError, match="stacks are those of a sequence, and this pattern is none"):
        sase.stacks(query, "nowhere")
    assert heights["B y"] == heights["C z"] and heights["either"] < heights["B y"] < heights["or"] < heights["✗ no C n"]


def test_a_killer_needs_its_conditions() -> None:
    query = sase.compile("EVENT SEQ(A x, !(B n), C z) WHERE [id] AND n.v = x.v WITHIN 9", CATALOG).compiled.query
    positive = with_killer(query, ("n",))
    assert [variable.name for variable in positive.positive] == ["x", "n", "z"]
    assert {str(test) for test in positive.equivalences} == {"[id]", "[v]"}
    assert {name for test in positive.equivalences for name, _ in test.positive} == {"x", "n", "z"}


def test_lanes_and_events_are_bounded_and_the_picture_says_so(spark: SparkSession) -> None:
    rows = [row for key in range(5) for row in (("A", 10 * key, key), ("C", 10 * key + 1, key))]
    matches = sase.compile(QUERY, CATALOG).run(events(spark, *rows))
    text = str(sase.timeline(matches, lanes=2, limit=3))
    assert text.splitlines()[:2] == ["(the first 2 keys with matches, of more)", "(the first 3 events of these)"]
    assert "id 1" in text and "id 2" not in text


def test_without_a_key_there_is_one_lane_and_without_matches_there_are_events(spark: SparkSession) -> None:
    given = events(spark, ("A", 1, 1), ("C", 2, 2), ("B", 30, 1))
    one = shown(sase.compile("EVENT SEQ(A x, C z) WITHIN 5", CATALOG), given)
    assert one.lanes == ("",) and len(one.matches) == 1
    none = shown(sase.compile(QUERY, CATALOG), given)
    assert none.notes == ("no matches",) and none.lanes == ("id 1", "id 2") and len(none.events) == 3


def test_events_without_the_key_have_a_lane_of_their_own(spark: SparkSession) -> None:
    query = sase.compile("EVENT SEQ(A x, !(B n), C z) WHERE x.id = z.id WITHIN 10", CATALOG)
    seen = shown(query, events(spark, ("A", 1, 1), ("B", 2, 7), ("C", 3, 1)))
    assert seen.lanes == ("id 1", "of any key")
    assert [event.lane for event in seen.events] == [0, 1, 0]
    assert [run.killers for run in seen.killed] == [(("n", 1),)]


def test_matches_that_were_filtered_need_their_query_and_are_drawn_alone(spark: SparkSession) -> None:
    given = events(spark, ("A", 1, 1), ("C", 2, 1), ("A", 1, 2), ("C", 2, 2), ("C", 3, 2))
    for text in (QUERY, QUERY + " RETURN x.id AS key, z.ts AS ended"):
        query = sase.compile(text, CATALOG)
        few = query.run(given).where("z.ts = 3" if text is QUERY else "ended = 3")
        with pytest.raises(OptionError, match="do not know where they come from"):
            sase.timeline(few, given)
        lines = str(sase.timeline(few, given, query=query)).splitlines()
        assert [line.strip() for line in lines if "match" in line] == ["match x 1 → z 3"]
    with pytest.raises(OptionError, match="have none of the columns"):
        sase.timeline(spark.range(1), given, query=query)


def test_time_is_shown_as_the_session_has_it(spark: SparkSession) -> None:
    readings = spark.read.parquet(str(EXAMPLES / "data/retail.parquet")).where("id = 1017")
    picture = sase.timeline(example("shoplifters", "retail").run(readings))
    assert "match x 07:30:08 → z 09:41:13 (2 h 11 min)" in str(picture)
    places = [row.get("x") for rows in picture.chart.to_dict()["datasets"].values() for row in rows]
    assert 1772436608000 in places  # 2026-03-02 07:30:08, as if it were UTC


@pytest.mark.parametrize("kind", ["timestamp_ntz", "date"])
def test_a_time_may_be_local_or_a_day(spark: SparkSession, kind: str) -> None:
    rows = [("A", "2026-03-29 00:00:00", 1), ("C", "2026-03-30 00:00:00", 1)]
    given = spark.createDataFrame(rows, "type string, ts string, id int").withColumn("ts", F.col("ts").cast(kind))
    query = sase.compile("EVENT SEQ(A x, C z) WHERE [id] WITHIN 2 days", events=given)
    assert "match x 2026-03-29" in str(sase.timeline(query.run(given)))


def test_what_forbids_is_a_red_cross_and_what_it_forbids_a_red_arc(spark: SparkSession) -> None:
    given = events(spark, ("A", 1, 1), ("C", 2, 1), ("A", 1, 2), ("B", 2, 2), ("C", 3, 2), ("B", 9, 2))
    svg = ElementTree.fromstring(sase.timeline(sase.compile(QUERY, CATALOG).run(given)).svg())
    marks = [(mark.get("aria-label", ""), mark.get("fill"), mark.get("stroke")) for mark in svg.iter(f"{SVG}path")]
    red = [label for label, fill, _ in marks if fill == RED]
    assert len(red) == 1 and "type: B; time: 2;" in red[0]  # the B at 9 forbids nothing
    arcs = {label.partition("match: ")[2].partition(";")[0]: stroke for label, _, stroke in marks if "match: " in label}
    assert arcs == {"match x 1 → z 2": BLUE, "no match x 1 → z 3, for n 2": RED}


def week(spark: SparkSession) -> tuple[sase.Query, DataFrame]:
    """Ten-minute windows, days apart."""
    rows = []
    for day in range(6):
        start, key = datetime(2026, 3, 2 + day, 9, day), day % 2
        steps = [("A", 0), ("B", 470), ("C", 480)] if day == 3 else [("A", 0), ("C", 131 + day), ("C", 300)]
        rows += [(kind, start + timedelta(seconds=seconds), key, "") for kind, seconds in steps]
    catalog = sase.Catalog(types={name: {"ts": "timestamp", "id": "bigint", "v": "string"} for name in "ABC"})
    query = sase.compile("EVENT SEQ(A x, !(B n), C z) WHERE [id] WITHIN 10 minutes", catalog)
    return query, spark.createDataFrame(rows, "type string, ts timestamp, id bigint, v string")


def test_matches_that_are_short_and_far_between_are_aligned_at_their_beginning(spark: SparkSession) -> None:
    query, given = week(spark)
    matches = query.run(given)
    lines = str(sase.timeline(matches, lanes=4)).splitlines()
    assert lines[0] == "(4 of 6 beginnings)"
    assert lines[1].startswith("id 0  x") and lines[1].replace("─", "") == "id 0  xzz"
    assert [line.strip() for line in lines if "match" in line] == [
        "match x 2026-03-02 09:00:00 → z +2 min 11 s",
        "match x 2026-03-02 09:00:00 → z +5 min",
        "match x 2026-03-03 09:01:00 → z +2 min 12 s",
        "match x 2026-03-03 09:01:00 → z +5 min",
        "match x 2026-03-04 09:02:00 → z +2 min 13 s",
        "match x 2026-03-04 09:02:00 → z +5 min",
        "match x 2026-03-06 09:04:00 → z +2 min 15 s",
        "match x 2026-03-06 09:04:00 → z +5 min",
    ]
    assert lines[-1].strip() == "0 … 5 min since the first event"
    whole = str(sase.timeline(matches))
    assert "no match x 2026-03-05 09:03:00 → z +8 min, for n +7 min 50 s" in whole
    by_time = str(sase.timeline(matches, axis="time"))
    assert len([line for line in by_time.splitlines() if line.startswith("id ")]) == 2
    assert "no match x 2026-03-05 09:03:00 → z 2026-03-05 09:11:00 (8 min), for n 2026-03-05 09:10:50" in by_time
    with pytest.raises(OptionError, match="the axis of a timeline is one of auto, time, elapsed, and not 'linear'"):
        sase.timeline(matches, axis="linear")  # type: ignore[arg-type]


def test_neither_marks_nor_names_nor_lanes_overprint(spark: SparkSession) -> None:
    """On ten minutes, ten seconds are a dozen pixels: the cross of n stands above, and z is there to be seen."""
    query, given = week(spark)
    svg = ElementTree.fromstring(sase.timeline(query.run(given)).svg())
    marks: dict[str, list[tuple[float, float]]] = {}
    for mark in svg.iter(f"{SVG}path"):
        place = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", mark.get("transform", ""))
        label = mark.get("aria-label", "")
        if place and "time: 2026-03-05" in label:
            marks.setdefault(label.partition("variable: ")[2][:1], []).append((float(place[1]), float(place[2])))
    ((_, line),) = marks["x"]
    ((at_z, on_line),) = marks["z"]
    assert on_line == line and 5 < at_z - marks["n"][0][0] < 15
    assert sorted(y - line for _, y in marks["n"]) == [-CROSS, 0]  # the event, and the cross
    layout = Layout(3, 2)
    assert layout.bottom(0) < layout.top(1) < layout.line(1) < layout.bottom(1) and layout.bottom(2) == layout.height


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, "0"), (250, "250 ms"), (1500, "1.5 s"), (59_999, "59 s"), (7_865_000, "2 h 11 min"), (7_200_000, "2 h"),
     (90_061_000, "1 d 1 h"), (-131_000, "−2 min 11 s")],
)  # fmt: skip
def test_a_length_of_time_is_told_in_two_units(milliseconds: float, shown: str) -> None:
    assert duration(milliseconds) == shown


# ---- the stages ---------------------------------------------------------------------------------


def test_the_bars_of_stages_are_its_counts(spark: SparkSession) -> None:
    given = events(spark, ("A", 1, 1), ("C", 2, 1), ("A", 1, 2), ("B", 2, 2), ("C", 3, 2), ("A", 4, 3))
    query = sase.compile(QUERY + " RETURN x.id", CATALOG, slice="off")
    chart = sase.stages(query.stages(given)).chart.to_dict()
    shapes = [shape for shapes in chart["datasets"].values() for shape in shapes]
    lines = {shape["text"]: shape["y"] for shape in shapes if shape.get("style") == "detail"}

    def at(what: str) -> tuple[list[str], list[tuple[str, float]]]:
        numbers = [shape["text"] for shape in shapes if shape.get("style") == "number" and shape["y"] == lines[what]]
        bars = [shape for shape in shapes if "y2" in shape and (shape["y"] + shape["y2"]) / 2 == lines[what]]
        return numbers, [(shape["colour"], round((shape["x2"] - shape["x"]) / BAR, 2)) for shape in bars]

    assert at("read") == (["6"], [(BLUE, 1)])
    assert at("candidates") == (["2"], [(BLUE, 1)])
    assert at("no n between x and z") == (["1", "−1"], [(BLUE, 0.5), (RED, 0.5)])
    assert at("matches") == (["1"], [(BLUE, 0.5)])
    assert "1 match: of 2 candidates x → z, 1 has n between x and z." in [shape.get("text") for shape in shapes]


def test_the_numbers_of_stages_lie_in_the_picture_whatever_the_font(spark: SparkSession) -> None:
    """Vega measures with the fonts that it has; a browser's may be wider, by a tenth at most, as CHAR allows."""
    millions = [
        Stage("filter", "x", "type = 'A'", "event", 12_345_678),
        Stage(
            "filter", "x", "a_rather_long_condition = 'of the kind that people write' AND " * 3, "event", 0, 12_345_678
        ),
    ]
    svg = ElementTree.fromstring(sase.stages(millions).svg())
    width = float(svg.get("width", "0"))
    for text in svg.iter(f"{SVG}text"):
        place = re.search(r"translate\(([-\d.]+)", text.get("transform", ""))
        assert place and text.text
        room = CHAR * len(text.text)
        start = float(place[1]) - (room if text.get("text-anchor") == "end" else 0)
        assert start >= -1 and start + room <= width
        if "12,345,678" in text.text:
            assert float(place[1]) < 200  # on a narrow page, too


# ---- the stacks ---------------------------------------------------------------------------------


def test_the_stacks_of_the_papers_stream(spark: SparkSession) -> None:
    """Figure 3 of the paper, and its partitions: a1 c2 b3 a4 d5 b6 d7 c8 d9."""
    schema = "type string, ts bigint, attr1 int, attr2 int, attr3 string, attr4 int"
    stream = spark.read.csv(str(EXAMPLES / "data/q3.csv"), schema, header=True)
    simple = sase.compile("EVENT SEQ(A x1, B x2, D x4)", sase.Catalog.load(EXAMPLES / "q3.toml"))
    assert str(sase.stacks(simple, stream, after=3)).split("\n") == [
        "The stacks after a4",
        "  A x1  a1  a4",
        "  B x2  a1←b3",
        "  D x4",
    ]
    assert str(sase.stacks(simple, stream)).split("\n")[1:] == [
        "  A x1  a1  a4",
        "  B x2  a1←b3  a4←b6",
        "  D x4  b3←d5  b6←d7  b6←d9",
        "  builds  a4 b6 d9",
        "  builds  a1 b6 d9",
        "  builds  a1 b3 d9",
    ]
    assert "  attr1 2, attr2 2\n  A x1  a4\n  B x2  a4←b6\n  D x4  b6←d9\n  builds  a4 b6 d9" in str(
        sase.stacks(example("q3", "q3"), stream)
    )
    assert "<svg" in sase.stacks(simple, stream).svg()
    with pytest.raises(OptionError, match="at most 40 events"):
        sase.stacks(simple, stream.crossJoin(spark.range(9)))


# ---- files and pages ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures(spark: SparkSession) -> dict[str, sase.pictures.Picture]:
    evil = "</script><script>alert('<b>')</script>"
    given = events(spark, ("A", 1, 1), ("C", 2, 1), ("A", 1, 2), ("B", 2, 2), ("C", 3, 2)).replace("A1", evil, "v")
    query = sase.compile(QUERY + " RETURN x.v, z.ts", CATALOG)
    stages = query.stages(given)
    return {
        "nfa": sase.nfa(query),
        "plan": sase.plan(query, stages),
        "stages": sase.stages(stages),
        "timeline": sase.timeline(query.run(given)),
    }


@pytest.mark.parametrize("name", ["nfa", "plan", "stages", "timeline"])
def test_every_picture_is_a_file_of_each_kind_that_needs_nothing_else(
    pictures: dict[str, Any], name: str, tmp_path: Path
) -> None:
    for suffix in ("svg", "html", "txt"):
        pictures[name].save(tmp_path / f"picture.{suffix}")
    assert (tmp_path / "picture.txt").read_text() == pictures[name].text
    svg = (tmp_path / "picture.svg").read_text()
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and "prefers-color-scheme: dark" in svg
    page = (tmp_path / "picture.html").read_text()
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page)
    assert "color-scheme: light dark" in page and "<svg" in page
    assert ("saseVegaEmbed = " in page.replace("saseVegaEmbed=", "saseVegaEmbed = ")) is (name == "timeline")


def test_what_a_value_holds_stays_a_value(pictures: dict[str, Any]) -> None:
    html = pictures["timeline"].fragment()
    assert "alert(" in html and "<script>alert" not in html and "<b>" not in html
    assert html.count("<script>") == html.count("</script>") == 1


def test_the_library_goes_to_a_notebook_once(pictures: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sase.pictures.picture._Shipped.library", False)
    sizes = [len(pictures["timeline"]._repr_mimebundle_()["text/html"]) for _ in range(2)]
    assert sizes[0] > 500_000 > 200_000 > sizes[1]
    assert len(pictures["plan"]._repr_mimebundle_()["text/html"]) < 50_000


def test_an_unknown_suffix_and_an_unwritable_place_are_said(pictures: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"saved as .html, .svg or .txt, not as .pdf"):
        pictures["nfa"].save(tmp_path / "picture.pdf")
    with pytest.raises(OptionError, match="cannot be written"):
        pictures["nfa"].save(tmp_path / "nowhere" / "picture.txt")


def test_without_the_library_there_is_text_and_a_hint(
    pictures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "altair":
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    bundle = pictures["plan"]._repr_mimebundle_()
    assert list(bundle) == ["text/plain"] and "pip install 'sase[notebook]'" in bundle["text/plain"]
    with pytest.raises(OptionError, match=r"pip install 'sase\[notebook\]'"):
        pictures["plan"].save("plan.svg")


def test_the_command_line_writes_a_page(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ["--catalog", str(EXAMPLES / "retail.toml"), "--events", str(EXAMPLES / "data/retail.parquet")]
    query, page = str(EXAMPLES / "shoplifters.sase"), tmp_path / "report.html"
    assert main(["run", query, *given, "--html", str(page)]) == 0
    assert f"wrote {page}" in capsys.readouterr().err
    html = page.read_text()
    assert "<h1>shoplifters</h1>" in html and "Matches in time" in html and "!COUNTER-READING y" in html
    assert main(["explain", query, *given, "--analyze", "--html", str(page)]) == 0
    html = page.read_text()
    assert "What got through each step" in html and "7 matches" in html and "Matches in time" not in html
    assert main(["explain", query, *given, "--html", str(tmp_path / "nowhere" / "report.html")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_the_library_goes_again_with_the_cell_that_had_it(
    pictures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To run that cell again would take the library out of the notebook: reloaded, its pictures would stand still."""
    monkeypatch.setattr("sase.pictures.picture._Shipped.library", False)
    monkeypatch.setattr("sase.pictures.picture._Shipped.cell", None)
    shipped = []
    for cell in ("first", "second", "first"):
        monkeypatch.setattr("sase.pictures.picture._cell", lambda cell=cell: cell)
        shipped.append(len(pictures["timeline"]._repr_mimebundle_()["text/html"]) > 500_000)
    assert shipped == [True, False, True]


@pytest.mark.parametrize("name", ["nfa", "plan", "stages", "timeline"])
def test_a_page_without_styles_scripts_and_drawings_shows_the_text(pictures: dict[str, Any], name: str) -> None:
    """As notebooks show what they do not trust: these elements go, and the letters of a drawing stay."""
    html = re.sub(r"<(style|script)\b.*?</\1>", "", pictures[name].fragment(), flags=re.DOTALL)
    text, _, drawn = html.partition('<div class="sase-drawn" style="overflow-x: auto" hidden="hidden">')
    assert escape(pictures[name].text) in text and "<svg" not in text
    assert "<svg" in drawn and drawn.count("<div") + 1 == drawn.count("</div>")
