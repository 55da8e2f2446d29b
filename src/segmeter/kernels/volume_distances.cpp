// Distances in volumes: depth inside a mask, and from one surface to another.
//
// Axis by axis: along a row two scans, across rows and slices a lower envelope of parabolas.
// Columns are copied in tiles, since a walk across slices would miss the cache at every step.

#include "volume_distances.h"
#include "kernels.h"

#include <nanobind/stl/pair.h>

#include <cmath>
#include <cstring>
#include <memory>

using Index = std::int64_t;

namespace {

constexpr Index kTile = 16;
constexpr double kNever = std::numeric_limits<double>::infinity();

using Bits3D = nb::ndarray<const bool, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<nb::numpy, double, nb::c_contig>;

void along_rows(const std::uint8_t *seeds, const Grid &grid, double *out) {
    const Index n = grid.columns;
    for (Index row = 0; row < grid.depth * grid.rows; ++row) {
        const std::uint8_t *in = seeds + row * n;
        double *to = out + row * n;
        if (std::memchr(in, 1, static_cast<size_t>(n)) == nullptr) {
            std::fill(to, to + n, kNever);
            continue;
        }
        Index last = -1;
        for (Index x = 0; x < n; ++x) {
            if (in[x]) last = x;
            const double away = static_cast<double>(x - last);
            to[x] = last < 0 ? kNever : grid.x * (away * away);
        }
        last = -1;
        for (Index x = n - 1; x >= 0; --x) {
            if (in[x]) last = x;
            if (last < 0) continue;
            const double away = static_cast<double>(last - x);
            to[x] = std::min(to[x], grid.x * (away * away));
        }
    }
}

// Whether any of `width` neighbouring columns holds a wanted place.
bool any_wanted(const std::uint8_t *wanted, Index length, Index stride, Index width) {
    if (wanted == nullptr) return true;
    for (Index i = 0; i < length; ++i)
        if (std::memchr(wanted + i * stride, 1, static_cast<size_t>(width)) != nullptr) return true;
    return false;
}

// One axis for `width` neighbouring columns at once.
void across(double *data, Index length, Index stride, Index width, double w, Line &line,
            std::vector<double> &tile) {
    double *in = tile.data(), *out = tile.data() + kTile * length;
    for (Index i = 0; i < length; ++i)
        for (Index x = 0; x < width; ++x) in[x * length + i] = data[i * stride + x];
    for (Index x = 0; x < width; ++x) line.run(in + x * length, out + x * length, length, w);
    for (Index i = 0; i < length; ++i)
        for (Index x = 0; x < width; ++x) data[i * stride + x] = out[x * length + i];
}

Grid grid_of(const Bits3D &bits, double z, double y, double x) {
    return {static_cast<Index>(bits.shape(0)), static_cast<Index>(bits.shape(1)),
            static_cast<Index>(bits.shape(2)), z * z, y * y, x * x};
}

const std::uint8_t *bytes(const Bits3D &bits) {
    return reinterpret_cast<const std::uint8_t *>(bits.data());
}

Doubles handed_over(std::vector<double> &&values, std::initializer_list<size_t> shape) {
    auto kept = std::make_unique<std::vector<double>>(std::move(values));
    double *data = kept->data();
    nb::capsule owner(kept.get(), [](void *p) noexcept { delete static_cast<std::vector<double> *>(p); });
    kept.release();
    return Doubles(data, shape, owner);
}

Doubles distances(Bits3D seeds, double z, double y, double x) {
    const Grid grid = grid_of(seeds, z, y, x);
    std::vector<double> found;
    {
        nb::gil_scoped_release free;
        found = squared_distances(bytes(seeds), grid, nullptr);
    }
    return handed_over(std::move(found), {seeds.shape(0), seeds.shape(1), seeds.shape(2)});
}

// The eight voxels around each corner as bits, (z, y, x) = (0, 0, 0) first; the grid of corners
// is one longer than the mask's on every axis.
std::vector<std::uint8_t> corner_codes(const std::uint8_t *bits, const Grid &voxels) {
    const Index rows = voxels.rows + 1, columns = voxels.columns + 1;
    std::vector<std::uint8_t> codes(static_cast<size_t>((voxels.depth + 1) * rows * columns), 0);
    for (Index z = 0; z < voxels.depth; ++z)
        for (Index y = 0; y < voxels.rows; ++y) {
            const std::uint8_t *in = bits + (z * voxels.rows + y) * voxels.columns;
            if (std::memchr(in, 1, static_cast<size_t>(voxels.columns)) == nullptr) continue;
            for (int dz = 0; dz < 2; ++dz)
                for (int dy = 0; dy < 2; ++dy) {
                    // Seen from the corner, this voxel lies at (1 - dz, 1 - dy, 1 - dx).
                    const int place = 4 * (1 - dz) + 2 * (1 - dy);
                    std::uint8_t *to = codes.data() + ((z + dz) * rows + y + dy) * columns;
                    for (Index x = 0; x < voxels.columns; ++x) {
                        to[x] = static_cast<std::uint8_t>(to[x] | (in[x] << (place + 1)));
                        to[x + 1] = static_cast<std::uint8_t>(to[x + 1] | (in[x] << place));
                    }
                }
        }
    return codes;
}

std::vector<std::uint8_t> border(const std::vector<std::uint8_t> &codes) {
    std::vector<std::uint8_t> found(codes.size());
    for (size_t i = 0; i < codes.size(); ++i) found[i] = codes[i] != 0 && codes[i] != 255;
    return found;
}

// Distance from every element of one surface to the other, and the element's code.
void gather(const std::vector<std::uint8_t> &codes, const std::vector<std::uint8_t> &mine,
            const std::vector<std::uint8_t> &other, const Grid &corners,
            std::vector<double> &away, std::vector<double> &code) {
    const std::vector<double> squared = squared_distances(other.data(), corners, mine.data());
    for (size_t i = 0; i < codes.size(); ++i)
        if (mine[i]) {
            away.push_back(std::sqrt(squared[i]));
            code.push_back(codes[i]);
        }
}

nb::tuple surface_distances(Bits3D truth, Bits3D guess, double z, double y, double x) {
    const Grid voxels = grid_of(truth, z, y, x);
    const Grid corners{voxels.depth + 1, voxels.rows + 1, voxels.columns + 1,
                       voxels.z, voxels.y, voxels.x};
    std::vector<double> away[2], code[2];
    {
        nb::gil_scoped_release free;
        const auto first = corner_codes(bytes(truth), voxels), second = corner_codes(bytes(guess), voxels);
        const auto one = border(first), two = border(second);
        gather(first, one, two, corners, away[0], code[0]);
        gather(second, two, one, corners, away[1], code[1]);
    }
    const size_t lengths[2] = {away[0].size(), away[1].size()};
    return nb::make_tuple(handed_over(std::move(away[0]), {lengths[0]}),
                          handed_over(std::move(code[0]), {lengths[0]}),
                          handed_over(std::move(away[1]), {lengths[1]}),
                          handed_over(std::move(code[1]), {lengths[1]}));
}

}  // namespace

std::vector<double> squared_distances(const std::uint8_t *seeds, const Grid &grid,
                                      const std::uint8_t *wanted) {
    std::vector<double> data(static_cast<size_t>(grid.size()));
    along_rows(seeds, grid, data.data());
    const Index slice = grid.rows * grid.columns, longest = std::max(grid.depth, grid.rows);
    Line line(longest);
    std::vector<double> tile(static_cast<size_t>(2 * kTile * longest));
    for (Index z = 0; z < grid.depth; ++z) {
        // A slice without seeds stays infinite along y.
        if (std::memchr(seeds + z * slice, 1, static_cast<size_t>(slice)) == nullptr) continue;
        for (Index x = 0; x < grid.columns; x += kTile)
            across(data.data() + z * slice + x, grid.rows, grid.columns,
                   std::min(kTile, grid.columns - x), grid.y, line, tile);
    }
    for (Index y = 0; y < grid.rows; ++y)
        for (Index x = 0; x < grid.columns; x += kTile) {
            const Index at = y * grid.columns + x, width = std::min(kTile, grid.columns - x);
            if (any_wanted(wanted == nullptr ? nullptr : wanted + at, grid.depth, slice, width))
                across(data.data() + at, grid.depth, slice, width, grid.z, line, tile);
        }
    return data;
}

void bind_volume_distances(nb::module_ &m) {
    m.def("squared_distances", &distances, nb::arg("seeds"), nb::arg("z"), nb::arg("y"),
          nb::arg("x"), "Squared distance of every voxel to the nearest seed; spacing per axis.");
    m.def("surface_distances", &surface_distances, nb::arg("truth"), nb::arg("guess"),
          nb::arg("z"), nb::arg("y"), nb::arg("x"),
          "Distances between two surfaces, both ways, with the code of each corner.");
}
