"""The report: one page per run."""
