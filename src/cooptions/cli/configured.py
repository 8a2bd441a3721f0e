"""Make a configuration from a command line: a preset or scenario, a YAML file, parts by name, and single fields."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cooptions.cli.arguments import Given, refuse_unknown
from cooptions.cli.help import Line, arguments_of, docs_of, metavar, paragraph, summary, table, told, usage
from cooptions.discovery.laplacian.base import LAPLACIANS
from cooptions.discovery.representations.base import REPRESENTATIONS
from cooptions.errors import require
from cooptions.learners.base import LEARNERS
from cooptions.runs.config import Config
from cooptions.runs.overrides import Field, changed, fields_of, nested
from cooptions.runs.presets import DISCOVERY_SWAPS, LEARNING_SWAPS, OPTION_SWAPS, PRESETS, Swaps, preset, with_parts
from cooptions.runs.recipe import apply_recipe, read_recipe
from cooptions.runs.stages import STAGES

ALWAYS = ("scenario", "seed", "seeds")
"""The fields that every stage depends on."""


@dataclass(frozen=True)
class Form:
    """The options of a command that set the configuration."""

    command: str
    stage: str
    """The last stage that it makes."""
    swaps: Swaps = field(default_factory=lambda: DISCOVERY_SWAPS)
    """Parts that can be exchanged by name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of fields."""
    first: tuple[str, ...] = ("seeds", "seed")
    """The fields that `--help` shows besides parts and short names."""
    only: tuple[str, ...] = ()
    """The top-level fields that it can set. Empty for all that its stages use."""

    def fields(self, config: Config) -> list[Field]:
        """The fields of a configuration that the command can set."""
        used = self.only or (*ALWAYS, *used_fields(self.stage, config))
        return [each for each in fields_of(config) if each.path.partition(".")[0] in used]


_STEPS = {"steps": "learning.learner.steps"}
FORMS = {
    "walk": Form("walk", "walk", {}, first=("walk.transitions", "walk.num_envs", "walk.features", "seeds", "seed")),
    "discover": Form(
        "discover", "spectrum", first=("laplacian.num_eigenfunctions", "members", "walk.transitions", "seeds", "seed")
    ),
    "verify": Form("verify", "spectrum", first=("laplacian.num_eigenfunctions", "walk.transitions", "seeds", "seed")),
    "options": Form(
        "options", "options", OPTION_SWAPS, {"steps": "options.learner.steps"}, first=(), only=("options",)
    ),
    "train": Form("train", "learning", LEARNING_SWAPS, _STEPS),
    "run": Form("run", list(STAGES)[-1], LEARNING_SWAPS, _STEPS),
}
"""The form of each command."""


def used_fields(stage: str, config: Config) -> tuple[str, ...]:
    """The fields of a configuration that a stage and the earlier ones depend on."""
    return tuple(name for each in (*STAGES[stage].after(config), stage) for name in STAGES[each].fields)


def configured(form: Form, scenario: str, file: Path | None, given: Sequence[Given], *, trust: bool = False) -> Config:
    """The configuration of a command line."""
    config = preset(scenario) if file is None else _from_file(form, scenario, file, trust)
    return with_flags(form, config, given)


def with_flags(form: Form, config: Config, given: Sequence[Given]) -> Config:
    """The configuration with the parts and fields that the flags set."""
    swaps = [each for each in given if each.name in form.swaps]
    for each in swaps:
        require(len(each.values) == 1, f"{form.command}: {each.typed} takes one name, not {' '.join(each.values)!r}")
        config = with_parts(config, form.swaps[each.name].parts(each.values[0], config))
    rest = [each for each in given if each not in swaps]
    return _with_fields(form, config, rest) if rest else config


def _from_file(form: Form, scenario: str, file: Path, trust: bool) -> Config:
    changes = read_recipe(file)
    named = changes.get("scenario", changes.pop("preset", ""))
    require(isinstance(named, str), f"{file}: scenario must be text, not {named!r}")
    begun = scenario or named
    require(bool(begun), f"{form.command}: {file} names no scenario: give one before --config")
    parts = {name: value for name, value in changes.items() if name in LEARNING_SWAPS and isinstance(value, str)}
    rest = {name: value for name, value in changes.items() if name not in parts}
    outside = [value for value in (named, *parts.values()) if ":" in value and value != scenario]
    require(
        trust or not outside,
        f"{file}: names {', '.join(map(repr, outside))}, code from outside, which a file cannot ask to run: if you "
        "know it, say --trust",
    )
    config = preset(begun)
    require(
        not scenario or changes.get("scenario", config.scenario) == config.scenario,
        f"{form.command}: {file} is of scenario {named!r}, not {config.scenario!r}: leave one out",
    )
    for name, value in parts.items():
        config = with_parts(config, LEARNING_SWAPS[name].parts(value, config))
    if scenario:  # given on the command line, and checked above to be the file's
        rest.pop("scenario", None)
    return apply_recipe(config, rest, file, trust=trust)


def _with_fields(form: Form, config: Config, given: Sequence[Given]) -> Config:
    """The configuration with single fields set. If a flag occurs several times, the last one counts."""
    known = {each.path: each for each in fields_of(config)}
    values: dict[str, Any] = {}
    for each in given:
        path, value = _meant(form, each, known)
        refuse_unknown(form.command, [Given(path, each.values)], [*known, *form.swaps, *form.aliases])
        values[path] = value
    _refuse_idle(form, config, values)
    return changed(config, nested(values))


def _meant(form: Form, given: Given, known: Mapping[str, Field]) -> tuple[str, Any]:
    """The field that a flag sets, and its value as a string or a list of strings."""
    path = form.aliases.get(given.name, given.name)
    before, dot, last = path.rpartition(".")
    for switched in (f"{before}{dot}{last.removeprefix('no_')}", path.removeprefix("no_")):
        if path not in known and switched in known and not given.values:
            return switched, "false"
    if path not in known or "tuple" in str(known[path].kind):
        return path, list(given.values)
    if known[path].kind is bool and not given.values:
        return path, "true"
    problem = f"{form.command}: {given.typed} takes one value, not {' '.join(given.values)!r}"
    require(len(given.values) == 1, problem if given.values else f"{form.command}: {given.typed} needs a value")
    return path, given.values[0]


def _refuse_idle(form: Form, config: Config, paths: Iterable[str]) -> None:
    """Raise `ConfigError` for flags of parts that no stage of the run uses, since they would have no effect."""
    used = {each.path for each in form.fields(config)}
    idle = dict.fromkeys(path.partition(".")[0] for path in paths if path not in used)
    require(
        not idle,
        f"{form.command}: nothing here uses the flags of {', '.join(idle)}; leave them out, or see --help of the "
        "command that does (`cooptions options`, `cooptions train`)",
    )


def help_of(form: Form, kind: type, config: Config, *, whole: bool) -> str:
    """The help of a command: its most important flags, or with `whole` all flags."""
    fields = {each.path: each for each in form.fields(config)}
    lines = [
        *arguments_of(kind)[:1],
        *((f"--{name} NAME", _choices(name, form)) for name in form.swaps),
        *(_line(fields[path], name) for name, path in form.aliases.items()),
        *(_line(fields[name]) for name in form.first),
        *arguments_of(kind)[1:],
    ]
    rest = [each for path, each in fields.items() if path not in (*form.first, *form.aliases.values())]
    if not whole:
        lines.append(("--help-all", f"Show every other flag of this command too ({len(rest)})."))
    shown = [usage(kind, form.command), "", *paragraph(summary(kind)), "", *table(lines)]
    if whole:
        shown += [
            "",
            *paragraph(f"Every other flag, with its value in {config.scenario}:"),
            "",
            *table(map(_line, rest)),
        ]
    return "\n".join(shown)


def _choices(name: str, form: Form) -> str:
    """The description of a flag that exchanges a part, with the possible names."""
    doc = {
        "method": "How to discover" if form.swaps is DISCOVERY_SWAPS else "How to learn",
        "representation": "How the team's states become z",
        "laplacian": "How eigenfunctions of z are found",
        "options": "The recipe by which options are trained",
    }.get(name, name)
    names = form.swaps[name].names()
    alone = [each for each in names if "+" not in each]
    added = [f"+{each.partition('+')[2]}" for each in names if "+" in each]
    return f"{doc}: {', '.join(alone)}{'; each alone or with ' if added else ''}{', '.join(added)}."


def _line(each: Field, name: str = "") -> Line:
    documented = docs_of(each.owner).get(each.name, "")
    shown = f"--{(name or each.path).replace('_', '-')} {metavar(each.kind)}".strip()
    return shown, f"{documented}{told(each.value) if each.kind is not bool else f' (default: {each.value})'}".strip()


def refuse_mistyped(form: Form, given: Sequence[Given]) -> None:
    """Raise `ConfigError` for flags that no part has, before an environment is made."""
    if any(":" in value for each in given for value in each.values):
        return  # a part from outside, whose fields are unknown here
    names = every_field()
    for each in given:
        path = form.aliases.get(each.name, each.name)
        plain = ".".join(word.removeprefix("no_") for word in path.split("."))
        if each.name not in form.swaps and not {path, plain} & names:
            refuse_unknown(form.command, [each], [*form.aliases, *form.swaps, *sorted(names)])


def every_field() -> set[str]:
    """The fields of configurations with any parts of this package."""
    kinds = {"representation": REPRESENTATIONS, "laplacian": LAPLACIANS, "learning.learner": LEARNERS}
    names = {each.path for each in fields_of(PRESETS["quick"])}
    for path, registry in kinds.items():
        names |= {each.path for name in registry.names() for each in fields_of(registry[name](), f"{path}.")}
    return names
