"""A row pattern as an automaton whose choices are ordered.

A *position* is an occurrence of a variable in the pattern, once quantifiers are written out. The rows of a match go
from position to position. Behind each one stands the list of those that may take the next row, the preferred first, and
among them `ACCEPT`, the end of the match. What is less preferred than the end is never taken, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cache
from itertools import permutations

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, Span
from sase.compiler.core.rows import Anchor, Concat, Either, Empty, Exclude, Node, Permute, Repeat, Symbol

ACCEPT = -1
POSITIONS = 256


@dataclass(frozen=True)
class Automaton:
    symbols: tuple[str, ...]
    """The variable of each position."""
    start: tuple[int, ...]
    """What may take the first row of a match,"""
    first: tuple[int, ...]
    """and what, if that is the first row of its partition."""
    follow: tuple[tuple[int, ...], ...]
    """What may take the row behind each position,"""
    ends: tuple[int, ...]
    """and the positions with which a match may end on the last row of its partition."""
    excluded: tuple[int, ...]

    @property
    def is_endless(self) -> bool:
        """Whether a match may have any number of rows: some position leads back to itself."""
        left = dict(enumerate(self.follow))
        while over := [at for at, follow in left.items() if left.keys().isdisjoint(follow)]:
            for at in over:
                del left[at]
        return bool(left)


class TooLarge(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def automaton(pattern: Node) -> Automaton:
    """TooLarge, if there are more positions than the kernel has room for."""
    program = _Program()
    entry = program.add(pattern, program.accept)
    last = len(program.symbols) - 1

    def numbered(positions: Iterable[int]) -> tuple[int, ...]:
        """From the pattern's beginning, while the program was written from its end."""
        return tuple(position if position == ACCEPT else last - position for position in positions)

    behind = program.behind[::-1]
    ends = (position for position, at in enumerate(behind) if ACCEPT in program.reachable(at, at_end=True))
    return Automaton(
        symbols=tuple(program.symbols[::-1]),
        start=numbered(program.reachable(entry)),
        first=numbered(program.reachable(entry, at_start=True)),
        follow=tuple(numbered(program.reachable(at)) for at in behind),
        ends=tuple(ends),
        excluded=numbered(program.excluded[::-1]),
    )


def _plain(node: Node) -> bool:
    """Whether there is only one way to match it: else its ways come before the next order of PERMUTE."""
    match node:
        case Symbol() | Empty() | Anchor():
            return True
        case Concat(parts=parts):
            return all(map(_plain, parts))
        case Exclude(part=part):
            return _plain(part)
        case Repeat(part=part, low=low, high=high):
            return low == high and _plain(part)
        case Either() | Permute():
            return False


@dataclass(frozen=True)
class _Take:
    position: int


@dataclass(frozen=True)
class _Test:
    sign: str
    then: int


@dataclass(frozen=True)
class _Split:
    targets: tuple[int, ...]


@dataclass
class _Loop:
    """Behind the body of a loop: once more, or on."""

    body: int
    then: int
    greedy: bool

    @property
    def targets(self) -> tuple[int, ...]:
        return (self.body, self.then) if self.greedy else (self.then, self.body)


_Instruction = _Take | _Test | _Split | _Loop


@dataclass
class _Program:
    """Instructions, written from the end of the pattern to its beginning: each knows what comes behind it."""

    instructions: list[_Instruction] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    excluded: list[int] = field(default_factory=list)
    accept: int = -1
    _excluding: bool = False
    _quantifiers: list[Span] = field(default_factory=list)

    def _new(self, instruction: _Instruction) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def add(self, node: Node, then: int) -> int:
        """The first instruction of `node`, behind which the program goes on at `then`."""
        match node:
            case Symbol(variable, span):
                return self._take(variable, span, then)
            case Empty():
                return then
            case Anchor(sign=sign):
                return self._new(_Test(sign, then))
            case Concat(parts=parts):
                for part in reversed(parts):
                    then = self.add(part, then)
                return then
            case Either(parts=parts):
                return self._new(_Split(tuple(self.add(part, then) for part in parts)))
            case Permute(parts=parts):
                return self._permute(parts, then)
            case Exclude(part=part):
                outer, self._excluding = self._excluding, True
                entry = self.add(part, then)
                self._excluding = outer
                return entry
            case Repeat():
                self._quantifiers.append(node.quantifier)
                entry = self._repeat(node, then)
                self._quantifiers.pop()
                return entry

    def _take(self, variable: str, span: Span, then: int) -> int:
        position = len(self.symbols)
        if position == POSITIONS:
            what = "this quantifier makes" if self._quantifiers else "this makes"
            raise TooLarge(
                Diagnostic(
                    f"{what} the pattern too long: written out, it has more than {POSITIONS} variables",
                    self._quantifiers[0] if self._quantifiers else span,
                    "use smaller bounds, or + and * with a condition that counts, such as COUNT(A.*) <= 1000",
                )
            )
        self.symbols.append(variable)
        self.behind.append(then)
        if self._excluding:
            self.excluded.append(position)
        return self._new(_Take(position))

    def _repeat(self, node: Repeat, then: int) -> int:
        """X{2,4} is X X (X (X)?)?, X{2,} is X X+, and X* is (X+)?."""

        def optional(entry: int) -> int:
            return self._new(_Split((entry, then) if node.greedy else (then, entry)))

        if node.high is None:
            loop = _Loop(-1, then, node.greedy)
            entry = loop.body = self.add(node.part, self._new(loop))
            if node.low == 0:
                return optional(entry)
            copies = node.low - 1
        else:
            entry, copies = then, node.low
            for _ in range(node.high - node.low):
                entry = optional(self.add(node.part, entry))
        for _ in range(copies):
            entry = self.add(node.part, entry)
        return entry

    def _permute(self, parts: tuple[Node, ...], then: int) -> int:
        """All orders, one after the other. Where a part takes its rows in one way only, what may follow depends on
        which parts are left, and not on their order: then orders share what comes behind."""
        if not all(map(_plain, parts)):
            entries = []
            for order in permutations(parts):
                entry = then
                for part in reversed(order):
                    entry = self.add(part, entry)
                entries.append(entry)
            return self._new(_Split(tuple(entries)))

        @cache
        def rest(left: frozenset[int]) -> int:
            if not left:
                return then
            return self._new(_Split(tuple(self.add(parts[index], rest(left - {index})) for index in sorted(left))))

        return rest(frozenset(range(len(parts))))

    def reachable(self, entry: int, at_start: bool = False, at_end: bool = False) -> tuple[int, ...]:
        """The positions that may take the next row, in the order of preference, up to ACCEPT.

        An instruction is entered once: what it leads to is known, and was preferred, when it is met again. A loop that
        is met again had a body that took no row, and ends there.
        """
        found: list[int] = []
        entered: set[int] = set()
        waiting = [entry]
        while waiting:
            at = waiting.pop()
            if at == self.accept:
                return (*found, ACCEPT)
            instruction = self.instructions[at]
            if at in entered:
                if isinstance(instruction, _Loop):
                    waiting.append(instruction.then)
                continue
            entered.add(at)
            match instruction:
                case _Take(position):
                    found.append(position)
                case _Test(sign, then):
                    if at_start if sign == "^" else at_end:
                        waiting.append(then)
                case _Split() | _Loop():
                    waiting.extend(reversed(instruction.targets))
        return tuple(found)
