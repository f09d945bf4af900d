"""The text of a filter as a small tree: everything that is not known to mean the same on every engine is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core.errors import FilterError, shown

FILTER_CHARS_MAX = 65_536
DEPTH_MAX = 200
INTEGER_MAX = 2**63 - 1
FRACTION_DIGITS_MAX = 15
"""Digits up to which every engine reads a number with a fraction alike; beyond, some take it for a double."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a filter: its name, its operands, and what else it needs (a name, a literal, an operator)."""

    op: str
    args: tuple[Node, ...] = ()
    value: Any = None


def parse(text: str, dialect: str, find: Callable[[str, bool], str]) -> Node:
    """Parse one boolean expression of a SQL dialect.

    ``find(name, quoted)`` returns the column's name and raises FilterError for an unknown one.
    Raises: FilterError for several statements, comments, placeholders, subqueries, unknown functions and operators, and
    for operators whose meaning differs between engines (``/``, ILIKE, regular expressions, casts of columns).
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect

    if not text.strip():
        raise FilterError("The filter is empty.")
    if len(text) > FILTER_CHARS_MAX or "\x00" in text:
        raise FilterError(f"A filter has at most {FILTER_CHARS_MAX} characters and no NUL.")
    grammar = Dialect.get_or_raise(dialect)
    try:
        tokens = grammar.tokenize(text)
        if any(token.comments for token in tokens):
            raise FilterError("The filter holds a comment.")
        if any(token.token_type is sqlglot.TokenType.SEMICOLON for token in tokens):
            raise FilterError("The filter holds a semicolon outside a literal: only one expression is taken.")
        trees = grammar.parse_into(exp.Condition, text)
    except sqlglot.errors.SqlglotError as error:
        raise FilterError(f"The filter does not parse: {_reason(error)}.") from None
    except RecursionError:
        raise FilterError("The filter is nested too deeply.") from None
    if len(trees) != 1 or trees[0] is None:
        raise FilterError("The filter is not one expression.")
    return _Reader(find, dialect == "mysql").read(trees[0], 0)


def _reason(error: Exception) -> str:
    details = getattr(error, "errors", None)
    return shown(str(details[0].get("description", "")).rstrip(".") if details else str(error).splitlines()[0])


_COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}
_PAIRS = {"And": "and", "Or": "or", "DPipe": "concat", "Nullif": "nullif"}
_ADVICE = {
    "Div": "Division is a whole number on some engines and a fraction on others: multiply the other side.",
    "ILike": "Folding of case differs between engines: use LIKE or IN.",
    "Placeholder": "A filter has no placeholders: write the value.",
    "Parameter": "A filter has no placeholders: write the value.",
    "Subquery": "A filter has no subqueries.",
    "Select": "A filter has no subqueries.",
    "Exists": "A filter has no subqueries.",
}
_TYPES = {
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "DATETIME": "timestamp",
    "TIMESTAMPNTZ": "timestamp",
    "TIMESTAMPTZ": "timestamp_tz",
    "TIMESTAMPLTZ": "timestamp_tz",
    "UUID": "uuid",
    "TEXT": "text",
    "VARCHAR": "text",
    "INT": "number",
    "BIGINT": "number",
    "SMALLINT": "number",
    "DECIMAL": "number",
}


_PARTS = {
    "Escape": "this expression",
    "Like": "this expression negate",
    "Is": "this expression negate",
    "Literal": "this is_string",
    "Column": "this",
    "Identifier": "this quoted",
    "In": "this expressions",
    "Between": "this low high",
    "Coalesce": "this expressions",
    "Case": "this ifs default",
    "If": "this true",
    "Cast": "this to",
    "DPipe": "this expression safe",
}
"""The parts of a parser's tree that are read; a part that is not named here (in other trees: this, expression) refuses
the filter, since leaving one out, such as a NOT, would turn its meaning round."""


class _Reader:
    """Turns a parser's tree into nodes, naming what it refuses."""

    def __init__(self, find: Callable[[str, bool], str], plain_stamps: bool) -> None:
        self._find = find
        self._plain_stamps = plain_stamps
        """True where TIMESTAMP '...' does not tell wall clock from instant, so that its partner's type decides."""

    def read(self, tree: Any, depth: int) -> Node:
        """Return the node of one tree."""
        if depth > DEPTH_MAX:
            raise FilterError("The filter is nested too deeply.")
        name = type(tree).__name__
        if name == "Column" and tree.args.get("table") is not None:
            raise FilterError(f"The filter names {shown(tree.sql())}: write the column's name alone, in quotes.")
        self._check_parts(tree, name)
        special = getattr(self, f"_read_{name.lower()}", None)
        if special is not None:
            node: Node = special(tree, depth + 1)
            return node
        if name in _COMPARISONS:
            return Node("compare", self._both(tree, depth), _COMPARISONS[name])
        if name in _ARITHMETIC:
            return Node("arithmetic", self._both(tree, depth), _ARITHMETIC[name])
        if name in _PAIRS:
            return Node(_PAIRS[name], self._both(tree, depth))
        advice = _ADVICE.get(name, "It is not known to mean the same on every engine.")
        label = tree.name if name == "Anonymous" else tree.key
        raise FilterError(f"The filter uses {shown(label.upper())}. {advice}")

    def _check_parts(self, tree: Any, name: str) -> None:
        """Refuse a tree of a known kind with a part that nobody here reads."""
        read = _PARTS.get(name, "this expression").split()
        known = name in _PARTS or name in _COMPARISONS or name in _ARITHMETIC or name in _PAIRS
        more = [part for part, value in tree.args.items() if value not in (None, False, []) and part not in read]
        if more and (known or hasattr(self, f"_read_{name.lower()}")):
            raise FilterError(f"The filter uses {shown(tree.key.upper())} with {', '.join(more)}, which is not read.")

    def _both(self, tree: Any, depth: int) -> tuple[Node, Node]:
        return self.read(tree.this, depth + 1), self.read(tree.expression, depth + 1)

    def _read_paren(self, tree: Any, depth: int) -> Node:
        return self.read(tree.this, depth)

    def _read_column(self, tree: Any, depth: int) -> Node:
        if type(tree.this).__name__ != "Identifier":
            raise FilterError("The filter uses a star; name the column.")
        return Node("field", value=self._find(tree.name, bool(tree.this.args.get("quoted"))))

    def _read_literal(self, tree: Any, depth: int) -> Node:
        if tree.is_string:
            return Node("text", value=tree.this)
        return Node("number", value=_number(tree.this))

    def _read_hexstring(self, tree: Any, depth: int) -> Node:
        try:
            return Node("bytes", value=bytes.fromhex(tree.this))
        except ValueError:
            raise FilterError("The filter holds a hexadecimal literal that is none.") from None

    def _read_boolean(self, tree: Any, depth: int) -> Node:
        return Node("bool", value=bool(tree.this))

    def _read_null(self, tree: Any, depth: int) -> Node:
        return Node("null")

    def _read_not(self, tree: Any, depth: int) -> Node:
        return Node("not", (self.read(tree.this, depth),))

    def _read_neg(self, tree: Any, depth: int) -> Node:
        inner = self.read(tree.this, depth)
        return Node("number", value="-" + inner.value) if _unsigned(inner) else Node("negate", (inner,))

    def _read_abs(self, tree: Any, depth: int) -> Node:
        return Node("abs", (self.read(tree.this, depth),))

    def _read_mod(self, tree: Any, depth: int) -> Node:
        pair = self._both(tree, depth)
        if not _unsigned(pair[1]) or "." in pair[1].value or int(pair[1].value) == 0:
            raise FilterError("The filter divides by something else than a positive whole number after %.")
        return Node("modulo", pair)

    def _read_is(self, tree: Any, depth: int) -> Node:
        right = type(tree.expression).__name__
        left = self.read(tree.this, depth)
        if right == "Null":
            node = Node("is_null", (left,))
        elif right == "Boolean":
            node = Node("is_true" if tree.expression.this else "is_false", (left,))
        else:
            node = Node("same", (left, self.read(tree.expression, depth)))
        return Node("not", (node,)) if tree.args.get("negate") else node

    def _read_nullsafeeq(self, tree: Any, depth: int) -> Node:
        return Node("same", self._both(tree, depth))

    def _read_nullsafeneq(self, tree: Any, depth: int) -> Node:
        return Node("not", (Node("same", self._both(tree, depth)),))

    def _read_between(self, tree: Any, depth: int) -> Node:
        value = self.read(tree.this, depth)
        low, high = self.read(tree.args["low"], depth), self.read(tree.args["high"], depth)
        return Node("and", (Node("compare", (value, low), ">="), Node("compare", (value, high), "<=")))

    def _read_in(self, tree: Any, depth: int) -> Node:
        if not tree.expressions:
            raise FilterError("The filter uses IN with something else than a list of values.")
        return Node("in", (self.read(tree.this, depth), *(self.read(item, depth) for item in tree.expressions)))

    def _read_like(self, tree: Any, depth: int, escape: str | None = None) -> Node:
        pattern = self.read(tree.expression, depth)
        if pattern.op != "text":
            raise FilterError("The filter uses LIKE with a pattern that is no literal.")
        if escape is None and "\\" in pattern.value:
            raise FilterError("A backslash in a LIKE pattern means different things: name an ESCAPE character.")
        if escape is None:
            escape = next(mark for mark in "!~^|#@`\x01" if mark not in pattern.value or mark == "\x01")
        node = Node("like", (self.read(tree.this, depth),), (pattern.value, escape))
        return Node("not", (node,)) if tree.args.get("negate") else node

    def _read_escape(self, tree: Any, depth: int) -> Node:
        escape = self.read(tree.expression, depth)
        pattern = tree.this.args.get("expression")
        if (
            type(tree.this).__name__ != "Like"
            or type(pattern).__name__ != "Literal"
            or escape.op != "text"
            or len(escape.value) != 1
            or escape.value in "%_"
        ):
            raise FilterError("The filter uses ESCAPE with something else than LIKE and one character.")
        self._check_parts(tree.this, "Like")
        _check_escapes(pattern.this, escape.value)
        return self._read_like(tree.this, depth, escape.value)

    def _read_coalesce(self, tree: Any, depth: int) -> Node:
        return Node("coalesce", tuple(self.read(item, depth) for item in (tree.this, *tree.expressions)))

    def _read_case(self, tree: Any, depth: int) -> Node:
        subject = self.read(tree.this, depth) if tree.this else None
        parts: list[Node] = []
        for branch in tree.args.get("ifs") or []:
            self._check_parts(branch, "If")
            test = self.read(branch.this, depth)
            parts.append(test if subject is None else Node("compare", (subject, test), "="))
            parts.append(self.read(branch.args["true"], depth))
        default = tree.args.get("default")
        return Node("case", (*parts, self.read(default, depth) if default is not None else Node("null")))

    def _read_cast(self, tree: Any, depth: int) -> Node:
        inner = self.read(tree.this, depth)
        name = getattr(tree.to.this, "name", "")
        kind = _TYPES.get(name)
        if kind is None or inner.op not in ("text", "number"):
            raise FilterError("The filter casts something else than a literal to a date, time, number, uuid or text.")
        if tree.to.expressions or (kind == "number" and name != "DECIMAL" and "." in inner.value):
            raise FilterError("The filter casts a literal to a type that may cut it: write the value itself.")
        if kind == "number":
            return Node("number", value=_number(inner.value))
        if kind == "text" or (self._plain_stamps and kind.startswith("timestamp")):
            return Node("text", value=inner.value)
        return Node("typed", value=(kind, inner.value))


def _check_escapes(pattern: Any, escape: str) -> None:
    """Refuse an escape character before an ordinary one, which engines read differently."""
    text = str(pattern)
    at = 0
    while at < len(text):
        if text[at] == escape:
            if text[at + 1 : at + 2] not in ("%", "_", escape):
                raise FilterError("In the LIKE pattern the escape character stands before an ordinary character.")
            at += 1
        at += 1


def _unsigned(node: Node) -> bool:
    return node.op == "number" and not str(node.value).startswith("-")


def _number(text: str) -> str:
    """Check a number literal and return it in plain digits.

    Raises: FilterError for exponents, integers beyond 64 bits and fractions of more than 15 digits, which engines read
    differently.
    """
    digits = text.removeprefix("-")
    whole, point, fraction = digits.partition(".")
    if not (whole + fraction).isascii() or not (whole + fraction).isdigit():
        raise FilterError(f"The filter holds the number {shown(text)}: write plain digits.")
    if not point and int(whole) > INTEGER_MAX:
        raise FilterError(f"The filter holds the number {shown(text)}, beyond 64 bits.")
    if point and len((whole + fraction).lstrip("0")) > FRACTION_DIGITS_MAX:
        raise FilterError(f"The filter holds the number {shown(text)} of more than {FRACTION_DIGITS_MAX} digits.")
    sign = "-" if text.startswith("-") else ""
    return sign + (whole or "0") + (f".{fraction}" if fraction else "")
