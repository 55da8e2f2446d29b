"""Why NIfTI is read with nibabel and not with SimpleITK: files that are cut short, sheared affines.

    python perf/volume_readers.py

Writes two small files and prints what each library makes of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import SimpleITK

from segmeter.datasets.volumes.stored import open_nifti


def itk(path: Path) -> Any:
    return SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path))).T


def ours(path: Path) -> Any:
    return open_nifti(path).read()


def outcome(read: Callable[[Path], Any], path: Path, expected: Any) -> str:
    """Whether a reader refuses a file, reads it, or reads something else without an error."""
    try:
        found = read(path)
    except Exception as error:  # noqa: BLE001  whatever a library raises is its answer
        return f"refused ({type(error).__name__})"
    return "read" if np.array_equal(found, expected) else "WRONG VOXELS, no error"


def main() -> None:
    voxels = np.random.default_rng(0).integers(0, 900, (30, 40, 20)).astype(np.int16)
    with tempfile.TemporaryDirectory() as folder:
        whole, cut, sheared = (Path(folder) / f"{n}.nii" for n in ("whole", "cut", "sheared"))
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), whole)
        cut.write_bytes(whole.read_bytes()[:5000])
        affine = np.eye(4)
        affine[0, 1] = 0.01
        nibabel.save(nibabel.Nifti1Image(voxels, affine), sheared)
        print(f"{'file':10} {'SimpleITK':28} ours (nibabel)")
        for path in (whole, cut, sheared):
            told = [outcome(read, path, voxels) for read in (itk, ours)]
            print(f"{path.stem:10} {told[0]:28} {told[1]}")


if __name__ == "__main__":
    main()
