"""The faults of `benchmarks.faults`. Each is a series of tries, which are functions that return their outcome."""

import contextlib
import hashlib
import os
import random
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.faults_child import make
from cooptions.errors import ArtifactError, Interrupted
from cooptions.options.sharing.storage import load_option_set, load_reports
from cooptions.runs.config import config_of_run
from cooptions.runs.directory import open_run, read_run
from cooptions.runs.learned import read_scores
from cooptions.training.metrics import MetricsFile

Try = tuple[str, Callable[[], str]]
Look = Callable[[Path, list[str]], str]
"""A function that uses a directory like a user, appends warnings to a list, and returns a digest of the result."""


def stopped_training(path: Path) -> Path:
    """A training run that was stopped midway, with checkpoints."""
    if not path.exists():
        with contextlib.suppress(Interrupted):
            make(path, lambda line: None, stop_at=10)
    return path


def look(path: Path, warnings: list[str]) -> str:
    """Read a finished run (configuration, artefacts, metrics, scores, option sets) and return its digest."""
    run = read_run(path, warnings.append)
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


def set_to_look_at(run: Path) -> tuple[Path, Look]:
    """The path of a run's option set, and a function that loads it and returns its digest."""
    env = config_of_run(read_run(run)).env
    path = next(run.glob("option_sets/*"))
    return path, lambda path, warnings: hashlib.sha256(_digest_of_set(path, env)).hexdigest()


def _digest_of_set(path: Path, env: object) -> bytes:
    import jax

    options = load_option_set(path, env)  # pyright: ignore[reportArgumentType]
    leaves = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(options))
    return leaves + repr((options.options, options.config, load_reports(path))).encode()


def resume(path: Path, warnings: list[str]) -> str:
    """Resume stopped training, and return the digest of its result and its metrics."""
    make(path, warnings.append)
    return hashlib.sha256(
        (path / "fit.safetensors").read_bytes() + (path / "metrics/fit.jsonl").read_bytes()
    ).hexdigest()


def compared(what: Look, path: Path, expected: str) -> str:
    """The outcome of using a damaged copy. Refusals are raised."""
    warnings: list[str] = []
    found = what(path, warnings)
    if found != expected:
        return "silent"
    return "resumed" if warnings else "harmless"


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
    """Flip one random bit of one file. All files get equally many tries."""
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
    "a folder in place of": lambda file: (file.unlink(), file.mkdir()),
    "a link to nothing in place of": lambda file: (file.unlink(), file.symlink_to("nowhere")),
    "a pipe in place of": lambda file: (file.unlink(), os.mkfifo(file)),
}
PICTURES = (".png", ".pdf", ".gif")
"""Nothing depends on pictures, so only a few are damaged in each way."""


def losses(path: Path, what: Look, aside: tuple[str, ...] = ()) -> Iterator[Try]:
    """Truncate every file, delete it, or replace it with something else. Files in the folders `aside` are skipped."""
    expected = _expected(path, what)
    files = [file for file in _files(path) if file.relative_to(path).parts[0] not in aside]
    pictures = [file for file in files if file.suffix in PICTURES]
    for file in (each for each in files if each not in pictures[3:]):
        for name, damage in LOSSES.items():
            yield f"{name} {file.relative_to(path)}", partial(_damaged, path, file, damage, what, expected)


def full_disks(begun: Path, num: int) -> Iterator[Try]:
    """Simulate a full disk with several limits on file sizes, then remove the limit and resume."""
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
    """Try another writer, stale locks, and links instead of a lock file."""
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
