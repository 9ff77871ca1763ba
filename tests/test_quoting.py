"""No text of a query, catalog or file name becomes code, wherever it enters the generated file."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

import pytest
from effort import tries
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import sase
from sase.compiler.core.errors import SaseError

NASTY = (
    "'",
    '"',
    '"""',
    "'''",
    "\\",
    "\\'",
    "`",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{WINDOW}",
    "%s",
    "\n",
    "\r",
    "\r\nimport os",
    "\x00",
    "\x0c",
    "\x1b[31m",
    "\u2028",
    "\u2029",
    "\x85",
    "#",
    "--",
    "*/",
    "); os.system('true') #",
    "' OR '1'='1",
    "é",
    "商品",
    "𝒳",
    ".",
    " ",
    "$",
)
text = st.lists(st.sampled_from(NASTY) | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).map("".join)


@dataclass(frozen=True)
class Texts:
    """Every place where text of the user enters a job."""

    event_type: str
    attribute: str
    variable: str
    negated: str
    value: str
    comment: str
    filename: str
    alias: str
    composite: str
    time: str
    type: str
    stream: str
    parameter: str


# Names that need quoting, too, so that a job made from them has the same shape.
HARMLESS = Texts(*(f"plain {name}" for name in Texts.__dataclass_fields__))


def name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


def string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def job(texts: Texts, *, negation: str = "auto") -> sase.Query:
    catalog = sase.Catalog(
        time=texts.time,
        type=texts.type,
        types={
            texts.event_type: {texts.time: "bigint", texts.attribute: "string"},
            "B": {texts.time: "bigint", texts.attribute: "string"},
        },
        parameters={"p": texts.parameter},
    )
    x, y, kind, attribute = map(name, (texts.variable, texts.negated, texts.event_type, texts.attribute))
    comment = texts.comment.replace("*/", "* /")
    query = f"""FROM {name(texts.stream)} EVENT SEQ({kind} {x}, !(B {y}), {kind} z) /* {comment} */
        WHERE {x}.{attribute} = z.{attribute} AND {y}.{attribute} <> {x}.{attribute}
        AND z.{attribute} <> {string(texts.value)} AND z.{attribute} <> {{p}}
        WITHIN 10 RETURN {name(texts.composite)}({x}.{attribute} AS {name(texts.alias)})"""
    return sase.compile(query, catalog, filename=texts.filename, negation=negation)


def shape(source: str) -> str:
    """The syntax tree with every text masked: what the job does, whatever it is called."""

    class Mask(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.Constant(value="…") if isinstance(node.value, str) else node

        def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
            return ast.Constant(value="f…")

    return ast.dump(Mask().visit(ast.parse(source)))


def distinct(texts: Texts) -> bool:
    columns = {texts.attribute.lower(), texts.time.lower(), texts.type.lower()}
    return (
        len(columns) == 3
        and len({texts.variable.lower(), texts.negated.lower(), "z"}) == 3
        and texts.alias.lower() != texts.type.lower()
        and texts.event_type != "B"
    )


without_nul = text.map(lambda found: found.replace("\0", "") + " ")
places = {name: text.map(lambda found: found + " ") for name in ("value", "comment", "filename", "parameter")}
all_texts = st.builds(Texts, *(places.get(name, without_nul) for name in Texts.__dataclass_fields__)).filter(distinct)


@pytest.mark.parametrize("negation", ["auto", "anti-join"])
@given(texts=all_texts)
@example(texts=Texts(*(f'"""{number}\n' for number in range(13))))
@settings(max_examples=tries(40))
def test_text_never_changes_what_a_job_does(negation: str, texts: Texts) -> None:
    assert shape(job(texts, negation=negation).job) == harmless(negation)


@cache
def harmless(negation: str) -> str:
    return shape(job(HARMLESS, negation=negation).job)


@given(texts=all_texts)
@settings(max_examples=tries(2))
def test_a_job_with_any_names_and_values_finds_the_same_matches(spark: SparkSession, texts: Texts) -> None:
    columns = [texts.time, texts.type, texts.attribute]
    schema = T.StructType(
        [
            T.StructField(texts.time, T.LongType()),
            T.StructField(texts.type, T.StringType()),
            T.StructField(texts.attribute, T.StringType()),
        ]
    )
    kept, other = texts.value + "!", texts.value + "?"
    rows = [
        (1, texts.event_type, kept),
        (2, texts.event_type, other),
        (3, "B", other),
        (4, texts.event_type, kept),
        (5, texts.event_type, other),
        (6, texts.event_type, texts.value),
        (7, texts.event_type, texts.value),
    ]
    events = spark.createDataFrame(rows, schema)
    assert events.columns == columns
    for negation in ("auto", "anti-join"):
        matches = job(texts, negation=negation).run(events)
        expected = [] if texts.parameter == other else [(texts.composite, other)]
        assert matches.columns == [texts.type, texts.alias]
        assert [tuple(row) for row in matches.collect()] == expected


def test_a_name_with_nul_is_refused() -> None:
    with pytest.raises(sase.CatalogError, match="has a NUL character"):
        sase.Catalog(types={"A": {"a\0": "int"}})
    with pytest.raises(SaseError, match="a name cannot hold a NUL character"):
        sase.compile("EVENT A `x\0`", sase.Catalog(types={"A": {"a": "int"}}))


@given(
    query=st.text(max_size=60)
    | st.lists(st.sampled_from([*NASTY, "EVENT ", "SEQ(", "A x", ")", " WHERE x.a", "="])).map("".join)
)
@settings(max_examples=tries(80))
def test_any_text_is_a_query_or_an_error_with_a_place(query: str) -> None:
    try:
        sase.compile(query, sase.Catalog(types={"A": {"a": "int"}}))
    except SaseError as error:
        assert error.diagnostics
        for found in error.diagnostics:
            assert 0 <= found.span.start <= len(query)
