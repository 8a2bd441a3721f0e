"""The faults of `benchmarks.faults`: each a series of tries, a try a function that returns what became of it."""

import contextlib
import hashlib
import io
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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.faults_child import make
from cooptions.cli.main import main as command_line
from cooptions.errors import ArtifactError, Interrupted
from cooptions.options.sharing.storage import load_option_set, load_reports
from cooptions.runs.config import config_of_run
from cooptions.runs.directory import open_run, read_run
from cooptions.runs.learned import read_scores
from cooptions.training.metrics import MetricsFile

Try = tuple[str, Callable[[], str]]
Look = Callable[[Path, list[str]], str]
"""Do what a user would do with a directory: a digest of what comes out. Warnings go into the list."""

TINY = [
    *("grid-5x5-2p,task=meet", "--method", "iql+hit", "--seeds", "2"),
    *("--walk.transitions", "2000", "--walk.num-envs", "20", "--representation.steps", "50"),
    *("--laplacian.num-eigenfunctions", "2", "--options.learner.steps", "20000", "--options.num-starts", "64"),
    *("--learning.learner.steps", "12800", "--learning.evaluations", "2", "--learning.episodes", "8"),
]
WORK = 150
"""Of a step of the training that is killed: some milliseconds."""


def prepared_run(path: Path) -> Path:
    """A tiny finished run of every stage."""
    with contextlib.redirect_stdout(io.StringIO()):
        command_line(["train", *TINY, "--out", str(path)])
    return path


def stopped_training(path: Path) -> Path:
    """A training that was stopped on its way, with checkpoints."""
    with contextlib.suppress(Interrupted):
        make(path, lambda line: None, stop_at=10)
    return path


def look(path: Path, told: list[str]) -> str:
    """Read a finished run: configuration, artefacts, metrics, scores, option sets."""
    run = read_run(path, told.append)
    config = config_of_run(run)
    found = hashlib.sha256(repr(config).encode())
    for stage in sorted(run.manifest):
        found.update(repr({key: run.manifest[stage][key] for key in ("config", "seconds", "made_by")}).encode())
        for name, array in sorted(run.load(stage).items()):
            found.update(name.encode() + np.ascontiguousarray(array).tobytes())
        for file in run.verify_sealed(stage, "metrics/"):
            found.update(repr(MetricsFile(file).rows()).encode())
    for scores in read_scores(path):
        found.update(scores.metric.encode() + scores.values.tobytes())
    for option_set in sorted(path.glob("option_sets/*")):
        found.update(_digest_of_set(option_set, config.env))
    return found.hexdigest()


def look_at_set(run: Path) -> Look:
    """Load an option set of a run as anybody would who was given its directory."""
    env = config_of_run(read_run(run)).env
    return lambda path, told: hashlib.sha256(_digest_of_set(path, env)).hexdigest()


def _digest_of_set(path: Path, env: object) -> bytes:
    import jax

    options = load_option_set(path, env)  # pyright: ignore[reportArgumentType]
    leaves = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(options))
    return leaves + repr((options.options, options.config, load_reports(path))).encode()


def resume(path: Path, told: list[str]) -> str:
    """Go on with a training that was stopped: the bits of its result and of its metrics."""
    make(path, told.append)
    return hashlib.sha256(
        (path / "fit.safetensors").read_bytes() + (path / "metrics/fit.jsonl").read_bytes()
    ).hexdigest()


def compared(what: Look, path: Path, expected: str) -> str:
    """The outcome of looking at a damaged copy; refusals are raised."""
    told: list[str] = []
    came_out = what(path, told)
    if came_out != expected:
        return "silent"
    return "resumed" if told else "harmless"


def _files(path: Path) -> list[Path]:
    return [file for file in sorted(path.rglob("*")) if file.is_file() and file.stat().st_size]


def _expected(path: Path, what: Look) -> str:
    with _copy(path) as whole:
        return what(whole, [])


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        shutil.copytree(path, copy, symlinks=True)
        yield copy


def _damaged(path: Path, file: Path, damage: Callable[[Path], None], what: Look, expected: str) -> str:
    with _copy(path) as copy:
        damage(copy / file.relative_to(path))
        return compared(what, copy, expected)


def flips(path: Path, what: Look, rng: random.Random, num: int) -> Iterator[Try]:
    """One bit of one file, every file alike."""
    expected, files = _expected(path, what), _files(path)
    for number in range(num):
        file = files[number % len(files)]
        bit = rng.randrange(8 * file.stat().st_size)
        yield (
            f"bit {bit} of {file.relative_to(path)}",
            partial(_damaged, path, file, partial(_flip, bit), what, expected),
        )


def _flip(bit: int, file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


LOSSES: dict[str, Callable[[Path], object]] = {
    "half of": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "the last byte of": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "all of": lambda file: file.write_bytes(b""),
    "deleted:": lambda file: file.unlink(),
}


def losses(path: Path, what: Look) -> Iterator[Try]:
    """Every file cut in several places, and deleted."""
    expected = _expected(path, what)
    for file in _files(path):
        for name, damage in LOSSES.items():
            yield f"{name} {file.relative_to(path)}", partial(_damaged, path, file, damage, what, expected)


def kills(place: Path, rng: random.Random, num: int) -> Iterator[Try]:
    """SIGKILL at a random moment, and the same command again."""
    whole, begun = place / "whole", time.monotonic()
    _finish(whole)
    seconds, expected = time.monotonic() - begun, _result(whole)
    for number in range(num):
        yield f"kill {number}", partial(_kill, place / f"killed-{number}", rng.uniform(0, seconds), expected)


def _kill(path: Path, after: float, expected: str) -> str:
    process = _child(path)
    time.sleep(after)
    process.kill()
    process.communicate()
    _finish(path)
    return "resumed" if _result(path) == expected else "silent"


def signals(place: Path, rng: random.Random, num: int) -> Iterator[Try]:
    """SIGINT or SIGTERM at a random moment: exit code 130 within 10 s, then the same command again."""
    whole = place / "whole"
    if not (whole / "fit.safetensors").exists():
        _finish(whole)
    expected = _result(whole)
    for number in range(num):
        kind = (signal.SIGINT, signal.SIGTERM)[number % 2]
        path = place / f"signalled-{number}"
        yield f"{kind.name} {number}", partial(_signal, path, kind, rng.uniform(0, 3.0), expected)


def _signal(path: Path, number: signal.Signals, after: float, expected: str) -> str:
    process = _child(path)
    time.sleep(after)
    process.send_signal(number)
    begun = time.monotonic()
    _, errors = process.communicate(timeout=60)
    if (path / "fit.safetensors").exists() and b"Traceback" not in errors:  # it came when all was done
        return "harmless" if _result(path) == expected else "silent"
    if process.returncode not in (0, 130) or time.monotonic() - begun > 10:
        return f"exit {process.returncode} after {time.monotonic() - begun:.0f} s"
    if process.returncode == 130 and (b"stop" not in errors or b"Traceback" in errors):
        return "traceback"
    _finish(path)
    return "resumed" if _result(path) == expected else "silent"


def _child(path: Path) -> subprocess.Popen:
    """A training in a process of its own, once it has imported everything."""
    command = [sys.executable, "-m", "benchmarks.faults_child", str(path), str(WORK)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _finish(path: Path) -> None:
    """Train to the end, in this process: programs that are compiled already need not be compiled again."""
    make(path, lambda line: None, work=WORK)


def _result(path: Path) -> str:
    return hashlib.sha256(
        (path / "fit.safetensors").read_bytes() + (path / "metrics/fit.jsonl").read_bytes()
    ).hexdigest()


def full_disks(begun: Path, num: int) -> Iterator[Try]:
    """A limit on the size of files stands in for a full disk: at several sizes, and then there is room again."""
    expected = _expected(begun, resume)
    largest = max(file.stat().st_size for file in _files(begun))
    for level in range(num):
        yield f"{level} of {num}", partial(_full, begun, largest * level // num, expected)


def _full(begun: Path, limit: int, expected: str) -> str:
    with _copy(begun) as copy:
        before = {file: file.read_bytes() for file in copy.rglob("*.safetensors")}
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            resume(copy, [])
        except (ArtifactError, OSError) as error:
            if "\n" in str(error):
                return "traceback"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if any(file.exists() and file.read_bytes() != content for file, content in before.items()):
            return "silent"
        return "resumed" if resume(copy, []) == expected else "silent"


def locks(begun: Path) -> Iterator[Try]:
    """Another writer, locks that others left, and links in place of one."""
    expected = _expected(begun, resume)
    for left in (
        "process 1",
        "process 999999 on elsewhere",
        f"process 4194305 on {os.uname().nodename}",
        "\x1b]0;x\x07",
    ):
        yield f"lock says {left!r}", partial(_left, begun, left, expected)
    for kind in ("link", "dangling link", "folder", "fifo"):
        yield f"lock is a {kind}", partial(_odd_lock, begun, kind, expected)
    for number in range(10):
        yield f"two writers {number}", partial(_two_writers, begun, expected)


def _left(begun: Path, text: str, expected: str) -> str:
    with _copy(begun) as copy:
        (copy / "lock").write_text(text)
        return compared(resume, copy, expected)


def _odd_lock(begun: Path, kind: str, expected: str) -> str:
    with _copy(begun) as copy:
        lock, victim = copy / "lock", copy.parent / "victim"
        lock.unlink(missing_ok=True)
        victim.write_text("precious")
        {
            "link": lambda: lock.symlink_to(victim),
            "dangling link": lambda: lock.symlink_to(copy.parent / "nowhere"),
            "folder": lock.mkdir,
            "fifo": lambda: os.mkfifo(lock),
        }[kind]()
        try:
            return compared(resume, copy, expected)
        finally:
            if victim.read_text() != "precious" or (copy.parent / "nowhere").exists():
                raise RuntimeError("what the link points to was written")


def _two_writers(begun: Path, expected: str) -> str:
    with _copy(begun) as copy:
        with open_run(copy, {}, lambda line: None):
            try:
                resume(copy, [])
            except ArtifactError as error:
                refused = "held by process" in str(error)
            else:
                return "silent"
        return "refused" if refused and resume(copy, []) == expected else "silent"


SENSELESS = (
    *("--seeds 0", "--seeds 100000000", "--seeds -1", "--seed 4294967296", "--seed -1", "--seeds 1e400", "--seeds x"),
    *("--walk.transitions 0", "--walk.transitions 100000000000", "--walk.transitions 7", "--walk.num-envs 0"),
    *("--walk.num-envs 100000000000", "--walk.features x x", "--walk.features nowhere"),
    *("--representation.steps 0", "--representation.learning-rate nan", "--representation.learning-rate -1"),
    *("--representation.discount 1", "--representation.discount nan", "--representation.batch 10000000000"),
    *("--representation.hidden 0", "--representation.hidden -4", "--representation.cap nan"),
    *("--laplacian.num-eigenfunctions 0", "--laplacian.num-eigenfunctions 100000000", "--laplacian.bandwidth nan"),
    *("--laplacian.num-landmarks 1", "--laplacian.num-landmarks 10000000000", "--laplacian nonsense"),
    *("--representation nonsense", "--method nonsense", "--options nonsense"),
    *("--options.epsilon 7", "--options.epsilon nan", "--options.margin nan", "--options.margin -1"),
    *("--options.start-steps -1", "--options.num-starts 0", "--options.max-steps 0", "--options.step-cost nan"),
    *(
        "--options.learner.network.hidden 0",
        "--options.learner.network.hidden -3 3",
        "--options.learner.learning-rate nan",
    ),
    *("--learning.learner.learning-starts -5", "--learning.learner.learning-starts 99999999999"),
    *("--learning.learner.batch 10000000", "--learning.learner.batch 0", "--learning.learner.learning-rate -1"),
    *("--learning.learner.learning-rate nan", "--learning.learner.max-gradient-norm -1"),
    *("--learning.learner.max-gradient-norm nan", "--learning.learner.epsilon-decay -1"),
    *("--learning.learner.epsilon-decay nan", "--learning.learner.discount 2", "--learning.learner.steps 1"),
    *("--learning.learner.capacity 1", "--learning.learner.capacity 100000000000", "--learning.learner.rollout 0"),
    *("--learning.learner.network.hidden 0", "--learning.evaluations 0", "--learning.evaluations 100000000"),
    *("--learning.episodes 0", "--learning.episodes 10000000000", "--learning.macro.num-options 1000"),
    *("--learning.macro.keep some", "--learning.macro.discoveries 9", "--learning.nonsense 1"),
)
"""Flags that no run can be made with."""


def bad_configurations(place: Path) -> Iterator[Try]:
    """Each on the command line, in a process that is ended if it is still at it after some seconds."""
    multiprocessing.set_forkserver_preload(["cooptions.cli.train", "benchmarks.faults_tries"])
    for number, flags in enumerate(SENSELESS):
        arguments = ["train", *TINY, *flags.split(), "--out", str(place / f"bad-{number}")]
        yield flags, partial(_bad, arguments, place / f"bad-{number}.log")
    for name in ("grid-5x5-1p", "nonsense", "grid-5x5-2p,nonsense=1", "nowhere:env", "grid-x", "lbf-5x5-1p-1f"):
        yield name, partial(_bad, ["discover", name, "--out", str(place / name)], place / f"{name}.log")


def _bad(arguments: Sequence[str], log: Path) -> str:
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_command, args=(arguments, log))
    process.start()
    process.join(30)
    if process.is_alive():
        process.kill()
        process.join()
        return "silent"
    text = log.read_text()
    if "Traceback" in text:
        return "traceback"
    return "refused" if process.exitcode == 2 and text.strip() else f"exit {process.exitcode}"


def _command(arguments: Sequence[str], log: Path) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (8 * 2**30, resource.RLIM_INFINITY))
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        command_line(list(arguments))
