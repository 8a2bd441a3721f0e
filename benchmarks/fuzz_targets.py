"""The targets of `benchmarks.fuzz`: loaders of untrusted files, with valid files to start from.

Checksums stop a fuzzer but not an attacker, who can compute them. Here they are constants, so that the code behind them
is fuzzed too. `benchmarks.faults` flips bits in files with real checksums.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save

from cooptions.campaigns.reading import parse_campaign
from cooptions.cli.configured import FORMS, configured
from cooptions.envs.scenarios import make_env
from cooptions.errors import CooptionsError
from cooptions.files import digest
from cooptions.learners.networks import NetworkConfig
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.primitives import Primitives
from cooptions.options.report import FeatureReport, OptionReport, Ratio
from cooptions.options.sharing import storage
from cooptions.options.sharing.sealed import MANIFEST, canonical_json, parse_object
from cooptions.options.sight import View
from cooptions.options.train import eigenoptions
from cooptions.runs import team_storage
from cooptions.runs.config import config_of_run
from cooptions.runs.directory import RunDirectory, open_run, read_run
from cooptions.runs.presets import PRESETS, learning
from cooptions.runs.recipe import write_recipe
from cooptions.runs.repair import inspect
from cooptions.runs.stages import stage_configs
from cooptions.runs.team import LearnedTeam
from cooptions.scores.statistics import Scores, load_scores, save_scores
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.metrics import MetricsFile, line_of

SCENARIO = "grid-5x5-2p"
CONSTANT = "0" * 16
"""The value of every checksum while the fuzzer runs."""


@dataclass(frozen=True)
class Part:
    """One kind of file: a function that reads its content, and a valid content."""

    name: str
    read: Callable[[bytes], object]
    whole: bytes


def option_set(place: Path) -> list[Part]:
    """The files of an option set: manifest, description and weights."""
    env = make_env(SCENARIO)
    path = place / "set"
    storage.save_option_set(path, _tiny_set(), env, _reports(), provenance={"date": "2026"})
    files = {name: (path / name).read_bytes() for name in (storage.POLICIES, storage.DESCRIPTION, storage.CARD)}

    def manifest(content: bytes) -> None:
        (path / MANIFEST).write_bytes(_sealed_again(content))
        storage.load_option_set(path, env)

    def part(name: str) -> Part:
        return Part(name, lambda content: storage.restore_option_set(path, {**files, name: content}, env), files[name])

    return [Part(MANIFEST, manifest, (path / MANIFEST).read_bytes()), part(storage.DESCRIPTION), part(storage.POLICIES)]


def _sealed_again(content: bytes) -> bytes:
    """The same manifest with the check of its content, as whoever means harm would write it; bytes that are no JSON
    object as they are."""
    with contextlib.suppress(CooptionsError):
        value = parse_object(MANIFEST, content)
        value["sha256"] = digest(canonical_json({name: part for name, part in value.items() if name != "sha256"}))
        return canonical_json(value)
    return content


def run_config(place: Path) -> list[Part]:
    """The files of a run, `config.json`, `manifest.json` and `run.yaml`, and a campaign file."""
    config = replace(PRESETS["quick"], scenario=SCENARIO)
    path = place / "run"
    with open_run(path, stage_configs(config, "learning")) as run:
        run.save("walk", {"states": np.zeros((2, 3))}, seconds=1.0)
        save_scores(path / "scores/return.safetensors", _scores(2))
        run.seal("walk", [path / "scores/return.safetensors"])
    write_recipe(path, config, "run")
    whole = {name: (path / name).read_bytes() for name in ("config.json", "manifest.json", "run.yaml")}
    campaign = (
        b'name: tiny\nseeds: 0..3\nblock: 2\nsteps: 1e6\nlineups:\n  main:\n    scenarios: &here ["grid-5x5-2p"]\n'
        b"    methods: [iql, iql+hit]\n    options: 2\n    set: {laplacian: {num_eigenfunctions: 2}}\n  other:\n"
        b"    scenarios: *here\n    methods: ippo\n    variant: none\n"
        b"compare:\n  first: {lineup: main, left: iql+hit-2options, right: iql, claim: Options help.}\n"
        b"figures:\n  all: {kind: curves, metric: return, panels: {One: [iql]}}\n"
    )

    def records(name: str, content: bytes) -> None:
        for each, other in whole.items():
            (path / each).write_bytes(content if each == name else other)
        if name == "config.json":  # so that they need not agree
            (path / "manifest.json").write_bytes(b"{}")
        _attempt_both(lambda: inspect(path), lambda: _read_all(read_run(path, lambda line: None)))

    def recipe(content: bytes) -> None:
        (path / "run.yaml").write_bytes(content)
        configured(FORMS["run"], "", path / "run.yaml", [], trust=False)

    return [
        Part("config.json", functools.partial(records, "config.json"), whole["config.json"]),
        Part("manifest.json", functools.partial(records, "manifest.json"), whole["manifest.json"]),
        Part("run.yaml", recipe, whole["run.yaml"]),
        Part("campaign.yaml", parse_campaign, campaign),
    ]


def tensors(place: Path) -> list[Part]:
    """All safetensors files except checkpoints: artefacts and scores of a run, and the files of a team."""
    path, scores = (place / f"{name}.safetensors" for name in ("walk", "scores"))
    save_scores(scores, _scores(2))
    artefact = save({"states": np.zeros((2, 3), np.float32), "last": np.zeros(2, bool)}, {"note": "a walk"})

    def reading(file: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
        def tried(content: bytes) -> None:
            file.write_bytes(content)
            read(file)

        return tried

    from cooptions.runs.directory import _read_tensors

    team = _tiny_team()
    files = team_storage.team_files(place / "team", team)

    def part(name: str) -> Part:
        restore = team_storage.restore_team
        return Part(f"team's {name}", lambda content: restore("team", {**files, name: content}, team.env), files[name])

    return [
        Part("artefact", reading(path, _read_tensors), artefact),
        Part("scores", reading(scores, load_scores), scores.read_bytes()),
        *map(part, (team_storage.DESCRIPTION, team_storage.POLICY, team_storage.SCORES)),
    ]


def checkpoint(place: Path) -> list[Part]:
    """Checkpoints, and metrics files."""
    folder, metrics = place / "checkpoints/fit", place / "metrics/fit.jsonl"
    like = {"a": jnp.zeros(4), "key": jax.random.split(jax.random.key(0)), "step": jnp.int32(3)}
    Checkpoints(folder).save(7, 2, like)
    metrics.parent.mkdir(parents=True)
    rows = b"".join(line_of({"step": step, "loss": [0.5, float("nan")]}) for step in (10, 20, 30))

    def restore(content: bytes) -> None:
        (folder / "7.safetensors").write_bytes(content)
        Checkpoints(folder).restore(like, lambda line: None)

    def resume(content: bytes) -> None:
        metrics.write_bytes(content)
        file = MetricsFile(metrics)
        _attempt_both(file.rows, lambda: file.resume([10, 20], lambda line: None))

    return [
        Part("checkpoint", restore, (folder / "7.safetensors").read_bytes()),
        Part("metrics", resume, rows),
    ]


TARGETS: Mapping[str, Callable[[Path], list[Part]]] = {
    "option-set": option_set,
    "run-config": run_config,
    "safetensors": tensors,
    "checkpoint": checkpoint,
}


def parts_of(target: str, place: Path) -> list[Part]:
    """The parts of a target, with their files in an empty folder and constant checksums."""
    for check in (
        "cooptions.runs.records._check",
        "cooptions.files._tree_digest",
        "cooptions.scores.statistics._digest",
        "cooptions.training.checkpoints._check",
        "cooptions.training.metrics._check",
    ):
        mock.patch(check, lambda *_: CONSTANT).start()  # noqa: PT008 (a Mock remembers every call)
    return TARGETS[target](place)


def _attempt_both(first: Callable[[], object], second: Callable[[], object]) -> None:
    """Call both functions, even if the first one refuses."""
    try:
        first()
    except CooptionsError as error:
        require_one_line(error)
    second()


def require_one_line(error: Exception) -> None:
    """Raise `AssertionError` unless the message is one printable line."""
    if not str(error).isprintable():
        raise AssertionError(f"not one printable line: {str(error)!r}") from error


def _read_all(run: RunDirectory) -> None:
    config_of_run(run)
    for stage in run.manifest:
        run.load(stage)
        run.verify_sealed(stage)


def _tiny_set() -> OptionSet:
    env = make_env(SCENARIO)
    config, view = NetworkConfig(hidden=(4,)), View.of(env, "relation")
    options = eigenoptions(env.num_agents, 1)
    keys = jax.random.split(jax.random.key(0), len(options))
    network = jax.vmap(lambda key: init_policies(env, view, config, env.num_actions, key=key))(keys)
    return OptionSet(
        network=network,
        options=options,
        config=config,
        view=view,
        primitives=Primitives.of(env),
        max_steps=12,
        epsilon=0.05,
        fixed_last=True,
        margin=0.01,
        still_ends=True,
    )


def _reports() -> tuple[OptionReport, ...]:
    features = tuple(FeatureReport(name, 2.0, 0.4, Ratio(0.2, 0.15, 0.25), Ratio(1.0, 0.9, 1.1)) for name in "xy")
    return tuple(
        OptionReport(option.name, option.eigenfunction, option.sign, 0.1, 64, features, 7.5, (5.0, 7.0, 9.0), 0.9, 1.5)
        for option in eigenoptions(2, 1)
    )


def _scores(num_seeds: int) -> Scores:
    return Scores("iql", SCENARIO, "return", np.array([10, 20]), np.ones((num_seeds, 2, 3), np.float32))


def _tiny_team() -> LearnedTeam:
    env = make_env(SCENARIO)
    config = learning("iql", env).learner
    config = replace(config, network=NetworkConfig(hidden=(2,)))  # pyright: ignore[reportCallIssue]
    like = jax.eval_shape(lambda key: config.build().init(env, key=key), jax.random.key(0))
    policy = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), config.build().policy(like))
    return LearnedTeam(env, config, policy, (_scores(1),))
