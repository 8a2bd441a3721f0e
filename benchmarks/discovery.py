"""Every figure of docs/discovery.md: `cooptions verify` over representations, Laplacians and maps.

python -m benchmarks.discovery --out results/discovery
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

ROWS: dict[str, str] = {
    "mask-nystrom": "grid-15x15-3p --representation mask --laplacian nystrom --seeds 3",
    "mask-allo": "grid-15x15-3p --representation mask --laplacian allo --seeds 3",
    "hit-nystrom": "grid-15x15-3p --representation hit --laplacian nystrom --seeds 3",
    "scalar": "grid-15x15-3p --representation scalar --laplacian nystrom --seeds 3",
    "cmi": "grid-15x15-3p --representation cmi --laplacian nystrom --seeds 3",
    "no-cmi": "grid-15x15-3p --representation cmi --representation.cmi.weight 0 --laplacian nystrom --seeds 3",
    "cmi-door": "grid-15x15-3p,map=door --representation cmi --laplacian nystrom --seeds 3",
    "hit-door": "grid-15x15-3p,map=door --representation hit --laplacian nystrom --seeds 3",
    "hit-counter_circuit": "overcooked-counter_circuit --representation hit --laplacian nystrom --seeds 3",
    "raw-joint-7x7": "grid-7x7-2p --representation raw_joint --laplacian allo --seeds 3",
    "agreement": "grid-15x15-3p --representation mask --laplacian nystrom --seeds 10",
    "agreement-axes-12x8": "grid-12x8-3p --representation mask --laplacian nystrom --basis axes --seeds 10",
    "hetero-pair-mask": "grid-10x10-2p,types=12 --representation mask --laplacian nystrom --seeds 3",
    "hetero-trio-mask": "grid-15x15-3p,types=122 --representation mask --laplacian nystrom --seeds 3",
    "hetero-pair-cmi": "grid-10x10-2p,types=12 --representation cmi --laplacian nystrom --seeds 3",
    "hetero-trio-cmi": "grid-15x15-3p,types=122 --representation cmi --laplacian nystrom --seeds 3",
    "cmi-counter_circuit": "overcooked-counter_circuit --representation cmi --laplacian nystrom --seeds 3",
    "no-cmi-counter_circuit": "overcooked-counter_circuit --representation cmi --representation.cmi.weight 0"
    " --laplacian nystrom --seeds 3",
    "cmi-forced_coord": "overcooked-forced_coord --representation cmi --laplacian nystrom --seeds 3",
    "no-cmi-forced_coord": "overcooked-forced_coord --representation cmi --representation.cmi.weight 0"
    " --laplacian nystrom --seeds 3",
    "hit-forced_coord": "overcooked-forced_coord --representation hit --laplacian nystrom --seeds 3",
    "hit-fresh": "grid-15x15-3p --representation hit --laplacian nystrom --seeds 3 --seed 100",
    "cmi-fresh": "grid-15x15-3p --representation cmi --laplacian nystrom --seeds 3 --seed 100",
}


@dataclass(frozen=True)
class Arguments:
    """Run the rows one after the other; each becomes a JSON file."""

    out: Path
    only: tuple[str, ...] = ()
    """Rows to run; all when left out."""
    parallel: int = 1
    """Processes side by side."""


def main(arguments: Arguments) -> None:
    waiting = list(arguments.only or ROWS)
    running: dict[str, tuple[subprocess.Popen, float]] = {}
    arguments.out.mkdir(parents=True, exist_ok=True)
    while waiting or running:
        while waiting and len(running) < arguments.parallel:
            name = waiting.pop(0)
            command = [sys.executable, "-m", "cooptions", "verify", *ROWS[name].split(), "--json"]
            log = open(arguments.out / f"{name}.log", "w")  # noqa: SIM115 (the child writes to it)
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            running[name] = process, time.perf_counter()
        for name, (process, begun) in list(running.items()):
            if process.poll() is not None:
                output = process.stdout.read() if process.stdout else ""
                _keep(arguments.out / f"{name}.json", name, output, process.returncode, time.perf_counter() - begun)
                del running[name]
        time.sleep(0.2)


def _keep(path: Path, name: str, output: str, code: int, seconds: float) -> None:
    if code:
        print(f"{name}: failed with {code} after {seconds:.0f} s; see {path.with_suffix('.log')}", flush=True)
        return
    result = json.loads(output.strip().splitlines()[-1])
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".log").unlink()
    print(f"{name}: {seconds:.0f} s {_worst(result)}", flush=True)


def _worst(result: dict) -> str:
    """The worst seed of each measure, on one line."""
    parts = []
    for key, choose in {
        "spearman_own": min, "leak": max, "own_share": min, "padded_share": max, "hit_pearson": min,
    }.items():  # fmt: skip
        if key in result:
            parts.append(f"{key} " + " ".join(f"{name}={choose(v):.4f}" for name, v in result[key].items()))
    for key, choose in {"fermat_error_cells": max, "distance_pearson": min}.items():
        if key in result:
            parts.append(f"{key} {choose(result[key]):.4f}")
    if "eigen_cosine" in result:
        worst = [min(column) for column in zip(*result["eigen_cosine"], strict=True)]
        parts.append("cosine " + " ".join(f"{value:.3f}" for value in worst))
    if "agreement" in result:
        parts.append("agreement " + " ".join(f"{value:.3f}" for value in result["agreement"][:5]))
    parts.append("seconds " + " ".join(f"{name}={value[0]:.0f}" for name, value in result["seconds"].items()))
    return "; ".join(parts)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
