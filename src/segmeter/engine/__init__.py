"""The engine: plan, jobs, workers."""

from segmeter.engine.runner import Tally, run_plan

__all__ = ["Tally", "run_plan"]
