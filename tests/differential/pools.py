"""Values that go wrong in tools of this kind, and values near to a value: drawn at random from a seeded source."""

from __future__ import annotations

import base64
import math
import random
import unicodedata
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from differential.model import (
    CLOCKS,
    DAY_NS,
    INFINITIES,
    NS,
    NUMBERS,
    canonical,
    number,
    single,
)

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

_WIDE = Context(prec=100)
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
            lambda t: unicodedata.normalize("NFD", t), lambda t: t + "\n", lambda t: t[:-1], lambda t: t.rstrip(" "),
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
