"""A small sweep in memory for tests: entries, packs, delta body, manifest and header, for one key range."""

import hashlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path

from airflow_delta_provider.core import body, generation, generations, ids, jsonc, manifest, packs
from airflow_delta_provider.core.keys import decode_key, encode_key
from airflow_delta_provider.core.types import LogicalType

SWEEP = Path(__file__).resolve().parent / "vectors" / "example" / "sweep"
TEXT = [LogicalType("text")]
SCHEMA_VERSION = "stock@1"
FIRST_ROWS = {
    "A1": ["5", "1.5"],
    "B2": ["7", "2"],
    "C3": ["1", "9.99"],
    "D4": ["0", "3.1"],
    "E5": ["12", "4"],
    "F6": ["3", "0.5"],
}
"""What the first worked sweep reads."""


def sha(data):
    return hashlib.sha256(data).hexdigest()


def sort_key(name):
    return encode_key([name], TEXT)


def key_json(key):
    return jsonc.dumps(decode_key(key, TEXT))


class Store:
    """Artifacts by digest."""

    def __init__(self):
        self.blobs = {}

    def put(self, data):
        self.blobs[sha(data)] = data
        return sha(data)

    def read(self, digest_hex):
        return self.blobs[digest_hex]

    def open(self, digest_hex):
        return io.BytesIO(self.blobs[digest_hex])


@dataclass
class Swept:
    """One generation: everything that a sweep of one key range gives."""

    header: bytes
    index: bytes
    manifest: bytes
    summary: bytes
    body: bytes
    packs: list[bytes] = field(default_factory=list)

    @property
    def header_id(self):
        return sha(self.header)

    @property
    def document(self):
        return json.loads(self.header)

    @property
    def indexed(self):
        from airflow_delta_provider.core.verify_generation import IndexedGeneration

        return IndexedGeneration(self.header_id, self.index)


def seen(rows, key_range=(None, None)):
    """Return what a sweep sees: ``rows`` maps a name to a row, or to (outcome, rows or reason)."""
    found = []
    lower, upper = key_range
    for name in sorted(rows, key=sort_key):
        key, value = sort_key(name), rows[name]
        if (lower is not None and key < lower) or (upper is not None and key >= upper):
            continue
        if isinstance(value, list):
            row = jsonc.dumps(value)
            found.append(generation.Seen(key, generation.ROW, ids.row_digest(SCHEMA_VERSION, key, row), row))
        elif value[0] == generation.REFUSED:
            found.append(generation.Seen(key, generation.REFUSED, reason=value[1]))
        else:
            found.append(generation.Seen(key, value[0], rows=value[1]))
    return found


def sweep(store, previous, rows, key_range=(None, None)):
    """Sweep one key range against the previous generation (None: the first) and store everything."""
    entries = iter(())
    if previous is not None:
        index = packs.read_pack_index(previous.index, previous.document["body"])
        entries = packs.read_entries(index, store.read, key_range)
    tally, out, cut = generation.Tally(), io.BytesIO(), []
    writer, records = packs.PackWriter(cut.append), body.BodyWriter(out, key_range)
    for step in generation.classify(entries, seen(rows, key_range), key_json, tally):
        writer.add(step.entry.sort_key, step.entry.line)
        if step.change is not None:
            lines = generation.change_lines(SCHEMA_VERSION, [step.change])
            records.write(lines, [step.change.sort_key], [step.change.category])
    documents = {name: (SWEEP / f"{name}.json").read_bytes() for name in ("schema", "contract", "structure", "summary")}
    context = manifest.Context(
        pair={"name": "stock", "source": "delta-generation", "target": "wh:shop.stock"},
        key_columns=["sku"],
        key_types=["text"],
        contract=(store.put(documents["contract"]), "stock-contract@1"),
        schema=(store.put(documents["schema"]), SCHEMA_VERSION),
        structure=(store.put(documents["structure"]), 0),
    )
    predecessor = None if previous is None else previous.header_id
    swept = {"failed": tally.counts["failed"], "predecessor": predecessor}
    summary = store.put(documents["summary"])
    made = manifest.build_manifest(context, key_range, records.close(), tally.population(), summary, swept)
    number = 0 if previous is None else previous.document["generation"] + 1
    block = writer.close()
    header = generations.generation_header(json.loads(made), store.put(made), block, tally, number, None)
    for data in (*cut, out.getvalue(), header):
        store.put(data)
    return Swept(header, packs.index_bytes(writer.rows), made, documents["summary"], out.getvalue(), cut)


def merge(store, shards):
    """Merge the sub-generations of one sweep and store the result."""
    out = io.BytesIO()
    inputs = [manifest.MergeInput(one.manifest, one.summary, lambda data=one.body: io.BytesIO(data)) for one in shards]
    merged = manifest.merge_manifests(inputs, out)
    parts = [generations.GenerationInput(one.header, one.index, store.read) for one in shards]
    header = generations.merge_generations(parts, json.loads(merged.manifest), store.put(merged.manifest))
    store.put(out.getvalue())
    store.put(header.header)
    return Swept(header.header, header.index, merged.manifest, merged.summary, out.getvalue())
