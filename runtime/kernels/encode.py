"""A pattern and its events as the integers that the kernel compares.

`encode_pattern` runs once per task, `encode_terms` once per chunk. A term is a column that some predicate reads.
Columns that are compared with each other, directly or through others, form a domain: their integers must agree among
themselves and with nothing else, so integers, booleans and times stay as they are, floats become integers of the same
order, and strings, binaries and decimals become their ranks among the values that the chunk holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sase.runtime.kernels.sequences import EQ, GE, GT, HOLDS, LE, LT, NE, NULL, Ints, Query
from sase.runtime.pattern import Atom, Clause, Compare, Holds, Negated, Pattern

_OPERATORS = {"=": EQ, "!=": NE, "<": LT, "<=": LE, ">": GT, ">=": GE}


@dataclass(frozen=True)
class Domain:
    """Terms that are compared with each other. Without an order among them, any distinct integers will do."""

    terms: tuple[int, ...]
    ordered: bool


@dataclass(frozen=True)
class Terms:
    """What the clauses of a pattern read: term t is `columns[t]`."""

    columns: tuple[str, ...]
    domains: tuple[Domain, ...]
    booleans: frozenset[str]


@dataclass(frozen=True)
class Encoding(Terms):
    """The tables of a pattern, and what its terms are."""

    query: Query


def encode_pattern(pattern: Pattern) -> Encoding:
    """The pattern as tables; ValueError where it is not one that the kernel can run."""
    _validate(pattern)
    terms = terms_of([*pattern.where, *chain.from_iterable(component.where for component in pattern.negated)])
    return Encoding(terms.columns, terms.domains, terms.booleans, _tables(pattern, terms.columns))


def no_terms(pattern: Pattern) -> Terms:
    """Those of a pattern whose events are told by their state bits alone; ValueError where more is asked of them."""
    _validate(pattern)
    if pattern.where or any(component.where for component in pattern.negated):
        raise ValueError("no comparisons between events are possible here")
    if any(None in (component.after, component.before) for component in pattern.negated):
        raise ValueError("a negated component stands between two others here")
    return terms_of(())


def terms_of(clauses: Iterable[Clause]) -> Terms:
    atoms = list(chain.from_iterable(clauses))
    columns = tuple(dict.fromkeys(chain.from_iterable(map(_columns, atoms))))
    booleans = frozenset(atom.column for atom in atoms if isinstance(atom, Holds))
    return Terms(columns, _domains(atoms, columns), booleans)


def _columns(atom: Atom) -> tuple[str, ...]:
    match atom:
        case Compare(left_column=left, right_column=right):
            return left, right
        case Holds(column=column):
            return (column,)


def _variables(atom: Atom) -> tuple[str, ...]:
    match atom:
        case Compare(left=left, right=right):
            return left, right
        case Holds(variable=variable):
            return (variable,)


def mentioned(clauses: Iterable[Clause]) -> set[str]:
    return {variable for clause in clauses for atom in clause for variable in _variables(atom)}


def _validate(pattern: Pattern) -> None:
    positive = pattern.positive
    if not positive:
        raise ValueError("a pattern needs a positive component")
    if len(pattern.variables) > 63:
        raise ValueError(f"a pattern has at most 63 components, this one has {len(pattern.variables)}")
    if pattern.within is not None and pattern.within < 1:
        raise ValueError(f"the window must be positive, not {pattern.within}")
    if unknown := mentioned(pattern.where) - set(positive):
        raise ValueError(f"WHERE speaks of {sorted(unknown)}, which are no positive components")
    gaps = list(zip((None, *positive), (*positive, None), strict=True))
    for component in pattern.negated:
        if (component.after, component.before) not in gaps:
            raise ValueError(f"{component.variable!r} does not stand between neighbours")
        if pattern.within is None and None in (component.after, component.before):
            raise ValueError(f"{component.variable!r} stands first or last, which needs a window")
        if unknown := mentioned(component.where) - {component.variable, *positive}:
            raise ValueError(f"the predicates of {component.variable!r} speak of {sorted(unknown)}")


def _tables(pattern: Pattern, columns: Sequence[str]) -> Query:
    last = len(pattern.positive) - 1
    number = {variable: i for i, variable in enumerate(pattern.variables)}
    depths = [min((number[v] for v in mentioned([clause])), default=last) for clause in pattern.where]
    order = sorted(range(len(depths)), key=depths.__getitem__)
    clauses = [pattern.where[c] for c in order]
    negated = []
    for component in pattern.negated:
        begin = len(clauses)
        clauses += component.where
        negated.append([*_place(component, pattern), begin, len(clauses)])

    windowed = pattern.within is not None
    prune = windowed and pattern.window_in_scan
    return Query(
        positives=len(pattern.positive),
        within=pattern.within or 0,
        basic=int(not pattern.stacks),
        prune=int(prune),
        cut=int(windowed and pattern.window_in_construction and not prune),
        atoms=np.array([atom_row(atom, number, columns) for atom in chain.from_iterable(clauses)], np.int64).reshape(
            -1, 5
        ),
        clauses=np.cumsum([0, *map(len, clauses)]),
        checks=np.searchsorted(sorted(depths), np.arange(last + 2)),
        numbers=np.array(order, np.int64),
        negated=np.array(negated, np.int64).reshape(-1, 7),
        wanted=len(pattern.positive) if pattern.one_per_group else number.get(pattern.one_per or "", -1),
    )


def atom_row(atom: Atom, number: Mapping[str, int], columns: Sequence[str]) -> list[int]:
    """An atom as a row of `Query.atoms`."""
    match atom:
        case Compare():
            left, right = columns.index(atom.left_column), columns.index(atom.right_column)
            return [_OPERATORS[atom.op], number[atom.left], left, number[atom.right], right]
        case Holds():
            side = [number[atom.variable], columns.index(atom.column)]
            return [HOLDS, *side, *side]


def _place(component: Negated, pattern: Pattern) -> list[int]:
    """VARIABLE, AFTER, BEFORE, DEPTH, BOUNDS of a negated component.

    Its neighbours are bound at the depth of `after`; a leading or trailing one needs the first and the last event. A
    lone positive is bound without a walk, so there is nothing to bound.
    """
    number = {variable: i for i, variable in enumerate(pattern.variables)}
    after = -1 if component.after is None else number[component.after]
    before = -1 if component.before is None else number[component.before]
    bound = after if after >= 0 and before >= 0 else 0
    earliest = min((number[v] for v in mentioned(component.where)), default=number[component.variable])
    bounds = earliest > bound and len(pattern.positive) > 1
    return [number[component.variable], after, before, min(bound, earliest), int(bounds)]


def _domains(atoms: Iterable[Atom], columns: Sequence[str]) -> tuple[Domain, ...]:
    """The classes of the relation "is compared with"; each column points at its class' representative."""
    chief = {column: column for column in columns}
    ordered = set()
    for atom in atoms:
        if isinstance(atom, Compare):
            old, new = chief[atom.left_column], chief[atom.right_column]
            chief = {column: new if head == old else head for column, head in chief.items()}
            if atom.op not in ("=", "!="):
                ordered |= {atom.left_column}
    classes: dict[str, list[str]] = {}
    for column in columns:
        classes.setdefault(chief[column], []).append(column)
    return tuple(
        Domain(tuple(map(columns.index, members)), not ordered.isdisjoint(members)) for members in classes.values()
    )


def encode_terms(encoding: Terms, chunk: pa.Table) -> Ints:
    """The terms of a chunk as [term, row]; NULL is the kernel's NULL, which no value has."""
    terms = np.empty((len(encoding.columns), chunk.num_rows), np.int64)
    for column in sorted(encoding.booleans):
        if not pa.types.is_boolean(chunk.schema.field(column).type):
            raise TypeError(f"column {column!r} must be boolean, not {chunk.schema.field(column).type}")
    for domain in encoding.domains:
        names = [encoding.columns[term] for term in domain.terms]
        columns = [chunk.column(name) for name in names]
        kind = _kind(names, columns)
        exact = kind not in _RANKED and all(
            _fill_integers(terms[term], column) for term, column in zip(domain.terms, columns, strict=True)
        )
        if not exact:
            _fill_ranks([terms[term] for term in domain.terms], columns, kind, domain.ordered)
    return terms


_RANKED = frozenset({"string", "binary", "decimal"})


def _kind(names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> str:
    """What the columns of a domain hold. They may differ in width, which loses nothing, and in nothing else."""
    kinds = {name: _kind_of(name, column.type) for name, column in zip(names, columns, strict=True)}
    distinct = sorted(set(kinds.values()) - {"null"}) or ["null"]
    if len(distinct) > 1:
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
        raise TypeError(f"columns of different types are compared: {listed}; cast them to one type")
    return distinct[0]


def _kind_of(name: str, type_: pa.DataType) -> str:
    is_ = pa.types
    if is_.is_null(type_):
        return "null"
    if is_.is_boolean(type_):
        return "boolean"
    if is_.is_integer(type_) and not is_.is_uint64(type_):
        return "integer"
    if is_.is_float32(type_) or is_.is_float64(type_):
        return "floating"
    if is_.is_string(type_) or is_.is_large_string(type_):
        return "string"
    if is_.is_binary(type_) or is_.is_large_binary(type_) or is_.is_fixed_size_binary(type_):
        return "binary"
    if is_.is_decimal(type_):
        return "decimal"
    if is_.is_date(type_) or is_.is_time(type_) or is_.is_timestamp(type_) or is_.is_duration(type_):
        return str(type_)
    raise TypeError(f"column {name!r}: values of type {type_} cannot be compared")


def _fill_integers(out: Ints, column: pa.ChunkedArray) -> bool:
    """Write a column that is not ranked as integers of the same order; False if a value is taken for NULL then."""
    start = 0
    exact = True
    for array in column.chunks:
        part = out[start : start + len(array)]
        start += len(array)
        if pa.types.is_null(array.type):
            part[:] = NULL
            continue
        part[:] = _integers(array)
        exact = exact and (array.type.bit_width < 64 or part.min(initial=0) != NULL)
        if array.null_count:
            part[array.is_null().to_numpy(zero_copy_only=False)] = NULL
    return exact


def _integers(array: pa.Array) -> NDArray[Any]:
    """Integers in the order of the values; anything but NULL's integer where the value is NULL."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    values: NDArray[Any] = array.fill_null(0).to_numpy()
    return ordered_bits(values) if values.dtype.kind == "f" else values


def ordered_bits(floats: NDArray[np.floating[Any]]) -> Ints:
    """Integers in Spark's order of floats: -0.0 is 0.0, and NaN is itself and above everything.

    The bits of a double, read as an integer, rise with a positive value and fall with a negative one.
    """
    doubles = floats.astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    doubles += 0.0
    bits = doubles.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _fill_ranks(outs: Sequence[Ints], columns: Sequence[pa.ChunkedArray], kind: str, ordered: bool) -> None:
    """Write columns as dense ranks among all their values, or as mere codes where nothing asks for an order.

    Strings are ordered by their bytes, as in Spark. Only distinct values are sorted.
    """
    present = [i for i, column in enumerate(columns) if not pa.types.is_null(column.type)]
    common = _common_type(kind, [columns[i].type for i in present])
    joined = pa.chunked_array([array.cast(common) for i in present for array in columns[i].chunks], common)
    coded = joined.dictionary_encode()
    distinct = coded.chunk(0).dictionary
    ranks = np.full(len(distinct) + 1, NULL)
    ranks[pc.sort_indices(distinct).to_numpy() if ordered else slice(len(distinct))] = np.arange(len(distinct))
    codes = pa.chunked_array([array.indices for array in coded.chunks]).fill_null(len(distinct)).to_numpy()
    for out in outs:
        out[:] = NULL
    for i, values in zip(present, ranks[codes].reshape(len(present), -1), strict=True):
        outs[i][:] = values


def _common_type(kind: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """A type that holds the values of all of them unchanged."""
    if kind in _RANKED and len(set(types)) == 1:
        return types[0]
    match kind:
        case "string":
            return pa.large_string()
        case "binary":
            return pa.large_binary()
        case "decimal":
            scale = max(type_.scale for type_ in types)
            return pa.decimal256(max(type_.precision - type_.scale for type_ in types) + scale, scale)
        case _:
            return pa.int64()


def agreement(columns: Sequence[pa.ChunkedArray], groups: Ints) -> Ints:
    """Numbers from 0 that two rows share exactly when they are of one group and agree on all columns; none without."""
    if not columns:
        return np.zeros(0, np.int64)
    number = np.repeat(np.arange(len(groups) - 1), np.diff(groups))
    for column in columns:
        values = column.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        _, number = np.unique(number * (len(values) + 1) + values + 1, return_inverse=True)
    return number.astype(np.int64)


def changes(column: pa.ChunkedArray) -> NDArray[np.bool]:
    """Of each row but the first: is it unlike the row before? NULL is like NULL, NaN like NaN, -0.0 like 0.0."""
    earlier, later = column.slice(0, len(column) - 1), column.slice(1)
    if pa.types.is_struct(column.type):
        changed = np.zeros(len(later), np.bool)
        for field in column.flatten():
            changed |= changes(field)
    elif pa.types.is_nested(column.type):
        pairs = zip(earlier.to_pylist(), later.to_pylist(), strict=True)
        changed = np.fromiter((not _same(a, b) for a, b in pairs), np.bool, len(later))
    elif pa.types.is_null(column.type):
        changed = np.zeros(len(later), np.bool)
    elif pa.types.is_floating(column.type):
        bits = ordered_bits(column.fill_null(0).to_numpy())
        changed = bits[1:] != bits[:-1]
    else:
        changed = pc.not_equal(earlier, later).fill_null(False).to_numpy()
    if column.null_count:
        missing = column.is_null().to_numpy()
        changed = changed | (missing[1:] != missing[:-1])
    return changed


def _same(a: Any, b: Any) -> bool:
    """`changes` inside lists and maps, which Arrow does not compare."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_same(a[name], b[name]) for name in a)
    return bool(a == b or (a != a and b != b))


def group_codes(columns: Sequence[pa.ChunkedArray], rows: int) -> Ints:
    """Numbers from 0 that two rows share exactly when they agree on all columns; NULL agrees with NULL."""
    codes = np.zeros(rows, np.int64)
    for column in columns:
        for field in _fields(column):
            values = equal_codes(field)
            pairs = pa.array(codes * (rows + 1) + values)
            codes = pairs.dictionary_encode().indices.to_numpy().astype(np.int64) if codes.any() else values
    return codes


def ranks(column: pa.ChunkedArray) -> list[Ints]:
    """Integers in Spark's order of the values, most significant first: one array, or one per field of a struct."""
    found = []
    for field in _fields(column):
        rank = np.empty(len(field), np.int64)
        kind = _kind(["tie-breaker"], [field])
        if kind in _RANKED or not _fill_integers(rank, field):
            _fill_ranks([rank], [field], kind, True)
        found.append(rank)
    return found


def sort_ranks(column: pa.ChunkedArray, descending: bool, nulls_first: bool) -> list[Ints]:
    """Integers in the order that a key of ORDER BY asks for, most significant first."""
    missing = column.is_null().to_numpy()
    there = np.where(missing, 0 if nulls_first else 1, 1 if nulls_first else 0)
    return [there, *(np.where(missing, 0, ~rank if descending else rank) for rank in ranks(column))]


def moments(column: pa.ChunkedArray, descending: bool, nulls_first: bool) -> Ints:
    """Integers in the order that a key of ORDER BY asks for, of values that are told by 64 bits: numbers, times and
    truth values. NULL is an end of all integers, which a value may be, too."""
    found = np.empty(len(column), np.int64)
    _fill_integers(found, column)
    if descending:
        found = ~found
    if column.null_count:
        found[column.is_null().to_numpy()] = NULL if nulls_first else ~NULL
    return found


def _fields(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """The columns that a struct is made of, in order: whether it is there, then its fields."""
    if not pa.types.is_struct(column.type):
        yield column
        return
    yield column.is_valid()
    for field in column.flatten():
        yield from _fields(field)


def equal_codes(column: pa.ChunkedArray) -> Ints:
    """Numbers from 0 up that are equal exactly where the values are; at most as many as there are rows."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_floating(column.type):  # Arrow tells -0.0 from 0.0
        distinct, numbers = np.unique(ordered_bits(column.fill_null(0).to_numpy()), return_inverse=True)
        return np.where(column.is_null().to_numpy(), len(distinct), numbers)
    if pa.types.is_nested(column.type):  # Arrow does not hash lists
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(value), len(known)) for value in column.to_pylist()], np.int64)
    coded = column.dictionary_encode()
    indices = pa.chunked_array([array.indices for array in coded.chunks], pa.int32())
    missing = len(coded.chunk(0).dictionary) if coded.num_chunks else 0
    codes: Ints = indices.fill_null(missing).to_numpy().astype(np.int64)
    return codes
