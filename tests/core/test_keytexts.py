"""Keys as records show them, many at once."""

import pytest

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import KeyEncodingError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.keytexts import key_texts
from airflow_delta_provider.core.types import LogicalType

INT, TEXT, UUID, DATE = (LogicalType(kind) for kind in ("int", "text", "uuid", "date"))
NUMBERS = ["-9223372036854775809", "-256", "-255", "-1", "0", "1", "255", "256", str(2**127)]
SEVEN, NAME = encode_key(["7"], [INT]), encode_key(["ab"], [TEXT])


@pytest.mark.parametrize("number", [*NUMBERS, None])
def test_whole_numbers_are_shown_exactly(number):
    """The quick way gives the text of any number that can be a key, and null for none."""
    assert key_texts([INT])(encode_key([number], [INT])) == (b"[null]" if number is None else b'["%a"]' % int(number))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", b'[""]'),
        ("plain", b'["plain"]'),
        ("Zoë 😀\x7f\u2028", '["Zoë 😀\x7f\u2028"]'.encode()),
        ('a"b\\', b'["a\\"b\\\\"]'),
        ("\x00\x01\n", b'["\\u0000\\u0001\\n"]'),
        ("ends with \x00", b'["ends with \\u0000"]'),
    ],
)
def test_texts_are_escaped_as_canonical_json_asks(text, shown):
    """Only quotes, backslashes and controls are escaped; a zero byte is one of the text, not its end."""
    assert key_texts([TEXT])(encode_key([text], [TEXT])) == shown


@pytest.mark.parametrize(
    ("key", "types"),
    [
        (["5", "a"], [INT, TEXT]),
        (["a", "-5", "b"], [TEXT, INT, TEXT]),
        ([None, "x\x00"], [INT, TEXT]),
        (["00112233-4455-6677-8899-aabbccddeeff", "0"], [UUID, INT]),
        (["2024-02-29", "1"], [DATE, INT]),
    ],
)
def test_several_columns_stand_in_their_order(key, types):
    """Each component ends where the next begins, also where one of them takes the long way."""
    assert key_texts(types)(encode_key(key, types)) == jsonc.dumps(key)


@pytest.mark.parametrize(
    ("damaged", "types"),
    [
        (b"", [INT]),
        (SEVEN[:1], [INT]),
        (SEVEN[:2], [INT]),
        (SEVEN + b"\x00", [INT]),
        (b"\x01" + SEVEN[1:], [INT]),
        (SEVEN[:1] + b"\x22\x00\x07", [INT]),
        (SEVEN[:1] + b"\x1e\xff\xf8", [INT]),
        (SEVEN[:1] + b"\x31" + b"\x01" * 17, [INT]),
        (NAME[:-1], [TEXT]),
        (NAME[:-2], [TEXT]),
        (NAME + NAME, [TEXT]),
        (NAME, [TEXT, TEXT]),
        (b"\x78\xff\x00\x01", [TEXT]),
        (b"\x70ab\x00\x01", [TEXT]),
        (b"\x60" + bytes(15), [UUID]),
    ],
)
def test_a_damaged_key_is_refused(damaged, types):
    """What does not encode back to itself is no key: a record must not show another one, nor one twice."""
    with pytest.raises(KeyEncodingError):
        key_texts(types)(damaged)
