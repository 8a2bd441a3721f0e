"""Faults in the real stages of a run, from the walk to the learned team, made by their commands.

Every command runs in a process that was forked after all imports, and finds its compiled programs on disk, so that a
try takes seconds. Chunks and the time between checkpoints are short, so that there are many points to interrupt. Then
the same command resumes in this process, and its result is compared byte by byte with that of an undisturbed run.
"""

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import forkserver
from pathlib import Path

import yaml

from cooptions.cli import filling
from cooptions.cli.main import main as command_line
from cooptions.runs import option_sets
from cooptions.runs.records import read_record, write_record
from cooptions.runs.repair import _remove_stage
from cooptions.runs.stages import STAGES
from cooptions.training.loop import train

Try = tuple[str, Callable[[], str]]

SMALL = {
    "scenario": "grid-5x5-2p,task=meet",
    "method": "iql+hit",
    "laplacian": {"type": "Allo", "num_eigenfunctions": 2, "hidden": [16], "steps": 1000, "batch_size": 32},
    "seeds": 2,
    "walk": {"transitions": 20_000, "num_envs": 20},
    "representation": {"steps": 2000, "batch": 32},
    "options": {"num_starts": 32, "learner": {"steps": 30_000, "batch": 16, "network": {"hidden": [16]}}},
    "learning": {"macro": {"discoveries": 1}, "learner": {"steps": 9600, "batch": 8}, "evaluations": 3, "episodes": 4},
}
"""A run of all stages, each of which takes about a second once it is compiled."""

MAKES = {
    "walk": "walk",
    "representation": "discover",
    "spectrum": "discover",
    "options": "options",
    "learning": "train",
}
"""The command that makes each stage."""
PATIENCE = 10.0
"""Seconds within which a signal must end the process, on an idle machine."""
BURST = 0.05
"""Seconds of work that measure how busy the machine is."""


@dataclass(frozen=True)
class Base:
    """A run in which one stage is the next to be made."""

    stage: str
    path: Path
    """A run directory with all earlier stages."""
    config: Path
    seconds: float
    """The time of its command until the stage is finished."""
    begun: float
    """The time until the stage begins."""
    expected: str
    """The digest of the undisturbed result."""

    def words(self, out: Path) -> list[str]:
        """The command that makes the stage."""
        command = MAKES[self.stage]
        return [command, str(out)] if command == "options" else [
            command, "--config", str(self.config), "--out", str(out)
        ]  # fmt: skip


def prepared_run(place: Path) -> Path:
    """A finished run of all stages, with its pictures."""
    (place / "small.yaml").write_text(yaml.safe_dump(SMALL))
    run = place / "run"
    if not (run / "summary.json").exists():
        code, text = here(["train", "--config", str(place / "small.yaml"), "--out", str(run)], pictures=True)
        assert code == 0, text
    return run


@cache
def base(place: Path, stage: str) -> Base:
    """The finished run without a stage and later ones, with the result of the command that makes the stage."""
    run, path = prepared_run(place), place / f"before-{stage}"
    if not path.exists():
        _without(run, stage, path)
    bare = Base(stage, path, place / "small.yaml", 0.0, 0.0, "")
    known = place / f"expected-{stage}.json"
    if not known.exists():
        with _copy(path) as copy:  # compiles
            assert here(bare.words(copy)) == (0, here.text), here.text
            first = result(copy, stage)
        with _copy(path) as copy:  # the same in a separate process
            process, started, begun = child(bare.words(copy), copy.parent / "log"), time.monotonic(), 0.0
            while process.is_alive() and stage not in _finished(copy):
                begun = begun or (time.monotonic() - started if works(copy, stage) else 0.0)
                time.sleep(0.01)
            seconds = time.monotonic() - started
            process.join()
            assert process.exitcode == 0, (copy.parent / "log").read_text()
            assert result(copy, stage) == first, f"{stage}: two processes made different bits"
        known.write_text(json.dumps({"seconds": seconds, "begun": begun, "expected": first}))
    return Base(stage, path, place / "small.yaml", **json.loads(known.read_text()))


def _without(run: Path, stage: str, path: Path) -> None:
    """Copy a run without a stage, later ones, and files that belong to no stage."""
    shutil.copytree(run, path)
    order = list(STAGES)
    manifest = read_record(path / "manifest.json")
    for name in order[order.index(stage) :]:
        _remove_stage(path, name, manifest.pop(name))
    write_record(path / "manifest.json", manifest)
    for left in ("summary.json", "run.yaml"):
        (path / left).unlink(missing_ok=True)
    for folder in ("figures", "checkpoints", "scores"):
        shutil.rmtree(path / folder, ignore_errors=True)


def result(path: Path, stage: str) -> str:
    """The digest of a stage's files, or a message if a partial file or a held lock is left."""
    left = [each.name for each in path.rglob("*.partial")] + [each.name for each in path.rglob("*.replaced")]
    if left or (path / "lock").read_bytes():
        return f"left behind: {left or 'a lock'}"
    chosen = [f"{stage}.safetensors", "metrics/*.jsonl", "option_sets/*/policies.safetensors", "scores/*.safetensors"]
    found = hashlib.sha256()
    for file in sorted({file for pattern in chosen for file in path.glob(pattern)}):
        found.update(f"{file.relative_to(path)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _finished(path: Path) -> Mapping[str, object]:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((path / "manifest.json").read_text())
    return {}


TRAININGS = {"spectrum": "laplacian"}
"""The name of a stage's training if it differs from the stage's name."""


def works(path: Path, stage: str, before: Sequence[Path] = ()) -> bool:
    """Whether a stage has begun: it has a new checkpoint, or, for a walk, which has none, its directory is locked."""
    if stage == "walk":
        return (path / "lock").exists() and bool((path / "lock").read_bytes())
    return bool(set(checkpoints(path, stage)) - set(before))


def checkpoints(path: Path, stage: str) -> list[Path]:
    return list(path.glob(f"checkpoints/{TRAININGS.get(stage, stage)}/*.safetensors"))


def how_far(path: Path, stage: str) -> str:
    """How far a killed process had come, from the files it left."""
    name = TRAININGS.get(stage, stage)
    if stage in _finished(path):
        return "finished"
    if any(path.glob(f"checkpoints/{name}/*.safetensors")):
        return "with a checkpoint"
    return "in the stage" if (path / "lock").exists() and (path / "lock").read_bytes() else "before it"


def kills(place: Path, stage: str, rng: random.Random, num: int) -> Iterator[Try]:
    """Kill a command with SIGKILL and run it again, five times in a row, then let it finish.

    The first kill comes at any time. The others come after the stage has begun, because most of a command's time is
    start-up.
    """
    base(place, stage)
    moments = [tuple(rng.random() for _ in range(SERIES)) for _ in range(num // SERIES)]
    for number, series in enumerate(moments):
        moments_text = ", ".join(f"{moment:.3f}" for moment in series)
        yield f"{stage}: series {number} at {moments_text}", partial(_kill_again_and_again, place, stage, series)


SERIES = 5


def _kill_again_and_again(place: Path, stage: str, moments: Sequence[float]) -> str:
    """The outcomes of all kills. After a kill that comes too late, the stage is made again from the start."""
    given, outcomes, reached = base(place, stage), [], []
    while moments:
        with _copy(given.path) as copy:
            while moments and "finished" not in reached:
                reached.append(_kill(given, copy, moments[0], late=len(moments) < SERIES))
                moments = moments[1:]
            outcome = _goes_on(given, copy, "resumed").partition("@")[0]
            outcomes += [f"{outcome}@{each}" for each in reached]
            reached = []
    return "|".join(outcomes)


def _kill(given: Base, copy: Path, moment: float, *, late: bool) -> str:
    """Kill the command of a stage, and return how far it had come."""
    before = checkpoints(copy, given.stage)
    process = child(given.words(copy), copy.parent / "log")
    if late:
        while process.is_alive() and not works(copy, given.stage, before):
            time.sleep(0.005)
        time.sleep(moment * (given.seconds - given.begun))
    else:
        time.sleep(moment * given.seconds)
    process.kill()
    process.join()
    return how_far(copy, given.stage)


def _goes_on(given: Base, copy: Path, good: str, note: str = "") -> str:
    """Run the same command again. Returns the outcome: `good` if the result is as expected, otherwise `silent`."""
    code, text = here(given.words(copy))
    if "Traceback" in text:
        raise RuntimeError(text[-300:])
    if code != 0:
        raise RuntimeError(f"not made again: {text[-300:]}")
    return f"{good if result(copy, given.stage) == given.expected else 'silent'}@{note}"


def signals(place: Path, rng: random.Random, num: int) -> Iterator[Try]:
    """Send SIGINT or SIGTERM at a random time of each stage. It must exit with 130 within seconds, then resume."""
    tries = [(number, stage, rng.random()) for number in range(num) for stage in MAKES if base(place, stage)]
    for number, stage, moment in tries:
        kind = (signal.SIGINT, signal.SIGTERM)[number % 2]
        yield f"{stage}: {kind.name} at {moment:.3f}", partial(_signal, place, stage, kind, moment)


def _signal(place: Path, stage: str, kind: signal.Signals, moment: float) -> str:
    given = base(place, stage)
    with _copy(given.path) as copy:
        process, log = child(given.words(copy), copy.parent / "log"), copy.parent / "log"
        while not log.exists() or b"begun" not in log.read_bytes():
            time.sleep(0.01)
        time.sleep(moment * given.seconds)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(process.pid or 0, kind)
        begun, slow = time.monotonic(), slowness()
        process.join(60 * slow)
        took = (time.monotonic() - begun) / max(slow, slowness())
        process.kill()
        text = log.read_text()
        if "Traceback" in text:
            raise RuntimeError(text[-300:])
        if process.exitcode == 0:  # the signal came after the end
            return _goes_on(given, copy, "harmless", "finished")
        if process.exitcode != 130 or "stop" not in text or took > PATIENCE:
            return f"exit {process.exitcode} after {took:.1f} s"
        return _goes_on(given, copy, "resumed", how_far(copy, stage))


def slowness() -> float:
    """How many times longer a burst of work takes here and now than on a machine that does nothing else: limits of
    time are meant for one of those."""
    begun, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu < BURST:
        pass
    return max(1.0, (time.monotonic() - begun) / BURST)


def two_processes(place: Path, num: int) -> Iterator[Try]:
    """Start a second process while one trains, and two processes at once."""
    base(place, "learning")
    for number in range(num):
        yield f"a second process {number}", partial(_second, place)
        yield f"two at once {number}", partial(_at_once, place)


def _second(place: Path) -> str:
    given = base(place, "learning")
    with _copy(given.path) as copy:
        process = child(given.words(copy), copy.parent / "log")
        while process.is_alive() and not ((copy / "lock").exists() and (copy / "lock").read_bytes()):
            time.sleep(0.01)
        code, text = here(given.words(copy))
        process.join()
        refused = code == 2 and "held by process" in text and "Traceback" not in text
        return "refused" if refused and result(copy, "learning") == given.expected else "silent"


def _at_once(place: Path) -> str:
    given = base(place, "learning")
    with _copy(given.path) as copy:
        both = [child(given.words(copy), copy.parent / f"log-{number}") for number in range(2)]
        for process in both:
            process.join()
        if "Traceback" in "".join((copy.parent / f"log-{number}").read_text() for number in range(2)):
            raise RuntimeError("a traceback")
        codes = sorted(process.exitcode or 0 for process in both)
        good = codes in ([0, 0], [0, 2]) and result(copy, "learning") == given.expected
        return ("refused" if codes == [0, 2] else "harmless") if good else "silent"


def full_disks(place: Path, num: int) -> Iterator[Try]:
    """Make a run on disks that are too small, then enlarge the disk and run the command again."""
    base(place, "learning")
    needed = _bytes_needed(prepared_run(place))
    for level in range(num if can_mount() else 0):
        room = int(needed * (level + 1) / (num + 1))
        yield f"{room >> 10} KiB of {needed >> 10}", partial(_full, place, room, needed)


def _bytes_needed(run: Path) -> int:
    """The bytes that a run needs, including a temporary copy of its largest file."""
    pages = [-(-file.stat().st_size // 4096) * 4096 for file in run.rglob("*") if file.is_file()]
    return sum(pages) + max(pages)


def can_mount() -> bool:
    """Whether this machine allows mounting a small tmpfs."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", folder], capture_output=True)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def _full(place: Path, room: int, needed: int) -> str:
    given = base(place, "learning")
    disk = Path(tempfile.mkdtemp(dir=place))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(disk)], check=True)
    try:
        words = ["train", "--config", str(given.config), "--out", str(disk / "run")]
        code, text = here(words)
        lines = [line for line in text.splitlines() if line.startswith("cooptions: error")]
        if "Traceback" in text or (code and len(lines) != 1):
            raise RuntimeError(text[-300:])
        if code not in (0, 2) or (code and "No space left" not in lines[0]):
            return f"exit {code}: {text[-200:]}"
        reached = list(_finished(disk / "run"))
        subprocess.run(["mount", "-o", f"remount,size={2 * needed}", str(disk)], check=True)
        again, text = here(words)
        if again or "Traceback" in text:
            raise RuntimeError(text[-300:])
        made = list(STAGES)
        whole = prepared_run(place)
        same = all(_same(disk / "run", whole, f"{name}.safetensors") for name in made)
        good = same and result(disk / "run", "learning") == given.expected
        note = next((stage for stage in STAGES if stage not in reached), "enough room")
        return f"{'resumed' if code else 'harmless'}@{note}" if good else "silent"
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()


def _same(one: Path, other: Path, name: str) -> bool:
    return (one / name).read_bytes() == (other / name).read_bytes()


def stopped_run(place: Path) -> Path:
    """A run that was killed during learning, with checkpoints."""
    given, path = base(place, "learning"), place / "stopped"
    while not path.exists():
        with _copy(given.path) as copy:
            process = child(given.words(copy), copy.parent / "log")
            while process.is_alive() and len(list(copy.glob("checkpoints/learning/*.safetensors"))) < 2:
                time.sleep(0.01)
            process.kill()
            process.join()
            if how_far(copy, "learning") == "with a checkpoint":
                shutil.copytree(copy, path)
    return path


def go_on(place: Path) -> Callable[[Path, list[str]], str]:
    """A function that runs the command of a damaged run again and returns the digest of its result."""

    def look(path: Path, logs: list[str]) -> str:
        code, text = here(base(place, "learning").words(path))
        lines = [line for line in text.splitlines() if line.startswith("cooptions: ")]
        if "Traceback" in text or code not in (0, 2) or (code == 2 and "error: " not in lines[-1]):
            raise RuntimeError(f"exit {code}: {text[-300:]}")
        if code == 2:
            from cooptions.errors import CooptionsError

            raise CooptionsError(lines[-1])
        logs += [line for line in lines if "warning" in line] + [line for line in text.splitlines() if "again" in line]
        return result(path, "learning")

    return look


def child(words: Sequence[str], log: Path) -> multiprocessing.Process:
    """Start a command in a separate process with all modules imported. Its output goes to a file."""
    process = context().Process(target=_in_child, args=(list(words), log))
    process.start()
    return process  # pyright: ignore[reportReturnType]


@cache
def context() -> multiprocessing.context.ForkServerContext:
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["benchmarks.faults_stages", "benchmarks.faults_asked", "jax"])
    return forks


def _in_child(words: Sequence[str], log: Path) -> None:
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.write(1, b"begun\n")
    with _hastened(pictures=False):
        command_line(list(words))


def here(words: Sequence[str], *, pictures: bool = False) -> tuple[int, str]:
    """Run a command in this process, where its programs are compiled. Returns its exit code and its output."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file, _hastened(pictures):
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            with contextlib.redirect_stdout(io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), write_through=True)) as out:
                code = _exit_code(words)
                out.flush()
        finally:
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            for each in kept:
                os.close(each)
        file.seek(0)
        here.text = file.read().decode("utf-8", "replace")
        if code == 130:  # a signal from outside is meant for this process
            raise KeyboardInterrupt
        return code, here.text


here.text = ""


def _exit_code(words: Sequence[str]) -> int:
    import traceback

    try:
        command_line(list(words))
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        return 1
    return 0


@contextlib.contextmanager
def _hastened(pictures: bool) -> Iterator[None]:
    """Use short chunks and frequent checkpoints, and skip pictures and long reports, on which nothing depends."""
    slow = dict(train.__kwdefaults__)
    drawn = filling.drawable, option_sets.card_pictures, option_sets.NUM_STARTS
    train.__kwdefaults__.update(checkpoint_seconds=0.0, chunk_seconds=0.05)
    if not pictures:
        filling.drawable = lambda directory: ()
        option_sets.card_pictures = lambda *given, **named: {}
        option_sets.NUM_STARTS = 16
    try:
        yield
    finally:
        train.__kwdefaults__.update(slow)
        filling.drawable, option_sets.card_pictures, option_sets.NUM_STARTS = drawn


def keep_programs(place: Path) -> None:
    """Share compiled programs between this process and its children, compiled without optimisation."""
    (place / "compiled").mkdir(parents=True, exist_ok=True)
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(place / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "COOPTIONS_CACHE": "off",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "--xla_backend_optimization_level=0"),
    }
    os.environ |= settings
    import jax

    jax.config.update("jax_compilation_cache_dir", settings["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run"
        shutil.copytree(path, copy, symlinks=True)
        yield copy


def processor_seconds() -> float:
    """The processor time of this process and its finished children, in seconds."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(each.ru_utime + each.ru_stime for each in usage)
    server = forkserver._forkserver._forkserver_pid  # pyright: ignore[reportAttributeAccessIssue]
    if server is None:
        return own
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
