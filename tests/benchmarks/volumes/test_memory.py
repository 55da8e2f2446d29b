"""Memory of a run on a large CT: 512 x 512 x 300 voxels stay below 3 GB on a processor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("nibabel")

LIMIT_GB = 3

RUN = """
import json, resource, sys
from pathlib import Path

import nibabel
import numpy as np
import torch
from safetensors.torch import save_file

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.runtime.remote_files import Roots
from segmeter.engine import run_plan
from segmeter.models.volumes._networks import MedicalNetwork

folder = Path(sys.argv[1])
torch.set_num_threads(1)
SHAPE = (512, 512, 300)


def write(path, kind, part, low):
    header = nibabel.Nifti1Header()
    header.set_data_dtype(kind)
    header.set_data_shape(SHAPE)
    header.set_sform(np.diag([0.8, 0.8, 1.0, 1.0]), 1)
    header.set_xyzt_units("mm")
    header["magic"], header["vox_offset"] = b"n+1", 352
    path.write_bytes(header.binaryblock + bytes(4))
    voxels = np.memmap(path, kind, "r+", 352, SHAPE, order="F")  # the file has holes where it is 0
    voxels[tuple(slice(a, a + n) for a, n in zip(low, part.shape))] = part
    voxels.flush()


data = folder / "data"
data.mkdir()
rng = np.random.default_rng(1)
grey = rng.integers(-1000, 400, (512, 512, 3)).astype(np.int16)
write(data / "ct.nii", np.int16, grey, (0, 0, 150))
write(data / "ct_label.nii", np.uint8, np.ones((60, 60, 1), np.uint8), (200, 220, 150))
(folder / "litemedsam").mkdir()
parts = MedicalNetwork("litemedsam").parts
tensors = {k: v.contiguous() for k, v in parts.state_dict().items()}
save_file(tensors, folder / "litemedsam" / "model.safetensors")
plan = Plan(
    "volumes",
    (Spec("litemedsam"),),
    (Spec("volumes", {"path": str(data)}),),
    users=(Spec("box-per-slice"),),
    rounds=1,
    protocols=("corrected",),
)
tally = run_plan(plan, folder / "run", roots=Roots(weights=folder), workers=0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"done": tally.done, "failed": tally.failed, "peak_gb": peak * 1024 / 1e9}))
"""


@pytest.mark.long
def test_a_run_on_a_large_ct_with_a_network_stays_below_three_gigabytes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["done"], told["failed"]) == (1, 0)
    assert 0.3 < told["peak_gb"] < LIMIT_GB, told
