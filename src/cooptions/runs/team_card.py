"""The card of a learned team: a README with its task, its scores and how it was made."""

from collections.abc import Sequence

from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import innermost
from cooptions.files import Json, encode
from cooptions.learners.base import LearnerConfig
from cooptions.options.macro import MacroEnv
from cooptions.options.sharing.cards import LICENSE, PAPER, PLACE, front_matter, import_env, provenance_lines, written
from cooptions.scores.statistics import Scores, bootstrap_mean
from cooptions.scores.tables import markdown_table


def team_markdown(
    task: AbstractEnv,
    config: LearnerConfig,
    scores: Sequence[Scores],
    provenance: Json,
    *,
    source: str,
    scenario: str = "",
    license: str = LICENSE,
    place: str = PLACE,
) -> str:
    """The card in Markdown. `source` is the source of the task's options, as in `team.json`."""
    env = innermost(task)
    parts = [
        front_matter(env, scenario, license, "team"),
        _introduction(task, scores[0], scenario),
        _scores(scores),
        _usage(task, scenario, source, place),
        _options(task, source),
        _learner(config),
        provenance_lines(provenance),
    ]
    return "\n".join(parts)


def _introduction(task: AbstractEnv, score: Scores, scenario: str) -> str:
    env = innermost(task)
    rules = f"\nIts rules: {', '.join(f'{key} {value}' for key, value in env.task_rules.items())}.\n"
    return f"""# A team for {scenario or written(env)}

The policies of {env.num_agents} agents that learned together by `{score.name}`. The task:

    {written(env)}
{rules if env.task_rules else ""}
Loading compares this with your environment, and every file with its SHA-256 in `manifest.json`. It runs no code.

{PAPER}
"""


def _scores(scores: Sequence[Scores]) -> str:
    head = ("score", "mean of the last evaluation [95% interval]", "episodes", "environment steps")
    rows = [
        (
            each.metric,
            str(bootstrap_mean(each.values[0, -1])),
            str(each.values.shape[-1]),
            f"{int(each.steps[-1])}",
        )
        for each in scores
    ]
    return f"""## Scores

{markdown_table(head, rows)}
Intervals are bootstrapped over the episodes of this team. They do not include the variation between seeds.
"""


MOST_NAMES = 24
"""The maximum number of options that a card lists. Options placed on every sub-team can be many more."""


def _usage(task: AbstractEnv, scenario: str, source: str, place: str) -> str:
    known = bool(scenario) and (source != "" or not isinstance(task, MacroEnv))
    lines = ["import cooptions as co\n"] if known else [import_env(innermost(task), "")]
    if not known and isinstance(task, MacroEnv) and source == "":
        lines.append("env = co.MacroEnv(env, ...)  # with the options below")
    lines.append(f'team = co.load_team("{place}"{"" if known else ", env"})')
    code = "\n".join([*lines, 'team.play(gif="team.gif")'])
    return f"""## Use

```python
{code}
```
"""


def _options(task: AbstractEnv, source: str) -> str:
    if not isinstance(task, MacroEnv):
        return "## Options\n\nNone: the agents learned with their own actions alone.\n"
    origin = {"set": "They are in `options/`.", "": "They are not in this folder."}
    known = [f"`{option.name}`" for option in task.options.options]
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    names = ", ".join(known[:MOST_NAMES]) + more
    return f"""## Options

The task has {task.options.num_options} joint options: {names}. {origin.get(source, f"Their source is `{source}`.")}
They start when members vote for them (`start={task.start}`, initiation `{task.initiation}`), continue by
`keep={task.keep}` and end by `end={task.end}`. Options of fewer agents are placed as
`{task.placing}`. An agent observes `{task.observe}`.
"""


def _learner(config: LearnerConfig) -> str:
    fields = encode(config)
    rows = [(name, f"`{value}`") for name, value in fields.items() if name != "type"]
    return f"""## Learner

{markdown_table((fields["type"], "value"), rows)}"""
