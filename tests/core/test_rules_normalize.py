"""Text normalisation under one Unicode version, on every Python."""

from __future__ import annotations

import hashlib
import itertools
import sys
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta_provider.core.rules import assigned
from airflow_delta_provider.core.rules.normalize import WHITE_SPACE, normalized

PINNED = unicodedata.unidata_version == assigned.VERSION


def is_assigned(char):
    return any(lower <= ord(char) < upper for lower, upper in assigned.assigned_runs())


def one(text, *steps, type=None):
    return normalized(pa.array([text], type or pa.string()), steps)[0].as_py()


def test_the_assigned_code_points_are_those_of_the_pinned_version():
    """The table says what version 14.0 assigns; Python 3.11 has that version, a later one assigns these and more."""
    runs = assigned.assigned_runs()
    assert sum(upper - lower for lower, upper in runs) == 284_278
    assert all(first[1] < second[0] for first, second in itertools.pairwise(runs))
    found = {point for lower, upper in runs for point in range(lower, upper)}
    here = {point for point in range(0x110000) if unicodedata.category(chr(point)) != "Cn"}
    assert found == here if PINNED else found < here


def test_the_running_python_agrees_about_everything_that_is_assigned():
    """Later versions of Unicode promise not to change it; this digest is the same on every supported Python."""
    digest = hashlib.sha256()
    for lower, upper in assigned.assigned_runs():
        for point in range(lower, upper):
            text = chr(point)
            if 0xD800 <= point < 0xE000:
                continue
            forms = (unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text), text.casefold())
            digest.update(b"%x;%s;%s;%d;%s\n" % (point, *(form.encode() for form in forms[:2]),
                                                 unicodedata.combining(text), forms[2].encode()))  # fmt: skip
    assert digest.hexdigest() == "b8c89de8a44afb5c41544658dac8dd87847f026c71825d2bf58505efdf741786"


def test_a_decomposed_text_composes_again_to_the_same_on_every_python():
    """Composition pairs must agree too, not only decompositions."""
    digest = hashlib.sha256()
    for lower, upper in assigned.assigned_runs():
        for point in range(lower, upper):
            parts = unicodedata.normalize("NFD", chr(point)) if not 0xD800 <= point < 0xE000 else ""
            if len(parts) > 1:
                digest.update(unicodedata.normalize("NFC", parts).encode() + b"\n")
    assert digest.hexdigest() == "c55036d795bdb487a8291777c16751a134044e61985f7f14c3e7aa491d3e80f8"


@given(st.lists(st.text(max_size=8), max_size=5), st.sampled_from(["nfc", "nfkc", "casefold"]))
def test_where_python_has_the_pinned_version_it_is_the_oracle(texts, step):
    """Cutting a text at code points that are not assigned must change nothing under the version that is pinned.

    A Python with a later version is the oracle for texts of what the pinned one assigns.
    """
    texts = [text for text in texts if PINNED or all(map(is_assigned, text))]
    texts = [text for text in texts if not any(0xD800 <= ord(char) < 0xE000 for char in text)]
    plain = {
        "nfc": lambda text: unicodedata.normalize("NFC", text),
        "nfkc": lambda text: unicodedata.normalize("NFKC", text),
        "casefold": str.casefold,
    }[step]
    assert normalized(pa.array(texts, pa.string()), [step]).to_pylist() == [plain(text) for text in texts]


@pytest.mark.parametrize("newer", ["\u0cf3", "\U0001e030", "\U00011f00", "\U000105c9", "\u0378", "\U0010ffff"])
def test_what_a_later_version_assigned_stays_as_it_is(newer):
    """A Python with Unicode 15 or 16 decomposes, folds or reorders some of these; the result must not depend on it."""
    for step in ("nfc", "nfkc", "casefold"):
        assert one(newer, step) == newer
        assert one(f"a{newer}b", step) == f"a{newer}b"
    assert one(f"e\u0301{newer}\u0323\u0301", "nfc") == f"é{newer}\u0323\u0301"


@pytest.mark.parametrize(
    ("text", "step", "expected"),
    [
        ("\u212b", "nfc", "\u00c5"),
        ("e\u0301", "nfc", "\u00e9"),
        ("ﬁ", "nfc", "ﬁ"),
        ("ﬁ", "nfkc", "fi"),
        ("\u1100\u1161\u11a8", "nfc", "\uac01"),
        ("a\u0323\u0307", "nfc", "\u1ea1\u0307"),
        ("a\u0307\u0323", "nfc", "\u1ea1\u0307"),
        ("\u0958", "nfc", "\u0915\u093c"),
        ("Straße", "casefold", "strasse"),
        ("İ", "casefold", "i\u0307"),
        ("ΑΣ", "casefold", "ας".replace("ς", "σ")),
        ("ABC", "casefold", "abc"),
        ("abc  ", "rstrip_blanks", "abc"),
        ("abc\n", "rstrip_blanks", "abc\n"),
        ("abc \t", "rstrip_blanks", "abc \t"),
        ("abc\u00a0", "rstrip_blanks", "abc\u00a0"),
        ("  abc", "rstrip_blanks", "  abc"),
        ("\u2003 é\u00a0\t", "strip", "é"),
        ("\u200b\ufeffa\x1c", "strip", "\u200b\ufeffa\x1c"),
        ("A1\x00", "nul_as_blank", "A1 "),
        ("\x00\x00", "nul_as_blank", "  "),
    ],
)
def test_each_step_does_just_what_it_says(text, step, expected):
    """A step that does a little more equals what the contract says differs."""
    for type in (pa.string(), pa.large_string()):
        assert one(text, step, type=type) == expected
    assert one(text.encode(), step, type=pa.binary()) == expected.encode()


def test_steps_apply_in_the_order_given():
    """The NUL becomes a blank, and only then is it a trailing one."""
    assert one("a\x00", "nul_as_blank", "rstrip_blanks") == "a"
    assert one("a\x00", "rstrip_blanks", "nul_as_blank") == "a "


def test_null_and_ascii_neighbours_stay_in_their_rows():
    """ASCII rows take a kernel, the others Python."""
    array = pa.array(["ABC", None, "E\u0301", "", "É"])
    assert normalized(array, ["nfc", "casefold"]).to_pylist() == ["abc", None, "é", "", "é"]
    assert normalized(pa.array([], pa.string()), ["nfc"]).to_pylist() == []
    assert normalized(pa.nulls(2, pa.string()), ["nfc", "strip"]).to_pylist() == [None, None]


def test_text_that_is_not_unicode_is_treated_around_what_is_wrong_with_it():
    """Lone surrogates pass as code points; bytes that are not even that are left alone, but for blanks and NUL."""
    array = pa.array([b"\xed\xa0\x80e\xcc\x81", b"\xffe\xcc\x81 \x00", None], pa.binary())
    assert normalized(array, ["nfc"]).to_pylist() == [b"\xed\xa0\x80\xc3\xa9", b"\xffe\xcc\x81 \x00", None]
    assert normalized(array, ["nul_as_blank", "rstrip_blanks"]).to_pylist()[1] == b"\xffe\xcc\x81"


def test_the_white_space_is_that_of_the_unicode_property():
    """Python's own strip also removes U+001C to U+001F, which are none; the set is written out, so it is pinned."""
    assert len(set(WHITE_SPACE)) == len(WHITE_SPACE) == 25
    assert all(char.isspace() for char in WHITE_SPACE)
    others = {chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()} - set(WHITE_SPACE)
    assert others == set("\x1c\x1d\x1e\x1f")
