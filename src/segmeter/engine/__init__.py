"""The engine: plan, jobs, workers."""
