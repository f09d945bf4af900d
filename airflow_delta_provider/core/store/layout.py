"""Names inside a store: the only paths that exist, made of digests, zero-padded integers and constants."""

import re

from airflow_delta_provider.core.errors import InputDigestError, StoreFileError

FORMAT_PATH = "format"
FORMAT_BYTES = b"delta-store/1\n"
SEQ_MAX = 2**53 - 1
SEQ_DIGITS = 20
SLOT_KINDS = ("checkpoint", "generation", "restore", "run", "surroundings")

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SHORT = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PATHS = re.compile(
    r"format"
    r"|blobs/sha256/(?P<first>[0-9a-f]{2})/(?P<second>[0-9a-f]{2})/(?P<digest>[0-9a-f]{64})"
    r"|pairs/[0-9a-f]{32}/pair\.json"
    r"|pairs/[0-9a-f]{32}/(log|anchors)/[0-9]{20}\.json"
    rf"|pairs/[0-9a-f]{{32}}/slots/({'|'.join(SLOT_KINDS)})/[0-9a-f]{{64}}\.json"
    r"|work/[0-9a-f]{32}/[0-9a-f]{64}"
    r"|probe/[0-9a-f]{32}",
    re.ASCII,
)
_WORK_PREFIX = re.compile(r"work/[0-9a-f]{32}(/[0-9a-f]{64})?", re.ASCII)


def checked_path(path: str) -> str:
    """Return ``path`` where the layout of the store knows it.

    Raises: StoreFileError (DELTA_STORE_FILE) for any other text: ``..``, upper case, names, empty parts.
    """
    match = _PATHS.fullmatch(path)
    if match and (match["digest"] is None or match["digest"].startswith(match["first"] + match["second"])):
        return path
    raise StoreFileError(f"{path[:128]!r} is no path of a store.", where=path[:128])


def checked_work_prefix(prefix: str) -> str:
    """Return ``prefix`` where it names one work folder or one file in it, the only things that may be removed.

    Raises: StoreFileError (DELTA_STORE_FILE) for any other text.
    """
    if _WORK_PREFIX.fullmatch(prefix):
        return prefix
    raise StoreFileError(f"{prefix[:128]!r} is not below work/, so nothing is removed.", where=prefix[:128])


def checked_digest(digest_hex: str) -> str:
    """Return ``digest_hex`` where it is 64 lower-case hex digits.

    Raises: InputDigestError (DELTA_INPUT_DIGEST).
    """
    if isinstance(digest_hex, str) and _DIGEST.fullmatch(digest_hex):
        return digest_hex
    raise InputDigestError(f"{str(digest_hex)[:80]!r} is no digest of 64 lower-case hex digits.")


def is_digest(value: object) -> bool:
    """Tell whether a value is the text of a digest, 64 lower-case hex digits."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_pair_id(value: object) -> bool:
    """Tell whether a value is the text of a pair id, 32 lower-case hex digits."""
    return isinstance(value, str) and _SHORT.fullmatch(value) is not None


def blob_path(digest_hex: str) -> str:
    """Return where a blob lies, by its digest."""
    checked_digest(digest_hex)
    return f"blobs/sha256/{digest_hex[:2]}/{digest_hex[2:4]}/{digest_hex}"


def pair_path(pair_id: str) -> str:
    """Return where the name, source and target of a pair lie."""
    return f"pairs/{_short(pair_id)}/pair.json"


def log_path(pair_id: str, seq: int) -> str:
    """Return where the log entry with this number lies."""
    return f"pairs/{_short(pair_id)}/log/{_padded(seq)}.json"


def anchor_path(pair_id: str, size: int) -> str:
    """Return where the anchor over the first ``size`` log entries lies."""
    return f"pairs/{_short(pair_id)}/anchors/{_padded(size)}.json"


def slot_path(pair_id: str, kind: str, digest_hex: str) -> str:
    """Return where a write-once pointer lies."""
    if kind not in SLOT_KINDS:
        raise StoreFileError(f"{kind!r} is no kind of slot; these are: {', '.join(SLOT_KINDS)}.")
    return f"pairs/{_short(pair_id)}/slots/{kind}/{checked_digest(digest_hex)}.json"


def work_folder(slot_hex: str) -> str:
    """Return the folder of one unfinished run, by the digest of its run slot."""
    return f"work/{checked_digest(slot_hex)[:32]}"


def work_path(slot_hex: str, digest_hex: str) -> str:
    """Return where an artifact of an unfinished run lies."""
    return f"{work_folder(slot_hex)}/{checked_digest(digest_hex)}"


def probe_path(random_hex: str) -> str:
    """Return where a write-once probe lies; ``random_hex`` is 32 hex digits."""
    return f"probe/{_short(random_hex)}"


def _short(text: str) -> str:
    if not is_pair_id(text):
        raise StoreFileError(f"{str(text)[:80]!r} is no id of 32 lower-case hex digits.")
    return text


def _padded(number: int) -> str:
    if not 0 <= number <= SEQ_MAX:
        raise StoreFileError(f"{number} is no log number.")
    return f"{number:0{SEQ_DIGITS}d}"
