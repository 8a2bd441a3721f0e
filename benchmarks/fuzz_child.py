"""One session of `benchmarks.fuzz`, which fuzzes one target until the time is over or the process dies.

python -m benchmarks.fuzz_child TARGET ENGINE SECONDS PLACE SEED
"""

import atexit
import json
import mmap
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

WATCHED = [
    *("cooptions.files", "cooptions.parts", "cooptions.runs", "cooptions.campaigns", "cooptions.options.sharing"),
    *("cooptions.training.checkpoints", "cooptions.training.metrics", "cooptions.scores.statistics", "yaml", "json"),
]
"""The modules that atheris instruments."""
SLOW = 10.0
"""Seconds of processor time after which one input is a finding."""
LONGEST = 1 << 16


class Session:
    """Runs inputs, classifies their outcomes, and saves the counts every few seconds."""

    def __init__(self, target: str, engine: str, place: Path) -> None:
        from benchmarks.fuzz_targets import parts_of

        self.parts, self.place, self.engine = parts_of(target, folder_in_memory()), place, engine
        self.executions = self.refused = self.understood = 0
        self.slowest, self.saved = 0.0, time.monotonic()
        self.findings: dict[str, dict[str, Any]] = {}
        (place / "current").write_bytes(bytes(LONGEST + 8))
        with open(place / "current", "r+b") as file:
            self.current = mmap.mmap(file.fileno(), LONGEST + 8)

    def seeds(self) -> list[bytes]:
        return [bytes([number]) + part.whole for number, part in enumerate(self.parts)]

    def one(self, content: bytes) -> None:
        """Read one input. Its first byte selects the part that reads it."""
        from cooptions.errors import CooptionsError

        content = content[:LONGEST]
        self.current[: len(content)] = content
        part = self.parts[content[0] % len(self.parts) if content else 0]
        begun = time.process_time()  # wall time would depend on the machine's load
        self.executions += 1
        try:
            part.read(content[1:])
            self.understood += 1
        except CooptionsError as error:
            self.refused += 1
            self._check_said(part.name, content, error)
        except OSError as error:
            self.refused += 1
            if not error.strerror:
                self._found(part.name, content, error)
        except Exception as error:
            self._found(part.name, content, error)
        took = time.process_time() - begun
        self.slowest = max(self.slowest, round(took, 2))
        if took > SLOW:
            self._found(part.name, content, TimeoutError(f"{took:.0f} s"))
        if time.monotonic() - self.saved > 5:
            self.save()

    def save(self) -> None:
        self.saved = time.monotonic()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        state = {
            "engine": self.engine,
            **{name: getattr(self, name) for name in ("executions", "refused", "understood", "slowest", "findings")},
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "memory": usage.ru_maxrss * 1024,
        }
        partial = self.place / "state.partial"
        partial.write_text(json.dumps(state))
        partial.rename(self.place / "state.json")

    def _check_said(self, name: str, content: bytes, said: Exception) -> None:
        from benchmarks.fuzz_targets import require_one_line

        try:
            require_one_line(said)
        except AssertionError as error:
            self._found(name, content, said, str(error))

    def _found(self, name: str, content: bytes, error: BaseException, message: str = "") -> None:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "cooptions" in frame.filename] or list(frames)
        line = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        where = f"{name}: {type(error).__name__} at {line}"
        known = self.findings.setdefault(
            where, {"times": 0, "message": (message or str(error))[:300], "input": content[1:400].decode("latin-1")}
        )
        known["times"] += 1
        if known["times"] == 1:
            (self.place / f"found-{len(self.findings)}-{os.getpid()}").write_bytes(content)
            self.save()


def folder_in_memory() -> Path:
    """A folder that goes when the process ends, in memory where there is any to be had."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fuzz_with_atheris(seconds: float, place: Path, seed: int, target: str) -> None:
    import atheris

    with atheris.instrument_imports(include=WATCHED, enable_loader_override=False):
        session = Session(target, "atheris", place)
    from benchmarks.fuzz_mutations import mutated

    corpus = place / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, content in enumerate(session.seeds()):
        (corpus / f"seed-{number}").write_bytes(content)

    def change(content: bytes, most: int, number: int) -> bytes:
        rng = random.Random(number)
        if not content or rng.random() < 0.2:
            return atheris.Mutate(content, most)
        return (content[:1] + mutated(content[1:], rng))[:most]

    options = [f"-max_total_time={int(seconds)}", "-rss_limit_mb=4096", "-timeout=120", f"-max_len={LONGEST}"]
    options += [f"-artifact_prefix={place}/died-", f"-seed={seed + 1}", "-print_final_stats=1", "-reload=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], session.one, custom_mutator=change)
    atexit.register(session.save)
    atheris.Fuzz()


def fuzz_by_chance(seconds: float, place: Path, seed: int, target: str) -> None:
    """Fuzz with random mutations of valid files, and of mutated files that were still accepted."""
    from benchmarks.fuzz_mutations import mutated

    session, rng, begun = Session(target, "own", place), random.Random(seed), time.monotonic()
    pools = [[content] for content in session.seeds()]
    while time.monotonic() - begun < seconds:
        pool = rng.choice(pools)
        parent = rng.choice(pool[:1] if rng.random() < 0.5 else pool)
        content = (parent[:1] + mutated(parent[1:], rng))[:LONGEST]
        before = session.understood
        session.one(content)
        if session.understood > before and content not in pool[-50:]:
            pool.append(content)
            del pool[1:-200]
    session.save()


def main(target: str, engine: str, seconds: str, place: str, seed: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if engine == "auto":
        try:
            import atheris  # noqa: F401

            engine = "atheris"
        except ImportError:
            engine = "own"
    fuzz = {"atheris": fuzz_with_atheris, "own": fuzz_by_chance}[engine]
    if engine == "own":
        resource.setrlimit(resource.RLIMIT_DATA, (6 * 2**30, resource.RLIM_INFINITY))
    fuzz(float(seconds), Path(place), int(seed), target)


if __name__ == "__main__":
    main(*sys.argv[1:])
