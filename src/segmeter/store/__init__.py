"""The store: parquet parts, run-length masks, SQL views, provenance."""

from segmeter.store.folder import RunFolder
from segmeter.store.results import Run

__all__ = ["Run", "RunFolder"]
