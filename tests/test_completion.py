"""What Tab offers in a query, in each language, without a notebook around it."""

from __future__ import annotations

import pytest

pytest.importorskip("IPython")

from sase.notebook.completion import Known, in_query

KNOWN = Known({"Book": ("book_id", "loc_id"), "Person": ("person_id", "loc_id"), "SHELF-READING": ("id",)})

CASES = {
    "|": "EVENT PATTERN SELECT",
    "SEL|": "SELECT",
    "SELECT | FROM Book B, Person P": "B. P. INTO",
    "SELECT B.bo| FROM Book B": "book_id",
    "SELECT B.* FROM Bo|": "Book",
    "SELECT B.* FROM Book B C, Person P PARTITION BY lo|": "loc_id",
    "SELECT B.* FROM Book B, Person P EVENT NOTF|": "NOTFOLLOWS(",
    "SELECT B.* FROM Book B, Person P EVENT FOLLOWS(|": "B P BOTH(",
    "SELECT B.* FROM Book[RANGE BY '3 sec'] B, Person P WHERE P.per|": "person_id",
    "WITH b AS (SELECT * FROM Bo|": "Book",
    "PATTERN x:Bo|": "Book",
    "PATTERN x:Book, NOT(y:ANY(Book, Person)) WHERE x.bo|": "book_id",
    "PATTERN x:Book RETURN x.book_id IN|": "INTO IN",
    "EVENT SHELF-|": "SHELF-READING",
    "EVENT SEQ(Book b, Person p) WHERE el|": "elapsed(",
    "EVENT SEQ(Book b, Person p) WHERE elapsed(b, |": "b p",
    "EVENT Book b RETURN b.book_id INTO X; SELECT P.* FROM Per|": "Person",
    "SELECT P.* FROM Person P EVENT P; EVENT Bo|": "Book",
}


@pytest.mark.parametrize("text", CASES)
def test_what_fits_is_offered(text: str) -> None:
    before, _, after = text.partition("|")
    fragment, found = in_query(before, before + after, KNOWN, {})
    assert before.endswith(fragment)
    offered = [name for name in found if name.lower().startswith(fragment.lower())]
    assert set(CASES[text].split()) <= set(offered), offered


def test_what_is_of_another_stream_is_not_offered() -> None:
    _, found = in_query("SELECT B.", "SELECT B. FROM Book B, Person P", KNOWN, {})
    assert list(found) == ["book_id", "loc_id"]
