"""Learn a task in a few lines of Python. The result is a team that can be played, saved and compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure

from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import innermost
from cooptions.errors import ArtifactError, require
from cooptions.files import Json
from cooptions.learners.base import LearnerConfig
from cooptions.learners.learn import Learning, learn_seeds, metric_names, scores_by_metric
from cooptions.plots.canvas import write_canvas
from cooptions.plots.curves import plot_learning_curves
from cooptions.runs.directory import provenance
from cooptions.runs.episodes import Episode, play_episode, write_episode
from cooptions.runs.presets import LearnerRecipe
from cooptions.runs.run import Run
from cooptions.scores.comparison import Row, compare, improvements, markdown_comparison
from cooptions.scores.statistics import Scores
from cooptions.training.keys import stage_key
from cooptions.training.progress import Progress


def iql(**fields: Any) -> LearnerRecipe:
    """Independent Q-learning with the paper's settings; `fields` change them.

    Each agent learns values of its own actions.

        team = co.learn(task, co.iql(steps=1_000_000), key=key)
    """
    return LearnerRecipe("iql", tuple(fields.items()))


def vdn(**fields: Any) -> LearnerRecipe:
    """Q-learning whose team value is the sum of the agents' values; `fields` change its settings.

    Value decomposition: credit goes to agents through the sum.

        team = co.learn(task, co.vdn(steps=1_000_000), key=key)
    """
    return LearnerRecipe("vdn", tuple(fields.items()))


def pqn(**fields: Any) -> LearnerRecipe:
    """Parallel Q-learning, without replay or target network; `fields` change its settings.

    With `mixer="sum"` the team value is the sum of the agents' values.

        team = co.learn(task, co.pqn(steps=1_000_000), key=key)
    """
    return LearnerRecipe("pqn", tuple(fields.items()))


def ippo(**fields: Any) -> LearnerRecipe:
    """Independent PPO: the critic sees what its agent sees; `fields` change its settings.

    `steps` counts environment steps of all parallel environments together.

        team = co.learn(task, co.ippo(steps=1_000_000), key=key)
    """
    return LearnerRecipe("ippo", tuple(fields.items()))


def mappo(**fields: Any) -> LearnerRecipe:
    """PPO whose critic sees the whole team; `fields` change its settings.

    `steps` counts environment steps of all parallel environments together.

        team = co.learn(task, co.mappo(steps=1_000_000), key=key)
    """
    return LearnerRecipe("mappo", tuple(fields.items()))


@dataclass(frozen=True)
class LearnedTeam:
    """A team that has learned a task.

    Made by `co.learn`, or read by `co.load_team`.

        team = co.learn(task, co.mappo(steps=1_000_000), key=key)
        assert isinstance(team, co.LearnedTeam)
        team.play(gif="team.gif")
        team.save("my-team")
    """

    env: AbstractEnv
    """The task, with joint options if it was learned with some."""
    config: LearnerConfig
    policy: Any
    scores: tuple[Scores, ...]
    """The scores over training, one for each metric. The environment's own score comes first."""
    scenario: str = ""
    """The environment's name for `co.make_env`; empty if it is unknown."""
    made_by: Json = field(default_factory=dict)
    """Command, versions, commit, device and date of its training."""

    def play(self, *, key: PRNGKeyArray | None = None, gif: Path | str | None = None) -> Episode:
        """Play one episode, as in evaluations. If `gif` is a path, write a GIF there."""
        episode = play_episode(self, jax.random.key(0) if key is None else key)
        if gif is not None:
            write_episode(Path(gif), episode, self.env)
        return episode

    def save(self, path: Path | str, *, scenario: str = "", license: str = "mit", overwrite: bool = False) -> None:
        """Write a directory that `co.load_team` reads, with the options that the team uses and a card.

        If `scenario` gives the environment's name, the team can be loaded without its task. Another team in the
        directory is replaced only if `overwrite` is true.
        """
        from cooptions.runs.team_storage import save_team

        save_team(path, self, scenario=scenario, license=license, overwrite=overwrite)

    def push(self, name: str, *, scenario: str = "", license: str = "mit", private: bool = False) -> str:
        """Upload what `save` writes to the Hugging Face Hub, as `hf://owner/name`. Needs a token with write access.

        Returns the name with the new commit, with which `co.load_team` always loads exactly this team.
        """
        from cooptions.runs.team_storage import push_team

        return push_team(name, self, scenario=scenario, license=license, private=private)


def learn(
    task: AbstractEnv,
    learner: LearnerConfig | LearnerRecipe,
    *,
    name: str = "",
    evaluations: int = 20,
    episodes: int = 64,
    key: PRNGKeyArray,
    directory: Path | str | None = None,
    progress: Progress | bool = False,
) -> LearnedTeam:
    """Learn a task, with its joint options if it is a `MacroEnv`, and evaluate the team during training.

    With a `directory`, training resumes from its last checkpoint there.

        team = co.learn(co.MacroEnv(env, options), co.mappo(steps=10_000_000), key=key, progress=True)
    """
    config = learner.for_env(task) if isinstance(learner, LearnerRecipe) else learner
    require(
        1 <= evaluations <= config.num_updates,
        f"evaluations must be between 1 and the {config.num_updates} updates of training, not {evaluations}",
    )
    require(episodes >= 1, f"episodes must be at least 1, not {episodes}")
    stage = Learning(config.build(), evaluations, episodes)
    lead = jax.tree.map(lambda leaf: leaf[None], task)
    policy, values = learn_seeds(
        stage,
        lead,
        stage_key(key, "learning")[None],
        directory=None if directory is None else Path(directory),
        progress=Progress.of(progress),
    )
    given = name or (learner.name if isinstance(learner, LearnerRecipe) else type(config).__name__.lower())
    scores = scores_by_metric(given, _name_of(task), stage.steps, metric_names(task), values)
    policy = jax.tree.map(lambda leaf: leaf[0], policy)
    return LearnedTeam(task, config, policy, tuple(scores), made_by=provenance())


def load_team(path: Path | str, env: AbstractEnv | None = None, *, seed: int = 0, trust: bool = False) -> LearnedTeam:
    """Load a team from a directory that `save` wrote, from the hub (`hf://owner/name`), or from a run directory.

    `env` is the task in which the team learned, or the environment inside it. It is not needed if the team's scenario
    is known. `seed` chooses one of the teams of a run directory. A scenario or learner from outside the package is
    imported only if `trust` is true.

        team.save("my-team")
        again = co.load_team("my-team", task)
    """
    from cooptions.runs.team_storage import is_stored_team, load_stored

    if is_stored_team(path):
        return load_stored(path, env, trust=trust)
    if not Path(path).is_dir():
        raise ArtifactError(f"{path}: no directory of a team or of a run")
    with Run.reopen(Path(path), trust=trust) as run:
        return team_of_run(run, seed)


def team_of_run(run: Run, seed: int) -> LearnedTeam:
    """The team that a seed of a run has learned. `seed` is an index from 0."""
    config = run.config
    if not run.has("learning"):
        raise ArtifactError(f"{run.directory.path}: nothing was learned here; `cooptions train` does it")
    require(0 <= seed < config.seeds, f"seed must be 0 to {config.seeds - 1}, not {seed}")
    policy, values = run.learning
    task, policy = jax.tree.map(lambda leaf: leaf[seed], (run.task, policy))
    scores = config.learning.scores(config.env, config.scenario, values[seed : seed + 1])
    made_by = run.directory.manifest["learning"]["made_by"]
    return LearnedTeam(task, config.learning.learner, policy, tuple(scores), config.scenario, made_by)


@dataclass(frozen=True)
class Comparison:
    """A comparison of teams. Printed, it is a table of interquartile means with their intervals."""

    scores: tuple[Scores, ...]
    rows: tuple[Row, ...]

    def figure(self) -> Figure:
        """Learning curves with intervals."""
        return plot_learning_curves(list(self.scores))

    def save(self, stem: Path | str) -> list[Path]:
        """Write the curves as PNG and PDF."""
        return write_canvas(self.figure(), Path(stem))

    def __str__(self) -> str:
        return markdown_comparison(self.rows) + "\n".join(improvements(list(self.scores)))


def compare_teams(teams: Mapping[str, LearnedTeam | list[LearnedTeam]], *, metric: str = "") -> Comparison:
    """Compare teams by their scores: interquartile means over seeds at the end of training, and learning curves.

    A name stands for one team, or for a list of teams that differ in their seed. Intervals need at least two teams.

        teams = [co.learn(task, co.mappo(steps=1_000_000), key=key) for key in jax.random.split(key, 2)]
        print(co.compare({"mappo+hit": teams}))
    """
    require(len(teams) > 0, "compare: name at least one team")
    merged = tuple(_merged(name, team if isinstance(team, list) else [team], metric) for name, team in teams.items())
    averaged = tuple(each.averaged() for each in merged)
    return Comparison(averaged, tuple(compare(averaged)))


def _merged(name: str, teams: list[LearnedTeam], metric: str) -> Scores:
    """The scores of teams that differ in their seed, by one metric. The default is the environment's first one."""
    known = [score.metric for score in teams[0].scores]
    wanted = metric or known[0]
    require(wanted in known, f"metric: {name} has no {wanted!r}; there are {', '.join(known)}")
    chosen = [next(score for score in team.scores if score.metric == wanted) for team in teams]
    require(
        all(np.array_equal(each.steps, chosen[0].steps) for each in chosen),
        f"compare: the teams of {name} were not evaluated after the same steps",
    )
    return replace(chosen[0], name=name, values=np.concatenate([each.values for each in chosen]))


def _name_of(env: AbstractEnv) -> str:
    return type(innermost(env)).__name__
