"""Writes examples/data anew: `python examples/make_data.py`. The same rows every time; needs pyarrow alone.

Each data set is in another format on purpose, since `--events` takes them all: Parquet, CSV, JSON lines, one CSV file
per event type, and a folder of JSON lines.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).parent / "data"

Row = dict[str, Any]

# ---- a store with RFID readers ------------------------------------------------------------------

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
TUESDAY = MONDAY + timedelta(days=1)
SWEEPS = ("07:30:00", "11:00:00", "15:00:00", "19:00:00")
ITEMS = range(1001, 1261)
STOCK = range(2001, 2081)
CATEGORIES = ("food", "drinks", "clothing", "electronics", "toys")
FOOD_OF_MANUFACTURER_1 = (1005, 1120)


class Store:
    """Shelf readers report an item that is put down, and sweep their shelves four times a day.

    The reader in the back room reports what is in stock every half hour: noise, as far as the queries are concerned.
    """

    def __init__(self) -> None:
        self.chance = random.Random(2006)
        self.items = {item: self.product(item) for item in ITEMS}
        self.events: list[Row] = []
        # On which shelf an item is from when on; None while it is on none.
        self.places = {item: [(MONDAY, self.home(item))] for item in ITEMS}

    def product(self, item: int) -> Row:
        category, maker = self.chance.choice(CATEGORIES), self.chance.randrange(1, 7)
        if item in FOOD_OF_MANUFACTURER_1:
            category, maker = "food", 1
        elif (category, maker) == ("food", 1):
            maker = 2
        return {"category": category, "manufacturer_id": maker}

    def home(self, item: int) -> int | None:
        return 1 + (item - ITEMS.start) // 26

    def read(self, kind: str, item: int, at: datetime, **rest: object) -> None:
        self.events.append({"ts": at, "type": kind, "id": item, **rest})

    def read_at_shelf(self, item: int, at: datetime) -> None:
        _, shelf = max((place for place in self.places[item] if place[0] <= at), key=lambda place: place[0])
        if shelf is not None:
            self.read("SHELF-READING", item, at, shelf_id=shelf, **self.items[item])

    def put_down(self, item: int, at: datetime, shelf: int | None) -> None:
        self.places[item].append((at, shelf))
        self.read_at_shelf(item, at)

    def leave(self, item: int, at: datetime, exit_id: int = 1) -> None:
        self.places[item].append((at, None))
        self.read("EXIT-READING", item, at, exit_id=exit_id)

    def buy(self, item: int, at: datetime) -> None:
        self.places[item].append((at, None))
        self.read("COUNTER-READING", item, at, counter_id=self.chance.randrange(1, 4))
        self.read("COUNTER-READING", item, at + timedelta(seconds=2), counter_id=9)  # once more, where it is bagged
        self.leave(item, at + timedelta(seconds=self.chance.randrange(40, 300)), exit_id=self.chance.randrange(1, 3))

    def take_back(self, item: int, at: datetime) -> None:
        self.read("COUNTER-READING", item, at, counter_id=3)
        self.places[item].append((at, self.home(item)))

    def sweep_shelves(self, start: datetime) -> None:
        for number, item in enumerate(ITEMS):
            self.read_at_shelf(item, start + timedelta(seconds=number // 2))

    def sweep_back_room(self, start: datetime) -> None:
        for number, item in enumerate(STOCK):
            self.read("BACKROOM-READING", item, start + timedelta(milliseconds=250 * number))


def retail() -> list[Row]:
    store = Store()

    # Taken without paying. One, two and three sweeps saw the item that day, so Q2 has six matches for these three.
    store.leave(1017, _at(MONDAY, "09:41:13"))
    store.leave(1152, _at(MONDAY, "12:20:48"), exit_id=2)
    store.leave(1203, _at(TUESDAY, "17:05:02"), exit_id=2)
    # Bought, taken back, seen on its shelf again, and then taken: one more.
    store.buy(1088, _at(MONDAY, "10:12:00"))
    store.take_back(1088, _at(TUESDAY, "09:30:00"))
    store.leave(1088, _at(TUESDAY, "11:40:27"))
    # Carried out by the night shift, 12 hours and 7 minutes after it was seen last: not reported.
    store.leave(1131, _at(TUESDAY, "07:08:30"))

    # Put down on another shelf within an hour after a sweep, and left there.
    store.put_down(1042, _at(MONDAY, "11:24:10"), 9)
    store.put_down(1077, _at(MONDAY, "15:31:55"), 2)
    # The same, twice: three pairs of shelves.
    store.put_down(1199, _at(TUESDAY, "11:09:20"), 4)
    store.put_down(1199, _at(TUESDAY, "11:36:05"), 6)
    # Put back within the hour: only the way back looks like a misplacement.
    store.put_down(1063, _at(MONDAY, "11:15:30"), 5)
    store.put_down(1063, _at(MONDAY, "11:40:00"), store.home(1063))
    # Bought within the hour: not reported.
    store.put_down(1230, _at(TUESDAY, "15:12:45"), 3)
    store.buy(1230, _at(TUESDAY, "15:40:00"))

    # What Q1 looks for.
    store.buy(1005, _at(MONDAY, "16:45:30"))
    store.buy(1120, _at(TUESDAY, "11:52:10"))

    untouched = [item for item in ITEMS if len(store.places[item]) == 1]
    for item in store.chance.sample(untouched, 140):
        day = store.chance.choice((MONDAY, TUESDAY))
        store.buy(item, day + timedelta(seconds=store.chance.randrange(8 * 3600, 20 * 3600)))
    for day in (MONDAY, TUESDAY):
        for clock in SWEEPS:
            store.sweep_shelves(_at(day, clock))
        for half_hour in range(14, 42):
            store.sweep_back_room(day + timedelta(minutes=30 * half_hour))
    return sorted(store.events, key=lambda event: (event["ts"], event["id"]))


def _at(day: datetime, clock: str) -> datetime:
    return datetime.combine(day, time.fromisoformat(clock), UTC)


RETAIL = pa.schema(
    {
        "ts": pa.timestamp("us", tz="UTC"),
        "type": pa.string(),
        "id": pa.int64(),
        "shelf_id": pa.int32(),
        "counter_id": pa.int32(),
        "exit_id": pa.int32(),
        "category": pa.string(),
        "manufacturer_id": pa.int64(),
    }
)

# ---- the paper's running example ----------------------------------------------------------------


def q3() -> list[Row]:
    """The stream of the paper's Figures 1 to 4, reconstructed from what its text says of them.

    Sections 3.1 to 4.4: seven sequences of (A, B, D), three of them end in d9; selection leaves three, the window
    T = 6 takes the second of these, negation the second of what is left. b6 has attr1 = 2 and its RIP is a4; with the
    stacks partitioned by attr1, d9 completes one sequence; the optimised plan constructs two.
    """
    stream = "a1 c2 b3 a4 d5 b6 d7 c8 d9"
    second = {"a4", "b6", "c8", "d9"}  # the partition of attr1 = 2
    rows = []
    for event in stream.split():
        key = 2 if event in second else 1
        attr4 = 20 if event.startswith("d") else 10
        rows.append(
            {"type": event[0].upper(), "ts": int(event[1]), "attr1": key, "attr2": key, "attr3": 1, "attr4": attr4}
        )
    return rows


# ---- a patient's medicine -----------------------------------------------------------------------


def medicine() -> Iterator[Row]:
    doses = [
        ("2026-03-02 08:00", "John", "Antibiotics", 500),
        ("2026-03-02 08:05", "John", "Vitamins", 900),
        ("2026-03-02 09:00", "Mary", "Antibiotics", 750),
        ("2026-03-02 11:30", "John", "Antibiotics", 500),  # 1000 within 4 hours: not more than 1000
        ("2026-03-02 11:45", "Mary", "Antibiotics", 750),  # an overdose, but not John's
        ("2026-03-02 19:00", "John", "Antibiotics", 500),
        ("2026-03-03 08:00", "John", "Antibiotics", 600),
        ("2026-03-03 12:00", "John", "Antibiotics", 600),  # exactly 4 hours later: outside the window
        ("2026-03-03 12:10", "John", "Painkillers", 800),
        ("2026-03-03 19:30", "John", "Antibiotics", 500),
        ("2026-03-04 08:00", "John", "Antibiotics", 500),
        ("2026-03-04 10:15", "John", "Antibiotics", 750),  # with the dose of 08:00
        ("2026-03-04 10:20", "Mary", "Vitamins", 300),
        ("2026-03-04 11:50", "John", "Antibiotics", 400),  # with the dose of 10:15, not with that of 08:00
        ("2026-03-04 20:00", "John", "Antibiotics", 500),
        ("2026-03-05 08:00", "John", "Antibiotics", 500),
    ]
    for at, name, what, amount in doses:
        ts = at.replace(" ", "T") + ":00Z"
        yield {"type": "MEDICINE-TAKEN", "ts": ts, "name": name, "medicine": what, "amount": amount}


# ---- card payments, one table per type ----------------------------------------------------------


def payments() -> dict[str, list[Row]]:
    chance = random.Random(7)
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    merchants = ("bakery", "bookshop", "cinema", "grocer", "pharmacy", "trains")
    stream: list[tuple[float, str, Row]] = []

    def add(minute: float, kind: str, card: str, **rest: Any) -> None:
        stream.append((minute, kind, {"card": card, **rest}))

    for card in range(1, 41):
        for _ in range(6):
            minute = chance.randrange(10 * 60 * 4) / 4
            amount = f"{chance.randrange(600, 9000) / 100:.2f}"
            add(minute, "PAYMENT", f"c{card:02}", merchant=chance.choice(merchants), amount=amount)

    def probe_and_charge(card: str, minute: float, later: float, amount: str = "899.00") -> None:
        add(minute, "PAYMENT", card, merchant="parking", amount="1.50")
        add(minute + later, "PAYMENT", card, merchant="jeweller", amount=amount)

    probe_and_charge("c03", 62, 11)  # reported
    probe_and_charge("c21", 200, 0)  # reported: in the same second, and `seq` tells which came first
    probe_and_charge("c08", 95, 7)
    add(98, "OWNER-CONFIRMED", "c08", channel="app")  # in between: not reported
    probe_and_charge("c14", 130, 7)
    add(140, "CARD-BLOCKED", "c14", reason="fraud")  # within 30 minutes of the probe: not reported
    probe_and_charge("c30", 300, 12)
    add(335, "CARD-BLOCKED", "c30", reason="fraud")  # too late: reported
    probe_and_charge("c17", 400, 30)  # not within 30 minutes
    probe_and_charge("c26", 450, 9, amount="149.99")  # not a hundred times as much

    tables: dict[str, list[Row]] = {"PAYMENT": [], "OWNER-CONFIRMED": [], "CARD-BLOCKED": []}
    for seq, (minute, kind, row) in enumerate(sorted(stream, key=lambda event: event[0]), 1):
        at = (start + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ")
        tables[kind].append({"at": at, "seq": seq, **row})
    return tables


# ---- clicks in a web shop, one file per day -----------------------------------------------------

PRICES = {"kettle": 39.0, "lamp": 24.5, "mug": 7.5, "teapot": 31.0, "towel": 12.0}


def clicks() -> dict[str, list[Row]]:
    """Visits of two days. Whoever puts something into the cart buys it in the end, but for four visitors."""
    chance = random.Random(11)
    days: dict[str, list[Row]] = {}
    abandoned = {(0, 5): ["lamp"], (0, 17): ["kettle", "mug"], (1, 9): ["teapot"], (1, 21): ["towel"]}
    for day in range(2):
        stream: list[tuple[datetime, Row]] = []
        for visit in range(30):
            user = 100 + chance.randrange(40) if (day, visit) not in abandoned else 200 + 10 * day + visit
            at = MONDAY + timedelta(days=day, hours=8, minutes=20 * visit + chance.randrange(10), seconds=visit)

            def add(kind: str, minutes: int, user: int = user, stream: list[Any] = stream, **rest: Any) -> None:
                nonlocal at
                at += timedelta(minutes=minutes, seconds=chance.randrange(60))
                stream.append((at, {"type": kind, "user": user, **rest}))

            for _ in range(chance.randrange(2, 6)):
                add("view", 0, page="/" + chance.choice(sorted(PRICES)))
            left_behind = abandoned.get((day, visit))
            items = left_behind or chance.sample(sorted(PRICES), chance.choice((0, 0, 1, 2)))
            for item in items:
                add("add_to_cart", 1, item=item, price=PRICES[item])
            if items and not left_behind:
                add("purchase", 2, amount=sum(PRICES[item] for item in items))
            add("leave", 1)
        rows = sorted(stream, key=lambda event: event[0])
        name = (MONDAY + timedelta(days=day)).strftime("%Y-%m-%d")
        days[name] = [{"ts": at.strftime("%Y-%m-%dT%H:%M:%SZ"), **row} for at, row in rows]
    return days


# ---- cars on the road ---------------------------------------------------------------------------


def cars() -> Iterator[Row]:
    """Two trips of twelve cars, the second one at night. A car reports every ten minutes how fast it is and how far it
    came since it was started; two report an error. Car 11 stops after 40 minutes and is started again."""
    chance = random.Random(2009)
    stream: list[tuple[datetime, Row]] = []
    for car in range(1, 13):
        for hour, pace in ((7 + car % 3, 105 + 5 * car), (21 + car % 3, 95 + 4 * car)):
            start = MONDAY + timedelta(hours=hour, minutes=chance.randrange(60))
            begins = (0, 50) if (car, pace) == (11, 160) else (0,)
            for begin in begins:
                at = start + timedelta(minutes=begin)
                stream.append((at, {"type": "START", "car_id": car, "start_time": at.hour}))
                distance = 0
                for minute in range(10, 41 if begin == 0 and len(begins) > 1 else 251, 10):
                    speed = pace + chance.randrange(-20, 21)
                    distance += speed // 6
                    report = {"type": "STATUS", "car_id": car, "speed": speed, "distance": distance}
                    stream.append((at + timedelta(minutes=minute), report))
    for car, minute, code in ((4, 22 * 60 + 45, 7), (9, 22 * 60 + 5, 3)):
        stream.append((MONDAY + timedelta(minutes=minute), {"type": "DTC", "car_id": car, "code": code}))
    for at, row in sorted(stream, key=lambda event: event[0]):
        yield {"ts": at.strftime("%Y-%m-%dT%H:%M:%SZ"), **row}


def arrivals(text: str) -> list[Row]:
    """`a1 d2` as events."""
    return [{"type": name[0].upper(), "ts": int(name[1:])} for name in text.split()]


LETTER = {"q3": "a1 d2 c3 a4 c5 d6", "q4": "a1 c2 b3 a4 c5 d6"}


# ---- prices of a few days, for SQL --------------------------------------------------------------

CLOSING = {
    "ACME": (12, 17, 19, 15, 12, 14, 21, 21, 18, 20),
    "GLOBEX": (30, 28, 27, 29, 33, 31, 35, 34),
    "INITECH": (8, 8, 9, 10),
}


def ticker() -> list[Row]:
    days = [MONDAY.date() + timedelta(days=day) for day in range(12) if day % 7 < 5]
    return [
        {"symbol": symbol, "day": day.isoformat(), "price": price}
        for symbol, prices in CLOSING.items()
        for day, price in zip(days, prices, strict=False)
    ]


# ---- a library, of which TelegraphCQ's paper tells ----------------------------------------------

DOOR, DESK = 1, 2


def library() -> Iterator[Row]:
    """Readers at the door and at the desk. Book 11 leaves without a checkout, and 14 a whole minute after its own; 12
    was checked out in time, and 13 at the door. Two people and a book meet at the door twice. Person 4 borrows a fourth
    book within 30 days."""
    start = MONDAY + timedelta(hours=10)
    stream: list[tuple[float, Row]] = []

    def add(second: float, kind: str, **rest: int) -> None:
        stream.append((second, {"type": kind, **rest}))

    for tag, seconds in {101: (0, 0.2, 0.5, 1.4, 3), 102: (0.3, 1.3, 1.9), 103: (5,)}.items():
        for second in seconds:
            add(second, "RFIDStream", tag_id=tag)
    add(600, "Book", book_id=11, loc_id=DOOR)
    add(660, "Checkout", person_id=2, book_id=12, loc_id=DESK)
    add(700, "Book", book_id=12, loc_id=DOOR)
    add(800, "Book", book_id=13, loc_id=DOOR)
    add(801, "Checkout", person_id=3, book_id=13, loc_id=DESK)
    add(900, "Checkout", person_id=1, book_id=14, loc_id=DESK)
    add(960, "Book", book_id=14, loc_id=DOOR)
    for second, person in ((699, 2), (701.5, 5), (960.5, 1), (961, 6)):
        add(second, "Person", person_id=person, loc_id=DOOR)
    for day, book in enumerate((21, 22, 23, 24)):
        add(2000 + day * 86_400 * 9, "Checkout", person_id=4, book_id=book, loc_id=DESK)
    for second, row in sorted(stream, key=lambda event: event[0]):
        at = start + timedelta(seconds=second)
        yield {"timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z", **row}


# ---- boolean patterns ---------------------------------------------------------------------------


def moment(minutes: float) -> str:
    return (MONDAY + timedelta(hours=9, minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def sensors() -> list[Row]:
    """Every room is measured every five minutes. Room 3 burns, smoke first; room 7 has heat and smoke at one time; in
    room 5 somebody smokes, and room 8 is hot six minutes after its smoke."""
    chance = random.Random(2009)

    def smoke(minute: float, room: int, density: int) -> tuple[float, Row]:
        return minute, {"type": "SMOKE", "room": room, "density": density}

    def heat(minute: float, room: int, celsius: int) -> tuple[float, Row]:
        return minute, {"type": "TEMPERATURE", "room": room, "celsius": celsius}

    events = [smoke(41, 3, 140), heat(43, 3, 99), smoke(44, 3, 220), heat(45, 3, 130)]
    events += [heat(70.5, 7, 180), smoke(70.5, 7, 400), smoke(90.5, 5, 150), smoke(50.5, 8, 160), heat(56.5, 8, 140)]
    for room in range(1, 9):
        for minute in range(chance.randrange(5), 120, 5):
            events += [heat(minute, room, chance.randrange(18, 27)), smoke(minute + 2, room, chance.randrange(0, 30))]
    return [{"ts": moment(minute), **row} for minute, row in sorted(events, key=lambda event: event[0])]


def visits() -> list[Row]:
    """Customer 4 comes to C, A and B, 7 to all three at once, 9 takes an hour from the first to the last."""
    walks = {
        4: "C10 A25 B60",
        7: "B30 A30 C30 D31",
        9: "A5 B20 C65",
        2: "A1 B8 D40",
        5: "B2 B9 C30",
        6: "D3 C12 A80 B85",
    }
    rows = [
        {"ts": moment(int(place[1:])), "type": "VISIT", "customer": customer, "location": place[0]}
        for customer, walk in walks.items()
        for place in walk.split()
    ]
    return sorted(rows, key=lambda row: (row["ts"], row["customer"], row["location"]))


def trades() -> list[Row]:
    """XYZ goes from 100 to 112 within ten minutes and down to 104; ABC rises too slowly, and DEF stays high."""
    prices = {
        "XYZ": "0:100 2:101 4:99 8:112 11:111 15:104 19:103 30:104",
        "ABC": "0:50 4:51 9:53 14:55 18:58 22:54 27:51",
        "DEF": "1:200 3:226 8:224 12:221 17:219",
    }
    rows = [
        {"ts": moment(int(trade.split(":")[0])), "type": "TRADE", "stock": stock, "price": float(trade.split(":")[1])}
        for stock, series in prices.items()
        for trade in series.split()
    ]
    return sorted(rows, key=lambda row: (row["ts"], row["stock"]))


# ---- files --------------------------------------------------------------------------------------


def write_csv(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_json_lines(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main(folder: Path = DATA) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(retail(), RETAIL), folder / "retail.parquet", compression="zstd")
    write_csv(folder / "q3.csv", q3())
    write_json_lines(folder / "medicine.jsonl", medicine())
    for name, rows in payments().items():
        write_csv(folder / "payments" / f"{name}.csv", rows)
    for name, rows in clicks().items():
        write_json_lines(folder / "clicks" / f"{name}.jsonl", rows)
    write_json_lines(folder / "cars.jsonl", cars())
    write_csv(folder / "ticker.csv", ticker())
    write_json_lines(folder / "library.jsonl", library())
    write_json_lines(folder / "sensors.jsonl", sensors())
    write_csv(folder / "visits.csv", visits())
    write_csv(folder / "trades.csv", trades())
    for name, text in LETTER.items():
        write_csv(folder / "vdms_pq" / f"{name}.csv", arrivals(text))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
