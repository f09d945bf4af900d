"""The parameters of one rule: from a specification to the exact members of a contract document (S7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from airflow_delta_provider.core.decimals import SPECIALS, canonical_decimal
from airflow_delta_provider.core.errors import (
    RuleParameterError,
    RuleUnknownError,
    ValueRangeError,
    ValueTextError,
    shown,
)
from airflow_delta_provider.core.rules import parse_times, zones
from airflow_delta_provider.core.rules.normalize import STEPS
from airflow_delta_provider.core.rules.parse import FALSE_VALUES, TRUE_VALUES
from airflow_delta_provider.core.times import DAY_NS, NS
from airflow_delta_provider.core.types import SCALARS

Document = dict[str, Any]
PLACES_MAX = 2000
SIDES = ("both", "source", "target")


class Written:
    """The parameters of one rule as somebody wrote them: taken out one by one, so that what is left is unknown.

    Raises, from every method: RuleParameterError that names the column, the rule and the parameter.
    """

    def __init__(self, rule: str, column: str, value: Any) -> None:
        self.rule = rule
        self.column = column
        if not isinstance(value, Mapping):
            raise self.refusal(f"takes a map of parameters, not {shown(value)!r}; without any it is written {{}}")
        self.left = dict(value)

    def refusal(self, text: str) -> RuleParameterError:
        """Return an error about this rule."""
        return RuleParameterError(f"column {shown(self.column)!r}, rule {self.rule}: {text}.", where=self.column)

    def take(self, name: str, otherwise: Any = None) -> Any:
        """Return a parameter, and forget it."""
        return self.left.pop(name, otherwise)

    def choice(self, name: str, choices: Sequence[str], *, required: bool = False) -> str:
        """Return a parameter that is one of some words; the first is the default."""
        value = self.take(name, None if required else choices[0])
        if not isinstance(value, str) or value not in choices:
            seen = "is missing" if value is None else f"is {shown(value)!r}"
            raise self.refusal(f"{name} {seen}; it takes {', '.join(choices)}")
        return value

    def amount(self, name: str, *, duration: bool = False) -> str | None:
        """Return a number that is not negative as canonical decimal text, or a duration as ``PT<seconds>S``, or None."""
        value = self.take(name)
        if value is None:
            return None
        text = self.number(name, value) if not duration or "P" not in str(value) else None
        if text is None:
            return self._duration(name, str(value))
        if text in SPECIALS or text.startswith("-"):
            raise self.refusal(f"{name} is {shown(value)!r}; it takes a number from 0 on")
        return text

    def number(self, name: str, value: Any) -> str:
        """Return an exact number (text, int or Decimal) as canonical decimal text."""
        if isinstance(value, float):
            raise self.refusal(f"{name} is the float {value!r}, which is not exact; write it as text")
        if isinstance(value, str | int | Decimal) and not isinstance(value, bool):
            try:
                return canonical_decimal(str(value).removeprefix("+"))
            except (ValueTextError, ValueRangeError):
                pass
        raise self.refusal(f"{name} is {shown(value)!r}, which is no number")

    def _duration(self, name: str, text: str) -> str:
        parts = parse_times.interval_parts(text)
        if parts is None or parts[0] or (total := parts[1] * DAY_NS + parts[2]) < 0:
            raise self.refusal(
                f"{name} is {shown(text)!r}; it takes a number or an ISO 8601 duration of days, hours, minutes and "
                "seconds, such as PT0.5S"
            )
        return f"PT{canonical_decimal(f'{total // NS}.{total % NS:09d}')}S"

    def done(self, document: Document) -> Document:
        """Return the document, when no parameter is left."""
        if self.left:
            raise self.refusal(f"has no parameter {shown(next(iter(self.left)))!r}")
        return {"rule": self.rule, **document}


def rule_document(name: Any, value: Any, column: str) -> Document:
    """Return one rule in document form, all defaults written out; ``null_equals`` still has its values as written.

    Raises: RuleUnknownError, RuleParameterError.
    """
    build = _BUILDERS.get(name) if isinstance(name, str) else None
    if build is None:
        known = ", ".join(sorted(_BUILDERS))
        raise RuleUnknownError(
            f"column {shown(column)!r}: there is no rule {shown(name)!r}; there are {known}.", where=column
        )
    return build(name, column, value)


def _tolerance(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, value)
    absolute, relative = written.amount("abs", duration=True), written.amount("rel")
    if absolute is None and relative is None:
        raise written.refusal("takes abs, rel or both")
    if absolute is not None and absolute.startswith("PT") and relative is not None:
        raise written.refusal("takes no rel beside a duration")
    bound = written.choice("bound", ("inclusive", "exclusive"))
    return written.done({"abs": absolute, "bound": bound, "rel": relative})


def _numeric_text(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, value)
    absolute, relative = written.amount("abs"), written.amount("rel")
    if absolute is None and relative is None:
        raise written.refusal("takes abs, rel or both")
    return written.done({"abs": absolute, "rel": relative})


def _round(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, value)
    places = written.number("places", written.take("places"))
    if "." in places or places in SPECIALS or abs(int(places)) > PLACES_MAX:
        raise written.refusal(f"places is {shown(places)}; it takes a whole number up to {PLACES_MAX}")
    return written.done({"mode": written.choice("mode", ("half_even", "half_up", "down")), "places": places})


def _precision(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, value)
    unit = written.choice("unit", ("s", "ms", "us"), required=True)
    return written.done({"mode": written.choice("mode", ("truncate", "half_up")), "unit": unit})


def _plain(name: str, column: str, value: Any) -> Document:
    return Written(name, column, value).done({})


def _normalize(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, {"steps": value} if isinstance(value, list) else value)
    steps = written.take("steps")
    if not isinstance(steps, list) or not steps or not all(isinstance(step, str) and step in STEPS for step in steps):
        raise written.refusal(f"takes a list of steps: {', '.join(STEPS)}")
    return written.done({"side": written.choice("side", SIDES), "steps": list(steps)})


def _null_equals(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, {"values": value} if isinstance(value, list | str) else value)
    values = written.take("values")
    scalars = isinstance(values, list) and all(isinstance(one, str | int | Decimal) for one in values)
    if values != "zero_date" and not (scalars and values):
        raise written.refusal("takes a list of values that are not NULL, or zero_date")
    return written.done({"values": values})


def _array_order(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, {"order": value} if isinstance(value, str) else value)
    return written.done({"order": written.choice("order", ("ignored",), required=True)})


def _read_as(name: str, column: str, value: Any) -> Document:
    written = Written(name, column, value)
    kind = written.choice("type", SCALARS, required=True)
    document = {
        "type": kind,
        "side": written.choice("side", SIDES),
        **(_READ_AS[kind](written) if kind in _READ_AS else {}),
    }
    if isinstance(written.left.get("otherwise"), bool):
        written.left["otherwise"] = "true" if written.left["otherwise"] else "false"
    otherwise = ("refuse", "different", "true", "false") if kind == "bool" else ("refuse", "different")
    return written.done({**document, "otherwise": written.choice("otherwise", otherwise)})


def _bool_values(written: Written) -> Document:
    true, false = _words(written, "true_values"), _words(written, "false_values")
    both = sorted(set(true or ()) & set(false or ()))
    if both:
        raise written.refusal(f"{shown(both[0])!r} stands in true_values and in false_values")
    return {
        "false_values": false if false is not None else [word for word in FALSE_VALUES if word not in (true or ())],
        "true_values": true if true is not None else [word for word in TRUE_VALUES if word not in (false or ())],
    }


def _words(written: Written, name: str) -> list[str] | None:
    values = written.take(name)
    if values is None:
        return None
    if not isinstance(values, list) or not values or not all(isinstance(one, str | int | Decimal) for one in values):
        raise written.refusal(f"{name} takes a list of values")
    words = ["true" if one is True else "false" if one is False else str(one) for one in values]
    return list(dict.fromkeys(words))


def _zone(written: Written) -> Document:
    zone = written.take("zone")
    if zone is None and {"ambiguous", "skipped"} & set(written.left):
        raise written.refusal("ambiguous and skipped need a zone")
    if zone is not None:
        if not isinstance(zone, str):
            raise written.refusal(f"zone is {shown(zone)!r}, which is no name")
        try:
            zones.zone_of(zone)
        except RuleParameterError as error:
            raise written.refusal(f"{shown(zone)!r} is no time zone that this host knows") from error
    return {
        "ambiguous": written.choice("ambiguous", ("refuse", "first", "second")),
        "skipped": written.choice("skipped", ("refuse", "before", "after")),
        "zone": zone,
    }


_READ_AS: dict[str, Callable[[Written], Document]] = {
    "bool": _bool_values,
    "bytes": lambda written: {"encoding": written.choice("encoding", ("hex", "base64"))},
    "uuid": lambda written: {"layout": written.choice("layout", ("rfc", "mixed_endian"))},
    "timestamp_tz": _zone,
}

_BUILDERS: dict[str, Callable[[str, str, Any], Document]] = {
    "array_order": _array_order,
    "date_as_midnight": _plain,
    "ignore": _plain,
    "normalize": _normalize,
    "null_equals": _null_equals,
    "numeric_text": _numeric_text,
    "precision": _precision,
    "read_as": _read_as,
    "round": _round,
    "single_precision": _plain,
    "tolerance": _tolerance,
}
