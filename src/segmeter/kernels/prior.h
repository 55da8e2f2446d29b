// The embedded click model on the pixels of a region.
#pragma once

#include "row_runs.h"

// Position of a box in its image.
struct Frame {
    Index top, left;      // the box's first pixel
    Index height, width;  // of the image
};

// The model's numbers, lengths in pixels.
struct Law {
    double depth, spread, sloppy;
    const float *taps;  // of the jitter's Gaussian, from -radius to radius
    Index radius;       // -1 without jitter
    double reach;
};

// The weight of every pixel of a region, which has some and whose box is tight.
std::vector<float> prior_of(const Stretches &region, const Frame &frame, const Law &law);
