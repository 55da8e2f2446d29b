"""The store: parquet job files, run-length masks, SQL views, provenance."""

from segmeter.store.folder import RunFolder
from segmeter.store.run import Run

__all__ = ["Run", "RunFolder"]
