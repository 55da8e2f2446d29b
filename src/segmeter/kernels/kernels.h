// What every kernel file offers to the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>

namespace nb = nanobind;

// Row-major read-only bits, one byte a pixel, as NumPy's bool arrays lie in memory.
using Bits2D = nb::ndarray<const bool, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A part of such an image: rows may lie apart, the pixels of a row lie together.
using Window = nb::ndarray<const bool, nb::ndim<2>, nb::device::cpu>;

// A new binary image, owned by Python.
struct NewBits {
    std::size_t rows, columns;
    std::uint8_t *pixels;
    nb::capsule owner;

    NewBits(std::size_t rows, std::size_t columns)
        : rows(rows),
          columns(columns),
          pixels(new std::uint8_t[rows * columns + 1]),  // an empty image has an address, too
          owner(pixels, [](void *p) noexcept { delete[] static_cast<std::uint8_t *>(p); }) {}

    nb::ndarray<nb::numpy, bool, nb::ndim<2>> array() const {
        return {reinterpret_cast<bool *>(pixels), {rows, columns}, owner};
    }
};

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
