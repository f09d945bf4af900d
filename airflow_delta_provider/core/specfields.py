"""Members of a specification, read exactly: each is checked, and refused by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_delta_provider.core.errors import SpecFieldError, SpecValueError, shown

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def known(form: Mapping[str, Any], names: set[str] | None, where: str) -> None:
    """Refuse members that are not among ``names``. Raises: SpecFieldError."""
    for name in form:
        if not isinstance(name, str) or (names is not None and name not in names):
            place = f"{where}.{name}" if where else str(name)
            raise SpecFieldError(f"unknown field {shown(place)}.", where=place)


def member_map(form: Mapping[str, Any], name: str, names: set[str] | None) -> dict[str, Any]:
    """Return a member that is a map, empty where it is absent."""
    value = form.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SpecValueError(f"{name} is no map.", where=name)
    known(value, names, name)
    return dict(value)


def text_of(form: Mapping[str, Any], name: str) -> str:
    """Return a member that is text."""
    value = form[name]
    if not isinstance(value, str):
        raise SpecValueError(f"{name} is no text.", where=name)
    return value


def version_of(form: Mapping[str, Any], name: str, otherwise: str) -> str:
    """Return a version: text of 1 to 64 bytes, or a whole number."""
    value = form.get(name, otherwise)
    value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= 64:
        raise SpecValueError(f"{name} is no text of 1 to 64 bytes.", where=name)
    return value


def texts_of(form: Mapping[str, Any], name: str, where: str | None = None) -> tuple[str, ...]:
    """Return a list of names, empty where it is absent."""
    where, value = where or name, form.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(part, str) and part for part in value):
        raise SpecValueError(f"{where} is no list of names.", where=where)
    if len(set(value)) != len(value):
        raise SpecValueError(f"{where} names a column twice.", where=where)
    return tuple(value)


def choice_of(form: Mapping[str, Any], name: str, choices: tuple[str, ...], where: str) -> str:
    """Return a member that is one of ``choices``, the first where it is absent."""
    value = form.get(name, choices[0])
    if value not in choices:
        raise SpecValueError(f"{where} is {shown(value)!r}; it takes {', '.join(choices)}.", where=where)
    return str(value)


def int_of(form: Mapping[str, Any], name: str, otherwise: int | None, least: int, most: int, where: str) -> int | None:
    """Return a whole number within bounds, ``otherwise`` where it is absent."""
    value = form.get(name, otherwise)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SpecValueError(f"{where} is {shown(value)!r}; it takes a number from {least} to {most}.", where=where)
    return value


def literals_of(value: Any, where: str) -> tuple[Any, ...] | None:
    """Return a list of key values, None where it is absent."""
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or not value
        or not all(part is None or isinstance(part, str | int) for part in value)
    ):
        raise SpecValueError(f"{where} is no list of key values.", where=where)
    return tuple(value)


def bytes_of(value: Any, where: str) -> int | None:
    """Return a number of bytes: plain, or with a unit such as ``20GiB``."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    match = re.fullmatch(r"([1-9][0-9]{0,15}) ?([A-Za-z]*)", value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise SpecValueError(f"{where} is {shown(value)!r}; it takes bytes, such as 20GiB.", where=where)
    return int(match[1]) * _UNITS[match[2]]


def duration_s(value: Any, where: str) -> float:
    """Return the seconds of an ISO 8601 duration of hours, minutes and seconds."""
    match = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", value) if isinstance(value, str) else None
    if match is None or value == "PT":
        raise SpecValueError(f"{where} is {shown(value)!r}; it takes an ISO 8601 duration, such as PT30S.", where=where)
    return int(match[1] or 0) * 3600 + int(match[2] or 0) * 60 + float(match[3] or 0)
