"""Executors of a campaign's jobs: one after the other, in parallel processes, or on a Ray cluster."""

from cooptions.campaigns.executors.base import AbstractExecutor, Site
from cooptions.campaigns.executors.inline import Inline
from cooptions.campaigns.executors.processes import Processes
from cooptions.campaigns.executors.ray import OnRay

EXECUTORS: dict[str, type[AbstractExecutor]] = {"inline": Inline, "processes": Processes, "ray": OnRay}
"""Executors by their name on the command line."""

__all__ = ["EXECUTORS", "AbstractExecutor", "Inline", "OnRay", "Processes", "Site"]
