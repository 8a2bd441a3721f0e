"""Time the training of a whole option set, including compilation, and measure its memory.

    python -m benchmarks.option_speed lbf-15x15-4p-3f --json

The paper's numbers: 20 options for Level-Based Foraging, 40 for Overcooked, a million steps each.
"""

import argparse
import json
import time
from dataclasses import replace

import jax

from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.walks import WalkConfig
from cooptions.learners.q_learning import QLearner
from cooptions.options.train import OptionTraining, option_tasks, train_option_networks
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from cooptions.runs.presets import preset, with_parts
from cooptions.training.memory import stage_bytes
from experiments.option_sight import discover


def measure(config: Config) -> dict[str, object]:
    """Run a short discovery, train all options, and return the time and memory."""
    found, keys = discover(config), config.keys("options")
    begun = time.perf_counter()
    tasks = option_tasks(config.env, found, config.options, config.eigenoptions, keys)
    estimate = stage_bytes(OptionTraining(QLearner(config.options.learner)), tasks, keys)
    jax.block_until_ready(train_option_networks(config.options, tasks, keys))
    seconds = time.perf_counter() - begun
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    return {
        "scenario": config.scenario,
        "options": len(config.eigenoptions),
        "seeds": config.seeds,
        "steps_each": config.options.learner.steps,
        "seconds": round(seconds, 1),
        "steps_per_second": round(config.seeds * len(config.eigenoptions) * config.options.learner.steps / seconds),
        "estimated_gigabytes": round(estimate / 1e9, 3),
        "peak_gigabytes": round(peak / 1e9, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    config = with_parts(preset(arguments.scenario), {"representation": Hit(steps=500)})
    learner = replace(config.options.learner, steps=arguments.steps)
    config = replace(
        config,
        walk=WalkConfig(transitions=50_000),
        seeds=arguments.seeds,
        options=replace(config.options, learner=learner),
    )
    result = measure(config) | {"made_by": provenance()}
    print(json.dumps(result, indent=None if arguments.json else 1))


if __name__ == "__main__":
    main()
