"""Volume files: all objects of a case in one label map, or in one DICOM segmentation."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Scene
from segmeter.datasets.volumes.cases import FileVolume
from segmeter.datasets.volumes.dicom import Series
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import write_nifti

__all__ = ["CASE_FORMATS", "write_case"]

CASE_FORMATS = {"nifti-labels": ".nii.gz", "dicom-seg": ".dcm"}
"""Formats with one file per case, and how their names end."""

Values = npt.NDArray[np.uint16]


def write_case(path: Path, kind: str, scene: Scene, grid: Grid, masks: Mapping[str, Mask]) -> None:
    """Write the masks of a case, by target, as values 1, 2, ... in the order of their names.

    Where masks overlap in a label map, the smaller object is kept; a DICOM segmentation keeps
    both. `labels.json` beside label maps names the values, as nnU-Net's `dataset.json` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "dicom-seg":
        _write_segmentation(path, scene, masks)
        return
    values: Values = np.zeros(scene.shape, np.uint16)
    numbers = {name: number for number, name in enumerate(masks, 1)}
    for name in sorted(masks, key=lambda name: -masks[name].area):
        values[masks[name].window][masks[name].bits] = numbers[name]
    small = values.astype(np.uint8) if len(masks) < 256 else values
    write_nifti(path, grid.to_file(small), grid)
    (path.parent / "labels.json").write_text(
        json.dumps({"labels": {"background": 0, **numbers}}, indent=1), encoding="utf-8"
    )


def _write_segmentation(path: Path, scene: Scene, masks: Mapping[str, Mask]) -> None:
    if importlib.util.find_spec("highdicom") is None:
        raise NotFound(
            "DICOM-SEG needs the package 'highdicom';"
            " install the extra: pip install 'segmeter[volumes]'"
        )
    image = scene.case.image if isinstance(scene, FileVolume) else None
    if not isinstance(image, Series):
        raise BadInput(
            f"{scene.name} was not read from DICOM, and a DICOM segmentation refers to its series;"
            " use --format nifti or nifti-labels"
        )
    import pydicom
    from highdicom import AlgorithmIdentificationSequence
    from highdicom.seg import SegmentAlgorithmTypeValues, Segmentation, SegmentationTypeValues
    from highdicom.seg import SegmentDescription as Description
    from highdicom.uid import UID
    from pydicom.sr.codedict import codes

    source = [pydicom.dcmread(file) for file in image.files]
    # (slices, rows, columns, segments), in the order of the series
    planes = [image.grid.to_file(mask.dense()).T for mask in masks.values()]
    tool: Any = AlgorithmIdentificationSequence(
        name="segmeter", family=codes.DCM.ArtificialIntelligence, version="1"
    )
    described = [
        Description(
            segment_number=number,
            segment_label=name[:64],
            segmented_property_category=codes.SCT.Organ,
            segmented_property_type=codes.SCT.Organ,
            algorithm_type=SegmentAlgorithmTypeValues.SEMIAUTOMATIC,
            algorithm_identification=tool,
        )
        for number, name in enumerate(masks, 1)
    ]
    made = Segmentation(
        source_images=source,
        pixel_array=np.stack(planes, axis=-1).astype(np.uint8),
        segmentation_type=SegmentationTypeValues.BINARY,
        segment_descriptions=described,
        series_instance_uid=UID(),
        series_number=900,
        sop_instance_uid=UID(),
        instance_number=1,
        manufacturer="segmeter",
        manufacturer_model_name="segmeter",
        software_versions="1",
        device_serial_number="1",
        omit_empty_frames=True,
    )
    made.save_as(path)
