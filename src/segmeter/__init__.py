"""segmeter measures how many clicks and seconds a good mask takes with a segmentation model.

>>> import segmeter
>>> folder = getfixture("tmp_path") / "run"
>>> run = segmeter.evaluate("disc", "mini", out=folder, limit=1, rounds=2)
>>> run.summary()[0].dataset
'mini'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmeter import measures, metrics
    from segmeter.api.automatic import auto_masks
    from segmeter.api.checking import check
    from segmeter.api.click_files import make_click_file
    from segmeter.api.click_response import click_response_map
    from segmeter.api.documentation_cards import make_card
    from segmeter.api.embeddings import embed_masks
    from segmeter.api.fetching import fetch, list_weights
    from segmeter.api.listing import (
        describe,
        list_benchmarks,
        list_datasets,
        list_detectors,
        list_measures,
        list_methods,
        list_models,
        list_users,
    )
    from segmeter.api.loading import Dataset, load_dataset, load_model
    from segmeter.api.machine import doctor
    from segmeter.api.measuring import measure_files
    from segmeter.api.meta import meta_measures
    from segmeter.api.predictor import Predictor
    from segmeter.api.run_folders import list_runs, merge
    from segmeter.api.runs import Run, open_run
    from segmeter.api.scoring import score
    from segmeter.api.simulation import next_click, simulate
    from segmeter.api.training import train_decoder
    from segmeter.core.benchmarks import Difference, SummaryRow
    from segmeter.core.errors import BadInput, BadWeights, NotFound, RunConflict, SegmeterError
    from segmeter.core.masks import Mask
    from segmeter.core.measures import measure
    from segmeter.core.models import MaskPrediction, ModelCard, Request
    from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Text
    from segmeter.core.scenes import DatasetCard, Image, SceneHeader, Target, Volume
    from segmeter.core.sessions import Round, Session
    from segmeter.core.users import Observation
    from segmeter.evaluation import estimate_run, evaluate
    from segmeter.model_parity import parity
    from segmeter.serving import serve

__version__ = "0.3.0"

# Where each public name is defined; it is imported when first used.
_HOMES = {
    "BadInput": "core.errors",
    "BadWeights": "core.errors",
    "Box": "core.prompts",
    "Click": "core.prompts",
    "Dataset": "api.loading",
    "DatasetCard": "core.scenes",
    "Difference": "core.benchmarks",
    "SceneHeader": "core.scenes",
    "Image": "core.scenes",
    "Mask": "core.masks",
    "MaskHint": "core.prompts",
    "MaskPrediction": "core.models",
    "ModelCard": "core.models",
    "NotFound": "core.errors",
    "Observation": "core.users",
    "Predictor": "api.predictor",
    "Request": "core.models",
    "Round": "core.sessions",
    "Run": "api.runs",
    "RunConflict": "core.errors",
    "Scribble": "core.prompts",
    "SegmeterError": "core.errors",
    "Session": "core.sessions",
    "SummaryRow": "core.benchmarks",
    "Target": "core.scenes",
    "Text": "core.prompts",
    "Volume": "core.scenes",
    "auto_masks": "api.automatic",
    "check": "api.checking",
    "click_response_map": "api.click_response",
    "describe": "api.listing",
    "doctor": "api.machine",
    "estimate_run": "evaluation",
    "embed_masks": "api.embeddings",
    "evaluate": "evaluation",
    "fetch": "api.fetching",
    "list_benchmarks": "api.listing",
    "list_datasets": "api.listing",
    "list_detectors": "api.listing",
    "list_measures": "api.listing",
    "list_methods": "api.listing",
    "list_models": "api.listing",
    "list_runs": "api.run_folders",
    "list_users": "api.listing",
    "list_weights": "api.fetching",
    "load_dataset": "api.loading",
    "load_model": "api.loading",
    "make_card": "api.documentation_cards",
    "measure": "core.measures",
    "measure_files": "api.measuring",
    "measures": "",
    "merge": "api.run_folders",
    "meta_measures": "api.meta",
    "metrics": "",
    "next_click": "api.simulation",
    "open_run": "api.runs",
    "parity": "model_parity",
    "score": "api.scoring",
    "serve": "serving",
    "simulate": "api.simulation",
    "make_click_file": "api.click_files",
    "train_decoder": "api.training",
}
__all__ = [
    "BadInput",
    "BadWeights",
    "Box",
    "Click",
    "Dataset",
    "DatasetCard",
    "Difference",
    "Image",
    "Mask",
    "MaskHint",
    "MaskPrediction",
    "ModelCard",
    "NotFound",
    "Observation",
    "Predictor",
    "Request",
    "Round",
    "Run",
    "RunConflict",
    "SceneHeader",
    "Scribble",
    "SegmeterError",
    "Session",
    "SummaryRow",
    "Target",
    "Text",
    "Volume",
    "__version__",
    "auto_masks",
    "check",
    "click_response_map",
    "describe",
    "doctor",
    "embed_masks",
    "estimate_run",
    "evaluate",
    "fetch",
    "list_benchmarks",
    "list_datasets",
    "list_detectors",
    "list_measures",
    "list_methods",
    "list_models",
    "list_runs",
    "list_users",
    "list_weights",
    "load_dataset",
    "load_model",
    "make_card",
    "make_click_file",
    "measure",
    "measure_files",
    "measures",
    "merge",
    "meta_measures",
    "metrics",
    "next_click",
    "open_run",
    "parity",
    "score",
    "serve",
    "simulate",
    "train_decoder",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import segmeter` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'segmeter' has no attribute '{name}'")
    home = _HOMES[name]
    if not home:
        return importlib.import_module(f"segmeter.{name}")
    return getattr(importlib.import_module(f"segmeter.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
