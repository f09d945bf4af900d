"""Signed requests to an S3-compatible server, for what our own client never does: making buckets, locking, deleting."""

from __future__ import annotations

import hashlib
import hmac
import http.client
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

REGION = "us-east-1"


def request(
    endpoint: str,
    keys: tuple[str, str],
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> tuple[int, bytes]:
    """Send one request under AWS Signature Version 4 and return its status and body."""
    host, moment = urlsplit(endpoint).netloc, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    asked = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted((query or {}).items()))
    payload = hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": moment}
    signed |= {name.lower(): value for name, value in (headers or {}).items()}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
    canonical = "\n".join([method, quote(path, safe="/"), asked, lines, names, payload])
    scope = f"{moment[:8]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys[1]}".encode()
    for part in (moment[:8], REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys[0]}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, quote(path, safe="/") + (f"?{asked}" if asked else ""), body, signed)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
