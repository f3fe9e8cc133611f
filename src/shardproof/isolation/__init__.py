"""Running a program that is not trusted: levels, limits, and a verdict for every way it can end."""

from shardproof.isolation.limits import Limits
from shardproof.isolation.many import run_many
from shardproof.isolation.run import IsolationUnavailableError, Run, run_isolated, run_lost

__all__ = ["IsolationUnavailableError", "Limits", "Run", "run_isolated", "run_lost", "run_many"]
