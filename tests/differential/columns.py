"""Random pairs of columns: types of two engines, rules that fit them, and how a value of one gives one of the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from differential.catalog import LABELS, Declared
from differential.model import (
    DAY_NS,
    INFINITIES,
    KEY_KINDS,
    NUMBERS,
    number,
)
from differential.oracle_rules import Refused, Rule, read
from differential.pools import JSONS, Random, converted, pool, spell


@dataclass
class Column:
    """One column pair as drawn: types, own rules, and how a source value gives a target value."""

    name: str
    source: Declared
    target: Declared
    rules: list[Rule] = field(default_factory=list)
    spelled: str | None = None
    """The kind that a text side spells, where a rule reads it; ``spelled_side`` says which side that is."""
    spelled_side: str = ""
    layout: str = "rfc"
    encoding: str = "hex"
    bounded: str = ""
    """``single``: no numbers beyond float32; ``zone``: no times beyond what a zone is asked for."""
    is_key: bool = False
    undeclared: str = ""

    def declared(self, side: str) -> Declared:
        """Return one side's type."""
        return self.source if side == "source" else self.target


Maker = Callable[[Random, list[Declared], list[Declared], bool], Column | None]


def _of(rng: Random, catalog: list[Declared], kinds: Any) -> Declared | None:
    fitting = [each for each in catalog if each.kind in kinds]
    if not fitting:
        return None
    kind = rng.choice(sorted({each.kind for each in fitting}))
    return rng.choice([each for each in fitting if each.kind == kind])


def _same(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    wanted = KEY_KINDS if is_key else {each.kind for each in source}
    mine = _of(rng, source, {each.kind for each in target} & set(wanted))
    other = mine and _of(rng, target, (mine.kind,))
    if mine is None or other is None:
        return None
    column = Column("", mine, other)
    column.rules = key_rules(rng, mine.kind) if is_key else own_rules(rng, mine.kind, column)
    return column


def _numbers(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    mine, other = _of(rng, source, NUMBERS), _of(rng, target, NUMBERS)
    if mine is None or other is None:
        return None
    column = Column("", mine, other)
    if not is_key:
        column.rules = own_rules(rng, "int" if "int" in (mine.kind, other.kind) else mine.kind, column)
    return column


def _spelled(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    kinds = ["int", "decimal", "float64", "bool", "bytes", "uuid", "date"]
    side = rng.choice(("source", "target"))
    texts = [each for each in (source if side == "source" else target) if each.kind == "text" and each.native != "ENUM"]
    typed = _of(rng, target if side == "source" else source, kinds)
    if not texts or typed is None:
        return None
    text = rng.choice(texts)
    column = Column("", *((text, typed) if side == "source" else (typed, text)), spelled=typed.kind, spelled_side=side)
    form: dict[str, Any] = {"type": typed.kind}
    if rng.random() < 0.7 or typed.kind not in ("int", "decimal"):
        form["side"] = side
    if not is_key:
        form["otherwise"] = "different"
    if typed.kind == "bytes":
        column.encoding = form["encoding"] = rng.choice(("hex", "base64"))
    if typed.kind == "uuid":
        column.layout = form["layout"] = rng.choice(("rfc", "mixed_endian"))
    column.rules = [("read_as", form)]
    if not is_key:
        column.rules += own_rules(rng, typed.kind, column)
    return column


def _both_spelled(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    mine, other = (_of(rng, [e for e in c if e.native != "ENUM"], ("text",)) for c in (source, target))
    if mine is None or other is None:
        return None
    kind = rng.choice(("int", "decimal", "float64", "json", "bool") if not is_key else ("int", "decimal"))
    column = Column("", mine, other, spelled=kind, spelled_side="both")
    form = {"type": kind} if is_key else {"type": kind, "otherwise": "different"}
    column.rules = [("read_as", form)]
    if kind != "json" and not is_key:
        column.rules += own_rules(rng, kind, column)
    return column


def _layout(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    raw, typed = _of(rng, source, ("bytes",)), _of(rng, target, ("uuid",))
    if raw is None or typed is None:
        return None
    layout = rng.choice(("rfc", "mixed_endian"))
    form = {"type": "uuid", "layout": layout, "side": "source"} | ({} if is_key else {"otherwise": "different"})
    return Column("", raw, typed, [("read_as", form)], "uuid", "bytes", layout)


def _flags(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    mine, other = _of(rng, source, ("int",)), _of(rng, target, ("bool",))
    if mine is None or other is None or is_key:
        return None
    otherwise = rng.choice(("different", "true", "false"))
    form: dict[str, Any] = {"type": "bool", "side": "source", "otherwise": otherwise}
    if rng.random() < 0.5:
        form |= {"true_values": ["1", "2"], "false_values": ["0"]}
    return Column("", mine, other, [("read_as", form)])


def _zoned(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    mine, other = _of(rng, source, ("timestamp",)), _of(rng, target, ("timestamp_tz",))
    if mine is None or other is None:
        return None
    zone = rng.choice(("Europe/Rome", "America/New_York", "Asia/Kolkata", "UTC", "Australia/Lord_Howe"))
    form = {"type": "timestamp_tz", "zone": zone, "side": "source", "ambiguous": rng.choice(("first", "second"))}
    form["skipped"] = rng.choice(("before", "after"))
    column = Column("", mine, other, [("read_as", form)], bounded="zone")
    if not is_key:
        column.rules += own_rules(rng, "timestamp_tz", column)
    return column


def _midnight(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    kinds = rng.choice((("date", "timestamp"), ("timestamp", "date")))
    mine, other = _of(rng, source, kinds[:1]), _of(rng, target, kinds[1:])
    if mine is None or other is None:
        return None
    ways: list[Rule] = [("read_as", {"type": "timestamp", "side": "source" if kinds[0] == "date" else "target"})]
    if not is_key:
        stamp = "target" if kinds[0] == "date" else "source"
        ways += [("date_as_midnight", {}), ("read_as", {"type": "date", "side": stamp, "otherwise": "different"})]
    return Column("", mine, other, [rng.choice(ways)])


def _json(rng: Random, source: list[Declared], target: list[Declared], is_key: bool) -> Column | None:
    mine, other = _of(rng, source, ("json_text",)), _of(rng, target, ("json_text",))
    if mine is None or other is None or is_key:
        return None
    return Column("", mine, other, [("read_as", {"type": "json"})] if rng.random() < 0.7 else [])


MAKERS: tuple[Maker, ...] = (
    _same,
    _same,
    _same,
    _numbers,
    _spelled,
    _both_spelled,
    _layout,
    _flags,
    _zoned,
    _midnight,
    _json,
)
STEPS = ("nfc", "nfkc", "casefold", "rstrip_blanks", "strip", "nul_as_blank")


def normalizing(rng: Random) -> Rule:
    """Return a random ``normalize``."""
    form: dict[str, Any] = {"steps": rng.sample(STEPS, rng.randint(1, 3))}
    if rng.random() < 0.25:
        form["side"] = rng.choice(("source", "target"))
    return ("normalize", form)


def key_rules(rng: Random, kind: str) -> list[Rule]:
    """Return rules for a key column whose sides have one kind."""
    return [normalizing(rng)] if kind == "text" and rng.random() < 0.4 else []


def own_rules(rng: Random, kind: str, column: Column) -> list[Rule]:
    """Return up to three rules that fit a kind, in random order."""
    rules: list[Rule] = []
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        ways = _RULES.get(kind)
        if ways is None:
            break
        rule = rng.choice(ways)(rng)
        if rule[0] in ("round", "single_precision"):
            column.bounded = "single" if rule[0] == "single_precision" else column.bounded
        rules.append(rule)
    return rules


def _tolerance(rng: Random) -> Rule:
    form: dict[str, Any] = {"abs": rng.choice(("0", "0.001", "0.5", "1", "0.0000000001"))}
    if rng.random() < 0.4:
        form = {"rel": rng.choice(("0.000001", "0.01", "0", "1"))} | (form if rng.random() < 0.3 else {})
    return ("tolerance", form | ({"bound": "exclusive"} if rng.random() < 0.3 else {}))


def _round(rng: Random) -> Rule:
    return (
        "round",
        {"places": rng.choice((0, 1, 2, 3, 10, -1, -3)), "mode": rng.choice(("half_even", "half_up", "down"))},
    )


def _precision(rng: Random) -> Rule:
    return ("precision", {"unit": rng.choice(("s", "ms", "us")), "mode": rng.choice(("truncate", "half_up"))})


def _near(rng: Random) -> Rule:
    abs_ = rng.choice(("PT1S", "PT0.5S", "PT0S", "PT3600S", "PT0.001S", "PT86400S", "PT0.000000001S"))
    return ("tolerance", {"abs": abs_} | ({"bound": "exclusive"} if rng.random() < 0.3 else {}))


def _nulls(*values: str) -> Callable[[Random], Rule]:
    return lambda rng: ("null_equals", {"values": rng.sample(values, rng.randint(1, len(values)))})


_NUMBER_RULES = (_tolerance, _tolerance, _round, lambda rng: ("single_precision", {}), _nulls("0", "-1", "100"))
_TIME_RULES = (_precision, _precision, _near)
_RULES: dict[str, tuple[Callable[[Random], Rule], ...]] = {
    **{kind: (*_NUMBER_RULES, _nulls("0.5", "-1", "0.1")) for kind in NUMBERS if kind != "int"},
    "int": _NUMBER_RULES,
    "text": (
        normalizing,
        normalizing,
        _nulls("", "NULL", "-", "0"),
        lambda rng: ("numeric_text", {"abs": rng.choice(("0", "0.001", "1"))}),
    ),
    "time": _TIME_RULES,
    "timestamp": (*_TIME_RULES, _nulls("1970-01-01T00:00:00", "0001-01-01T00:00:00")),
    "timestamp_tz": _TIME_RULES,
    "date": (
        lambda rng: ("tolerance", {"abs": rng.choice(("P1D", "PT86400S", "P7D", "PT0S"))}),
        _nulls("1970-01-01", "infinity"),
    ),
    "array:int": (lambda rng: ("array_order", {"order": "ignored"}),),
    "array:text": (lambda rng: ("array_order", {"order": "ignored"}),),
}


def fits_value(column: Column, value: Any, side: str) -> bool:
    """Tell whether a side's type holds a value, and the column's rules can work on it."""
    each = column.declared(side)
    if value is None:
        return True
    single = each.kind in NUMBERS and column.bounded == "single"
    if single and number(value) not in ("NaN", "Infinity", "-Infinity") and abs(number(value)) >= 2**126:
        return False
    if column.is_key and isinstance(value, str) and value in INFINITIES:
        return False
    if column.bounded == "zone" and (value in INFINITIES or not -50 * 365 * DAY_NS < value < 100 * 365 * DAY_NS):
        return False
    return each.holds(value)


def draw(rng: Random, column: Column, side: str, many: bool = False) -> Any:
    """Return a value that one side of a column holds; None where none is found."""
    each = column.declared(side)
    for _ in range(40):
        if each.native == "ENUM":
            value: Any = rng.choice(LABELS)
        elif column.spelled and (
            column.spelled_side in (side, "both") or (column.spelled_side == "bytes" and side == "source")
        ):
            value = _spelled_value(rng, column, side)
        else:
            value = pool(rng, each.kind, many)
        if fits_value(column, value, side):
            return value
    return None


def _spelled_value(rng: Random, column: Column, side: str) -> Any:
    kind = str(column.spelled)
    if column.spelled_side == "bytes":
        found = pool(rng, "uuid")
        return found.bytes_le if column.layout == "mixed_endian" else found.bytes
    if not column.is_key and rng.random() < 0.1:
        return rng.choice(("abc", "12x", "-", "zz"))
    value = rng.choice(JSONS) if kind == "json" else pool(rng, kind)
    while column.bounded == "single" and not isinstance(number(value), str) and abs(number(value)) >= 2**126:  # type: ignore[arg-type]
        value = pool(rng, kind)
    if kind == "date":
        value = rng.randint(0, 20_000)
    return spell(rng, value, kind, column.encoding, column.layout)


def partner(rng: Random, column: Column, value: Any) -> Any:
    """Return the target's value for a source's value: the same one where the target can hold it."""
    if value is None:
        return None
    found = value
    if column.spelled and column.spelled_side != "both":
        found = _spelled_partner(rng, column, value)
    elif column.spelled:
        found = value
    else:
        found = converted(rng, value, column.source.kind, column.target.kind)
    if (
        found is None
        or not fits_value(column, found, "target")
        or (column.target.native == "ENUM" and found not in LABELS)
    ):
        return draw(rng, column, "target", column.is_key)
    return found


def _spelled_partner(rng: Random, column: Column, value: Any) -> Any:
    kind = str(column.spelled)
    if column.spelled_side == "bytes":
        return uuid.UUID(bytes_le=value) if column.layout == "mixed_endian" and len(value) == 16 else (
            uuid.UUID(bytes=value) if len(value) == 16 else None)  # fmt: skip
    if column.spelled_side == "target":
        if value in INFINITIES or (kind == "date" and not 0 <= value < 20_000):
            return None
        return spell(rng, value, kind, column.encoding, column.layout)
    try:
        return read(value, "text", {"type": kind, "encoding": column.encoding, "layout": column.layout})
    except (Refused, OverflowError):
        return None
