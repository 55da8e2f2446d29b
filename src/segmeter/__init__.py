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
    from segmeter.api.predictor import Predictor, next_click, simulate
    from segmeter.api.run_folders import merge
    from segmeter.api.runs import Run, open_run
    from segmeter.api.scoring import score
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
    from segmeter.store.folder import list_runs

__version__ = "0.3.0"

# Where public names are defined; they are imported when first used.
_HOMES = {
    "api.automatic": "auto_masks",
    "api.checking": "check",
    "api.click_files": "make_click_file",
    "api.click_response": "click_response_map",
    "api.documentation_cards": "make_card",
    "api.embeddings": "embed_masks",
    "api.fetching": "fetch list_weights",
    "api.listing": (
        "describe list_benchmarks list_datasets list_detectors list_measures list_methods "
        "list_models list_users"
    ),
    "api.loading": "Dataset load_dataset load_model",
    "api.machine": "doctor",
    "api.measuring": "measure_files",
    "api.meta": "meta_measures",
    "api.predictor": "Predictor next_click simulate",
    "api.run_folders": "merge",
    "api.runs": "Run open_run",
    "api.scoring": "score",
    "api.training": "train_decoder",
    "core.benchmarks": "Difference SummaryRow",
    "core.errors": "BadInput BadWeights NotFound RunConflict SegmeterError",
    "core.masks": "Mask",
    "core.measures": "measure",
    "core.models": "MaskPrediction ModelCard Request",
    "core.prompts": "Box Click MaskHint Scribble Text",
    "core.scenes": "DatasetCard Image SceneHeader Target Volume",
    "core.sessions": "Round Session",
    "core.users": "Observation",
    "evaluation": "estimate_run evaluate",
    "model_parity": "parity",
    "serving": "serve",
    "store.folder": "list_runs",
}
__all__ = [
    "BadInput", "BadWeights", "Box", "Click", "Dataset", "DatasetCard", "Difference", "Image",
    "Mask", "MaskHint", "MaskPrediction", "ModelCard", "NotFound", "Observation", "Predictor",
    "Request", "Round", "Run", "RunConflict", "SceneHeader", "Scribble", "SegmeterError",
    "Session", "SummaryRow", "Target", "Text", "Volume", "__version__", "auto_masks", "check",
    "click_response_map", "describe", "doctor", "embed_masks", "estimate_run", "evaluate",
    "fetch", "list_benchmarks", "list_datasets", "list_detectors", "list_measures",
    "list_methods", "list_models", "list_runs", "list_users", "list_weights", "load_dataset",
    "load_model", "make_card", "make_click_file", "measure", "measure_files", "measures", "merge",
    "meta_measures", "metrics", "next_click", "open_run", "parity", "score", "serve", "simulate",
    "train_decoder",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import segmeter` stays quick."""
    if name in ("measures", "metrics"):
        return importlib.import_module(f"segmeter.{name}")
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"segmeter.{home}"), name)
    raise AttributeError(f"module 'segmeter' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
