"""`%%sase`: what a cell binds, shows and completes, and what it says when something is wrong."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output
from pyspark.sql import DataFrame, SparkSession

import sase
from sase.notebook.magic import SaseMagics
from sase.notebook.work import Interrupted, Progress, StopButton, at_work

EXAMPLES = Path(__file__).parent.parent / "examples"

SHOPLIFTERS = """EVENT SEQ(SHELF-READING x, !(COUNTER-READING y), EXIT-READING z)
WHERE [id] WITHIN 12 hours
RETURN x.id, z.ts AS left_store
"""
LEFT = [1017, 1088, 1152, 1152, 1203, 1203, 1203]


@pytest.fixture(scope="module")
def module_shell(spark: SparkSession) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()  # display() looks for this one
    shell.run_line_magic("load_ext", "sase")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(module_shell: InteractiveShell, spark: SparkSession) -> Iterator[InteractiveShell]:
    module_shell.user_ns["readings"] = spark.read.parquet(str(EXAMPLES / "data/retail.parquet"))
    yield module_shell
    module_shell.reset(new_session=False)


def run(shell: InteractiveShell, line: str, cell: str) -> CapturedIO:
    """A cell that works: what it shows."""
    with capture_output() as captured:
        result = shell.run_cell(f"%%sase {line}\n{cell}")
    assert result.success, captured.stdout
    return captured


def fail(shell: InteractiveShell, line: str, cell: str) -> str:
    """A cell that does not: all that it says."""
    with capture_output() as captured:
        result = shell.run_cell(f"%%sase {line}\n{cell}")
    assert not result.success
    assert not captured.outputs
    return captured.stdout.strip() + captured.stderr.strip()


# ---- results ------------------------------------------------------------------------------------


def test_the_matches_are_bound_registered_and_shown(shell: InteractiveShell, spark: SparkSession) -> None:
    (shown,) = run(shell, "shoplifters --events readings", SHOPLIFTERS).outputs
    matches = shell.user_ns["shoplifters"]
    assert isinstance(matches, DataFrame)
    assert sorted(row.id for row in matches.collect()) == LEFT
    assert spark.table("shoplifters").count() == len(LEFT)
    text, html = shown.data["text/plain"], shown.data["text/html"]
    assert text.splitlines()[0].split() == ["id", "left_store"]
    assert text.splitlines()[2].split() == ["1017", "2026-03-02", "09:41:13"]
    assert text.splitlines()[-1].startswith("shoplifters: 7 matches · ")
    assert html.count("<tr>") == 8 and "2026-03-02 09:41:13" in html


def test_a_cell_of_sql_is_run_over_variables_tables_and_views(shell: InteractiveShell, spark: SparkSession) -> None:
    shell.user_ns["ticks"] = spark.createDataFrame([(1, 5), (2, 6), (3, 7), (4, 1)], "at int, price int")
    cell = """SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES count(*) AS n
              PATTERN (A UP+) DEFINE UP AS price > PREV(price))"""
    shown = run(shell, "rises --dialect trino", cell)
    assert (
        [row.n for row in shell.user_ns["rises"].collect()] == [row.n for row in spark.table("rises").collect()] == [3]
    )
    assert "rises: 1 row · " in str(shown.outputs[0].data["text/plain"])
    fell = (
        run(shell, "fell --count", "SELECT at FROM ticks ORDER BY price DESC")
        .outputs[0]
        .data["text/plain"]
        .splitlines()
    )
    assert [line.strip() for line in fell[2:-1]] == ["3", "2", "1", "4"] and fell[-1].startswith("fell: 4 rows · ")
    assert "def find_matches(" in str(run(shell, "rises --job", cell).outputs[0].data["text/plain"])
    automaton, plan = run(shell, "rises --explain", cell).outputs
    assert "UP → UP | end" in automaton.data["text/plain"] and "MATCH_RECOGNIZE" in plan.data["text/plain"]
    assert "--events is not for SQL" in fail(shell, "rises --events ticks", cell)
    assert "these do not stream: leave it out" in fail(shell, "rises --stream", cell)


def test_a_cell_of_telegraphcq_begins_like_sql_and_is_none(shell: InteractiveShell) -> None:
    cell = """SELECT x.id FROM `SHELF-READING` x, `EXIT-READING` z PARTITION BY id
              EVENT FOLLOWS(x, z, '12 hours') WHERE z.id = 1017"""
    assert "left: " in str(run(shell, "left --events readings", cell).outputs[0].data["text/plain"])
    assert {row.id for row in shell.user_ns["left"].collect()} == {1017}


def test_the_name_may_be_left_out_and_events_may_stand_in_from(shell: InteractiveShell) -> None:
    shell.user_ns["readings"].createOrReplaceTempView("tags")
    run(shell, "", "FROM tags\n" + SHOPLIFTERS)
    assert shell.user_ns["matches"].count() == len(LEFT)


def test_events_may_be_pandas_or_arrow_or_a_file_or_one_table_per_type(shell: InteractiveShell, tmp_path: Path) -> None:
    readings = shell.user_ns["readings"]
    shell.user_ns["arrow"] = readings.where("id in (1017, 1088)").toArrow()
    run(shell, "few --events arrow", SHOPLIFTERS)
    assert sorted(row.id for row in shell.user_ns["few"].collect()) == [1017, 1088]
    readings.where("id = 1203").write.json(str(tmp_path / "few.json"))
    run(shell, f"few --events {tmp_path / 'few.json'}", SHOPLIFTERS)
    assert sorted(row.id for row in shell.user_ns["few"].collect()) == [1203, 1203, 1203]
    shell.user_ns["frame"] = readings.where("id in (1017, 1088)").toPandas()
    run(shell, "few --events frame", SHOPLIFTERS)
    assert sorted(row.id for row in shell.user_ns["few"].collect()) == [1017, 1088]
    for name, kind in (("shelves", "SHELF-READING"), ("counters", "COUNTER-READING"), ("exits", "EXIT-READING")):
        shell.user_ns[name] = readings.where(readings.type == kind).drop("type")
    tables = "--events SHELF-READING=shelves --events COUNTER-READING=counters --events EXIT-READING=exits"
    run(shell, f"split {tables}", SHOPLIFTERS)
    assert sorted(row.id for row in shell.user_ns["split"].collect()) == LEFT


def test_only_the_first_rows_are_fetched_and_counting_is_a_wish(shell: InteractiveShell) -> None:
    every = "EVENT SHELF-READING x RETURN x.id"
    (shown,) = run(shell, "all_of_them --events readings", every).outputs
    assert "all_of_them: the first 20 matches; --count counts them all · " in shown.data["text/plain"]
    (shown,) = run(shell, "all_of_them --events readings --count", every).outputs
    assert "all_of_them: 1,554 matches, 20 of them shown · " in shown.data["text/plain"]
    (shown,) = run(shell, "none --events readings", "EVENT SHELF-READING x WHERE x.id < 0").outputs
    assert shown.data["text/plain"].startswith("none: no matches · ")


def test_a_type_that_no_event_has_is_told_and_what_could_not_take_part(
    shell: InteractiveShell, spark: SparkSession
) -> None:
    rows = [(1, "view", 1), (2, "purchase", 1), (3, "leave", 1), (None, "leave", 1)]
    shell.user_ns["clicks"] = spark.createDataFrame(rows, "ts bigint, type string, id bigint")
    misspelt = "EVENT SEQ(view v, !(Purchase p), leave l) WHERE [id] WITHIN 9"
    (shown,) = run(shell, "left --events clicks", misspelt).outputs
    assert shown.data["text/plain"].splitlines()[-3:-1] == [
        "rejected: 1 event without a time",
        "no event has the type Purchase: there are purchase, leave, view",
    ]
    assert "no event has the type Purchase: there are purchase, leave, view\n" in shown.data["text/html"]
    (shown,) = run(shell, "none --events clicks", "EVENT Vew v").outputs
    assert shown.data["text/plain"].startswith("no event has the type Vew: there are view, leave, purchase\nnone: no ")
    (shown,) = run(shell, "some --events clicks", misspelt.replace("Purchase", "purchase")).outputs
    assert "no event has" not in shown.data["text/plain"]


def test_the_help_of_count_says_what_is_shown_first() -> None:
    said = " ".join((SaseMagics.sase.__doc__ or "").split())
    assert "find and count all matches, and show the first by started_at, or by what RETURN lists" in said


def test_what_a_value_holds_is_text_on_the_page(shell: InteractiveShell, spark: SparkSession) -> None:
    shell.user_ns["evil"] = spark.createDataFrame(
        [(1, "A", "<script>alert(1)</script>")], "ts bigint, type string, v string"
    )
    (shown,) = run(shell, "page --events evil", "EVENT A x RETURN x.v AS `<b>`").outputs
    html = shown.data["text/html"]
    assert "<script>" not in html and "&lt;script&gt;" in html and "<b>" not in html


def test_a_catalog_is_a_file_or_a_variable(shell: InteractiveShell) -> None:
    run(shell, f"one --events readings --catalog {EXAMPLES / 'retail.toml'}", SHOPLIFTERS)
    shell.user_ns["retail"] = sase.Catalog.load(EXAMPLES / "retail.toml")
    run(shell, "two --events readings --catalog retail", SHOPLIFTERS)
    assert shell.user_ns["one"].count() == shell.user_ns["two"].count() == len(LEFT)


# ---- values of Python variables -----------------------------------------------------------------


def test_a_name_in_braces_is_a_python_value(shell: InteractiveShell) -> None:
    shell.user_ns |= {"item": np.int64(1017), "T": timedelta(hours=12), "secret": "never asked for"}
    query = SHOPLIFTERS.replace("[id] WITHIN 12 hours", "[id] AND x.id = {item} WITHIN T")
    run(shell, "found --events readings", query)
    assert [row.id for row in shell.user_ns["found"].collect()] == [1017]
    origin = shell.user_ns["found"]._sase_origin
    assert "never asked for" not in origin.query.job


def test_a_value_is_never_read_as_a_query(shell: InteractiveShell, spark: SparkSession) -> None:
    evil = 'x\' OR 1 = 1 --\n""" {item}'
    shell.user_ns["words"] = spark.createDataFrame([(1, "A", evil), (2, "A", "y")], "ts bigint, type string, v string")
    shell.user_ns["wanted"] = evil
    run(shell, "found --events words", "EVENT A x WHERE x.v = {wanted} RETURN x.v")
    assert [row.v for row in shell.user_ns["found"].collect()] == [evil]


# ---- pictures and the job -----------------------------------------------------------------------


def test_explain_draws_and_runs_nothing(shell: InteractiveShell, spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup())
    nfa, plan = run(shell, "shoplifters --events readings --explain", SHOPLIFTERS).outputs
    assert len(tracker.getJobIdsForGroup()) == before
    assert "no COUNTER-READING y" in nfa.data["text/plain"] and "<svg" in nfa.data["text/html"]
    assert "stacks partitioned by [id]" in plan.data["text/plain"] and "<svg" in plan.data["text/html"]
    assert isinstance(shell.user_ns["shoplifters"], DataFrame)


def test_analyze_puts_the_counts_on_the_plan(shell: InteractiveShell) -> None:
    _, plan, stages = run(shell, "shoplifters --events readings --analyze", SHOPLIFTERS).outputs
    assert "↑ 7 matches" in plan.data["text/plain"] and "↑ 6,472 events" in plan.data["text/plain"]
    assert "7 matches" in plan.data["text/html"]
    assert "7 matches: of " in stages.data["text/plain"].splitlines()[-1]


def test_the_job_is_shown_with_highlighting(shell: InteractiveShell) -> None:
    (shown,) = run(shell, "shoplifters --events readings --job", SHOPLIFTERS).outputs
    assert "def find_matches(" in shown.data["text/plain"]
    assert '<span class="k">def</span>' in shown.data["text/html"]


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_is_followed_and_the_cell_comes_back(
    shell: InteractiveShell, spark: SparkSession, tmp_path: Path
) -> None:
    readings = shell.user_ns["readings"].where("ts < '2026-03-02 13:00' AND type <> 'BACKROOM-READING'")
    readings.where("ts < '2026-03-02 10:00'").coalesce(1).write.parquet(str(tmp_path / "in"))
    shell.user_ns["incoming"] = spark.readStream.schema(readings.schema).parquet(str(tmp_path / "in"))
    try:
        (shown,) = run(shell, 'caught --events incoming --stream --max-delay "1 second"', SHOPLIFTERS).outputs
        assert shell.user_ns["caught"].isStreaming
        assert shown.data["text/plain"].splitlines()[-1].startswith("caught: 1 match so far")
        readings.where("ts >= '2026-03-02 10:00'").coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        shell.user_ns["caught_stream"].processAllAvailable()
        assert sorted(row.id for row in spark.table("caught").collect()) == [1017, 1152, 1152]
        run(shell, "caught --events incoming --stream", SHOPLIFTERS)
        assert [stream.name for stream in spark.streams.active] == ["caught"]  # the earlier one was stopped
    finally:
        for stream in spark.streams.active:
            stream.stop()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a --events readings --stream", "--stream needs events of spark.readStream"),
        ("a --events incoming", "these events are a stream: add --stream"),
        ("a --events incoming --stream --explain", "are for events at rest"),
        ("a --events readings --max-delay '1 minute'", "--max-delay goes with --stream"),
    ],
)
def test_streams_and_tables_are_not_mixed_up(
    shell: InteractiveShell, spark: SparkSession, tmp_path: Path, line: str, message: str
) -> None:
    shell.user_ns["incoming"] = spark.readStream.schema(shell.user_ns["readings"].schema).parquet(str(tmp_path))
    assert message in fail(shell, line, SHOPLIFTERS)


# ---- errors -------------------------------------------------------------------------------------


def test_an_error_of_the_query_shows_its_line_with_carets_and_no_traceback(shell: InteractiveShell) -> None:
    said = fail(shell, "shoplifters --events readings", SHOPLIFTERS.replace("[id]", "[id] AND x.shelf = 3"))
    # The line is that of the cell, as the editor counts.
    assert said == (
        "cell:3:18: error: SHELF-READING x declares no attribute shelf\n"
        "   3 | WHERE [id] AND x.shelf = 3 WITHIN 12 hours\n"
        "     |                  ^^^^^\n"
        "  help: did you mean shelf_id?"
    )


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("a --events reading", SHOPLIFTERS, "no DataFrame, table, view or file 'reading': did you mean readings?"),
        ("a", SHOPLIFTERS, "error: there are no events: add --events NAME"),
        ("a --events EXAMPLES", SHOPLIFTERS, "error: EXAMPLES is a str, and --events takes a DataFrame"),
        ("a --events readings --catalog no.toml", SHOPLIFTERS, "error: no.toml: cannot be read: No such file"),
        ("a --events readings", "EVENT A x WHERE x.id = {nothing}", "error: the parameter nothing has no value"),
        ("not-a-name --events readings", SHOPLIFTERS, "UsageError: the result's name is a Python variable"),
        ("a --event", SHOPLIFTERS, "UsageError: argument --events: expected one argument"),
        ("a --events readings", "EVENT SHELF-READING x WHERE raise_error('boom') = x.id", "error: boom"),
    ],
)  # fmt: skip
def test_other_errors_are_one_message(shell: InteractiveShell, line: str, cell: str, message: str) -> None:
    shell.user_ns["EXAMPLES"] = "here"
    said = fail(shell, line, cell)
    assert message in said
    assert "Traceback" not in said and ".py" not in said


# ---- progress and interruption ------------------------------------------------------------------


def slow(spark: SparkSession) -> DataFrame:
    def wait(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            time.sleep(60)
            yield batch

    return spark.range(2, numPartitions=2).mapInArrow(wait, "id bigint")


def test_the_stop_button_cancels_the_spark_job(spark: SparkSession) -> None:
    seen: list[Progress] = []

    def press(now: Progress) -> None:
        seen.append(now)
        if now.tasks:
            signal.raise_signal(signal.SIGINT)

    usual = signal.getsignal(signal.SIGINT)
    with (
        pytest.raises(Interrupted, match=r"interrupted after .* s; the Spark job was cancelled"),
        StopButton() as button,
    ):
        at_work(spark, "waiting", lambda: slow(spark).collect(), press, button)
    assert signal.getsignal(signal.SIGINT) is usual
    assert seen[-1].tasks == 2 and "0 of 2 tasks" in repr(seen[-1]) and 'max="2"' in seen[-1]._repr_html_()
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert spark.range(3).count() == 3


def test_a_job_that_starts_after_the_press_is_cancelled_too(spark: SparkSession) -> None:
    pressed = threading.Event()

    def action() -> None:
        assert pressed.wait(10)
        time.sleep(0.5)
        slow(spark).collect()

    def press(_: Progress) -> None:
        signal.raise_signal(signal.SIGINT)
        pressed.set()

    with pytest.raises(Interrupted, match="the Spark job was cancelled"), StopButton() as button:
        at_work(spark, "waiting", action, press, button)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_press_between_two_actions_is_not_lost() -> None:
    with pytest.raises(Interrupted, match="interrupted when all was done"), StopButton():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(Interrupted, match="before Spark had anything to do"), StopButton() as button:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a new Spark context does
        button.hold()
        signal.raise_signal(signal.SIGINT)
        button.check()


def test_a_failure_at_work_is_the_callers(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError):
        at_work(spark, "failing", lambda: 1 // 0, lambda _: None, StopButton())
    assert at_work(spark, "working", threading.get_ident, lambda _: None, StopButton()) != threading.get_ident()


# ---- completion and help ------------------------------------------------------------------------


def completed(shell: InteractiveShell, cell: str) -> list[str]:
    """What Tab offers at the cursor, `|`, by name: IPython shows the most likely ones first."""
    with provisionalcompleter():
        return sorted(found.text for found in shell.Completer.completions(cell.replace("|", ""), cell.index("|")))


HEAD = "%%sase x --events readings\n"


@pytest.mark.parametrize(
    ("cell", "offered"),
    [
        ("%%sase x --ev|", ["--events"]),
        ("%%sase x --events rea|", ["readings"]),
        ("%%sase x --events readings --an|", ["--analyze"]),
        (HEAD + "EVENT SEQ(SHE|", ["SHELF-READING"]),
        (HEAD + "EVENT SEQ(SHELF-READING x, !(COUNTER-RE|", ["COUNTER-READING"]),
        (HEAD + "EVENT SEQ(SHELF-READING x, EXIT-READING z) WHERE x.sh|", ["shelf_id"]),
        (HEAD + "EVENT SEQ(SHELF-READING x, EXIT-READING z) WHERE [i|", ["id"]),
        (HEAD + "EVENT SEQ(SHELF-READING probe, EXIT-READING z) WHERE pro|", ["probe."]),
        (HEAD + "EVENT SHELF-READING x WHERE x.id = {thresh|}", ["threshold"]),
        (HEAD + "EVENT SHELF-READING x WHERE x.id = 1 WITH|", ["WITHIN"]),
        (HEAD + "EVENT SEQ(first SHELF-READING x, A|", ["ALL(", "AND(", "ANY("]),
        (HEAD + "EVENT SEQ(last SHELF-READING one, NOT EXIT-READING{2,3} two) WHERE tw|", ["two."]),
        (HEAD + "EVENT SHELF-READING x WITHIN 1 hour CONS|", ["CONSUME EXCLUSIVE"]),
        (HEAD + "EVENT SHELF-READING x WITHIN 1 hour SKIP|", ["SKIP TILL ANY MATCH", "SKIP TILL NEXT MATCH"]),
        (HEAD + "EVENT SEQ(SHELF-READING+ x) WHERE x.sh|", ["shelf_id"]),
        (HEAD + "EV|", ["EVENT"]),
    ],
)
def test_tab_knows_options_types_attributes_and_variables(
    shell: InteractiveShell, cell: str, offered: list[str]
) -> None:
    shell.user_ns["threshold"] = 5
    assert completed(shell, cell) == offered


def test_tab_takes_types_and_attributes_from_a_catalog(shell: InteractiveShell) -> None:
    cell = f"%%sase x --catalog {EXAMPLES / 'retail.toml'}\nEVENT SEQ(SHELF-READING x, EXIT-READING z)\nWHERE z.|"
    assert completed(shell, cell) == ["exit_id", "id", "ts"]
    assert completed(shell, "%%sase x --catalog examples/ret|") == ["examples/retail.toml"]


def test_other_cells_are_left_alone(shell: InteractiveShell) -> None:
    shell.user_ns["threshold"] = 5
    assert "threshold" in completed(shell, "x = thresh|")
    assert completed(shell, "%%time\nthresh|") == ["threshold"]


def test_help_says_what_the_options_do(shell: InteractiveShell) -> None:
    with capture_output() as captured:
        shell.run_cell("%%sase?")
    shown = captured.stdout + "".join(str(output.data) for output in captured.outputs)
    for text in ("--events", "--catalog", "--explain", "--job", "EVENT SEQ(SHELF-READING x", "{name}"):
        assert text in shown
