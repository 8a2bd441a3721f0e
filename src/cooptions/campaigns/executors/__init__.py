"""Ways to do the jobs of a campaign: one after the other, in processes side by side, or on a Ray cluster."""

from cooptions.campaigns.executors.base import AbstractExecutor, Site
from cooptions.campaigns.executors.inline import Inline
from cooptions.campaigns.executors.processes import Processes
from cooptions.campaigns.executors.ray import OnRay

EXECUTORS: dict[str, type[AbstractExecutor]] = {"inline": Inline, "processes": Processes, "ray": OnRay}
"""By the name on the command line."""

__all__ = ["EXECUTORS", "AbstractExecutor", "Inline", "OnRay", "Processes", "Site"]
