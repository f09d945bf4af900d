"""The manifests of docs/kubernetes.md: read as Kubernetes would read them, without a cluster."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def manifest(mark: str) -> dict[str, Any]:
    """Return the block under a mark."""
    (text,) = re.findall(rf"<!-- {mark} -->\n```yaml\n(.*?)```", PAGE, re.S)
    return dict(yaml.safe_load(text))


def test_the_pod_template_is_what_the_executor_takes():
    """The executor refuses a template without a container called ``base``, and a pod that restarts is a task run twice."""
    pod = manifest("pod template")
    assert (pod["apiVersion"], pod["kind"], pod["spec"]["restartPolicy"]) == ("v1", "Pod", "Never")
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "base"
    assert not {"command", "args"} & set(container)
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_pod_runs_without_rights_it_does_not_need():
    """A task reads two databases; it is no administrator of the cluster, nor of its node."""
    spec = manifest("pod template")["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not [each for each in container.get("env", []) if "value" in each]


def test_the_policy_selects_the_pods_of_the_template():
    """A policy over other labels protects nothing."""
    policy = manifest("network policy")
    assert policy["spec"]["podSelector"]["matchLabels"] == manifest("pod template")["metadata"]["labels"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_every_extra_of_the_page_is_one_of_the_package():
    """An extra that does not exist is a warning that nobody reads, and a store that cannot be opened."""
    known = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    (named,) = re.findall(r"airflow-delta-provider\[([a-z,-]+)\]", PAGE)
    assert set(named.split(",")) <= known
    (listed,) = re.findall(r"The extras are those of `pyproject.toml`: (.*?)\. Pin", PAGE)
    assert set(re.findall(r"`([a-z-]+)`", listed)) == known - {"airflow"}
