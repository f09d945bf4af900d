#!/bin/sh
# Checks a manifest with sh, jq, coreutils and OpenSSL: none of the code that made it takes part.
#
# usage: auditor-check.sh FOLDER PUBLIC_KEY.pem [MANIFEST_ID]
#
# FOLDER holds manifest.json, manifest.dsse.json, schema.json, contract.json, structure.json, summary.json and
# body.jsonl. PUBLIC_KEY.pem is the key that you trust: get it from its owner, not from the folder. MANIFEST_ID is
# the digest that you were told; without it, the manifest is checked against its signature alone.
# Prints a line for each check. Exit status: 0 all hold, 1 a check failed, 2 the checks could not be run.
set -u
LC_ALL=C
export LC_ALL

[ $# -eq 2 ] || [ $# -eq 3 ] || {
    echo "usage: $0 FOLDER PUBLIC_KEY.pem [MANIFEST_ID]" >&2
    exit 2
}
for program in jq openssl sha256sum base64 sort awk; do
    command -v "$program" >/dev/null || {
        echo "$program is not installed" >&2
        exit 2
    }
done
key=$(CDPATH= cd -- "$(dirname -- "$2")" && pwd)/$(basename -- "$2") || exit 2
expected=${3-}
cd -- "$1" || exit 2
for file in "$key" manifest.json manifest.dsse.json schema.json contract.json structure.json summary.json body.jsonl; do
    [ -r "$file" ] || {
        echo "cannot read $file" >&2
        exit 2
    }
done
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 2' HUP INT TERM

failed=0
verdict() { # verdict STATUS TEXT: prints one line and remembers a failure
    if [ "$1" -eq 0 ]; then
        echo "ok    $2"
    else
        echo "WRONG $2"
        failed=1
    fi
}
digest() { sha256sum <"$1" | cut -c1-64; }
stated() { awk -v name="$1" '$1 == name { print $2 }' "$scratch/stated"; }

# What the manifest states, one "name value" a line; values stay JSON, so that none of them can break a line.
jq -r '("schema", "contract", "structure", "summary", "body") as $name | "\($name) \(.[$name].sha256 | tojson)"' \
    manifest.json >"$scratch/stated" 2>/dev/null
jq -r '"records \(.body.records | tojson)", "bytes \(.body.bytes | tojson)",
    (("added", "dropped", "value_diverged") as $name | "\($name) \(.categories[$name].records | tojson)")' \
    manifest.json >>"$scratch/stated" 2>/dev/null

# 1. The signature, over "DSSEv1 <length> <type> <length> <payload>". Whose key it is decides the algorithm.
jq -j .payload manifest.dsse.json | base64 -d >"$scratch/payload" 2>/dev/null
type=$(jq -r .payloadType manifest.dsse.json)
{
    printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$(($(wc -c <"$scratch/payload")))"
    cat "$scratch/payload"
} >"$scratch/signed"
algorithm=$(openssl pkey -pubin -in "$key" -noout -text 2>/dev/null)
valid=1
count=$(jq '.signatures | length' manifest.dsse.json)
number=0
while [ "$number" -lt "${count:-0}" ]; do
    jq -j ".signatures[$number].sig" manifest.dsse.json | base64 -d >"$scratch/signature" 2>/dev/null
    case $algorithm in
    *ED25519*)
        openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$scratch/signed" \
            -sigfile "$scratch/signature" >/dev/null 2>&1 && valid=0
        ;;
    *prime256v1*)
        openssl dgst -sha256 -verify "$key" -signature "$scratch/signature" "$scratch/signed" >/dev/null 2>&1 && valid=0
        ;;
    esac
    number=$((number + 1))
done
verdict "$valid" "signature by $(basename -- "$key")"

# 2. What is signed is a statement about this manifest, and holds it.
id=$(digest manifest.json)
[ "$type" = application/vnd.in-toto+json ] && jq -e --arg id "$id" --slurpfile manifest manifest.json '
    ._type == "https://in-toto.io/Statement/v1"
    and .predicateType == "https://delta-manifest.example/v1"
    and .subject == [{"digest": {"sha256": $id}, "name": "manifest.json"}]
    and .predicate == $manifest[0]' "$scratch/payload" >/dev/null 2>&1
verdict $? "statement about manifest $id"
if [ -n "$expected" ]; then
    [ "$id" = "$expected" ]
    verdict $? "manifest is the one that was asked for"
fi

# 3. The manifest names these documents and this body.
for document in schema contract structure summary; do
    [ "$(stated "$document")" = "\"$(digest "$document.json")\"" ]
    verdict $? "$document.json"
done
[ "$(stated body)" = "\"$(digest body.jsonl)\"" ]
verdict $? "body.jsonl"
[ "$(stated records)" = "$(($(wc -l <body.jsonl)))" ] && [ "$(stated bytes)" = "$(($(wc -c <body.jsonl)))" ]
verdict $? "number of records and bytes"

# 4. Keys ascend strictly, so no key comes twice; each category has as many records as stated.
jq -r .sort_key body.jsonl >"$scratch/keys" 2>/dev/null && sort -cu "$scratch/keys" 2>/dev/null
verdict $? "order of the keys"
for category in added dropped value_diverged; do
    [ "$(grep -c "^{\"category\":\"$category\"" body.jsonl)" = "$(stated "$category")" ]
    verdict $? "records of category $category"
done

# 5. Every row that was read went somewhere.
jq -e '(.sweep.failed // 0) as $failed | .population as $rows | .categories as $found
    | def sum($side; $one_sided; $more):
        $side.rows == $rows.unchanged + $found.value_diverged.records + $one_sided.records
            + $side.null_key + $side.duplicate_key + $side.skipped + $more;
    sum($rows.source; $found.dropped; 0) and sum($rows.target; $found.added; $failed)' manifest.json >/dev/null 2>&1
verdict $? "sums of the rows"

exit "$failed"
