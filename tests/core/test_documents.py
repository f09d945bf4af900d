"""Documents: exact members, checked values, one code each."""

import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import documents, jsonc
from airflow_delta_provider.core.documents.generation import check_entry, check_pack_row, entry_line
from airflow_delta_provider.core.documents.patch import parse_checkpoint_line, parse_ledger_line
from airflow_delta_provider.core.errors import (
    CheckpointMismatchError,
    ContractError,
    DeltaError,
    DenominatorError,
    FormatError,
    GenerationChainError,
    GenerationContractError,
    KeySensitiveError,
    LedgerMismatchError,
    LimitError,
    ManifestContractError,
    MergeContextError,
    PackIndexError,
    PackLimitError,
    RangeError,
    SchemaError,
    SignSizeError,
    StoreFileError,
    StructureError,
    SummaryError,
)
from airflow_delta_provider.core.signing import dsse, statement
from airflow_delta_provider.core.types import LogicalType

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"
PARSERS = {
    "schema.json": (documents.parse_schema, SchemaError),
    "contract.json": (documents.parse_contract, ContractError),
    "summary.json": (documents.parse_summary, SummaryError),
    "structure.json": (documents.parse_structure, StructureError),
    "manifest.json": (documents.parse_manifest, ManifestContractError),
    "checkpoint.json": (documents.parse_checkpoint, CheckpointMismatchError),
    "ledger.json": (documents.parse_ledger, LedgerMismatchError),
    "sweep/sweep1.generation.json": (documents.parse_generation, GenerationContractError),
}


def changed(name, path, value):
    """Return the example document with the value at a path replaced (or taken out, for ...)."""
    document = json.loads((EXAMPLE / name).read_text())
    at = document
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return jsonc.dumps(document)


@pytest.mark.parametrize("name", PARSERS)
def test_the_worked_example_parses_and_writes_back_the_same(name):
    """What we read is what we would have written."""
    data = (EXAMPLE / name).read_bytes()
    assert jsonc.dumps(PARSERS[name][0](data)) == data


@pytest.mark.parametrize("name", PARSERS)
def test_a_member_more_or_less_is_refused_by_the_document_s_own_code(name):
    """A member that we do not know could change the meaning of those that we do."""
    parse, error = PARSERS[name]
    with pytest.raises(error, match="unknown member 'note'"):
        parse(changed(name, ["note"], "x"))
    for member in json.loads((EXAMPLE / name).read_text()):
        with pytest.raises(error, match=f"lacks '{member}'"):
            parse(changed(name, [member], ...))


@pytest.mark.parametrize("name", PARSERS)
def test_another_version_of_a_format_is_told_from_a_damaged_document(name):
    """The reader of format 1 says that it is too old, not that the evidence is bad."""
    parse, error = PARSERS[name]
    form = json.loads((EXAMPLE / name).read_text())["format"]
    with pytest.raises(FormatError, match=r"\[DELTA_FORMAT\]"):
        parse(changed(name, ["format"], form[:-1] + "2"))
    with pytest.raises(error):
        parse(changed(name, ["format"], "delta-other/1"))
    with pytest.raises(error):
        parse(b"[]")


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("schema.json", ["version"], ""),
        ("schema.json", ["version"], "x" * 65),
        ("schema.json", ["inline_limit"], -1),
        ("schema.json", ["inline_limit"], True),
        ("schema.json", ["key"], []),
        ("schema.json", ["key", 0], ["amount", "int"]),
        ("schema.json", ["key", 0, 1], "json"),
        ("schema.json", ["columns", 0, 1], "money"),
        ("schema.json", ["columns", 0, 1], ["map", "json", "int"]),
        ("schema.json", ["columns", 0], ["amount", "int", "more"]),
        ("summary.json", ["columns", 2, 2], 11),
        ("summary.json", ["rules", 0, 2], -12),
        ("summary.json", ["columns", 1, 0], "amount"),
        ("structure.json", ["findings", 0, "kind"], "renamed"),
        ("structure.json", ["findings", 1, "source_type"], "text"),
        ("structure.json", ["findings", 2, "source_type"], None),
        ("structure.json", ["findings", 0, "target_type"], "decimal(12,2)"),
        ("structure.json", ["findings", 0, "column"], "z"),
        ("manifest.json", ["body", "root"], "00"),
        ("manifest.json", ["body", "records"], -1),
        ("manifest.json", ["categories", "added", "note"], 1),
        ("manifest.json", ["categories", "added", "root"], "A" * 64),
        ("manifest.json", ["key", "types"], ["int"]),
        ("manifest.json", ["key", "columns"], ["id", "id"]),
        ("manifest.json", ["key", "types"], ["int", "json"]),
        ("manifest.json", ["key_range", "lower"], "0"),
        ("manifest.json", ["key_range", "lower"], "AB"),
        ("manifest.json", ["pair", "name"], ""),
        ("manifest.json", ["population", "unchanged"], "995"),
        ("manifest.json", ["population", "source", "rows"], None),
        ("manifest.json", ["sweep"], {"failed": 0, "predecessor": None}),
        ("manifest.json", ["structure", "findings"], 2**53 - 1 + 0.0),
        ("checkpoint.json", ["side"], "source"),
        ("checkpoint.json", ["rule", "name"], "newest"),
        ("checkpoint.json", ["rule", "column"], "seen_at"),
        ("ledger.json", ["outcomes", "applied"], 3),
        ("ledger.json", ["checkpoint"], None),
        ("sweep/sweep1.generation.json", ["hmac_key"], "K 1"),
        ("sweep/sweep1.generation.json", ["pair", "source"], "pg"),
        ("sweep/sweep1.generation.json", ["sweep", "lost"], 0),
    ],
)
def test_a_value_that_the_format_does_not_allow_is_refused(name, path, value):
    """Parsers change nothing that they are given and refuse what they do not know."""
    parse, error = PARSERS[name]
    if isinstance(value, float):
        with pytest.raises(DeltaError, match="DELTA_JSON_DOMAIN"):
            changed(name, path, value)
        return
    with pytest.raises(error):
        parse(changed(name, path, value))


def contract_with(rule):
    return changed("contract.json", ["rules"], [["ratio", [rule]]])


@pytest.mark.parametrize(
    "rule",
    [
        {"rule": "tolerance", "abs": "0.5", "bound": "exclusive", "rel": "0.01"},
        {"rule": "tolerance", "abs": "PT0.001S", "bound": "inclusive", "rel": None},
        {"rule": "round", "mode": "half_up", "places": "-2"},
        {"rule": "precision", "mode": "half_up", "unit": "us"},
        {"rule": "single_precision"},
        {"rule": "date_as_midnight"},
        {"rule": "read_as", "otherwise": "different", "side": "both", "type": "int"},
        {"rule": "read_as", "otherwise": "refuse", "side": "both", "type": ["array", "int"]},
        {
            "rule": "read_as",
            "otherwise": "true",
            "side": "source",
            "type": "bool",
            "false_values": ["N"],
            "true_values": None,
        },
        {"rule": "read_as", "otherwise": "refuse", "side": "target", "type": "bytes", "encoding": "base64"},
        {"rule": "read_as", "otherwise": "refuse", "side": "target", "type": "uuid", "layout": "mixed_endian"},
        {
            "rule": "read_as",
            "otherwise": "refuse",
            "side": "source",
            "type": "timestamp_tz",
            "ambiguous": "first",
            "skipped": "after",
            "zone": "Europe/Rome",
        },
        {"rule": "normalize", "side": "both", "steps": ["nfc", "strip"]},
        {"rule": "null_equals", "values": ["", False, []]},
        {"rule": "null_equals", "values": "zero_date"},
        {"rule": "numeric_text", "abs": None, "rel": "0.1"},
        {"rule": "array_order", "order": "ignored"},
    ],
    ids=lambda rule: rule["rule"],
)
def test_every_rule_of_the_format_is_read(rule):
    """The table of S7, each with its members written out."""
    assert documents.parse_contract(contract_with(rule))["rules"] == [["ratio", [rule]]]


@pytest.mark.parametrize(
    "rule",
    [
        "tolerance",
        {"rule": "fuzzy"},
        {"rule": "tolerance", "abs": "0.5", "bound": "inclusive"},
        {"rule": "tolerance", "abs": "0.50", "bound": "inclusive", "rel": None},
        {"rule": "tolerance", "abs": "-1", "bound": "inclusive", "rel": None},
        {"rule": "tolerance", "abs": None, "bound": "about", "rel": None},
        {"rule": "tolerance", "abs": None, "bound": "inclusive", "rel": "PT1S"},
        {"rule": "numeric_text", "abs": "PT1S", "rel": None},
        {"rule": "round", "mode": "half_even", "places": 2},
        {"rule": "round", "mode": "up", "places": "2"},
        {"rule": "precision", "mode": "truncate", "unit": "ns"},
        {"rule": "single_precision", "side": "both"},
        {"rule": "read_as", "otherwise": "refuse", "side": "both", "type": "money"},
        {"rule": "read_as", "otherwise": "true", "side": "both", "type": "int"},
        {"rule": "read_as", "otherwise": "refuse", "side": "both", "type": "int", "zone": None},
        {"rule": "read_as", "otherwise": "refuse", "side": "both", "type": "uuid"},
        {"rule": "read_as", "otherwise": "refuse", "side": "left", "type": "int"},
        {"rule": "normalize", "side": "both", "steps": []},
        {"rule": "normalize", "side": "both", "steps": ["upper"]},
        {"rule": "null_equals", "values": []},
        {"rule": "null_equals", "values": [None]},
        {"rule": "array_order", "order": "counts"},
    ],
    ids=str,
)
def test_what_is_no_rule_of_the_format_is_refused(rule):
    """A rule that we cannot read may have made unequal values equal."""
    with pytest.raises(ContractError, match=r"\[DELTA_CONTRACT\]"):
        documents.parse_contract(contract_with(rule))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["columns", "exclude"], ["b", "a"]),
        (["columns", "exclude"], ["a", "a"]),
        (["columns", "map"], [["b", "x"], ["a", "y"]]),
        (["columns", "map"], [["a", "x"], ["b", "x"]]),
        (["columns", "names"], "loose"),
        (["detail"], "all"),
        (["filter", "source"], " a = 1"),
        (["filter", "source"], ""),
        (["keys", "nulls"], "skip"),
        (["keys", "duplicates"], "match"),
        (["sensitive"], ["b", "a"]),
        (["rules"], [["ratio", []]]),
        (["rules"], [["ratio", [{"rule": "single_precision"}]]] * 2),
        (["csv"], {"nulls": "sometimes", "trim_header": False, "types": []}),
        (["csv"], {"nulls": ["x"], "trim_header": 0, "types": []}),
        (["csv"], {"nulls": "empty", "trim_header": False, "types": [["a", "money"]]}),
    ],
    ids=str,
)
def test_a_contract_has_one_form(path, value):
    """Two contracts that mean the same have the same digest, so lists are sorted and nothing comes twice."""
    with pytest.raises(ContractError):
        documents.parse_contract(changed("contract.json", path, value))


def test_a_contract_with_csv_options_is_read():
    """What decides how a CSV cell is read is part of what was compared."""
    csv = {"nulls": ["", "NULL"], "trim_header": True, "types": [["amt", "decimal"]]}
    assert documents.parse_contract(changed("contract.json", ["csv"], csv))["csv"] == csv


SCHEMA = documents.parse_schema((EXAMPLE / "schema.json").read_bytes())


@pytest.mark.parametrize(
    ("rules", "sweep"),
    [
        ([["nosuch", [{"rule": "single_precision"}]]], False),
        ([["ratio", [{"rule": "single_precision"}]], ["seen_at", [{"rule": "single_precision"}]]], False),
        ([["id", [{"mode": "half_up", "places": "0", "rule": "round"}]]], False),
        ([["ratio", [{"abs": "1", "bound": "inclusive", "rel": None, "rule": "tolerance"}]]], True),
    ],
    ids=["unknown column", "out of order", "on a key", "two values in a sweep"],
)
def test_rules_that_do_not_fit_the_schema_are_refused(rules, sweep):
    """Each could change a verdict without a trace in the summary."""
    contract = documents.parse_contract(changed("contract.json", ["rules"], rules))
    with pytest.raises(ContractError):
        documents.check_contract_fits(contract, SCHEMA, sweep=sweep)


def test_a_key_column_cannot_be_sensitive():
    """Keys stand in clear, so the promise could not be kept."""
    contract = documents.parse_contract(changed("contract.json", ["sensitive"], ["id"]))
    with pytest.raises(KeySensitiveError, match=r"\[DELTA_KEY_SENSITIVE\]"):
        documents.check_contract_fits(contract, SCHEMA)


def test_a_summary_has_a_row_for_each_column_and_rule():
    """A rule without a row would hide what it made equal."""
    contract = documents.parse_contract((EXAMPLE / "contract.json").read_bytes())
    summary = documents.parse_summary((EXAMPLE / "summary.json").read_bytes())
    documents.check_summary_fits(summary, SCHEMA, contract)
    with pytest.raises(SummaryError, match="columns"):
        documents.check_summary_fits({**summary, "columns": summary["columns"][1:]}, SCHEMA, contract)
    with pytest.raises(SummaryError, match="rules"):
        documents.check_summary_fits({**summary, "rules": summary["rules"][1:]}, SCHEMA, contract)
    with pytest.raises(SummaryError):
        documents.check_summary_fits(summary, SCHEMA, contract, sweep=True)


def test_summaries_of_shards_add_up_to_the_whole():
    """The three shards of the worked example give its summary, byte for byte."""
    shards = [documents.parse_summary((EXAMPLE / f"shard{n}.summary.json").read_bytes()) for n in (2, 0, 1)]
    assert jsonc.dumps(documents.add_summaries(shards)) == (EXAMPLE / "summary.json").read_bytes()
    with pytest.raises(MergeContextError, match=r"\[DELTA_MERGE_CONTEXT\]"):
        documents.add_summaries([shards[0], {**shards[1], "rules": []}])
    with pytest.raises(MergeContextError):
        documents.add_summaries([])


@pytest.mark.parametrize("bounds", [("20", "20"), ("21", "20"), (None, "")])
def test_a_range_that_holds_no_key_is_refused(bounds):
    """An empty shard would tile the key space without covering anything."""
    data = changed("manifest.json", ["key_range"], {"lower": bounds[0], "upper": bounds[1]})
    with pytest.raises(RangeError, match=r"\[DELTA_RANGE\]"):
        documents.parse_manifest(data)


@pytest.mark.parametrize(
    "path",
    [["population", "source", "rows"], ["population", "unchanged"], ["categories", "added", "records"]],
    ids=".".join,
)
def test_a_row_that_landed_nowhere_is_refused(path):
    """Every row read lands somewhere, on both sides."""
    with pytest.raises(DenominatorError, match=r"\[DELTA_DENOMINATOR\]"):
        documents.check_population(documents.parse_manifest(changed("manifest.json", path, 7)))


PAIR = {"name": "n" * 64, "source": "s" * 255, "target": "t" * 255}


@pytest.mark.parametrize(
    ("pair", "version", "columns", "bounds"),
    [
        ({"name": "n" * 65}, "v", ["id"], (None, None)),
        ({"source": "é" * 128}, "v", ["id"], (None, None)),
        ({"target": '"' * 128}, "v", ["id"], (None, None)),
        ({}, "v" * 65, ["id"], (None, None)),
        ({}, "v", ["c" * 501], (None, None)),
        ({}, "v", ["id"], (b"x" * 201, None)),
        ({}, "v", ["id"], (None, b"x" * 201)),
    ],
    ids=["name", "source in bytes", "target as JSON", "version", "key", "lower", "upper"],
)
def test_a_text_that_no_signed_manifest_could_hold_is_refused(pair, version, columns, bounds):
    """Key services sign 4,096 bytes at most; better to know before a row is read."""
    with pytest.raises(SignSizeError, match=r"\[DELTA_SIGN_SIZE\]"):
        documents.check_sign_limits({**PAIR, **pair}, {"schema": version}, columns, ["text"], bounds)


def test_every_text_at_its_limit_still_fits():
    """JSON of one column name with 500 letters and of its type take 512 bytes."""
    documents.check_sign_limits(PAIR, {"schema": "v" * 64}, ["c" * 500], ["text"], (b"x" * 200, b"y" * 200))


def test_the_longest_manifest_can_be_signed():
    """A sweep with every integer and every text at its limit: 4,096 bytes are possible."""
    manifest = json.loads((EXAMPLE / "sweep" / "sweep1.manifest.json").read_text())

    def fill(value):
        if isinstance(value, dict):
            return {name: fill(one) for name, one in value.items()}
        return 2**53 - 1 if isinstance(value, int) else value

    manifest = fill(manifest)
    manifest["pair"] = PAIR
    manifest["schema"]["version"] = manifest["contract"]["version"] = "v" * 64
    manifest["key"] = {"columns": ["c" * 500], "types": ["text"]}
    manifest["key_range"] = {"lower": "00" * 200, "upper": "01" * 200}
    manifest["sweep"]["predecessor"] = "0" * 64
    payload = statement.statement_bytes(jsonc.dumps(manifest))
    assert len(jsonc.dumps(["c" * 500])) + len(jsonc.dumps(["text"])) == 512
    assert len(dsse.pae(statement.PAYLOAD_TYPE, payload)) + 128 - len("https://delta-manifest.example/v1") == 3906


def test_a_schema_of_too_many_columns_is_refused():
    """Whatever a table or a store says, the work for a record has a limit."""
    key = [("id", LogicalType("int", bits=64))]
    columns = [(f"c{number}", LogicalType("text")) for number in range(10_000)]
    assert len(documents.parse_schema(documents.build_schema("v", key, columns[:-1]))["columns"]) == 9_999
    with pytest.raises(LimitError, match=r"\[DELTA_LIMIT\] The schema has 10001 columns; 10000 is the limit."):
        documents.build_schema("v", key, columns)


def test_a_planned_bound_is_cut_to_what_fits():
    """Its first 200 bytes are still a bound."""
    assert documents.cut_bound(b"ab" * 150) == b"ab" * 100


def test_a_schema_is_built_as_the_worked_example():
    """222 bytes, known by heart."""
    key = [("id", LogicalType("int", bits=64)), ("country", LogicalType("text"))]
    kinds = [
        ("amount", "decimal"),
        ("name", "text"),
        ("seen_at", "timestamp_tz"),
        ("ratio", "float64"),
        ("blob", "bytes"),
    ]
    columns = [(name, LogicalType(kind)) for name, kind in kinds]
    assert documents.build_schema("orders@7", key, columns) == (EXAMPLE / "schema.json").read_bytes()


def test_a_structure_is_sorted_by_the_builder():
    """Findings come in the order of columns; the document has one order."""
    findings = [
        ("legacy_flag", "column_dropped", "bool", None),
        ("channel", "column_added", None, "text(20)"),
        ("amount", "type_changed", "decimal(12,2)", "decimal(14,4)"),
    ]
    assert documents.build_structure(findings) == (EXAMPLE / "structure.json").read_bytes()


def test_builders_of_the_other_documents_give_the_worked_example():
    """Members in any order, the same bytes."""
    contract = json.loads((EXAMPLE / "contract.json").read_text())
    del contract["format"]
    assert documents.build_contract(contract) == (EXAMPLE / "contract.json").read_bytes()
    summary = json.loads((EXAMPLE / "summary.json").read_text())
    assert documents.build_summary(summary["columns"], summary["rules"]) == (EXAMPLE / "summary.json").read_bytes()
    point = json.loads((EXAMPLE / "checkpoint.json").read_text())
    built = documents.build_checkpoint(
        point["body"], point["manifest"], point["patch_id"], ("source_authoritative", None), point["schema"], "target"
    )
    assert built == (EXAMPLE / "checkpoint.json").read_bytes()
    ledger = json.loads((EXAMPLE / "ledger.json").read_text())
    built = documents.build_ledger(
        ledger["body"], ledger["checkpoint"], ledger["manifest"], {"applied": 4}, ledger["patch_id"]
    )
    assert built == (EXAMPLE / "ledger.json").read_bytes()


def test_a_pair_is_named_by_its_document():
    """The id is a path in the store, so it is a digest, never a name."""
    pair = {"name": "orders", "source": "pg:shop.orders", "target": "wh:shop.orders"}
    data = b'{"name":"orders","source":"pg:shop.orders","target":"wh:shop.orders"}'
    assert documents.pair_bytes(**pair) == data
    assert documents.parse_pair(data) == pair
    assert len(documents.pair_id(**pair)) == 32
    with pytest.raises(StoreFileError):
        documents.parse_pair(b'{"name":"orders"}')


def test_a_generation_knows_whether_it_is_the_first():
    """A first generation that names a predecessor, or a later one that names none, is no chain."""
    name = "sweep/sweep1.generation.json"
    with pytest.raises(GenerationChainError, match=r"\[DELTA_GENERATION_CHAIN\]"):
        documents.parse_generation(changed(name, ["predecessor"], None))
    with pytest.raises(GenerationChainError):
        documents.parse_generation(changed(name, ["generation"], 0))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["sweep", "read"], 7),
        (["dispositions", "present"], 3),
        (["dispositions", "failed"], 2),
        (["dispositions", "absent"], 2),
        (["sweep", "skipped"], 2),
    ],
    ids=str,
)
def test_sums_of_a_generation_are_checked(path, value):
    """A sweep accounts for every record read."""
    with pytest.raises(DenominatorError, match=r"\[DELTA_DENOMINATOR\]"):
        documents.check_sweep_sums(documents.parse_generation(changed("sweep/sweep1.generation.json", path, value)))


def test_entry_lines_are_built_as_the_worked_sweep():
    """Line 2 of sweep 1: B2 changed."""
    lines = (EXAMPLE / "sweep" / "sweep1.pack0.jsonl").read_bytes().splitlines()
    head = json.loads(lines[1])["head"]
    built = entry_line(
        "present", (2, head["row_digest"], head["previous"]), b'["B2"]', None, bytes.fromhex("7842320001")
    )
    assert built == lines[1]
    assert [check_entry(json.loads(line))["disposition"] for line in lines] == [
        "present",
        "present",
        "absent",
        "failed",
        "skipped",
        "present",
        "present",
    ]


ENTRY = {
    "disposition": "present",
    "head": {"previous": None, "row_digest": "aa" * 32, "version": 1},
    "key": ["A"],
    "reason": None,
    "sort_key": "78410001",
}


@pytest.mark.parametrize(
    "change",
    [
        {"disposition": "new"},
        {"disposition": "skipped"},
        {"disposition": "skipped", "reason": "DELTA_VALUE_RANGE"},
        {"disposition": "failed", "reason": "DELTA_ROW_FILTERED"},
        {"reason": "DELTA_ROW_FILTERED"},
        {"head": {"previous": None, "row_digest": None, "version": 0}},
        {"head": {"previous": None, "row_digest": None, "version": 1}},
        {"head": {"previous": "bb" * 32, "row_digest": "aa" * 32, "version": 1}},
        {"head": {"previous": None, "row_digest": "aa" * 32, "version": 2}},
        {"head": {"previous": "aa" * 32, "row_digest": "aa" * 32, "version": 2}},
        {"sort_key": "7"},
        {"key": "A"},
    ],
    ids=str,
)
def test_an_entry_that_cannot_have_come_from_a_sweep_is_refused(change):
    """Disposition, reason, version and digests go together."""
    with pytest.raises(GenerationContractError, match=r"\[DELTA_GENERATION_CONTRACT\]"):
        check_entry({**ENTRY, **change})


def test_a_pack_row_states_a_size_that_a_pack_may_have():
    """A reader holds one pack, so its size is bounded."""
    row = {"bytes": 643, "first": "7841310001", "nodes": ["aa" * 32], "records": 3, "sha256": "bb" * 32}
    assert check_pack_row(row, "pack 0") == row
    with pytest.raises(PackLimitError, match=r"\[DELTA_PACK_LIMIT\]"):
        check_pack_row({**row, "records": 16385}, "pack 0")
    with pytest.raises(PackLimitError):
        check_pack_row({**row, "bytes": 8 * 2**20 + 1}, "pack 0")
    with pytest.raises(PackIndexError, match=r"\[DELTA_PACK_INDEX\]"):
        check_pack_row({**row, "nodes": ["aa"]}, "pack 0")


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"op": "none", "outcome": "already"}, True),
        ({"op": "none", "outcome": "conflict", "reason": "DELTA_PATCH_CONFLICT"}, True),
        ({"op": "none", "outcome": "skipped", "reason": "DELTA_PATCH_TIE"}, True),
        ({"op": "none"}, False),
        ({"reason": "DELTA_PATCH_TIE"}, False),
        ({"outcome": "skipped", "reason": "DELTA_PATCH_TIE"}, False),
        ({"op": "none", "outcome": "conflict", "reason": None}, False),
        ({"op": "upsert"}, False),
        ({"more": 1}, False),
    ],
    ids=str,
)
def test_what_became_of_a_record_is_one_of_the_defined_outcomes(change, good):
    """A rollback acts on these lines, so none may be ambiguous."""
    line = {"id": "aa" * 32, "op": "insert", "outcome": "applied", "reason": None, "sort_key": "2020", **change}
    if good:
        assert parse_ledger_line(jsonc.dumps(line)) == line
    else:
        with pytest.raises(LedgerMismatchError, match=r"\[DELTA_LEDGER_MISMATCH\]"):
            parse_ledger_line(jsonc.dumps(line))


def test_checkpoint_lines_are_those_of_the_worked_example_and_nothing_else():
    """A row that was absent has null before."""
    lines = (EXAMPLE / "checkpoint.body.jsonl").read_bytes().splitlines()
    assert [parse_checkpoint_line(line)["before"] is None for line in lines] == [True, False, False, False]
    for bad in (b"{}", lines[0][:-1], lines[0].replace(b'"before":null', b'"before":"x"')):
        with pytest.raises(CheckpointMismatchError, match=r"\[DELTA_CHECKPOINT_MISMATCH\]"):
            parse_checkpoint_line(bad)
