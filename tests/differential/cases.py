"""Random pairs of tables, random rules, random damage: everything drawn from one seed."""

from __future__ import annotations

import base64
import math
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from differential.loading import CATALOG, ENGINES, LABELS, Declared
from differential.model import (
    CLOCKS,
    DAY_NS,
    INFINITIES,
    KEY_KINDS,
    NS,
    NUMBERS,
    canonical,
    number,
    single,
    sort_key,
)
from differential.oracle import Comparison, Pair, Refused, Rule, _key_of

Random = random.Random
TEXTS = (
    "", " ", "a", "A", "a ", " a", "aa", "ab", "Straße", "STRASSE", "strasse", "é", "e\u0301", "É", "\ufb01", "fi", "\u212b", "Å",
    "😀", "a😀", "\uffff", "İ", "ı", "ς", "σ", "0", "1", "1.0", "01", "-", "NULL", "null", "NaN", "it's", '"', "\\", "a\nb", "\t",
    "%", "_", "a\x00", "a\x00b", "ё", "é ", "\u00a0", "\u200b", "1e3", "1000", "0.5", "0.50001", "$1", "{{x}}", "ß", "ẞ", "z", "B", "ä",
    "true", "draft", "Draft",
)  # fmt: skip
INTS = (
    0, 1, -1, 2, 5, 7, 10, 127, -128, 255, 256, 32767, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 1, 2**53, 2**53 + 1, 2**62,
    2**63 - 1, -(2**63), 2**63, 2**64 - 1, 10**18, 10**30, -(10**37), 2**127 - 1, 2**128 - 1,
)  # fmt: skip
DECIMALS = (
    "0", "1", "-1", "0.1", "0.5", "-0.5", "1.5", "2.5", "0.25", "0.125", "1.005", "2.675", "-2.675", "0.001", "99.99", "100", "1e3",
    "123456789012345678901234567890.1234567", "0.0000000001", "9007199254740993", "1e30", "-1e-20", "1234567.891", "4.025", "4.035",
    "NaN", "Infinity", "-Infinity", "1e60", "3.14159", "0.3", "0.30000000000000004",
)  # fmt: skip
DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, -0.5, 1.5, 2.5, 0.3, 0.1 + 0.2, 1e-7, 1e16, 1e21, 1e22, 2.0**53, 2.0**63, 5e-324, 1.7e308, 0.25,
    math.nan, math.inf, -math.inf, 1.005, 2.675, 16777216.0, 16777217.0, 3.4028234e38, 1.1, 100.0, 1000.0, 123456.789,
)  # fmt: skip
DAYS = (0, 1, -1, 19_000, 19_001, 11_016, -719_162, 2_932_896, 60 * 365, -25_567, -719_529, -800_000, 3_000_000, 18_321)
SECONDS = (0, 1, -1, 86_399, 86_400, 1_700_000_000, 1_700_003_600, -62_135_596_800, 253_402_300_799, 2**31 - 2, 1_730_597_400,
           1_710_052_200, -2_208_988_800, 951_782_400)  # fmt: skip
FRACTIONS = (
    0,
    0,
    0,
    500_000_000,
    499_999_999,
    1,
    1000,
    1_000_000,
    999_999_999,
    123_456_789,
    999_999_000,
    1_500_000,
    500_000,
)


def pool(rng: Random, kind: str, many: bool = False) -> Any:
    """Return some value of a kind; ``many``: from a wider range, for keys."""
    return _POOLS[kind](rng, many)


def _int(rng: Random, many: bool) -> int:
    return rng.choice(INTS) if rng.random() < (0.3 if many else 0.5) else rng.randint(-60, 90)


def _decimal(rng: Random, many: bool) -> Decimal:
    if rng.random() < 0.5:
        return Decimal(rng.choice(DECIMALS))
    if rng.random() < 0.1:
        return Decimal(rng.randint(-(10**37), 10**37)).scaleb(-rng.randint(0, 20), context=_WIDE)
    return Decimal(rng.randint(-4000, 4000)).scaleb(-rng.randint(0, 3))


def _float(rng: Random, many: bool) -> float:
    if rng.random() < 0.5:
        return rng.choice(DOUBLES)
    return rng.randint(-4000, 4000) / rng.choice((1, 2, 8, 10, 100, 1000))


def _single(rng: Random, many: bool) -> float:
    value = _float(rng, many)
    try:
        return single(Fraction(value)) if value - value == 0 else value
    except OverflowError:
        return 0.5


def _text(rng: Random, many: bool) -> str:
    if rng.random() < 0.5 and not many:
        return rng.choice(TEXTS)
    return "".join(rng.choice(TEXTS) for _ in range(rng.randint(0, 3)))


def _bytes(rng: Random, many: bool) -> bytes:
    if rng.random() < 0.3:
        return rng.choice((b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"\xff", b"\x80abc", b"\\x61", b" "))
    return rng.randbytes(rng.choice((1, 1, 2, 16)))


def _uuid(rng: Random, many: bool) -> uuid.UUID:
    fixed = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
             "6ccd780c-baba-1026-9564-5b8c656024db", "6ccd780d-baba-1026-9564-5b8c656024db")  # fmt: skip
    return uuid.UUID(rng.choice(fixed)) if rng.random() < 0.4 else uuid.UUID(bytes=rng.randbytes(16))


def _date(rng: Random, many: bool) -> Any:
    if rng.random() < 0.06:
        return rng.choice(INFINITIES)
    return rng.choice(DAYS) if rng.random() < 0.5 else rng.randint(18_000, 18_100)


def _time(rng: Random, many: bool) -> int:
    return rng.choice((0, DAY_NS, 43_200 * NS, 86_399 * NS, rng.randint(0, 86_398) * NS)) % (DAY_NS + 1) + (
        rng.choice(FRACTIONS) if rng.random() < 0.5 else 0
    )


def _stamp(rng: Random, many: bool) -> Any:
    if rng.random() < 0.05:
        return rng.choice(INFINITIES)
    seconds = rng.choice(SECONDS) if rng.random() < 0.5 else rng.randint(1_700_000_000, 1_700_000_090)
    return seconds * NS + rng.choice(FRACTIONS)


def _interval(rng: Random, many: bool) -> tuple[int, int, int]:
    return (
        rng.choice((0, 1, 12, -14)),
        rng.choice((0, 30, -3)),
        rng.choice((0, NS, -4_500_000_000, 86_400 * NS, 1000, -1000)),
    )


JSONS = ('{"a":1,"b":2}', '{"b":2,"a":1}', '{"b": 2, "a": 1.0}', "[1,2]", "[2,1]", '{"a":1,"a":2}', '{"a":2}', '"x"', "null",
         "1e2", "100", '{"a":"\\u00e9"}', '{"a":"é"}', "[]", "{}", "12345678901234567890", "12345678901234567891", "0.1",
         "0.10", '{"a":null}', "[1.0,-0]", "[1,0]", '{"é":1,"z":2,"😀":3}')  # fmt: skip

_WIDE = __import__("decimal").Context(prec=100)
_POOLS: dict[str, Callable[[Random, bool], Any]] = {
    "int": _int,
    "decimal": _decimal,
    "float64": _float,
    "float32": _single,
    "bool": lambda rng, many: rng.random() < 0.5,
    "text": _text,
    "bytes": _bytes,
    "uuid": _uuid,
    "date": _date,
    "time": _time,
    "timestamp": _stamp,
    "timestamp_tz": _stamp,
    "interval": _interval,
    "json_text": lambda rng, many: rng.choice(JSONS),
    "array:int": lambda rng, many: tuple(rng.choice((1, 2, 3, None, 2**40)) for _ in range(rng.randint(0, 4))),
    "array:text": lambda rng, many: tuple(
        rng.choice(("x", "y", "X", None, "", "x ")) for _ in range(rng.randint(0, 3))
    ),
}


def nearby(rng: Random, value: Any, kind: str) -> Any:
    """Return a value that tools take for the same: folded, shifted, one ulp away, in another case, with a blank."""
    if value is None or value in INFINITIES:
        return pool(rng, kind)
    if kind == "int":
        return rng.choice((value + 2**32, value % 2**32, value + 1, -value, value - 2**64, value * 10))
    if kind == "decimal":
        if not value.is_finite():
            return pool(rng, kind)
        return _WIDE.add(value, Decimal(rng.choice(("0.001", "-0.001", "0.0000000001", "0.5", "1", "0.01", "0.005"))))
    if kind in ("float32", "float64"):
        if value - value != 0:
            return pool(rng, kind)
        near = rng.choice((math.nextafter(value, math.inf), value + 0.001, value * (1 + 1e-9), -value, value + 0.5))
        return near if kind == "float64" or near - near != 0 else _clip(near)
    if kind == "text":
        ways: tuple[Callable[[str], str], ...] = (
            str.swapcase, str.casefold, lambda t: t + " ", lambda t: t + "\x00", str.strip, lambda t: t + "\u0301", str.upper,
            lambda t: __import__("unicodedata").normalize("NFD", t), lambda t: t + "\n", lambda t: t[:-1], lambda t: t.rstrip(" "),
        )  # fmt: skip
        return rng.choice(ways)(value)
    if kind == "bytes":
        return rng.choice((value + b"\x00", value[:-1], value.upper(), value + b" "))
    if kind in CLOCKS:
        step = rng.choice((1, 1000, 10**6, NS // 2, NS, 3600 * NS, -3600 * NS, 5400 * NS, DAY_NS, -1000, 500_000))
        return (value + step) % (DAY_NS + 1) if kind == "time" else value + step
    if kind == "date":
        return value + rng.choice((1, -1, 365, 7))
    if kind == "interval":
        return rng.choice(((value[0], value[1] + 30, value[2]), (value[0], value[1], value[2] + 86_400 * NS)))
    if kind.startswith("array:"):
        return rng.choice((tuple(reversed(value)), value[:-1], (*value, *value[:1]), ()))
    return pool(rng, kind)


def _clip(value: float) -> float:
    try:
        return single(Fraction(value))
    except OverflowError:
        return 0.25


def converted(rng: Random, value: Any, kind: str, other: str) -> Any:
    """Return a value of another kind that is meant to be the same, or None where there is none near."""
    if kind == other or value is None:
        return value
    if kind in NUMBERS and other in NUMBERS:
        exact = number(value)
        if isinstance(exact, str):
            return None if other == "int" else Decimal(exact) if other == "decimal" else float(exact)
        if other == "int":
            return int(exact)
        if other == "decimal":
            return Decimal(value) if not isinstance(value, Decimal) else value
        try:
            return single(exact) if other == "float32" else float(exact)
        except OverflowError:
            return None
    if (kind, other) == ("date", "timestamp"):
        return value if value in INFINITIES else value * DAY_NS
    if (kind, other) == ("timestamp", "date"):
        return value if value in INFINITIES else value // DAY_NS
    if {kind, other} == {"timestamp", "timestamp_tz"}:
        shift = rng.choice((1, -1, 2, 5)) * 3600 * NS
        return value if value in INFINITIES else value + (shift if kind == "timestamp_tz" else -shift)
    if {kind, other} == {"bool", "int"}:
        return int(value) if other == "int" else bool(value)
    return None


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


def spell(rng: Random, value: Any, kind: str, encoding: str, layout: str) -> str:
    """Return one of the texts that mean a value."""
    if kind == "int":
        return rng.choice((str(value), str(value), f"{value:+d}", f"{value:05d}"))
    if kind in ("decimal", "float64"):
        text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value).lower(), str(value))
        return (
            text
            if not text[-1].isdigit() or "e" in text.lower()
            else rng.choice((text, text + "0" * ("." in text), text + "e0"))
        )
    if kind == "bool":
        return rng.choice(("true", "t", "1", "TRUE")) if value else rng.choice(("false", "f", "0", "False"))
    if kind == "bytes":
        return (
            base64.b64encode(value).decode() if encoding == "base64" else rng.choice((value.hex(), value.hex().upper()))
        )
    if kind == "uuid":
        text = str(uuid.UUID(bytes=value.bytes_le) if layout == "mixed_endian" else value)
        return rng.choice((text, text.upper(), text.replace("-", ""), "{" + text + "}"))
    if kind == "json":
        return str(value)
    return str(canonical(value, kind))


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
        found = _uuid(rng, False)
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
    from differential.oracle import read

    try:
        return read(value, "text", {"type": kind, "encoding": column.encoding, "layout": column.layout})
    except (Refused, OverflowError):
        return None


@dataclass
class Filter:
    """A filter as text, and as a test of a row: True, False or None (unknown)."""

    text: str
    test: Callable[[dict[str, Any]], bool | None]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def _all(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def _is(row: dict[str, Any], name: str, test: Callable[[Any], bool]) -> bool | None:
    return None if row[name] is None else test(row[name])


FILTERS = (
    Filter("f <> 'draft'", lambda row: _is(row, "f", lambda v: v != "draft")),
    Filter("f = 'draft'", lambda row: _is(row, "f", lambda v: v == "draft")),
    Filter("NOT (f = 'live' OR n > 3)", lambda row: _not(
        _any(_is(row, "f", lambda v: v == "live"), _is(row, "n", lambda v: v > 3)))),
    Filter("f IN ('live', 'Draft')", lambda row: _is(row, "f", lambda v: v in ("live", "Draft"))),
    Filter("f NOT IN ('live', 'Draft') AND n IS NOT NULL", lambda row: _all(
        _is(row, "f", lambda v: v not in ("live", "Draft")), row["n"] is not None)),
    Filter("f LIKE 'd%'", lambda row: _is(row, "f", lambda v: v.startswith("d"))),
    Filter("n BETWEEN -2 AND 4", lambda row: _is(row, "n", lambda v: -2 <= v <= 4)),
    Filter("f IS NULL OR n < 0", lambda row: _any(row["f"] is None, _is(row, "n", lambda v: v < 0))),
    Filter("COALESCE(n, 0) = 0", lambda row: (row["n"] or 0) == 0),
    Filter("f > 'a' AND f < 'z'", lambda row: _is(row, "f", lambda v: "a" < v < "z")),
    Filter("CASE WHEN n > 2 THEN f = 'live' ELSE f IS NULL END", lambda row: (
        _is(row, "f", lambda v: v == "live") if row["n"] is not None and row["n"] > 2 else row["f"] is None)),
)  # fmt: skip
FILTER_TEXTS = ("live", "draft", "Draft", "draft ", "DRAFT", "dräft", "", "a", "z", "é", None)


@dataclass
class Case:
    """One drawn pair of tables with everything that a run needs and the oracle's view of it."""

    seed: int
    engines: tuple[str, str]
    columns: list[Column]
    comparison: Comparison
    written: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    types: tuple[dict[str, Declared], dict[str, Declared]]
    form: dict[str, Any]
    group_rows: int


def draw_case(seed: int, engines: tuple[str, ...] = ENGINES) -> Case:
    """Draw one case; the same seed and engines give the same case."""
    rng = random.Random(seed)
    chosen = (rng.choice(engines), rng.choice(engines))
    sizes = rng.choice((1, 1, 2, 3)), rng.randint(0, 5)
    columns = [draw_column(rng, chosen, f"k{at}", True) for at in range(sizes[0])]
    columns += [draw_column(rng, chosen, f"v{at}", False) for at in range(sizes[1])]
    extra = [Column("f", *_plain(chosen, "text")), Column("n", *_plain(chosen, "int"))]
    nulls, duplicates = rng.choice(("refuse", "refuse", "set_aside", "match")), rng.choice(("refuse", "set_aside"))
    star = _star(rng, columns) if rng.random() < 0.25 else None
    pairs = {c.name: _pair(c, star) for c in columns}
    rows = _rows(rng, columns, extra, nulls != "refuse" or rng.random() < 0.05)
    if not (duplicates == "set_aside" and rng.random() < 0.6) and rng.random() < 0.9:
        rows = _unique(rows, columns, pairs)
    rng.shuffle(rows[0])
    rng.shuffle(rows[1])
    columns += extra
    _settle_sqlite(chosen, columns, rows)
    pairs = {c.name: _pair(c, star) for c in columns}
    logical = tuple(
        [
            {c.name: None if row[c.name] is None else c.declared(side).stored(row[c.name]) for c in columns}
            for row in part
        ]
        for side, part in zip(("source", "target"), rows, strict=True)
    )
    keys = [pairs[c.name] for c in columns if c.is_key]
    excluded = [c.name for c in extra if rng.random() < 0.6]
    sources = {c.name: c.source for c in rng.sample(columns, len(columns))}
    order = rng.sample(list(sources), len(columns))
    if chosen == ("jsonl", "jsonl") and not rows[1]:
        order = list(sources)  # an empty file has no order but that of the types, which both sides share
    values = [pairs[name] for name in order if not pairs[name].is_key and name not in excluded]
    what = Comparison(keys, values, logical[0], logical[1], None, nulls, duplicates)
    form: dict[str, Any] = {"key": [pair.name for pair in keys], "keys": {"nulls": nulls, "duplicates": duplicates}}
    if excluded:
        form["columns"] = {"exclude": excluded}
    if rng.random() < 0.4:
        found = rng.choice(FILTERS)
        form["filter"] = found.text
        what.keep = lambda row: found.test(row) is True
    rules = {c.name: [{name: spec_of(body)} for name, body in c.rules] for c in columns if c.rules}
    if star is not None:
        rules["*"] = [{star[0]: spec_of(star[1])}]
    if rules:
        form["rules"] = rules
    if rng.random() < 0.5:
        form["shards"] = {"count": rng.choice((1, 2, 3, 7))}
    _range(rng, what, form)
    targets = {name: next(c.target for c in columns if c.name == name) for name in order}
    return Case(seed, chosen, columns, what, rows, (sources, targets), form, rng.choice((1, 3, 1000)))


def spec_of(form: dict[str, Any]) -> dict[str, Any]:
    """Return a rule's parameters as a specification has them."""
    return dict(form)


def draw_column(rng: Random, engines: tuple[str, str], name: str, is_key: bool) -> Column:
    """Draw one column pair that both engines have."""
    while True:
        column = rng.choice(MAKERS)(rng, CATALOG[engines[0]], CATALOG[engines[1]], is_key)
        if column is None:
            continue
        alike = engines[0] == engines[1] and engines[0] in ("csv", "jsonl")
        if alike and column.source.kind != column.target.kind:
            continue
        if is_key and "float" in column.source.native and "float" in column.target.native:
            continue
        column.name, column.is_key = name, is_key
        reads = any(rule == "read_as" for rule, _ in column.rules)
        if not reads and column.source.kind == column.target.kind and rng.random() < 0.4:
            files = [s for s, e in zip(("source", "target"), engines, strict=True) if e in ("csv", "jsonl")]
            column.undeclared = files[0] if len(files) == 1 else ""
        return column


def _plain(engines: tuple[str, str], kind: str) -> tuple[Declared, Declared]:
    found = [next(each for each in CATALOG[engine] if each.kind == kind) for engine in engines]
    return found[0], found[1]


def _star(rng: Random, columns: list[Column]) -> Rule | None:
    rule = rng.choice((normalizing(rng), _precision(rng), _tolerance(rng)))
    return rule if any(_fits_star(rule, column) for column in columns) else None


def _fits_star(rule: Rule, column: Column) -> bool:
    kinds = {"normalize": ("text",), "precision": CLOCKS, "tolerance": NUMBERS}[rule[0]]
    side = rule[1].get("side", "both")
    wanted = [column.declared(each).kind for each in ("source", "target") if side in (each, "both")]
    return all(kind in kinds for kind in wanted) and (rule[0] == "normalize" or not column.is_key)


def _pair(column: Column, star: Rule | None) -> Pair:
    rules = ([star] if star is not None and _fits_star(star, column) else []) + column.rules
    return Pair(column.name, column.source.kind, column.target.kind, rules, column.is_key)


Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def _rows(rng: Random, columns: list[Column], extra: list[Column], null_keys: bool) -> Rows:
    def cell(column: Column, side: str) -> Any:
        if rng.random() < (0.06 if column.is_key and null_keys else 0 if column.is_key else 0.12):
            return None
        return draw(rng, column, side, column.is_key)

    def with_extra(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"f": rng.choice(FILTER_TEXTS), "n": rng.choice((0, 1, 3, 5, -3, None))}

    count = rng.choice((0, 1, 5, 12, 25))
    source = [with_extra({c.name: cell(c, "source") for c in columns}) for _ in range(count)]
    target = []
    for row in source:
        if rng.random() < 0.12:
            continue
        made = {c.name: partner(rng, c, row[c.name]) for c in columns} | {c.name: row[c.name] for c in extra}
        target.append(_damaged(rng, made, columns))
    target += [with_extra({c.name: cell(c, "target") for c in columns}) for _ in range(rng.choice((0, 0, 1, 4)))]
    if len(target) > 2 and rng.random() < 0.2:
        one, other, name = *rng.sample(target, 2), rng.choice(columns).name
        one[name], other[name] = other[name], one[name]
    broken = [c for c in columns if c.is_key and not null_keys]
    return tuple([row for row in part if all(row[c.name] is not None for c in broken)] for part in (source, target))  # type: ignore[return-value]


def _damaged(rng: Random, row: dict[str, Any], columns: list[Column]) -> dict[str, Any]:
    for column in columns:
        if rng.random() > (0.06 if column.is_key else 0.3):
            continue
        if rng.random() < 0.15 and not column.is_key:
            row[column.name] = None if row[column.name] is not None else draw(rng, column, "target")
            continue
        plain = column.target.native == "ENUM" or (column.spelled and column.spelled_side in ("target", "both"))
        found = None if plain else nearby(rng, row[column.name], column.target.kind)
        if found is None or not fits_value(column, found, "target"):
            found = draw(rng, column, "target", column.is_key)
        row[column.name] = found
    if rng.random() < 0.05:
        row["f"] = rng.choice(FILTER_TEXTS)
    return row


def _unique(rows: Rows, columns: list[Column], pairs: dict[str, Pair]) -> Rows:
    keys = [c for c in columns if c.is_key]
    kinds = [pairs[c.name].schema for c in keys]
    what = Comparison([pairs[c.name] for c in keys], [], [], [])
    found: list[list[dict[str, Any]]] = []
    for side, part in zip(("source", "target"), rows, strict=True):
        kept: dict[bytes, dict[str, Any]] = {}
        for row in part:
            plain = {c.name: None if row[c.name] is None else c.declared(side).stored(row[c.name]) for c in keys}
            try:
                kept[sort_key(_key_of(what, plain, side), kinds)] = row
            except Refused:
                continue
        found.append(list(kept.values()))
    return found[0], found[1]


def _settle_sqlite(engines: tuple[str, str], columns: list[Column], rows: Rows) -> None:
    """Give SQLite's columns of mixed classes the type that what is stored in them makes."""
    for side, engine, part in zip(("source", "target"), engines, rows, strict=True):
        for column in columns:
            if engine != "sqlite" or column.declared(side).native != "":
                continue
            whole = {value == value.to_integral_value() for row in part if (value := row[column.name]) is not None}
            kind, native = {(True,): ("int", "INTEGER"), (False,): ("float64", "REAL")}.get(
                tuple(whole), ("decimal", "") if whole else ("int", "INTEGER")
            )
            settled = Declared(kind, native, stored=_as_stored)
            if side == "source":
                column.source = settled
            else:
                column.target = settled


def _as_stored(value: Decimal) -> Any:
    return int(value) if value == value.to_integral_value() else float(value)


def _range(rng: Random, what: Comparison, form: dict[str, Any]) -> None:
    """Cut a range out of the key space at times: literals of the first key column, where it has no rules."""
    first = what.key[0]
    if first.schema not in ("int", "text", "date", "uuid") or first.rules or rng.random() > 0.15:
        return
    found = sorted(
        {
            sort_key([row[first.name]], [first.schema]): row[first.name]
            for row in what.source
            if row[first.name] is not None
        }.items()
    )
    found = [(key, value) for key, value in found if value not in INFINITIES and len(key) < 150]
    if len(found) < 2:
        return
    lower, upper = sorted(rng.sample(found, 2))
    form["key_range"] = {"from": [canonical(lower[1], first.schema)], "to": [canonical(upper[1], first.schema)]}
    what.lower, what.upper = lower[0], upper[0]
