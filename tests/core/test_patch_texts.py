"""Parts of record lines are told by the names of members alone, whatever stands in keys, columns and values."""

from __future__ import annotations

import pytest

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.patch_texts import parts_of, values_of

TRAP = ',"id":,"sort_key":,"source_value":,"target_value":"}'
"""Names of members with all that stands round them, as a text or as a column may hold them."""
ID = "ab" * 32


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (
            {"category": "value_diverged", "columns": [TRAP, "b"], "source_value": [TRAP, None], "target_value": ["", TRAP]},
            {"category": "value_diverged", "columns": [TRAP, "b"]},
        ),
        ({"category": "added", "source_value": None, "target_value": [TRAP]}, {"category": "added"}),
        ({"category": "dropped", "source_value": [True, TRAP], "target_value": None}, {"category": "dropped"}),
    ],
    ids=["diverged", "added", "dropped"],
)  # fmt: skip
def test_a_line_is_taken_apart_as_its_json_says(record, kind):
    """A part that begins or ends elsewhere would write another value, or find another row."""
    whole = {**record, "id": ID, "key": [TRAP, "2"], "sort_key": "00ff"}
    parts = parts_of([jsonc.dumps(whole)] * 2)
    assert values_of(parts.keys) == [[TRAP, "2"]] * 2
    assert values_of(parts.sources) == [record["source_value"]] * 2
    assert values_of(parts.targets) == [record["target_value"]] * 2
    assert values_of([text + b"}" for text in parts.kinds]) == [kind] * 2
    assert parts.key_bytes() == [b"\x00\xff"] * 2
    assert parts.ids() == [b'"id":"' + ID.encode() + b'"'] * 2
    assert parts.sort_key_members() == [b'"sort_key":"00ff"'] * 2
    assert (
        values_of([b"{%b}" % text for text in parts.middles])
        == [{"id": ID, "key": [TRAP, "2"], "sort_key": "00ff"}] * 2
    )
