"""From recorded values to stored ones: exact or refused."""

import pytest

from airflow_delta_provider.core.errors import ValueLossyError
from airflow_delta_provider.core.patch_values import reads_otherwise, recorded_as, stored_key, stored_value, within
from airflow_delta_provider.core.types import LogicalType

INT, DECIMAL, FLOAT, SINGLE, TEXT = (LogicalType(kind) for kind in ("int", "decimal", "float64", "float32", "text"))
ROME = {"rule": "read_as", "type": "timestamp_tz", "zone": "Europe/Rome", "ambiguous": "first", "skipped": "after",
        "otherwise": "refuse", "side": "target"}  # fmt: skip


def read(kind, **more):
    return {"rule": "read_as", "type": kind, "otherwise": "refuse", "side": "target", **more}


@pytest.mark.parametrize(
    ("value", "schema", "stored", "held"),
    [
        (None, DECIMAL, INT, None),
        ("12", DECIMAL, INT, "12"),
        ("0.5", DECIMAL, FLOAT, "0.5"),
        ("0.1000000000000000055511151231257827021181583404541015625", DECIMAL, FLOAT, "0.1"),
        ("0.5", FLOAT, SINGLE, "0.5"),
        ("NaN", DECIMAL, FLOAT, "NaN"),
        (["1", None], LogicalType("array", item=DECIMAL), LogicalType("array", item=INT), ["1", None]),
    ],
)
def test_a_narrower_column_takes_what_it_holds_exactly(value, schema, stored, held):
    """The pair's type is the wider one; the written column may be the narrower."""
    assert stored_value(value, schema, stored, (), "target") == held


@pytest.mark.parametrize(
    ("value", "schema", "stored"),
    [
        ("1.5", DECIMAL, INT),
        ("NaN", DECIMAL, INT),
        ("0.1", DECIMAL, FLOAT),
        ("0.1", FLOAT, SINGLE),
        ("70000", INT, LogicalType("int", bits=16)),
        ("-1", INT, LogicalType("int", bits=16, unsigned=True)),
        ("1.25", DECIMAL, LogicalType("decimal", precision=5, scale=1)),
        ("12345", DECIMAL, LogicalType("decimal", precision=5, scale=1)),
        ("abcd", TEXT, LogicalType("text", length=3)),
        ("000102", LogicalType("bytes"), LogicalType("bytes", length=2)),
        ("2024-01-01T00:00:00.5", LogicalType("timestamp"), LogicalType("timestamp", digits=0)),
        ("a", TEXT, INT),
    ],
)
def test_what_a_column_would_round_or_cut_is_refused(value, schema, stored):
    """Losing a digit in silence is how repair tools damage data."""
    with pytest.raises(ValueLossyError):
        stored_value(value, schema, stored, (), "target")


@pytest.mark.parametrize(
    ("value", "schema", "stored", "rule", "held"),
    [
        (True, LogicalType("bool"), TEXT, read("bool", true_values=["Y"], false_values=["N"]), "Y"),
        (False, LogicalType("bool"), TEXT, read("bool", true_values=["Y"], false_values=["N"]), "N"),
        (True, LogicalType("bool"), INT, read("bool", true_values=["1"], false_values=["0"]), "1"),
        ("5", INT, TEXT, read("int"), "5"),
        ("00ff", LogicalType("bytes"), TEXT, read("bytes", encoding="base64"), "AP8="),
        ("2024-07-01T10:00:00Z", LogicalType("timestamp_tz"), LogicalType("timestamp"), ROME, "2024-07-01T12:00:00"),
        ("2024-01-01", LogicalType("date"), LogicalType("timestamp"), read("date"), "2024-01-01T00:00:00"),
        (
            "33221100-5544-7766-8899-aabbccddeeff",
            LogicalType("uuid"),
            LogicalType("bytes"),
            read("uuid", layout="mixed_endian"),
            "00112233445566778899aabbccddeeff",
        ),
        ({"unparsed": "??"}, INT, TEXT, read("int", otherwise="different"), "??"),
        ('{"a":1}', LogicalType("json"), LogicalType("json_text"), read("json"), '{"a":1}'),
    ],
)
def test_a_value_behind_a_rule_is_stored_so_that_it_reads_right(value, schema, stored, rule, held):
    """The rule's own reading is the judge: what is written reads as exactly the recorded value."""
    assert reads_otherwise([rule], stored, schema)
    assert stored_value(value, schema, stored, [rule], "target") == held
    assert recorded_as(held, schema, stored, [rule], "target") == value


def test_a_value_that_no_text_reads_as_is_refused():
    """A normalised text has no capital letters; nothing that is stored is read with one."""
    fold = {"rule": "normalize", "steps": ["casefold"], "side": "target"}
    assert stored_value("ada", TEXT, TEXT, [fold], "target") == "ada"
    with pytest.raises(ValueLossyError):
        stored_value("Ada", TEXT, TEXT, [fold], "target")


def test_keys_go_through_all_their_rules():
    """A key is found by what the side holds; a new one is spelled so that it reads as the key."""
    fold = {"rule": "normalize", "steps": ["casefold"], "side": "both"}
    assert stored_key("ada", TEXT, TEXT, [fold], "target") == "ada"
    assert stored_key("7", DECIMAL, INT, (), "target") == "7"
    with pytest.raises(ValueLossyError):
        stored_key("Ada", TEXT, TEXT, [fold], "target")


def test_a_value_that_is_none_of_its_type_is_refused():
    """The check comes before any driver sees it."""
    with pytest.raises(ValueLossyError):
        within("x", INT)
    assert within("x", TEXT) == "x"
