"""What a request is answered with, the headers that keep it safe, and refusals as answers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import orjson

from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    InputDigestError,
    InputManifestError,
    InputPolicyError,
    KeyTextError,
    SpecValueError,
    StoreMissingError,
    StoreRetiredError,
)
from airflow_delta_provider.report.visible import bare, plain

HTML = "text/html; charset=utf-8"
JSON = "application/json"
CALLERS_FAULT = (InputDigestError, InputManifestError, InputPolicyError, KeyTextError, SpecValueError)
SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Shape: ``body`` is all bytes, or chunks of them for what is large; ``headers`` are beside SAFE_HEADERS."""

    body: bytes | Iterator[bytes]
    media_type: str = HTML
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        """Every header of the answer, the media type among them."""
        policy = page_policy() if self.media_type == HTML else "default-src 'none'; frame-ancestors 'none'; sandbox"
        return {
            **SAFE_HEADERS,
            "Content-Security-Policy": policy,
            "Content-Type": self.media_type,
            **self.headers,
        }


def json_answer(value: Any, status: int = 200) -> Answer:
    """Return a value as JSON."""
    return Answer(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), JSON, status)


def refusal(error: DeltaError, as_json: bool) -> Answer:
    """Return what the caller is told of a refusal: code, sentence and remedy."""
    status = status_of(error)
    if as_json:
        return json_answer({"error": error.document()}, status)
    inner = (
        f'<main><h1>This cannot be shown</h1>\n<p class="bad">{plain(error.message)}</p>\n'
        f'<p>{plain(error.remedy)}</p>\n<p class="soft digest">{error.code}</p></main>\n'
    )
    return page("Not shown", inner, status)


def status_of(error: DeltaError) -> int:
    """Return the status of HTTP that a refusal has."""
    if isinstance(error, StoreMissingError):
        return 404
    if isinstance(error, StoreRetiredError):
        return 410
    if isinstance(error, CALLERS_FAULT):
        return 400
    return 503 if isinstance(error, ConnectError) else 500


def page(title: str, inner: str, status: int = 200) -> Answer:
    """Return a whole page round its inner HTML, style and script in it, so that it needs nothing else."""
    text = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{bare(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">To the content</a>\n{inner}<script>{script()}</script>\n</body>\n</html>\n'
    )
    return Answer(text.encode(), HTML, status)


@cache
def style() -> str:
    """The style of every page: that of the export, and what navigation needs."""
    shared = resources.files("airflow_delta_provider.report") / "page.css"
    return shared.read_text("utf-8") + (resources.files(__package__) / "app.css").read_text("utf-8")


@cache
def script() -> str:
    """The script of every page; each works without it."""
    return (resources.files(__package__) / "app.js").read_text("utf-8")


@cache
def page_policy() -> str:
    """The content security policy of a page: its own style and script, forms to its own origin, frames of its own."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style(), script())]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'self'"
    )
