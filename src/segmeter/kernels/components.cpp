// Connected components of a volume, by stretches of rows and a forest of unions.

#include "kernels.h"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace {

using Index = std::int64_t;
using Bits3D = nb::ndarray<const bool, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<nb::numpy, std::int32_t, nb::ndim<3>, nb::c_contig>;

struct Stretch {
    std::int32_t begin, end;
};

class Forest {
public:
    explicit Forest(size_t count) : parent_(count) {
        std::iota(parent_.begin(), parent_.end(), 0);
    }
    std::int32_t root(std::int32_t i) {
        while (parent_[static_cast<size_t>(i)] != i) {
            auto &up = parent_[static_cast<size_t>(i)];
            up = parent_[static_cast<size_t>(up)];
            i = up;
        }
        return i;
    }
    // The earlier stretch stays root, so roots come in raster order of their first voxel.
    void join(std::int32_t a, std::int32_t b) {
        a = root(a);
        b = root(b);
        parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    }

private:
    std::vector<std::int32_t> parent_;
};

struct Rows {
    std::vector<Stretch> stretches;
    std::vector<std::int32_t> first;  // first stretch of each row, and one past the last row
};

Rows rows_of(const std::uint8_t *bits, Index rows, Index columns) {
    Rows found;
    found.first.reserve(static_cast<size_t>(rows) + 1);
    for (Index row = 0; row < rows; ++row) {
        found.first.push_back(static_cast<std::int32_t>(found.stretches.size()));
        const std::uint8_t *at = bits + row * columns;
        for (Index x = 0; x < columns;) {
            const auto *hit = static_cast<const std::uint8_t *>(
                std::memchr(at + x, 1, static_cast<size_t>(columns - x)));
            if (hit == nullptr) break;
            const Index begin = hit - at;
            const auto *stop = static_cast<const std::uint8_t *>(
                std::memchr(hit, 0, static_cast<size_t>(columns - begin)));
            x = stop == nullptr ? columns : stop - at;
            found.stretches.push_back({static_cast<std::int32_t>(begin), static_cast<std::int32_t>(x)});
        }
    }
    found.first.push_back(static_cast<std::int32_t>(found.stretches.size()));
    return found;
}

// Joins stretches of two rows that touch; `reach` 1 lets them touch across a corner.
void join_rows(const Rows &rows, Index here, Index there, int reach, Forest &forest) {
    std::int32_t a = rows.first[static_cast<size_t>(here)];
    std::int32_t b = rows.first[static_cast<size_t>(there)];
    const std::int32_t last_a = rows.first[static_cast<size_t>(here) + 1];
    const std::int32_t last_b = rows.first[static_cast<size_t>(there) + 1];
    while (a < last_a && b < last_b) {
        const Stretch &s = rows.stretches[static_cast<size_t>(a)];
        const Stretch &t = rows.stretches[static_cast<size_t>(b)];
        if (s.begin < t.end + reach && t.begin < s.end + reach) forest.join(a, b);
        if (s.end < t.end) ++a;
        else ++b;
    }
}

// How far stretches of two rows may lie apart: -1 when rows (dz, dy) away never touch.
int reach_of(int dz, int dy, int connectivity) {
    const int steps = (dz != 0) + (dy != 0);
    const int allowed = connectivity == 6 ? 1 : connectivity == 18 ? 2 : 3;
    if (steps > allowed) return -1;
    return steps < allowed ? 1 : 0;
}

void join_all(const Rows &rows, Index depth, Index height, int connectivity, Forest &forest) {
    constexpr int before[4][2] = {{0, -1}, {-1, -1}, {-1, 0}, {-1, 1}};
    for (Index z = 0; z < depth; ++z)
        for (Index y = 0; y < height; ++y)
            for (const auto &[dz, dy] : before) {
                const int reach = reach_of(dz, dy, connectivity);
                if (reach < 0 || z + dz < 0 || y + dy < 0 || y + dy >= height) continue;
                join_rows(rows, z * height + y, (z + dz) * height + y + dy, reach, forest);
            }
}

std::pair<Labels, std::int32_t> components(Bits3D bits, int connectivity) {
    const auto depth = static_cast<Index>(bits.shape(0)), height = static_cast<Index>(bits.shape(1));
    const auto columns = static_cast<Index>(bits.shape(2));
    auto labels = std::make_unique<std::vector<std::int32_t>>(static_cast<size_t>(depth * height * columns), 0);
    std::int32_t count = 0;
    {
        nb::gil_scoped_release free;
        const Rows rows =
            rows_of(reinterpret_cast<const std::uint8_t *>(bits.data()), depth * height, columns);
        Forest forest(rows.stretches.size());
        join_all(rows, depth, height, connectivity, forest);
        std::vector<std::int32_t> number(rows.stretches.size(), 0);
        for (Index row = 0; row < depth * height; ++row)
            for (std::int32_t i = rows.first[static_cast<size_t>(row)];
                 i < rows.first[static_cast<size_t>(row) + 1]; ++i) {
                const auto root = static_cast<size_t>(forest.root(i));
                if (number[root] == 0) number[root] = ++count;
                const Stretch &s = rows.stretches[static_cast<size_t>(i)];
                std::int32_t *to = labels->data() + row * columns;
                std::fill(to + s.begin, to + s.end, number[root]);
            }
    }
    std::int32_t *data = labels->data();
    nb::capsule owner(labels.get(),
                      [](void *p) noexcept { delete static_cast<std::vector<std::int32_t> *>(p); });
    labels.release();
    return {Labels(data, {bits.shape(0), bits.shape(1), bits.shape(2)}, owner), count};
}

}  // namespace

void bind_components(nb::module_ &m) {
    m.def("components", &components, nb::arg("bits"), nb::arg("connectivity"),
          "Labels from 1 in raster order of each component's first voxel, and how many.");
}
