"""The base of every refusal: one class a cause, one code a class."""

from typing import Any, ClassVar

SHOWN_CHARS_MAX = 64


class DeltaError(Exception):
    """Base of every failure raised on purpose. ``code`` is for programs, the text for people.

    ``where`` names the side, column, key or place; it goes into the JSON form of the error.
    """

    code: ClassVar[str] = "DELTA_UNSPECIFIED"
    remedy: ClassVar[str] = ""
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __str__(self) -> str:
        return f"[{self.code}] {self.message} {self.remedy}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.message, self.where)

    def document(self) -> dict[str, str]:
        """Return the form of the error that ``--json`` prints."""
        return {"code": self.code, "message": self.message, "where": self.where, "remedy": self.remedy}


def _revive(kind: type[DeltaError], message: str, where: str) -> DeltaError:
    return kind(message, where=where)


def shown(value: object) -> str:
    """Return a value as an error may show it: at most 64 characters, nothing that moves a cursor."""
    text = value if isinstance(value, str) else str(value)
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"
