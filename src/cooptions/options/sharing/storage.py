"""Option sets as directories that can be shared: policies, their description, a card and a manifest.

    policies.safetensors   the networks' weights, by name
    option_set.json        the options, the networks' layers, the environment's fingerprint, provenance, reports
    README.md, cards/      the card
    manifest.json          size and SHA-256 of all these, and of itself

Loading, from the disk or from a model hub, runs no code of the set. It refuses files that differ from what was saved.
It also refuses an environment that differs in what the policies depend on: the whole environment, or only the agents,
the map and the moves (`fingerprint`).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast, get_args

import jax
from jaxtyping import PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.subteam import env_for, subteam_envs
from cooptions.errors import ArtifactError, ConfigError, require
from cooptions.files import Json, shown
from cooptions.learners.networks import Network, NetworkConfig
from cooptions.options.base import Option
from cooptions.options.execution import START_STEPS
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.primitives import Primitives
from cooptions.options.report import OptionReport, report_options
from cooptions.options.sharing.cards import LICENSE, PLACE, card_markdown
from cooptions.options.sharing.fingerprints import fingerprint, require_same
from cooptions.options.sharing.hub import HubName, is_hub_name
from cooptions.options.sharing.kinds import CARD, FolderKind
from cooptions.options.sharing.sealed import Place, canonical_json, parse_object
from cooptions.options.sharing.tensors import format_tree, read_tree
from cooptions.options.sharing.typed_json import read_typed
from cooptions.options.sight import Sight, View
from cooptions.options.task import collect_starts

FORMAT = "cooptions option set 2"
POLICIES = "policies.safetensors"
DESCRIPTION = "option_set.json"
PICTURES = "cards"
SETS = "option_sets"
"""The folder of a run's option sets, one for each seed."""

KEPT = ("options", "max_steps", "epsilon", "fixed_last", "margin", "still_ends")
"""The fields that `OptionSet` and `Description` share."""

LARGEST_DESCRIPTION = 1 << 21
MOST_LAYERS = 16
MOST_ACTIONS = 127
WIDEST_LAYER = 1 << 16
LONGEST_NAME = 100
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Description:
    """The content of `option_set.json`."""

    options: tuple[Option, ...]
    network: NetworkConfig
    max_steps: int
    epsilon: float
    fixed_last: bool
    margin: float
    still_ends: bool
    sight: str
    """What the policies observe: `relation` or `observation`."""
    actions: tuple[str, ...]
    """The primitive actions they choose from, in the order of the networks' outputs."""
    environment: dict
    """The `fingerprint` that an environment must have."""
    provenance: dict
    reports: tuple[OptionReport, ...]
    """One for each option, or none."""

    def __post_init__(self) -> None:
        names = [option.name for option in self.options]
        require(len(names) >= 1, "options must not be empty")
        require(len(set(names)) == len(names), "options: two have the same name")
        for option in self.options:
            require(1 <= len(option.name) <= LONGEST_NAME, f"options: {option.name!r} is no name")
            require(option.sign in (-1, 0, 1), f"option {option.name}: sign must be -1, 0 or 1, not {option.sign}")
            require(option.eigenfunction >= 0, f"option {option.name}: eigenfunction must not be negative")
        require(self.sight in get_args(Sight), f"sight must be one of {', '.join(get_args(Sight))}, not {self.sight!r}")
        known = 1 <= len(self.actions) <= MOST_ACTIONS and len(set(self.actions)) == len(self.actions)
        require(known, f"actions must be 1 to {MOST_ACTIONS} different names")
        layers = (*self.network.hidden, *self.network.channels, *self.network.kernels)
        require(len(layers) <= 3 * MOST_LAYERS, f"network: at most {MOST_LAYERS} layers of a kind are read")
        require(all(1 <= size <= WIDEST_LAYER for size in layers), f"network: layers must be 1 to {WIDEST_LAYER} wide")
        require(not self.network.recurrent, "network.recurrent: options have no memory")
        require(1 <= self.max_steps <= MOST_STEPS, f"max_steps must be 1 to {MOST_STEPS}, not {self.max_steps}")
        require(0 <= self.epsilon <= 1, f"epsilon must lie in [0, 1], not {self.epsilon}")
        require(0 <= self.margin < math.inf, f"margin must be 0 or more, not {self.margin}")
        require(
            [report.name for report in self.reports] in ([], names),
            "reports must be one for each option, in their order",
        )


def save_option_set(
    path: Path | str,
    option_set: OptionSet,
    env: AbstractEnv,
    reports: Sequence[OptionReport],
    *,
    provenance: Json,
    pictures: Mapping[str, bytes] | None = None,
    scenario: str = "",
    license: str = LICENSE,
    overwrite: bool = False,
) -> None:
    """Write an option set atomically to a directory that `load_option_set` reads.

    `pictures` are PNG files with the names of `cards.card_files`. `scenario` is the environment's name for the card. An
    existing directory with the same options is updated. Any other content is refused, unless `overwrite` is true and it
    is an option set, possibly damaged.
    """
    env = env_for(env, option_set.view.team)
    card = {"provenance": provenance, "pictures": pictures, "scenario": scenario, "license": license}
    files = option_set_files(option_set, env, reports, **card)
    restore_option_set(path, files, env)  # raises if it could not be loaded again
    OPTION_SETS.write(Path(path), files, overwrite=overwrite)


def option_set_files(
    option_set: OptionSet,
    env: AbstractEnv,
    reports: Sequence[OptionReport],
    *,
    provenance: Json,
    pictures: Mapping[str, bytes] | None = None,
    scenario: str = "",
    license: str = LICENSE,
    place: str = PLACE,
) -> dict[str, bytes]:
    """The files of an option set by name. `place` is the location from which its card loads the options."""
    card = card_markdown(
        env,
        reports,
        provenance,
        pictures=pictures or {},
        scenario=scenario,
        sight=option_set.view.sight,
        license=license,
        place=place,
    )
    return {
        **policy_files(option_set, env, reports, provenance=provenance),
        CARD: card.encode(),
        **{f"{PICTURES}/{name}": content for name, content in (pictures or {}).items()},
    }


def policy_files(
    option_set: OptionSet, env: AbstractEnv, reports: Sequence[OptionReport] = (), *, provenance: Json
) -> dict[str, bytes]:
    """The files of an option set without its card. They suffice to load the options."""
    env = env_for(env, option_set.view.team)
    description = Description(
        **{name: getattr(option_set, name) for name in KEPT},
        network=option_set.config,
        sight=option_set.view.sight,
        actions=option_set.primitives.names,
        environment=fingerprint(env, option_set.view.sight),
        provenance=provenance,
        reports=tuple(reports),
    )
    return {
        POLICIES: format_tree(option_set.network),
        DESCRIPTION: canonical_json(dataclasses.asdict(description)),
    }


def publish(
    path: Path | str,
    option_set: OptionSet,
    env: AbstractEnv,
    *,
    key: PRNGKeyArray,
    scenario: str = "",
    license: str = LICENSE,
    overwrite: bool = False,
) -> None:
    """Save an option set with a card whose numbers and pictures come from roll-outs of every option."""
    env = env_for(env, option_set.view.team)
    reports, pictures = _reports_and_pictures(option_set, env, key)
    card = {"pictures": pictures, "scenario": scenario, "license": license}
    save_option_set(path, option_set, env, reports, provenance={}, **card, overwrite=overwrite)


def push_option_set(
    name: str,
    option_set: OptionSet,
    env: AbstractEnv,
    *,
    key: PRNGKeyArray,
    scenario: str = "",
    license: str = LICENSE,
    private: bool = False,
) -> str:
    """Upload the folder that `publish` would write. Returns the name of the set at the new commit."""
    env = env_for(env, option_set.view.team)
    reports, pictures = _reports_and_pictures(option_set, env, key)
    card = {"pictures": pictures, "scenario": scenario, "license": license}
    files = option_set_files(option_set, env, reports, provenance={}, **card, place=str(HubName.parse(name)))
    restore_option_set(name, files, env)  # raises if it could not be loaded again
    return OPTION_SETS.push(name, files, private=private)


def _reports_and_pictures(
    option_set: OptionSet, env: AbstractEnv, key: PRNGKeyArray, num_starts: int = 64
) -> tuple[tuple[OptionReport, ...], dict[str, bytes]]:
    """Reports and pictures of all options, followed from states that random play reached."""
    from cooptions.options.sharing.pictures import card_pictures  # imported late because it imports Matplotlib

    begun = collect_starts(env, num_starts, START_STEPS, key=key)
    reports = report_options(env, option_set, begun, key=key)
    return tuple(reports), card_pictures(env, option_set, begun, key=key)


def load_option_set(path: Path | str, env: AbstractEnv) -> OptionSet:
    """Load the option set of a directory, after checking its files and that it fits this environment.

    For a run directory, the run's only set is loaded. `hf://owner/name` or `hf://owner/name@revision` loads a set from
    the Hugging Face Hub. Loading runs no code of the set.

        options.save("my-options", env)
        again = co.load_options("my-options", env)
    """
    place = find_option_set(path)
    return restore_option_set(place, OPTION_SETS.read(place), env)


def load_reports(path: Path | str) -> tuple[OptionReport, ...]:
    """Load the reports of an option set in a directory or on the hub, which does not need the environment."""
    place = find_option_set(path)
    return describe(place, OPTION_SETS.read(place)).reports


def find_option_set(path: Path | str) -> Path | str:
    """The path of a run directory's only option set. Other paths and names on the hub are returned unchanged."""
    if is_hub_name(path):
        return str(HubName.parse(path))
    path = Path(path)
    folder = path / SETS
    if (path / DESCRIPTION).exists() or not folder.is_dir():
        return path
    sets = sorted(str(found.parent) for found in folder.glob(f"*/{DESCRIPTION}"))
    if not sets:
        raise ArtifactError(f"{path}: this run has no option set yet; `cooptions options {path}` writes it")
    if len(sets) > 1:
        raise ArtifactError(f"{path}: this run has {len(sets)} option sets; choose one: {', '.join(sets)}")
    return Path(sets[0])


def restore_option_set(place: Place, files: Mapping[str, bytes], env: AbstractEnv) -> OptionSet:
    """The option set in these files, after every check that does not run it.

    A set for fewer agents than the environment has fits any of its agents that are alike.
    """
    description = describe(place, files)
    sight = cast(Sight, description.sight)
    parts = subteam_envs(env, len(description.options[0].members))
    env = next((each for each in parts if fingerprint(each, sight) == description.environment), env)
    require_same(place, description.environment, fingerprint(env, sight))
    for option in description.options:
        if len(option.members) != env.num_agents:
            raise ArtifactError(
                f"{place}/{DESCRIPTION}: option {option.name}: {len(option.members)} members of {env.num_agents} agents"
            )
    view = View.of(env, sight)
    like = _expected(description, env, view)
    return OptionSet(
        **{name: getattr(description, name) for name in KEPT},
        network=read_tree(f"{place}/{POLICIES}", files[POLICIES], like, of="the described network"),
        config=description.network,
        view=view,
        primitives=_primitives(place, description, env),
    )


def _primitives(place: Place, description: Description, env: AbstractEnv) -> Primitives:
    """The set's actions in the environment. Raises `ArtifactError` unless the environment has them all."""
    here, there = env.action_names, description.actions
    same = there == here if description.sight == "observation" else set(there) <= set(here)
    if not same or here[env.noop] not in there:
        raise ArtifactError(f"{place}: made for other actions: {shown(list(there))} there, {shown(list(here))} here")
    return Primitives.of(env, there)


def describe(place: Place, files: Mapping[str, bytes]) -> Description:
    """The description in a set's files. The type of every value is checked."""
    file, content = f"{place}/{DESCRIPTION}", files[DESCRIPTION]
    if len(content) > LARGEST_DESCRIPTION:
        raise ArtifactError(f"{file}: {len(content)} bytes, more than the {LARGEST_DESCRIPTION} there may be")
    try:
        return read_typed(Description, parse_object(file, content), f"{file}: description")
    except ConfigError as error:
        raise ArtifactError(f"{file}: {error}") from None


def _expected(description: Description, env: AbstractEnv, view: View) -> Network:
    """The shapes of the networks' weights, without creating any."""
    num_outputs = len(description.actions) + (not description.fixed_last)
    keys = jax.ShapeDtypeStruct((len(description.options),), jax.random.key(0).dtype)
    init = partial(init_policies, env, view, description.network, num_outputs)
    return jax.eval_shape(jax.vmap(lambda key: init(key=key)), keys)


def _identity(place: Place, files: Mapping[str, bytes]) -> tuple[bytes, Json]:
    """The content that identifies an option set, without provenance and reports."""
    value = parse_object(f"{place}/{DESCRIPTION}", files.get(DESCRIPTION, b"{}"))
    return files.get(POLICIES, b""), {k: v for k, v in value.items() if k not in ("provenance", "reports")}


OPTION_SETS = FolderKind(
    format=FORMAT,
    noun="option set",
    article="an",
    files=(POLICIES, DESCRIPTION, CARD),
    folders=(PICTURES,),
    identity=_identity,
)
"""Option sets as a kind of folder."""
