"""The Ray executor: a cluster of two nodes on this machine, one of which is killed during training."""

import os
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
import works
from made_up import TINY

from cooptions.campaigns import executors
from cooptions.campaigns.executors import Inline, OnRay
from cooptions.campaigns.jobs import Job
from cooptions.campaigns.reading import parse_campaign
from cooptions.campaigns.results import collect, read_results
from cooptions.campaigns.rows import Block
from cooptions.campaigns.work import learn_blocks
from cooptions.errors import ConfigError

pytest.importorskip("ray")

pytestmark = pytest.mark.filterwarnings(
    "ignore:os.fork:RuntimeWarning",  # a warning of JAX about Ray's daemons, which do not use JAX
    "ignore::ResourceWarning",
    "ignore::FutureWarning",
)

ROW = parse_campaign(TINY.replace("evaluations: 2", "evaluations: 10").encode()).lineups[0].rows[0]
SEEDS = range(3)


@pytest.fixture
def compiled_once(tmp_path, monkeypatch):
    """Share compiled programs between processes."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        monkeypatch.setenv(name.upper(), str(value))
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture
def cluster(compiled_once, monkeypatch):
    """A cluster with a head node without cores and two nodes with one core each."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


def _jobs(work):
    return [Job(f"learn.{seed}", work, (Block(ROW, seed, 1),)) for seed in SEEDS]


def _results(site, folder):
    collect(ROW, 1.0, site.site.runs, folder)
    return {result.metric: result for result in read_results(folder)}


def _begun(runs):
    """The start of each attempt to learn: seed, update, node, checkpoints."""
    lines = (runs / "begun").read_text().splitlines() if (runs / "begun").exists() else []
    return [(int(seed), int(row), node, Path(path)) for seed, row, node, path in map(str.split, lines)]


def _kill_one(cluster, nodes, runs):
    """Kill a node whose job has a checkpoint and is at about half of its 20 updates."""
    by_id = {node.node_id: node for node in nodes}

    def ripe():
        for _, _, node, checkpoints in _begun(runs):
            if any(int(path.stem) <= 10 for path in checkpoints.glob("*.safetensors")):
                return node
        return None

    if node := works.until(ripe, seconds=100):
        cluster.remove_node(by_id[node], allow_graceful=False)


@pytest.mark.slow
def test_a_dead_node_loses_only_its_chunk(cluster, site, tmp_path):
    inline = site.site.__class__(tmp_path / "inline", site.site.console, site.site.keep, site.site.watch)
    assert Inline(inline).run(_jobs(learn_blocks)) == {}
    killer = threading.Thread(target=_kill_one, args=(*cluster, tmp_path))
    killer.start()
    failures = OnRay(site.site).run(_jobs(works.learns_with_checkpoints))
    killer.join()
    assert failures == {}
    begun = _begun(tmp_path)
    again = [each[:2] for each in begun if [other[0] for other in begun].count(each[0]) > 1]
    assert len({node for _, _, node, _ in begun}) == 2
    assert len(again) == 2  # one job was restarted, all others ran once
    assert again[0][1] == 0
    assert again[1][1] >= 1  # it resumed from its last checkpoint
    collect(ROW, 1.0, inline.runs, tmp_path / "expected")
    expected = {result.metric: result for result in read_results(tmp_path / "expected")}
    found = _results(site, tmp_path / "found")
    assert found.keys() == expected.keys()
    for metric, result in found.items():
        assert result.seeds == tuple(SEEDS)
        np.testing.assert_array_equal(result.means, expected[metric].means)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpus": -1.0}, "gpus must not be negative, not -1.0"),
        ({"cpus": 0.0}, "a task must take something of a node"),
        ({"retries": -1}, "retries must not be negative"),
    ],
)
def test_what_cannot_be_is_refused(site, fields, message):
    with pytest.raises(ConfigError, match=message):
        OnRay(site.site, **fields)


def test_without_ray_the_extra_is_named(site, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(executors.ray.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="pip install 'cooptions\\[cluster\\]'"):
        _ = OnRay(site.site).ray
