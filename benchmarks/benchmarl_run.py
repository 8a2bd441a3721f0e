"""Train BenchMARL's (TorchRL's) IPPO on one of our tasks.

    python -m benchmarks.benchmarl_run TASK [FRAMES]

TASK is a scenario name, or `module:attribute` for your own task, for example one with joint options. IPPO trains with
action masks. The last line is a JSON object with the mean returns and those of random play.
"""

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarl.algorithms import IppoConfig
from benchmarl.environments.pettingzoo.common import PettingZooClass
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from tensordict import TensorDictBase
from torchrl.envs import EnvBase, PettingZooWrapper

import cooptions as co
from benchmarks.jaxmarl_script import find_task
from benchmarks.random_play import report
from cooptions.errors import CooptionsError

PACKAGES = ("benchmarl", "torchrl", "torch", "pettingzoo", "gymnasium")


class TaskOfOurs(PettingZooClass):
    """BenchMARL's PettingZoo task with our environment, which `config` names."""

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Callable:
        seeds = itertools.count(seed or 0)  # copies with the same seed would play the same episodes

        def make() -> EnvBase:
            exported = co.to_pettingzoo(find_task(self.config["task"]))
            return PettingZooWrapper(exported, categorical_actions=True, seed=next(seeds), device=device)

        return make

    def supports_continuous_actions(self) -> bool:
        return False

    def supports_discrete_actions(self) -> bool:
        return True

    def has_state(self) -> bool:
        return False

    def has_render(self, env: EnvBase) -> bool:
        return False

    @staticmethod
    def env_name() -> str:
        return "cooptions"


class Returns(Callback):
    """The mean return of the episodes that ended in each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.means: list[float] = []

    def on_batch_collected(self, batch: TensorDictBase) -> None:
        done = batch["next", "done"]
        if done.any():
            self.means.append(batch["next", "agent", "episode_reward"][done.squeeze(-1)].mean().item())


def settings(frames: int, folder: str) -> ExperimentConfig:
    """BenchMARL's defaults at a small size, without evaluation, plots or logs."""
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames, config.save_folder = frames, folder
    config.on_policy_collected_frames_per_batch, config.on_policy_n_envs_per_worker = 1_000, 10
    config.on_policy_n_minibatch_iters, config.on_policy_minibatch_size = 8, 250
    config.lr, config.evaluation, config.render, config.create_json = 1e-3, False, False, False
    config.loggers = []
    return config


def train(task: str, frames: int, seed: int = 0) -> list[float]:
    """The mean returns of a run of IPPO, batch by batch."""
    torch.set_num_threads(1)  # threads slow such small networks down
    returns = Returns()
    with tempfile.TemporaryDirectory() as folder:
        Experiment(
            task=TaskOfOurs("task", {"task": task, "max_cycles": 0}),
            algorithm_config=IppoConfig.get_from_yaml(),
            model_config=MlpConfig.get_from_yaml(),
            seed=seed,
            config=settings(frames, folder),
            callbacks=[returns],
        ).run()
    return returns.means


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m benchmarks.benchmarl_run TASK [FRAMES]")
    task, frames = sys.argv[1], int(float(sys.argv[2])) if len(sys.argv) > 2 else 50_000
    begun = time.perf_counter()
    try:
        means = train(task, frames)
        print(json.dumps(report(find_task(task), means, time.perf_counter() - begun, PACKAGES)))
    except CooptionsError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
