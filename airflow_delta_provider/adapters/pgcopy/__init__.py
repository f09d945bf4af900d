"""PostgreSQL's binary COPY form to Arrow carriers, a block of rows at a time, without Python code for single values."""

from airflow_delta_provider.adapters.pgcopy.block import Block, decode, decode_heads, decode_tails
from airflow_delta_provider.adapters.pgcopy.form import Form, FormError
from airflow_delta_provider.adapters.pgcopy.stream import Copy, LibraryCopy, SocketCopy, open_copy
from airflow_delta_provider.adapters.pgcopy.values import CarrierClashError

__all__ = [
    "Block",
    "CarrierClashError",
    "Copy",
    "Form",
    "FormError",
    "LibraryCopy",
    "SocketCopy",
    "decode",
    "decode_heads",
    "decode_tails",
    "open_copy",
]
