"""The report: one page a run."""
