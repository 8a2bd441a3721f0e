"""Learned teams as folders that can be shared: policies, scores, options, a card and a manifest.

    policy.safetensors     the networks' weights, by name
    scores.safetensors     every episode's score, at every evaluation
    team.json              the learner, the task, the rules of its options, provenance
    options/               the option set that the team uses, if any
    README.md              the card
    manifest.json          size and SHA-256 of all these, and of itself

Loading runs no code of the folder. A learner or scenario from outside the package is imported only if `trust` is true.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from cooptions.envs.base import AbstractEnv
from cooptions.envs.scenarios import make_env
from cooptions.errors import ArtifactError, ConfigError, CooptionsError, require
from cooptions.files import Json, decode, encode, shown
from cooptions.learners.base import LearnerConfig
from cooptions.options.base import OPTION_SOURCES, AbstractOptions
from cooptions.options.macro import RULES, MacroEnv, require_rules
from cooptions.options.option_set import OptionSet
from cooptions.options.sharing.cards import LICENSE, PLACE
from cooptions.options.sharing.fingerprints import fingerprint, require_same
from cooptions.options.sharing.hub import HubName, is_hub_name
from cooptions.options.sharing.kinds import CARD, FolderKind
from cooptions.options.sharing.sealed import Place, canonical_json, parse_object
from cooptions.options.sharing.storage import DESCRIPTION as SET_DESCRIPTION
from cooptions.options.sharing.storage import LARGEST_DESCRIPTION, MOST_LAYERS, policy_files, restore_option_set
from cooptions.options.sharing.storage import POLICIES as SET_POLICIES
from cooptions.options.sharing.tensors import format_tree, read_arrays, read_tree
from cooptions.options.sharing.typed_json import read_typed
from cooptions.runs.team import LearnedTeam
from cooptions.runs.team_card import team_markdown
from cooptions.scores.statistics import Scores

FORMAT = "cooptions team 1"
POLICY = "policy.safetensors"
SCORES = "scores.safetensors"
DESCRIPTION = "team.json"
OPTIONS = "options"
"""The folder with the options that a team uses."""
IN_FOLDER = "set"
"""The name of the source of options that are in this folder."""
KEPT = (*RULES, "foresight")
"""The fields of `MacroEnv` that are kept."""


@dataclass(frozen=True)
class OptionRules:
    """The rules of joint options in a team's task, and their source."""

    keep: str
    start: str
    end: str
    initiation: str
    observe: str
    placing: str
    foresight: bool
    source: str
    """`set` for the folder's options, or a registered source. Empty if the options must be given with the task."""
    num_options: int

    def __post_init__(self) -> None:
        require_rules(self, "options.")


@dataclass(frozen=True)
class Description:
    """The content of `team.json`."""

    name: str
    """The method's name in tables and legends."""
    task: str
    """The task's name in tables and legends."""
    scenario: str
    """The scenario name for `make_env`; empty if it is unknown."""
    environment: dict
    """The fingerprint of the task, including its options."""
    options: OptionRules | None
    learner: dict
    metrics: tuple[str, ...]
    evaluations: int
    episodes: int
    provenance: dict

    def __post_init__(self) -> None:
        require(len(self.metrics) >= 1, "metrics must not be empty")
        require(min(self.evaluations, self.episodes) >= 1, "evaluations and episodes must be at least 1")


def save_team(
    path: Path | str, team: LearnedTeam, *, scenario: str = "", license: str = LICENSE, overwrite: bool = False
) -> None:
    """Write a team atomically to a folder that `load_stored` reads."""
    files = team_files(path, team, scenario=scenario, license=license)
    TEAMS.write(Path(path), files, overwrite=overwrite)


def push_team(
    name: str, team: LearnedTeam, *, scenario: str = "", license: str = LICENSE, private: bool = False
) -> str:
    """Upload the folder that `save_team` would write. Returns the name of the team at the new commit."""
    files = team_files(name, team, scenario=scenario, license=license, card_place=str(HubName.parse(name)))
    return TEAMS.push(name, files, private=private)


def team_files(
    place: Place, team: LearnedTeam, *, scenario: str = "", license: str = LICENSE, card_place: str = PLACE
) -> dict[str, bytes]:
    """The files of a team by name. Raises if they could not be loaded again."""
    scenario = scenario or team.scenario
    rules, options = _rules(team.env)
    first = team.scores[0]
    require(len(first.values) == 1, f"scores: those of one team, not of {len(first.values)}")
    description = Description(
        name=first.name,
        task=first.scenario,
        scenario=scenario,
        environment=fingerprint(team.env),
        options=rules,
        learner=encode(team.config),
        metrics=tuple(each.metric for each in team.scores),
        evaluations=first.values.shape[1],
        episodes=first.values.shape[2],
        provenance=team.made_by,
    )
    texts = {"source": rules.source if rules else "", "scenario": scenario, "license": license, "place": card_place}
    card = team_markdown(team.env, team.config, team.scores, team.made_by, **texts)
    values = np.stack([each.values for each in team.scores], axis=-1).astype(np.float32)
    files = {
        POLICY: format_tree(team.policy),
        SCORES: format_tree({"steps": first.steps.astype(np.int64), "values": values}),
        DESCRIPTION: canonical_json(dataclasses.asdict(description)),
        CARD: card.encode(),
        **options,
    }
    restore_team(place, files, None if scenario else team.env, trust=True)
    return files


def is_stored_team(path: Path | str) -> bool:
    """Whether a folder has a saved team. Names on the hub always count."""
    return is_hub_name(path) or (Path(path) / DESCRIPTION).exists()


def load_stored(path: Path | str, env: AbstractEnv | None, *, trust: bool = False) -> LearnedTeam:
    """Load the team of a folder on the disk or on the hub."""
    place = str(HubName.parse(path)) if is_hub_name(path) else Path(path)
    return restore_team(place, TEAMS.read(place), env, trust=trust)


def restore_team(
    place: Place, files: Mapping[str, bytes], env: AbstractEnv | None, *, trust: bool = False
) -> LearnedTeam:
    """The team in these files, after every check that does not run it.

    `env` is its task, or the environment inside the task. Without `env`, the environment is made from the files.
    """
    description = describe(place, files)
    learner = _learner(f"{place}/{DESCRIPTION}: learner", description.learner, trust)
    task = _task(place, description, files, env, trust)
    require_same(place, description.environment, fingerprint(task))
    policy = read_tree(f"{place}/{POLICY}", files[POLICY], _expected(place, learner, task), of="this learner and task")
    scores = _read_scores(place, description, files[SCORES])
    return LearnedTeam(task, learner, policy, scores, description.scenario, description.provenance)


def describe(place: Place, files: Mapping[str, bytes]) -> Description:
    """The description in a team's files. The type of every value is checked."""
    file, content = f"{place}/{DESCRIPTION}", files[DESCRIPTION]
    if len(content) > LARGEST_DESCRIPTION:
        raise ArtifactError(f"{file}: {len(content)} bytes, more than the {LARGEST_DESCRIPTION} there may be")
    try:
        return read_typed(Description, parse_object(file, content), f"{file}: description")
    except ConfigError as error:
        raise ArtifactError(f"{file}: {error}") from None


def _rules(task: AbstractEnv) -> tuple[OptionRules | None, dict[str, bytes]]:
    """The rules of a task's options, and the files of a trained option set."""
    if not isinstance(task, MacroEnv):
        return None, {}
    options, files = task.options, {}
    source = _source(task.env, options)
    if isinstance(options, OptionSet):
        kept = policy_files(options, task.env, provenance={})
        source, files = IN_FOLDER, {f"{OPTIONS}/{name}": content for name, content in kept.items()}
    entered = {name: getattr(task, name) for name in KEPT}
    return OptionRules(**entered, source=source, num_options=options.num_options), files


def _source(env: AbstractEnv, options: AbstractOptions) -> str:
    """The name of the registered source that makes these options; empty if there is none."""
    for name in OPTION_SOURCES:
        try:
            made = OPTION_SOURCES[name](env).first(options.num_options)
        except CooptionsError:  # it has no options for this environment
            continue
        if eqx.tree_equal(made, options) is True:
            return name
    return ""


def _task(
    place: Place, description: Description, files: Mapping[str, bytes], env: AbstractEnv | None, trust: bool
) -> AbstractEnv:
    """The task of a team: `env` itself if it is a task, otherwise the environment with the options of the files."""
    rules, env = description.options, _environment(place, description, trust) if env is None else env
    kept = {name.partition("/")[2]: content for name, content in files.items() if name.startswith(f"{OPTIONS}/")}
    wanted = {SET_POLICIES, SET_DESCRIPTION} if rules is not None and rules.source == IN_FOLDER else set()
    for name in sorted(wanted ^ set(kept)):
        raise ArtifactError(f"{place}/{OPTIONS}/{name}: {'missing' if name in wanted else 'no file of a team'}")
    if rules is None or isinstance(env, MacroEnv):
        return env
    options = restore_option_set(f"{place}/{OPTIONS}", kept, env) if kept else _from_source(place, rules, env, trust)
    entered = {name: getattr(rules, name) for name in KEPT}
    try:
        return MacroEnv(env, options, **entered)
    except ConfigError as error:
        raise ArtifactError(f"{place}/{DESCRIPTION}: options: {error}") from None


def _from_source(place: Place, rules: OptionRules, env: AbstractEnv, trust: bool) -> AbstractOptions:
    where = f"{place}/{DESCRIPTION}: options.source"
    if rules.source == "":
        raise ArtifactError(f"{where}: the options are not in the folder: give the task with its options as env")
    if rules.source not in OPTION_SOURCES and not (trust and ":" in rules.source):
        raise ArtifactError(f"{where}: unknown {shown(rules.source)}; there are {', '.join(OPTION_SOURCES)}")
    try:
        options = OPTION_SOURCES[rules.source](env)
        require(1 <= rules.num_options <= options.num_options, f"num_options is {rules.num_options}")
    except ConfigError as error:
        raise ArtifactError(f"{where}: {error}") from None
    return options.first(rules.num_options)


def _environment(place: Place, description: Description, trust: bool) -> AbstractEnv:
    where, scenario = f"{place}/{DESCRIPTION}: scenario", description.scenario
    if scenario == "":
        raise ArtifactError(f"{where}: the folder does not say how its task is made: give it as env")
    if ":" in scenario and not trust:
        raise ArtifactError(
            f"{where} is {shown(scenario)}, code from outside, which a file cannot ask to run: if you know it, say "
            "--trust, or trust=True"
        )
    try:
        return make_env(scenario)
    except ConfigError as error:
        raise ArtifactError(f"{where}: {error}") from None


def _learner(where: str, stored: Json, trust: bool) -> LearnerConfig:
    """The learner's configuration. The length of every list in it is limited."""
    if any(len(found) > MOST_LAYERS for found in _lists(stored)):
        raise ArtifactError(f"{where}: at most {MOST_LAYERS} layers of a kind are read")
    return decode(LearnerConfig, stored, where, trust=trust)


def _lists(value: Any) -> Iterator[list]:
    """Every list in a JSON value."""
    if isinstance(value, list):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


def _expected(place: Place, config: LearnerConfig, task: AbstractEnv) -> Any:
    """The shapes of a policy's weights, without creating any."""
    where, learner = f"{place}/{DESCRIPTION}: learner", config.build()
    try:
        return learner.policy(jax.eval_shape(lambda key: learner.init(task, key=key), jax.random.key(0)))
    except (ConfigError, TypeError, ValueError, ArithmeticError) as error:
        raise ArtifactError(f"{where}: does not fit the task: {shown(str(error).partition(chr(10))[0])}") from None


def _read_scores(place: Place, description: Description, content: bytes) -> tuple[Scores, ...]:
    shape = (1, description.evaluations, description.episodes, len(description.metrics))
    expected = {
        "steps": jax.ShapeDtypeStruct(shape[1:2], np.int64),
        "values": jax.ShapeDtypeStruct(shape, np.float32),
    }
    arrays = read_arrays(f"{place}/{SCORES}", content, expected, of="this team")
    name, task = description.name, description.task
    try:
        return tuple(
            Scores(name, task, metric, arrays["steps"], arrays["values"][..., index])
            for index, metric in enumerate(description.metrics)
        )
    except ConfigError as error:
        raise ArtifactError(f"{place}/{SCORES}: {error}") from None


def _identity(place: Place, files: Mapping[str, bytes]) -> tuple[bytes, Json]:
    """The content that identifies a team, without provenance."""
    value = parse_object(f"{place}/{DESCRIPTION}", files.get(DESCRIPTION, b"{}"))
    return files.get(POLICY, b""), {name: part for name, part in value.items() if name != "provenance"}


TEAMS = FolderKind(
    format=FORMAT,
    noun="team",
    article="a",
    files=(POLICY, SCORES, DESCRIPTION, CARD),
    folders=(OPTIONS,),
    identity=_identity,
)
"""Teams as a kind of folder."""
