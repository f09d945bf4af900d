"""The seeds of the fuzzer, and some thousand mutations of them, in every run of the tests: taken, or refused with a code."""

import random
from pathlib import Path

import fuzz_targets as targets
import pytest

CORPUS = Path(__file__).parent / "corpus"
SEEDS = sorted(path for path in CORPUS.glob("*/*"))
ROUNDS = 250
TOKENS = (
    b"\x00",
    b"\n",
    b"\r\n",
    b'"',
    b"\\u0000",
    b"\xff",
    b"null",
    b"-0",
    b"1e9",
    b"9" * 40,
    b"{",
    b"[" * 200,
    b"\xed\xa0\x80",
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with one to four things done to them."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        kind = chance.randrange(5)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[place : place + chance.randint(1, 16)]
        elif kind == 2:
            changed[place:place] = chance.choice(TOKENS)
        elif kind == 3:
            start = chance.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + chance.randint(1, 64)]
        else:
            changed[place : place + 4] = chance.randbytes(chance.randint(0, 4))
    return bytes(changed)


def test_every_target_has_seeds_and_every_seed_a_target():
    """A parser without seeds is not fuzzed at all."""
    assert sorted({path.parent.name for path in SEEDS}) == sorted(targets.TARGETS)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_mutations_of_a_seed_are_taken_or_refused(seed):
    """No input ends in a traceback, in endless work, or in bytes that read back as something else."""
    name, data, chance = seed.parent.name, seed.read_bytes(), random.Random(seed.name)
    if name != "pages":
        assert targets.run(name, data)
    for _ in range(ROUNDS):
        targets.run(name, mutated(data, chance))


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"[" * 100_000, b'{"a":' * 50_000, b'"' + b"a" * 1_000_000 + b'"', b"\xff" * 1000, b"9" * 5000],
    ids=["empty", "zero", "deep list", "deep object", "long text", "no UTF-8", "long number"],
)
def test_what_is_no_artifact_is_refused_by_every_parser(name, data):
    """Depth, length and encoding are bounded before anything is built from them."""
    taken = (name == "json" and data.startswith(b'"a')) or (name == "pack" and not data)  # a text; a pack of no line
    if not taken:
        assert not targets.run(name, data)
