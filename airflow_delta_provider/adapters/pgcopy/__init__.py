"""PostgreSQL's binary COPY form to Arrow carriers, a block of rows at a time, without Python code for single values."""

from airflow_delta_provider.adapters.pgcopy.block import Block, decode
from airflow_delta_provider.adapters.pgcopy.form import Form, FormError
from airflow_delta_provider.adapters.pgcopy.stream import Copy, LibraryCopy, SocketCopy, open_copy

__all__ = ["Block", "Copy", "Form", "FormError", "LibraryCopy", "SocketCopy", "decode", "open_copy"]
