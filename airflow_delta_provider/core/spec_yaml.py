"""A YAML loader that changes no value: numbers with a fraction stay text, dates stay text, members never repeat."""

from __future__ import annotations

import re
from typing import Any

import yaml


class ExactLoader(yaml.SafeLoader):
    """Reads ``0.001`` as the text ``"0.001"``, ``2026-11-01`` as text, ``yes`` as text, and refuses a repeated member."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - this name and form are PyYAML's
    yaml_constructors = {  # noqa: RUF012 - as above; dates, sets and other tags of YAML are unknown here
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "str", "seq")
    }


ExactLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
ExactLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
)
ExactLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z"), list("-+0123456789")
)


def _boolean(loader: yaml.SafeLoader, node: yaml.Node) -> bool:
    text = str(node.value).lower()
    if text not in ("true", "false"):
        raise yaml.constructor.ConstructorError(None, None, "a boolean is neither true nor false", node.start_mark)
    return text == "true"


def _integer(loader: yaml.SafeLoader, node: yaml.Node) -> int:
    return int(str(node.value))


def _unique_map(loader: yaml.SafeLoader, node: yaml.Node) -> dict[Any, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, "a map is expected", node.start_mark)
    pairs = [(loader.construct_object(key, deep=True), value) for key, value in node.value]
    seen: set[Any] = set()
    for (key, _), (key_node, _) in zip(pairs, node.value, strict=True):
        if not isinstance(key, str | int | bool) and key is not None:
            raise yaml.constructor.ConstructorError(None, None, "a member name is no scalar", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"member {key!r} is repeated", key_node.start_mark)
        seen.add(key)
    return {key: loader.construct_object(value, deep=True) for key, value in pairs}


ExactLoader.add_constructor("tag:yaml.org,2002:bool", _boolean)
ExactLoader.add_constructor("tag:yaml.org,2002:int", _integer)
ExactLoader.add_constructor("tag:yaml.org,2002:map", _unique_map)
