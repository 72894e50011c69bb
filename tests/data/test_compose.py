"""`compose.yaml`: one Weaviate, or by a profile three that find each other, reachable from this machine only.

No container is started: this holds the file to what Compose and Weaviate's documentation ask of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import crag_dspy.sample

# Of docs.weaviate.io, "Environment variables": general, and multi-node.
VARIABLES = {
    "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED", "CLUSTER_DATA_BIND_PORT", "CLUSTER_GOSSIP_BIND_PORT", "CLUSTER_HOSTNAME",
    "CLUSTER_JOIN", "DEFAULT_VECTORIZER_MODULE", "DISABLE_TELEMETRY", "ENABLE_TOKENIZER_GSE_CH",
    "PERSISTENCE_DATA_PATH", "QUERY_DEFAULTS_LIMIT", "RAFT_BOOTSTRAP_EXPECT", "RAFT_JOIN", "REPLICATION_MINIMUM_FACTOR",
}  # fmt: skip


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        Path(crag_dspy.sample.__path__[0], "compose.yaml").read_text("utf-8")
    )
    return found


@pytest.fixture(scope="module")
def cluster(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose["services"].items() if each.get("profiles") == ["cluster"]}


def test_without_a_profile_one_node_starts_on_the_ports_that_clients_expect(compose: dict[str, Any]) -> None:
    (single,) = [each for each in compose["services"].values() if "profiles" not in each]
    assert single["ports"] == ["127.0.0.1:8080:8080", "127.0.0.1:50051:50051"]
    assert not {
        name for name in single["environment"] if name.startswith(("RAFT", "REPLICATION", "CLUSTER_JOIN"))
    }


def test_three_nodes_find_each_other(cluster: dict[str, dict[str, Any]]) -> None:
    settings = {name: each["environment"] for name, each in cluster.items()}
    assert len(settings) == 3
    first = min(settings)
    for name, given in settings.items():
        # Nodes are looked up by their names: as services, as hosts, and among themselves.
        assert name == given["CLUSTER_HOSTNAME"] == cluster[name]["hostname"]
        assert given["RAFT_JOIN"].split(",") == sorted(settings)
        assert given["RAFT_BOOTSTRAP_EXPECT"] == given["REPLICATION_MINIMUM_FACTOR"] == "3"
        # Weaviate wants the data port to be the one after the gossip port.
        assert int(given["CLUSTER_DATA_BIND_PORT"]) == int(given["CLUSTER_GOSSIP_BIND_PORT"]) + 1
        joins = f"{first}:{settings[first]['CLUSTER_GOSSIP_BIND_PORT']}"
        assert given.get("CLUSTER_JOIN") == (None if name == first else joins)


def test_nothing_is_shared_and_nothing_is_open_to_others(compose: dict[str, Any]) -> None:
    """Anonymous access is on, so no port may be reachable from outside."""
    services = compose["services"].values()
    ports = [port for each in services for port in each["ports"]]
    volumes = [volume.split(":")[0] for each in services for volume in each["volumes"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    assert sorted(volumes) == sorted(compose["volumes"])


def test_variables_are_documented_ones_with_text_for_values(compose: dict[str, Any]) -> None:
    for each in compose["services"].values():
        assert set(each["environment"]) <= VARIABLES
        assert all(isinstance(value, str) for value in each["environment"].values())
        assert re.fullmatch(r"semitechnologies/weaviate:\$\{WEAVIATE_VERSION:-\d+\.\d+\.\d+\}", each["image"])
