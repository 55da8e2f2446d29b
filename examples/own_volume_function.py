# A segmenter of volumes of your own: grows from clicks and boxes over voxels of like value.
import numpy as np
from scipy import ndimage


def predict(volume, prompts):  # volume.voxels (z, y, x), volume.spacing_mm; Click, Box, Scribble
    grown = np.zeros(volume.voxels.shape, bool)
    for prompt in prompts:
        centre = getattr(prompt, "point", None) or np.add(prompt.low, prompt.high) / 2
        seed = tuple(int(c) for c in centre)
        near = abs(volume.voxels - float(volume.voxels[seed])) < volume.voxels.std() / 2
        regions, _ = ndimage.label(near)
        grown |= regions == regions[seed]
    return grown
