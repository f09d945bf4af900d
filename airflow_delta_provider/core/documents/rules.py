"""The rules of a contract document: exactly the members of each rule, as docs/format.md, S7 lists them."""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_delta_provider.core.documents.shape import Shape
from airflow_delta_provider.core.errors import ContractError

RULE_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "tolerance": ("abs", "bound", "rel"),
    "round": ("mode", "places"),
    "precision": ("mode", "unit"),
    "single_precision": (),
    "date_as_midnight": (),
    "read_as": ("otherwise", "side", "type"),
    "normalize": ("side", "steps"),
    "null_equals": ("values",),
    "numeric_text": ("abs", "rel"),
    "array_order": ("order",),
}
"""Members besides ``rule``; ``read_as`` has more by its type."""

READ_AS_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("false_values", "true_values"),
    "bytes": ("encoding",),
    "uuid": ("layout",),
    "timestamp_tz": ("ambiguous", "skipped", "zone"),
}
STEPS: Final = ("nfc", "nfkc", "casefold", "rstrip_blanks", "strip", "nul_as_blank")
RULE_SIDES: Final = ("both", "source", "target")
PAIRED_RULES: Final = ("tolerance", "numeric_text", "date_as_midnight")
"""Rules that need the values of both sides; a sweep has only one."""

_CHOICES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "tolerance": {"bound": ("inclusive", "exclusive")},
    "round": {"mode": ("half_even", "half_up", "down")},
    "precision": {"mode": ("truncate", "half_up"), "unit": ("s", "ms", "us")},
    "read_as": {
        "side": RULE_SIDES,
        "encoding": ("hex", "base64"),
        "layout": ("rfc", "mixed_endian"),
        "ambiguous": ("refuse", "first", "second"),
        "skipped": ("refuse", "before", "after"),
    },
    "normalize": {"side": RULE_SIDES},
    "array_order": {"order": ("ignored",)},
}
_AMOUNT = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
_DURATION = re.compile(r"PT(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?S")
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_SHAPE = Shape("contract document", ContractError)


def check_rule(value: object, place: str) -> dict[str, Any]:
    """Return one rule of a contract, checked.

    Raises: ContractError (DELTA_CONTRACT) for an unknown rule, another set of members, or a bad parameter.
    """
    name = value.get("rule") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(name, str) or name not in RULE_MEMBERS:
        raise _SHAPE.refuse(place, "is no rule of this format")
    more = READ_AS_MEMBERS.get(str(value.get("type")), ()) if name == "read_as" else ()
    rule = _SHAPE.members(value, place, ("rule", *RULE_MEMBERS[name], *more))
    for member, choices in _CHOICES.get(name, {}).items():
        if member in rule:
            _SHAPE.choice(rule[member], f"{place}.{member}", choices)
    check = _PARAMETERS.get(name)
    if check:
        check(rule, place)
    return rule


def _check_amounts(rule: dict[str, Any], place: str) -> None:
    for member in ("abs", "rel"):
        value = rule[member]
        durable = rule["rule"] == "tolerance" and member == "abs"
        good = isinstance(value, str) and (_AMOUNT.fullmatch(value) or (durable and _DURATION.fullmatch(value)))
        if value is not None and not good:
            raise _SHAPE.refuse(f"{place}.{member}", "is neither null nor a canonical amount")


def _check_places(rule: dict[str, Any], place: str) -> None:
    if not isinstance(rule["places"], str) or not _WHOLE.fullmatch(rule["places"]):
        raise _SHAPE.refuse(f"{place}.places", "is no canonical whole number")


def _check_steps(rule: dict[str, Any], place: str) -> None:
    steps = _SHAPE.items(rule["steps"], f"{place}.steps")
    if not steps:
        raise _SHAPE.refuse(f"{place}.steps", "is empty")
    for index, step in enumerate(steps):
        _SHAPE.choice(step, f"{place}.steps[{index}]", STEPS)


def _check_null_values(rule: dict[str, Any], place: str) -> None:
    if rule["values"] != "zero_date":
        _check_values(rule["values"], f"{place}.values")


def _check_values(value: object, place: str) -> None:
    values = _SHAPE.items(value, place)
    if not values:
        raise _SHAPE.refuse(place, "is empty")
    for index, entry in enumerate(values):
        if not isinstance(entry, (str, bool, list)):
            raise _SHAPE.refuse(f"{place}[{index}]", "is no canonical value")


def _check_read_as(rule: dict[str, Any], place: str) -> None:
    kind = _SHAPE.logical_type(rule["type"], f"{place}.type").kind
    choices = ("refuse", "different", "true", "false") if kind == "bool" else ("refuse", "different")
    _SHAPE.choice(rule["otherwise"], f"{place}.otherwise", choices)
    for member in ("false_values", "true_values"):
        if rule.get(member):
            _check_values(rule[member], f"{place}.{member}")
        elif member in rule and rule[member] is not None:
            _SHAPE.items(rule[member], f"{place}.{member}", 0)
    if rule.get("zone") is not None:
        _SHAPE.text(rule["zone"], f"{place}.zone", empty=False)


_PARAMETERS = {
    "tolerance": _check_amounts,
    "numeric_text": _check_amounts,
    "round": _check_places,
    "normalize": _check_steps,
    "null_equals": _check_null_values,
    "read_as": _check_read_as,
}
