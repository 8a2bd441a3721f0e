"""Faults of the real stages of a run, from the walk to the learned team, by the commands that make them.

Every command runs in a process that was forked with everything imported, and finds its programs compiled on disk, so
that a try takes seconds. Chunks and the time between checkpoints are short, so that much can be lost. The same command
then goes on in this process, and what it makes is compared, byte by byte, with what was never disturbed.
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
"""A run of every stage, each of which takes about a second once it is compiled."""

MAKES = {
    "walk": "walk",
    "representation": "discover",
    "spectrum": "discover",
    "options": "options",
    "learning": "train",
}
"""The command that makes each stage."""
PATIENCE = 10.0
"""Seconds within which a signal must be obeyed, on a machine that does nothing else."""
BURST = 0.05
"""Seconds of work by which is told how busy the machine is."""


@dataclass(frozen=True)
class Base:
    """A run in which one stage is next."""

    stage: str
    path: Path
    """Holds all the stages before it."""
    config: Path
    seconds: float
    """How long its command takes until the stage is finished."""
    begun: float
    """How long until it is at work."""
    expected: str
    """What the command makes of it, undisturbed."""

    def words(self, out: Path) -> list[str]:
        """The command that makes the stage."""
        command = MAKES[self.stage]
        return [command, str(out)] if command == "options" else [
            command, "--config", str(self.config), "--out", str(out)
        ]  # fmt: skip


def prepared_run(place: Path) -> Path:
    """A finished run of every stage, with its pictures."""
    (place / "small.yaml").write_text(yaml.safe_dump(SMALL))
    run = place / "run"
    if not (run / "summary.json").exists():
        code, text = here(["train", "--config", str(place / "small.yaml"), "--out", str(run)], pictures=True)
        assert code == 0, text
    return run


@cache
def base(place: Path, stage: str) -> Base:
    """The finished run without a stage and those after it, and what its command makes of that."""
    run, path = prepared_run(place), place / f"before-{stage}"
    if not path.exists():
        _without(run, stage, path)
    bare = Base(stage, path, place / "small.yaml", 0.0, 0.0, "")
    known = place / f"expected-{stage}.json"
    if not known.exists():
        with _copy(path) as copy:  # compiles
            assert here(bare.words(copy)) == (0, here.text), here.text
            first = result(copy, stage)
        with _copy(path) as copy:  # the same in a process of its own
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
    """A copy without a stage, those after it, and all that is not of a stage."""
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
    """The bits of what a stage made, and that nothing unfinished is left: neither a half file nor a held lock."""
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
"""What the training in a stage is called, where it is not called as the stage is."""


def works(path: Path, stage: str, before: Sequence[Path] = ()) -> bool:
    """Whether a stage is at work: there is a checkpoint that was not there before; of a walk, which has none, whether
    its directory is held."""
    if stage == "walk":
        return (path / "lock").exists() and bool((path / "lock").read_bytes())
    return bool(set(checkpoints(path, stage)) - set(before))


def checkpoints(path: Path, stage: str) -> list[Path]:
    return list(path.glob(f"checkpoints/{TRAININGS.get(stage, stage)}/*.safetensors"))


def how_far(path: Path, stage: str) -> str:
    """Where a killed process was: the newest thing it left."""
    name = TRAININGS.get(stage, stage)
    if stage in _finished(path):
        return "finished"
    if any(path.glob(f"checkpoints/{name}/*.safetensors")):
        return "with a checkpoint"
    return "in the stage" if (path / "lock").exists() and (path / "lock").read_bytes() else "before it"


def kills(place: Path, stage: str, rng: random.Random, num: int) -> Iterator[Try]:
    """SIGKILL, and the same command again, which is killed again: five times, and then it may end.

    The first of five comes at any moment of the command, the others once it is at work, which is a small part of the
    time: most of it goes into beginning.
    """
    base(place, stage)
    moments = [tuple(rng.random() for _ in range(SERIES)) for _ in range(num // SERIES)]
    for number, series in enumerate(moments):
        told = ", ".join(f"{moment:.3f}" for moment in series)
        yield f"{stage}: series {number} at {told}", partial(_kill_again_and_again, place, stage, series)


SERIES = 5


def _kill_again_and_again(place: Path, stage: str, moments: Sequence[float]) -> str:
    """What becomes of every kill: as many outcomes. One that comes too late begins the stage anew."""
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
    """Kill the command of a stage; how far it had come."""
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
    """The same command again: whether it makes what it should."""
    code, text = here(given.words(copy))
    if "Traceback" in text:
        raise RuntimeError(text[-300:])
    if code != 0:
        raise RuntimeError(f"not made again: {text[-300:]}")
    return f"{good if result(copy, given.stage) == given.expected else 'silent'}@{note}"


def signals(place: Path, rng: random.Random, num: int) -> Iterator[Try]:
    """SIGINT or SIGTERM at a random moment of each stage: one line, exit code 130 within seconds, then on."""
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
        if process.exitcode == 0:  # it came when all was done
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
    """A second process while one trains, and two that begin at once."""
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
    """A whole run on a disk with less and less room than it needs; and then there is room."""
    base(place, "learning")
    needed = _bytes_needed(prepared_run(place))
    for level in range(num if can_mount() else 0):
        room = int(needed * (level + 1) / (num + 1))
        yield f"{room >> 10} KiB of {needed >> 10}", partial(_full, place, room, needed)


def _bytes_needed(run: Path) -> int:
    """What a run takes without its pictures, and while its largest file is written anew."""
    pages = [-(-file.stat().st_size // 4096) * 4096 for file in run.rglob("*") if file.is_file()]
    return sum(pages) + max(pages)


def can_mount() -> bool:
    """Whether a disk of a few bytes can be had here."""
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
    """A run that was killed while it learned, with checkpoints."""
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
    """Run the command of a run again, whatever is damaged: the bits it ends with."""

    def look(path: Path, told: list[str]) -> str:
        code, text = here(base(place, "learning").words(path))
        lines = [line for line in text.splitlines() if line.startswith("cooptions: ")]
        if "Traceback" in text or code not in (0, 2) or (code == 2 and "error: " not in lines[-1]):
            raise RuntimeError(f"exit {code}: {text[-300:]}")
        if code == 2:
            from cooptions.errors import CooptionsError

            raise CooptionsError(lines[-1])
        told += [line for line in lines if "warning" in line] + [line for line in text.splitlines() if "again" in line]
        return result(path, "learning")

    return look


def child(words: Sequence[str], log: Path) -> multiprocessing.Process:
    """The command in a process of its own, with everything imported; what it says goes into a file."""
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
    """The command in this process, where its programs are compiled already: exit code, and all it says."""
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
        if code == 130:  # whoever stops this process means it, and not the command
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
    """Short chunks and many checkpoints; no pictures, and short reports, on which nothing depends."""
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
    """Let this process and its children share what they compile, quickly rather than well."""
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
    """Of this process and of those that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(each.ru_utime + each.ru_stime for each in usage)
    server = forkserver._forkserver._forkserver_pid  # pyright: ignore[reportAttributeAccessIssue]
    if server is None:
        return own
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
