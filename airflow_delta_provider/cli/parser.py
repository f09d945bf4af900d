"""The commands and their options; each command's module is imported only when it runs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

import airflow_delta_provider

SIGN_HELP = (
    "PEM file of a private key (Ed25519 or ECDSA P-256), or a key in a service: awskms:, gcpkms:, azurekms:, hv:"
)
CATEGORIES = ("added", "dropped", "value_diverged")
PATCH_RULES = ("source_authoritative", "last_writer_wins", "flag_for_review")
EXPORTS = ("jsonl", "json", "parquet", "csv", "html", "junit", "sql")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="airflow-delta", description=airflow_delta_provider.__doc__)
    parser.add_argument("--version", action="version", version=airflow_delta_provider.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _compare_commands(commands)
    _read_commands(commands)
    _evidence_commands(commands)
    _keeper_commands(commands)
    _patch_commands(commands)
    return parser


def _later(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    def command(arguments: argparse.Namespace) -> int:
        found: Any = getattr(importlib.import_module(f"airflow_delta_provider.cli.{module}"), function)
        return int(found(arguments))

    return command


def _add(commands: Any, name: str, help_text: str, module: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(command=_later(module, name.replace("-", "_")))
    return parser


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", required=True, metavar="URI", help="folder or address of the append-only store")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _compare_commands(commands: Any) -> None:
    check = _add(commands, "check", "open both sides, print the column pairing and plan; no row is compared", "compare")
    check.add_argument("spec", metavar="SPEC")
    check.add_argument("--shards", type=_positive, metavar="N")
    _json(check)
    run = _add(commands, "run", "compare two data sets and publish one manifest", "compare")
    run.add_argument("spec", metavar="SPEC")
    _store(run)
    run.add_argument("--shards", type=_positive, metavar="N", help="how many key ranges to aim for")
    run.add_argument("--workers", type=_positive, default=None, metavar="N", help="local processes (as many as pay)")
    run.add_argument("--sign", metavar="KEY", help=SIGN_HELP)
    run.add_argument(
        "--sample",
        type=_positive,
        metavar="N",
        help="compare N shards only, store their sub-manifests, give no verdict",
    )
    run.add_argument("--profile", action="store_true", help="tell on stderr where the time went")
    _json(run)
    sweep = _add(commands, "sweep", "compare a data set with its own last sweep and publish what changed", "sweep")
    sweep.add_argument("spec", metavar="SPEC", help="a specification that names a target only")
    _store(sweep)
    sweep.add_argument("--shards", type=_positive, metavar="N", help="how many key ranges to aim for")
    sweep.add_argument("--workers", type=_positive, default=None, metavar="N", help="local processes")
    sweep.add_argument("--sign", metavar="KEY", help=SIGN_HELP)
    sweep.add_argument("--predecessor", metavar="DIGEST", help="refuse unless this is the newest generation")
    _json(sweep)


def _read_commands(commands: Any) -> None:
    show = _add(commands, "show", "print a manifest and its records", "show")
    show.add_argument("digest", metavar="DIGEST")
    _store(show)
    show.add_argument("--records", type=_count, metavar="N", help="how many records (20, with --json all)")
    show.add_argument("--category", choices=CATEGORIES)
    show.add_argument("--column", metavar="C", help="only records in which this column diverged")
    _json(show)
    log = _add(commands, "log", "print the log of a pair", "show")
    log.set_defaults(command=_later("show", "print_log"))
    log.add_argument("pair", metavar="PAIR", help="pair id, specification file or name")
    _store(log)
    _json(log)
    recur = _add(commands, "recur", "list differences that were patched and came back, or that persist", "recur")
    recur.add_argument("pair", metavar="PAIR", help="pair id, specification file or name")
    _store(recur)
    recur.add_argument("--runs", type=_positive, default=20, metavar="N", help="newest runs that are looked at (20)")
    recur.add_argument("--persisting", type=_positive, default=3, metavar="N", help="runs in a row that count (3)")
    _json(recur)
    serve = _add(commands, "serve", "serve the pages over a store on this machine, until it is interrupted", "serve")
    _store(serve)
    serve.add_argument(
        "--port", type=_count, default=8893, metavar="N", help="port on 127.0.0.1 (8893; 0: any free one)"
    )
    _trust(serve)
    conformance = _add(commands, "conformance", "run published vector files", "conformance")
    conformance.add_argument("folder", metavar="FOLDER")


def _evidence_commands(commands: Any) -> None:
    init = _add(commands, "init", "write an annotated specification from two addresses or paths", "init")
    init.add_argument("source", metavar="SOURCE", help="URI of a database, or path of files, that is held to be true")
    init.add_argument("target", metavar="TARGET", help="the one that is under test")
    for side in ("source", "target"):
        init.add_argument(f"--{side}-table", metavar="T", help=f"table of the {side}, where it is a database")
    init.add_argument("--key", metavar="C[,C...]", help="key columns, where the sides declare no primary key")
    init.add_argument("--name", metavar="NAME", help="name of the pair; a-z 0-9 _ - (the target's table or file)")
    init.add_argument("-o", "--output", metavar="FILE", help="where to write it (stdout); never over a file")
    export = _add(commands, "export", "write a manifest and its records in another form", "export")
    export.add_argument("digest", metavar="DIGEST")
    _store(export)
    export.add_argument("--to", required=True, choices=EXPORTS)
    export.add_argument("-o", "--output", metavar="FILE", help="where to write it (stdout)")
    export.add_argument("--records", type=_count, metavar="N", help="html: how many records the page shows (2000)")
    export.add_argument("--table", metavar="T", help="sql: name of the table (from the target's label)")
    export.add_argument("--spreadsheet", action="store_true", help="csv: put ' before what a spreadsheet would execute")
    _trust(export)
    verify = _add(commands, "verify", "check manifest, signature, log, body and documents; or a whole store", "verify")
    verify.add_argument("what", nargs="?", metavar="DIGEST|PAIR", help="manifest, or pair id, specification or name")
    verify.add_argument("--store", metavar="URI", help="folder or address of the append-only store")
    verify.add_argument("--audit", action="store_true", help="walk the whole store, and list what nothing names")
    verify.add_argument(
        "--orphan-age", type=_count, metavar="HOURS", help="with --audit: how old an orphan is at least (24)"
    )
    verify.add_argument("--part", action="store_true", help="a manifest that nobody published, such as a sample's")
    verify.add_argument("--workers", type=_positive, metavar="N", help="processes that share a large body (one a CPU)")
    verify.add_argument("--anchor", action="append", metavar="FILE", help="an anchor kept elsewhere that must hold")
    _trust(verify)
    _json(verify)
    prove = _add(
        commands, "prove", "write one file that proves records of a manifest, or that a log was extended", "prove"
    )
    prove.add_argument("digest", metavar="DIGEST|PAIR", help="manifest; with --between, the pair of the log")
    prove.add_argument("records", nargs="*", metavar="RECORD_ID")
    _store(prove)
    prove.add_argument("--category", choices=CATEGORIES, help="all records of one category, provably complete")
    prove.add_argument(
        "--between",
        nargs=2,
        metavar="ANCHOR",
        help="two anchors of a pair's log, files or sizes of anchors in the store: the newer extends the older",
    )
    prove.add_argument("-o", "--output", metavar="FILE", help="where to write it (stdout)")
    check_proof = _add(commands, "check-proof", "check such a file; no store is needed", "prove")
    check_proof.add_argument("file", metavar="FILE")
    _trust(check_proof)
    _json(check_proof)


def _keeper_commands(commands: Any) -> None:
    anchor = _add(commands, "anchor", "sign how long a log is and what it holds, to be kept elsewhere", "evidence")
    anchor.add_argument("pair", metavar="PAIR", help="pair id, specification file or name")
    _store(anchor)
    anchor.add_argument("--sign", required=True, metavar="KEY", help=SIGN_HELP)
    anchor.add_argument("--origin", metavar="TEXT", help="name of the log for its readers (the pair id)")
    anchor.add_argument(
        "--since", metavar="FILE", help="an older anchor, kept elsewhere: prove that the log extends it"
    )
    anchor.add_argument("-o", "--output", metavar="FILE", help="write the signed anchor here too; never over a file")
    _trust(anchor)
    _json(anchor)
    retire = _add(commands, "retire", "log that the body of a manifest is given up; nothing is removed", "evidence")
    retire.add_argument("digest", metavar="DIGEST")
    _store(retire)
    _json(retire)
    trust = _add(commands, "trust", "make or change a trust document: add a key, end one, log the version", "evidence")
    trust.add_argument("file", metavar="FILE", help="the trust document; --add makes it where there is none")
    trust.add_argument("--add", metavar="KEY", help="public key in PEM")
    trust.add_argument("--pair", action="append", metavar="ID", help="with --add: the only pairs that it vouches for")
    trust.add_argument("--from-seq", type=_count, metavar="N", help="with --add: its first log entry (0)")
    trust.add_argument("--revoke", metavar="KEYID", help="end a key")
    trust.add_argument(
        "--to-seq", type=_count, metavar="N", help="with --revoke: the first log entry it has no word in"
    )
    trust.add_argument("--log", metavar="PAIR", help="log this version of the document for a pair")
    trust.add_argument("--store", metavar="URI", help="with --log: the store")


def _patch_commands(commands: Any) -> None:
    patch = _add(
        commands, "patch", "make one side what the other is, under checkpoint and ledger, and prove it", "patch"
    )
    patch.add_argument("digest", metavar="DIGEST")
    patch.add_argument(
        "--spec", required=True, metavar="SPEC", help="the specification that the manifest was made from"
    )
    _store(patch)
    patch.add_argument("--dry-run", action="store_true", help="show what would be written; write nothing")
    patch.add_argument("--rule", choices=PATCH_RULES, default=PATCH_RULES[0], help="whose row wins")
    patch.add_argument("--column", metavar="C", help="last_writer_wins: the greater value of this column wins")
    patch.add_argument("--side", choices=("target", "source"), default="target", help="the side that is written to")
    patch.add_argument("--max-share", default="10%", metavar="SHARE", help="largest share of rows that may change")
    patch.add_argument("--max-age", type=_count, metavar="SECONDS", help="oldest manifest that is applied")
    patch.add_argument("--partial-deletes", action="store_true", help="delete by a manifest over a part of the rows")
    patch.add_argument(
        "--workers", type=_positive, metavar="N", help="processes; others verify a large manifest meanwhile (one a CPU)"
    )
    _trust(patch)
    rollback = _add(commands, "rollback", "take a patch back where rows are still what it left, and prove it", "patch")
    rollback.add_argument("patch", metavar="PATCH", help="id of the patch")
    rollback.add_argument("--spec", required=True, metavar="SPEC")
    _store(rollback)
    for parser in (patch, rollback):
        parser.add_argument("--conflicts", choices=("refuse", "skip"), default="refuse", help="rows written meanwhile")
        parser.add_argument("--sign", metavar="KEY", help=f"sign the proof: {SIGN_HELP}")
        parser.add_argument("--allow", action="append", metavar="NAME", help="a trigger or foreign key that may act")
        parser.add_argument("--batch", type=_positive, metavar="N", help="with skip: commit N changes at a time")
        parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help="between two batches")
        parser.add_argument(
            "--checkpoint-scope",
            choices=("touched", "ranges"),
            default="touched",
            help="rows whose state before is kept: those touched, or also all between them",
        )
        parser.add_argument(
            "--ledger-detail",
            choices=("counts", "keys", "digests", "values"),
            default="keys",
            help="what is shown of rows that were left",
        )
        _json(parser)


def _trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust", metavar="FILE", help="trust document, or one public key in PEM")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value
