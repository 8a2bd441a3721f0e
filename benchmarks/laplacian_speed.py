"""Compare Nystrom with ALLO on the same z in the same process: seconds, and cosines with the exact eigenspaces.

python -m benchmarks.laplacian_speed --json
"""

import json
import time
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import tyro

from cooptions.discovery.discover import Spectrum, encode_walk, fit_representation, spectrum_of_pairs
from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.mask import Mask
from cooptions.discovery.walks import Walk, WalkConfig, index_futures, walk_seeds
from cooptions.files import encode
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from cooptions.runs.verify import HELD_OUT, eigen_scores


@dataclass(frozen=True)
class Arguments:
    """Fit both Laplacians on z of the mask representation."""

    scenario: str = "grid-15x15-3p"
    seeds: int = 3
    walk: WalkConfig = field(default_factory=WalkConfig)
    mask: Mask = field(default_factory=Mask)
    nystrom: Nystrom = field(default_factory=Nystrom)
    allo: Allo = field(default_factory=Allo)
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object at the end."""


def main(arguments: Arguments) -> None:
    base = Config(arguments.scenario, seeds=arguments.seeds, walk=arguments.walk, representation=arguments.mask)
    walks = walk_seeds(base.env, base.walk, base.keys("walk"))
    fresh = walk_seeds(base.env, HELD_OUT, base.keys("held out"))
    dataset = index_futures(walks)
    state = fit_representation(base.discovery, dataset, base.keys("representation"))
    standard, pairs = jax.block_until_ready(encode_walk(base.discovery, state, dataset.walk))
    result: dict[str, Any] = {}
    for name, laplacian in {"nystrom": arguments.nystrom, "allo": arguments.allo}.items():
        config = replace(base, laplacian=laplacian)
        seconds = []
        for _ in range(2):
            begun = time.perf_counter()
            spectrum = spectrum_of_pairs(config.discovery, standard, pairs, config.keys("laplacian"))
            jax.block_until_ready(spectrum)
            seconds.append(round(time.perf_counter() - begun, 2))
        cosines = _cosines(config, state, spectrum, walks, fresh)
        result[name] = {"config": encode(laplacian), "first": seconds[0], "again": seconds[1], **cosines}
        print(f"{name}: {seconds[0]} s, again {seconds[1]} s; {_worst(cosines)}", flush=True)
    result["ratio"] = {when: result["nystrom"][when] / result["allo"][when] for when in ("first", "again")}
    print(f"nystrom takes {result['ratio']['first']:.3f} of allo's time, {result['ratio']['again']:.3f} when compiled")
    if arguments.json:
        print(json.dumps({"config": encode(base), **result, **provenance()}))


def _cosines(config: Config, state: Any, spectrum: Spectrum, walks: Walk, fresh: Walk) -> dict[str, Any]:
    """For each seed, the cosine of each eigenfunction with the exact eigenspace of its cluster."""
    rows = []
    for seed in range(config.seeds):
        one = jax.tree.map(lambda leaf, seed=seed: leaf[seed], (state, spectrum, walks, fresh))
        rows.append(eigen_scores(config, *one)["eigen_cosine"])
    return {"eigen_cosine": rows}


def _worst(cosines: dict[str, Any]) -> str:
    worst = [min(column) for column in zip(*cosines["eigen_cosine"], strict=True)]
    return f"cosines at least {min(worst[:5]):.3f} (1-5), {min(worst):.3f} (all {len(worst)})"


if __name__ == "__main__":
    main(tyro.cli(Arguments))
