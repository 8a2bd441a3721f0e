"""The card of an option set: a README that says what the options do and how to use them."""

import json
import re
from collections.abc import Collection, Sequence

import yaml

from cooptions.envs.base import AbstractEnv
from cooptions.envs.subteam import SubteamEnv, agents_in_words
from cooptions.envs.wrapper import innermost
from cooptions.errors import require
from cooptions.files import Json
from cooptions.options.report import FeatureReport, OptionReport, markdown_reports
from cooptions.options.sight import Sight

LICENSE = "mit"
"""The default license of shared folders, which is that of this package."""
PLACE = "path/to/this/directory"
"""The placeholder for the location in the card of a folder that has not been uploaded."""
PAPER = (
    "Joint options are introduced in *Inter-Agent Relative Representations for Multi-Agent Option Discovery*, Raul D. "
    "Steleac, Mohan Sridharan and David Abel, [arXiv:2512.24827](https://arxiv.org/abs/2512.24827)."
)

SIGNS = {"+": "-plus", "-": "-minus"}


def card_files(names: Sequence[str]) -> dict[str, str]:
    """A file name for each option's picture that is valid on all systems, for example `e1-plus.png` for `+e1`."""
    files: dict[str, str] = {}
    for name in names:
        body, suffix = (name[1:], SIGNS[name[0]]) if name[:1] in SIGNS else (name, "")
        stem = re.sub(r"[^a-z0-9]+", "-", body.lower()).strip("-")[:60] or "option"
        candidates = [f"{stem}{suffix}.png", *(f"{stem}{suffix}-{i}.png" for i in range(2, len(names) + 1))]
        files[name] = next(file for file in candidates if file not in files.values())
    return files


def card_markdown(
    env: AbstractEnv,
    reports: Sequence[OptionReport],
    provenance: Json,
    *,
    pictures: Collection[str] = (),
    scenario: str = "",
    sight: Sight = "observation",
    license: str = LICENSE,
    place: str = PLACE,
) -> str:
    """The card in Markdown.

    `pictures` are the files of `card_files` that exist, `scenario` is the environment's name or empty, and `place` is
    the location from which the card loads the options.
    """
    files = card_files([report.name for report in reports])
    parts = [
        front_matter(env, scenario, license, "options"),
        _introduction(env, reports, scenario, sight),
        _usage(env, scenario, place),
        provenance_lines(provenance),
        *([_table(reports)] if reports else []),
        *(_option(report, files[report.name], pictures) for report in reports),
    ]
    return "\n".join(parts)


def front_matter(env: AbstractEnv, scenario: str, license: str, kind: str) -> str:
    """The YAML header that a model hub reads: library, license, and tags for the kind and the environment."""
    named = [scenario.partition(",")[0]] if scenario and ":" not in scenario else []
    return _front_matter(license, kind, *named, type(innermost(env)).__name__.lower())


def _front_matter(license: str, *tags: str) -> str:
    fits = re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,39}", license)
    require(bool(fits), f"license must be a hub's name of one, such as mit or cc-by-4.0, not {license!r}")
    every = ["cooptions", "multi-agent-reinforcement-learning", "reinforcement-learning", *tags, "arxiv:2512.24827"]
    value = {"library_name": "cooptions", "license": license, "tags": every}
    return f"---\n{yaml.safe_dump(value, sort_keys=False)}---\n"


def addressed(card: str, place: str, license: str = "") -> str:
    """The card of a folder that is now at `place`, with another license if one is given."""
    if not card.startswith("---\n"):  # cards of earlier versions have no header
        card = f"{_front_matter(LICENSE)}\n{card}"
    if license:
        _ = _front_matter(license)  # raises if it is invalid
        card = re.sub(r"(?m)^license: .*$", f"license: {license}", card, count=1)
    return card.replace(PLACE, place)


FITS: dict[Sight, str] = {
    "relation": """The policies observe only the agents' states. They work in every environment with the same agents,
features, map and actions; additional agents and actions do not matter. They were trained in""",
    "observation": "The policies observe the environment's own observations, so they work only in this environment:",
}


def _introduction(env: AbstractEnv, reports: Sequence[OptionReport], scenario: str, sight: Sight) -> str:
    features = ", ".join(f"{feature.name} ({feature.kind})" for feature in env.features)
    rules = f"\nIts rules: {_inline(env.task_rules)}.\n" if env.task_rules else ""
    whom = f"{agents_in_words(env)} in " if isinstance(env, SubteamEnv) else ""
    return f"""# {len(reports) or "Some"} joint options for {whom}{scenario or written(innermost(env))}

A joint option is a behaviour that several agents begin, follow and end together. Each of these options climbs (`+`) or
descends (`-`) one eigenfunction of the relations between the agents, and terminates where little is left to gain.
They are for {agents_in_words(env)} with {env.num_actions} actions each, whose states have the features {features}.
{FITS[sight]}

    {written(env)}
{rules}
Loading compares this with your environment, and every file with its SHA-256 in `manifest.json`. It runs no code.

{PAPER}
"""


def _usage(env: AbstractEnv, scenario: str, place: str) -> str:
    return f"""## Use

```python
{import_env(env, scenario)}
options = co.load_options("{place}", env)
task = co.MacroEnv(env, options)  # actions: the {env.num_actions} of the environment, then a vote for each option
```
"""


def import_env(env: AbstractEnv, scenario: str) -> str:
    """The lines of Python that import cooptions and make an environment."""
    if isinstance(env, SubteamEnv):
        return import_env(env.env, scenario)  # loading finds the sub-team in it
    if scenario:
        return f"""import cooptions as co

env = co.make_env({json.dumps(scenario)})"""
    made = written(env)
    if "<" in made:  # it has a field without a literal, for example a function
        made = f"...  # your {type(env).__name__}, made as above"
    return f"""import cooptions as co
from {type(env).__module__} import {type(env).__name__}

env = {made}"""


def provenance_lines(provenance: Json) -> str:
    """A list of how the folder was made, one line per entry."""
    lines = [f"- {key}: {_inline(value)}\n" for key, value in provenance.items()]
    return "## Made\n\n" + ("".join(lines) or "- no one noted how\n")


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return f"`{value}`"


def _table(reports: Sequence[OptionReport]) -> str:
    return f"""## Options

Each option was followed from {reports[0].num_starts} states reached by random play. The spread of a feature is the sum
of the agents' distances to their median, or for a categorical feature the number of agents that differ from the most
common value. The ratio divides the mean spread at the end by that at the start, with a 95% bootstrap interval. Random
play is measured from the same states for as many steps. The gain is how far the option climbed, in standard deviations
of its eigenfunction.

The left side of a picture shows the function that the option climbs (red is high) as the first agent moves and its
teammates, the dots, stand still. The right side shows one roll-out from there, and the spread of each feature at its
end.

{markdown_reports(reports)}"""


def _option(report: OptionReport, file: str, pictures: Collection[str]) -> str:
    low, median, high = report.length_quartiles
    gain = "" if report.mean_gain is None else f" Its gain is {report.mean_gain:+.2f}."
    lines = [
        f"### {report.name}: {report.description}\n",
        f"It takes {report.mean_length:.1f} steps (quartiles {low:g}, {median:g}, {high:g}) and terminates before the "
        f"step limit in {report.share_terminated:.0%} of cases.{gain}\n",
        *(f"- {_spread(feature)}" for feature in report.features),
        *([f"\n![{report.name}](cards/{file})"] if file in pictures else []),
    ]
    return "\n".join(lines) + "\n"


def _spread(feature: FeatureReport) -> str:
    if feature.ratio is None or feature.random_ratio is None:
        return f"{feature.name}: no two agents differed in it at the start, at the end by {feature.end:.2f}"
    return (
        f"{feature.name}: the spread goes from {feature.start:.2f} to {feature.end:.2f}, a ratio of {feature.ratio}; "
        f"with random play {feature.random_ratio}"
    )


def written(env: AbstractEnv) -> str:
    """The environment's `repr` on one line."""
    text = " ".join(repr(env).split())
    return text if len(text) <= 300 else f"{text[:297]}..."
