"""How one column comes in the binary copy form."""

from __future__ import annotations

from dataclasses import dataclass


class FormError(Exception):
    """The bytes of a stream are not what its columns were said to be; the reader turns this into a refusal."""


@dataclass(frozen=True, slots=True)
class Form:
    """``name``: one of the forms that values.py and variables.py list, or ``array`` with the form of its ``item``.

    Units: ``precision`` and ``scale`` decimal digits of ``numeric``, None without declared bounds.
    """

    name: str
    precision: int | None = None
    scale: int | None = None
    item: Form | None = None
