"""Faults in the input: invalid flags, scenarios and files, and untrusted files that name code."""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults_stages import context, slowness
from cooptions.cli.main import main as command_line
from cooptions.runs.directory import RunDirectory
from cooptions.runs.records import read_record, write_record

Try = tuple[str, Callable[[], str]]

TINY = [
    *("grid-5x5-2p,task=meet", "--method", "iql+hit", "--seeds", "2"),
    *("--walk.transitions", "2000", "--walk.num-envs", "20", "--representation.steps", "50"),
    *("--laplacian.num-eigenfunctions", "2", "--options.learner.steps", "20000", "--options.num-starts", "64"),
    *("--learning.learner.steps", "12800", "--learning.evaluations", "2", "--learning.episodes", "8"),
]
"""A run that takes a minute. Each of the following flags makes it invalid."""

SENSELESS = (
    *("--seeds 0", "--seeds 100000000", "--seeds -1", "--seed 4294967295", "--seed 4294967296", "--seed -1"),
    *("--seeds 1e400", "--seeds x", "--seed nan", "--steps -5", "--steps 1e30"),
    *("--walk.transitions 0", "--walk.transitions 1e11", "--walk.transitions 7", "--walk.num-envs 0"),
    *("--walk.num-envs 100000000000", "--walk.features x x", "--walk.features nowhere"),
    *("--representation.steps 0", "--representation.learning-rate nan", "--representation.learning-rate -1"),
    *("--representation.discount 1", "--representation.discount nan", "--representation.batch 10000000000"),
    *("--representation.hidden 0", "--representation.hidden -4", "--representation.cap nan"),
    *("--laplacian.num-eigenfunctions 0", "--laplacian.num-eigenfunctions 100000000", "--laplacian.bandwidth nan"),
    *("--laplacian.num-landmarks 1", "--laplacian.num-landmarks 10000000000", "--laplacian nonsense"),
    *("--representation nonsense", "--method nonsense", "--options nonsense", "--method iql+nonsense"),
    *("--options.epsilon 7", "--options.epsilon nan", "--options.margin nan", "--options.margin -1"),
    *("--options.start-steps -1", "--options.num-starts 0", "--options.max-steps 0", "--options.step-cost nan"),
    *("--options.learner.network.hidden 0", "--options.learner.network.hidden -3 3"),
    *("--options.learner.learning-rate nan", "--options.learner.batch 10000000"),
    *("--learning.learner.learning-starts -5", "--learning.learner.learning-starts 99999999999"),
    *("--learning.learner.batch 10000000", "--learning.learner.batch 0", "--learning.learner.learning-rate -1"),
    *("--learning.learner.learning-rate nan", "--learning.learner.max-gradient-norm -1"),
    *("--learning.learner.max-gradient-norm nan", "--learning.learner.epsilon-decay -1"),
    *("--learning.learner.epsilon-decay nan", "--learning.learner.discount 2", "--learning.learner.steps 1"),
    *("--learning.learner.capacity 1", "--learning.learner.capacity 100000000000", "--learning.learner.rollout 0"),
    *("--learning.learner.network.hidden 0", "--learning.learner.network.hidden -2"),
    *("--learning.evaluations 0", "--learning.evaluations 100000000"),
    *("--learning.episodes 0", "--learning.episodes 10000000000", "--learning.macro.num-options 1000"),
    *("--learning.macro.keep some", "--learning.macro.discoveries 9", "--learning.nonsense 1", "--track nowhere"),
)
"""Invalid flags. The error must name the last word that begins with two dashes."""

SCENARIOS = (
    *("grid-5x5-1p", "nonsense", "grid-5x5-2p,nonsense=1", "nowhere:env", "grid-x", "lbf-5x5-1p-1f"),
    *("lbf-99999x99999-2p-1f", "grid-30000x30000-2p", "grid-5x5-2p,map=/dev/zero", "grid-5x5-2p,map=nowhere"),
    *(
        "grid-5x5-2p,time_limit=0",
        "grid-5x5-2p,time_limit=1e99",
        "grid-0x5-2p",
        "grid-5x5-99999p",
        "overcooked-nowhere",
    ),
    *("overcooked-cramped_room,time_limit=99999999999999", "probe-two_step,num_agents=100000000000"),
    *("lbf-8x8-2p-2f,max_level=99999999999", "mpe-simple_spread,time_limit=-1"),
    *("grid-5x5-2p,", "grid-5x5-2p,task", "grid-5x5-2p,task=nowhere", "\x1b[31mgrid-5x5-2p", "../../etc/passwd"),
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    *(
        ("show", "a[/b]"),
        ("evaluate", "[/evil]"),
        ("compare", "a[/b]", "[red]"),
        ("figure", "[/x]", "--run", "nowhere"),
    ),
    *(("play", "nowhere"), ("repair", "nowhere"), ("options", "nowhere"), ("campaign", "nowhere.yaml"), ("nonsense",)),
    *(("train", "--config", "nowhere.yaml"), ("train", "--config", "/dev/zero"), ("campaign", "/dev/zero")),
    *(
        ("show",),
        ("evaluate",),
        ("train",),
        ("train", "quick", "--sedes", "3"),
        ("evaluate", "nowhere", "--episodes", "0"),
    ),
)
CAMPAIGNS = (
    *("methods: [iql]", "- 1", "", "\x00", "scenarios: [grid-5x5-2p]\nmethods: [iqql]", "a: &a [*a]"),
    *("scenarios: [grid-5x5-2p]\nmethods: [iql]\nseeds: 99999999999", "[" * 5000),
    *("scenarios: [grid-5x5-2p]\nmethods: [iql]\nsteps: .nan", "scenarios: [grid-5x5-2p]\nmethods: iql\nfraction: 0"),
    "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))]),
)
"""Invalid campaign files."""
SECONDS = 60
"""The time within which each must be refused; longer on a busy machine."""


def bad_configurations(place: Path) -> Iterator[Try]:
    """Try every invalid input on the command line, in a process with a time limit."""
    here = place / "asked"
    here.mkdir(exist_ok=True)
    for number, flags in enumerate(SENSELESS):
        name = [word for word in flags.split() if word.startswith("--")][-1].rpartition(".")[2].lstrip("-")
        out = here / f"bad-{number}"
        yield flags, partial(_bad, ["train", *TINY, *flags.split(), "--out", str(out)], here, name, out)
    for number, scenario in enumerate(SCENARIOS):
        out = here / f"scenario-{number}"
        yield repr(scenario), partial(_bad, ["discover", scenario, "--out", str(out)], here, "", out)
    for words in COMMANDS:
        yield " ".join(words), partial(_bad, words, here, "", None)
    for number, text in enumerate(CAMPAIGNS):
        file = here / f"bad-{number}.yaml"
        file.write_text(text)
        yield f"campaign {text[:40]!r}", partial(_bad, ["campaign", str(file), "--plan"], here, file.name, None)


def _bad(words: Sequence[str], here: Path, name: str, out: Path | None) -> str:
    """The outcome of a command, which must be refused quickly with one line that names the field, leaving no files."""
    log, begun = here / "log", time.monotonic()
    process = context().Process(target=_command, args=(list(words), here, log))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.join(SECONDS * (slowness() - 1))
    took = time.monotonic() - begun
    if process.is_alive():
        process.kill()
        process.join()
        return f"still at it after {SECONDS} s"
    text = log.read_text(errors="replace")
    if "Traceback" in text:
        return "traceback"
    lines = [line for line in text.splitlines() if "error: " in line]
    if process.exitcode != 2 or len(lines) != 1 or not lines[0].isprintable():
        return f"exit {process.exitcode}, {len(lines)} lines"
    if name.replace("-", "_") not in lines[0].replace("-", "_"):
        return "field not named"
    if out is not None and not RunDirectory(out).holds_nothing:
        return "left behind"
    return f"refused@within {5 * (int(took / 5) + 1)} s"


def _command(words: Sequence[str], here: Path, log: Path) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (8 * 2**30, resource.RLIM_INFINITY))
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(here)
    command_line(list(words))


EVIL = "evil_stranger:env"
MARK = "stranger_was_here"


def strangers(run: Path, place: Path) -> Iterator[Try]:
    """Try runs, recipes and campaigns that name code with every command. None of the code may be imported."""
    changes: dict[str, Callable[[Any], None]] = {
        "scenario": lambda stage: stage.update(scenario=EVIL),
        "representation": lambda stage: stage.get("representation", {}).update(type=EVIL),
        "laplacian": lambda stage: stage.get("laplacian", {}).update(type=EVIL),
        "learner": lambda stage: stage.get("learning", {}).get("learner", {}).update(type=EVIL),
        "option set": lambda stage: (stage.get("learning", {}).get("macro") or {}).update(option_set=EVIL),
    }
    commands = (
        *(
            ["show", "RUN"],
            ["evaluate", "RUN", "--episodes", "2"],
            ["options", "RUN"],
            ["figure", "options", "--run", "RUN"],
        ),
        *(["play", "RUN", "--export", "page.html"], ["compare", "RUN"], ["repair", "RUN"]),
    )
    for name, change in changes.items():
        for words in commands:
            yield f"{name}: {words[0]}", partial(_strange_run, run, change, words)
    recipes = {
        "scenario": f"scenario: {EVIL}",
        "method": f"preset: quick\nmethod: iql+{EVIL}",
        "representation": f"preset: quick\nrepresentation: {EVIL}",
        "laplacian": f"preset: quick\nlaplacian: {{type: {EVIL}}}",
        "tag": "preset: !!python/object/apply:os.system [touch stranger_was_here]",
    }
    for name, text in recipes.items():
        yield f"recipe: {name}", partial(_strange_file, text, ["train", "--config", "FILE", "--out", "out"])
    campaigns = {
        "scenarios": f"scenarios: ['{EVIL}']\nmethods: [iql]",
        "methods": f"scenarios: [grid-5x5-2p]\nmethods: ['iql+{EVIL}']",
        "set": f"scenarios: [grid-5x5-2p]\nmethods: [iql+hit]\nset: {{representation: '{EVIL}'}}",
        "figure": f"scenarios: [grid-5x5-2p]\nmethods: [iql+hit]\nfigures: {{a: {{kind: '{EVIL}'}}}}",
    }
    for name, text in campaigns.items():
        yield f"campaign: {name}", partial(_strange_file, text, ["campaign", "FILE", "--plan"])


def _strange_run(run: Path, change: Callable[[Any], None], words: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run"
        shutil.copytree(run, copy)
        configs, manifest = (read_record(copy / name) for name in ("config.json", "manifest.json"))
        for stage in configs.values():
            change(stage)
        for entry in manifest.values():
            change(entry["config"])
        write_record(copy / "config.json", configs)
        write_record(copy / "manifest.json", manifest)
        return _asked([str(copy) if word == "RUN" else word for word in words], Path(folder))


def _strange_file(text: str, words: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "file.yaml").write_text(text)
        return _asked(["file.yaml" if word == "FILE" else word for word in words], Path(folder))


def _asked(words: Sequence[str], here: Path) -> str:
    """The outcome of a command in a directory with the untrusted code."""
    (here / "evil_stranger.py").write_text(f"open({str(here / MARK)!r}, 'w').close()\n")
    process = context().Process(target=_command, args=(words, here, here / "log"))
    process.start()
    process.join(2 * SECONDS * slowness())
    process.kill()
    text = (here / "log").read_text(errors="replace")
    if (here / MARK).exists():
        return "silent"
    if "Traceback" in text or process.exitcode not in (0, 2):
        raise RuntimeError(f"exit {process.exitcode}: {text[-300:]}")
    return "refused" if process.exitcode == 2 else "harmless"
