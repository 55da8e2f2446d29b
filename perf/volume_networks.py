"""Volumes with real networks: ten prompters of one volume, and memory of a large CT.

    python perf/volume_networks.py --weights ../shared/weights \\
        --data ../shared/data/medical/MSD_Spleen_crop [--model sam2-hiera-tiny] [--slices 4]
        [--repeats 3] [--enlarged 3]
    python perf/volume_networks.py --weights ../shared/weights --memory

Ten prompters run on one volume together, so that every slice is embedded once, and one at a
time, each embedding the volume again. CPU time on a processor, which other work may share;
wall time on a GPU. Each time is the least of some repeats; `--enlarged` multiplies the height
and width of slices. The second form writes a CT of 512 x 512 x 600 voxels to a temporary
folder, runs the benchmark on it and prints the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import Model
from segmeter.core.scenes import Target, Volume
from segmeter.measures.objects import dice
from segmeter.models.volumes.slicewise import Slicewise

POINTS = [f"points-per-slice?n={n}" for n in (1, 2, 3, 5, 10)]
BOXES = ["box-per-slice", "boxes-from-3d-box", *(f"box-interpolation?n={n}" for n in (3, 5, 10))]
SHAKEN = [f"box-interpolation?n={n}&shaken={k}" for n in (3, 5, 10) for k in (3, 5)][:5]
LARGE = (600, 512, 512)


def judge(target: Target, mask: Mask) -> dict[str, float]:
    return {"dice": dice(target.mask, mask, None)}


def run_users(network: Model, volume: Volume, target: Target, users: Sequence[str]) -> int:
    """Run users together on new embeddings; return how many slices were encoded."""
    model = Slicewise(network)
    simulated_sessions = [
        SimulatedSession(target, catalogue.users.make(name), "corrected") for name in users
    ]
    simulate(volume, model.encode(volume), simulated_sessions, 1, judge, seed=1)
    return model.store.encodings


def seconds(work: Callable[[], Any], on_gpu: bool, repeats: int) -> float:
    """Least CPU seconds of some calls, or seconds by the clock where a GPU does the work."""
    import torch

    clock = time.perf_counter if on_gpu else time.process_time
    found = []
    for _ in range(repeats):
        start = clock()
        work()
        if on_gpu:
            torch.cuda.synchronize()
        found.append(clock() - start)
    return min(found)


def cut(volume: Volume, most: int, times: int = 1) -> tuple[Volume, Target]:
    """The volume's largest target, and so many slices around its middle at most, enlarged."""
    target = max(volume.targets, key=lambda t: t.mask.area)
    low, high = target.mask.low[0], target.mask.high[0]
    start = max(low, (low + high - most) // 2)
    stop = min(start + most, high)
    voxels, ground_truth = (
        part[start:stop].repeat(times, axis=1).repeat(times, axis=2)
        for part in (volume.voxels, target.mask.dense())
    )
    mask = Mask.of(ground_truth)
    header = replace(volume.header, shape=mask.shape)
    return Volume(volume.dataset, volume.id, voxels, (), header=header), Target(target.id, mask)


def prompters(name: str, given: argparse.Namespace) -> None:
    """One line for a model on the first volume of a folder."""
    network = catalogue.models.make(name, weights=given.weights, device=given.device)
    dataset = catalogue.datasets.make(f"volumes?path={given.data}")
    volume, target = cut(dataset.load(dataset.scenes()[0]), given.slices, given.enlarged)
    print(measured(network, volume, target, given.repeats), flush=True)


def measured(network: Model, volume: Volume, target: Target, repeats: int = 1) -> str:
    """Cost of one prompter, of ten together, and of ten that each encode the volume."""
    users = [*BOXES, *(POINTS if "click" in network.card.abilities else SHAKEN)]
    on_gpu = Slicewise(network).together > 1
    run_users(network, volume, target, users)  # warms up
    alone = [
        seconds(partial(run_users, network, volume, target, [user]), on_gpu, repeats)
        for user in users
    ]
    together = seconds(partial(run_users, network, volume, target, users), on_gpu, repeats)
    one, apart = sum(alone) / len(alone), sum(alone)
    shape = " x ".join(map(str, volume.shape))
    return (
        f"{network.card.name}, {shape}: one prompter {one:.3f} s, {len(users)} together"
        f" {together:.3f} s ({together / one:.2f} x one), one at a time {apart:.2f} s"
        f" ({apart / together:.1f} x)"
    )


def large_ct(folder: Path) -> Path:
    """A CT of 512 x 512 x 600 voxels with one ball in a few slices, as NIfTI."""
    import nibabel

    affine = np.diag([0.8, 0.8, 1.0, 1.0])
    ct = np.random.default_rng(1).integers(-1000, 400, (512, 512, 8), dtype=np.int16)
    voxels = np.tile(ct, (1, 1, LARGE[0] // 8))
    ground_truth = np.zeros(voxels.shape, np.uint8)
    z, y, x = np.ogrid[-2:3, -40:41, -40:41]
    ground_truth[216:297, 216:297, 298:303] = np.transpose(
        400 * z**2 + y**2 + x**2 <= 1600, (2, 1, 0)
    )
    image: Any = nibabel.Nifti1Image  # it has no types of its own
    nibabel.save(image(voxels, affine), folder / "ct.nii")
    nibabel.save(image(ground_truth, affine), folder / "ct_label.nii.gz")
    return folder


def state(name: str, weights: str) -> None:
    """Run the benchmark on a large CT with a real network; peak memory of the process."""
    from segmeter.core.catalogue import Spec
    from segmeter.core.plans import Plan
    from segmeter.engine import run_plan
    from segmeter.runtime.remote_files import Roots

    with tempfile.TemporaryDirectory() as folder:
        data = Spec("volumes", {"path": str(large_ct(Path(folder)))})
        plan = Plan("volumes", (Spec(name),), (data,), users=(Spec("box-per-slice"),), rounds=1)
        tally = run_plan(plan, Path(folder) / "run", roots=Roots(weights=Path(weights)), workers=0)
        assert tally.failed == 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: peak memory of a run on 512 x 512 x 600 voxels {peak:.2f} GiB")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("--weights", required=True)
    asked.add_argument("--data")
    asked.add_argument("--model", action="append")
    asked.add_argument("--device", default="auto")
    asked.add_argument("--slices", type=int, default=4)
    asked.add_argument("--repeats", type=int, default=1)
    asked.add_argument("--enlarged", type=int, default=1)
    asked.add_argument("--state", action="store_true")
    given = asked.parse_args()
    if not given.state and not given.data:
        asked.error("--data names a volume, unless --memory is asked for")
    if given.state:
        state((given.model or ["litemedsam"])[0], given.weights)
        return
    for name in given.model or ["sam2-hiera-tiny", "mobile-sam", "litemedsam"]:
        prompters(name, given)


if __name__ == "__main__":
    main()
