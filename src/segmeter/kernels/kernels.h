// What every kernel file offers to the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace nb = nanobind;

// Row-major read-only bits, one byte a pixel, as NumPy's bool arrays lie in memory.
using Bits2D = nb::ndarray<const bool, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void bind_box(nb::module_ &m);
void bind_clicks(nb::module_ &m);
void bind_components(nb::module_ &m);
void bind_depth(nb::module_ &m);
void bind_draws(nb::module_ &m);
void bind_enlarging(nb::module_ &m);
void bind_erosion(nb::module_ &m);
void bind_limits(nb::module_ &m);
void bind_matching(nb::module_ &m);
void bind_overlap(nb::module_ &m);
void bind_prior(nb::module_ &m);
void bind_runs(nb::module_ &m);
void bind_suppression(nb::module_ &m);
void bind_tables(nb::module_ &m);
void bind_thinning(nb::module_ &m);
void bind_volume_distances(nb::module_ &m);
