// Draws from clickability maps: at a share of the mass, or between two values as published.

#include "draws.h"
#include "kernels.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using Weights = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// The pixels with values from `first` to `last`.
struct Range {
    float first, last;
    Index filled;  // how many, at most

    bool holds(float value) const { return (value >= first) & (value <= last); }
};

double mass_of(const float *w, size_t n) {
    constexpr size_t lanes = 64;
    double mass[lanes] = {};
    size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (size_t k = 0; k < lanes; ++k) mass[k] += w[i + k];
    return std::accumulate(mass, mass + lanes, std::accumulate(w + i, w + n, 0.0));
}

// The part of a range in which the mass beyond what lies `below` passes `wanted`, parted by the
// leading bits of values; `below` then includes the parts before it.
Range cut(const float *w, size_t n, const Range &range, double wanted, double &below) {
    const std::uint32_t low = bits_of(range.first), high = bits_of(range.last);
    int shift = 0;
    while ((high - low) >> shift >= 1 << 15) ++shift;
    std::vector<double> mass(((high - low) >> shift) + 1, 0.0);
    std::vector<Index> filled(mass.size(), 0);
    for (size_t i = 0; i < n; ++i) {
        if (!range.holds(w[i])) continue;
        const size_t part = (bits_of(w[i]) - low) >> shift;
        mass[part] += w[i];
        ++filled[part];
    }
    size_t part = mass.size();
    for (size_t k = 0; k < mass.size(); ++k) {
        if (!filled[k]) continue;
        if (part < mass.size()) below += mass[part];
        part = k;
        if (below + mass[k] > wanted) break;
    }
    const std::uint32_t first = low + (static_cast<std::uint32_t>(part) << shift);
    const std::uint32_t last = std::min(first + ((1u << shift) - 1), high);
    return {float_of(first), float_of(last), filled[part]};
}

// Whether a range holds a single value, and then that value and how many pixels have it.
bool single(const float *w, size_t n, Range &range) {
    const float value = *std::find_if(w, w + n, [&](float v) { return range.holds(v); });
    constexpr size_t stretch = 4096;
    Index filled = 0;
    for (size_t start = 0; start < n; start += stretch) {
        const size_t end = std::min(n, start + stretch);
        std::uint32_t inside = 0, same = 0;
        for (size_t i = start; i < end; ++i) inside += range.holds(w[i]);
        for (size_t i = start; i < end; ++i) same += w[i] == value;
        if (inside != same) return false;
        filled += same;
    }
    range = {value, value, filled};
    return true;
}

// The pixel, of those with a single value, at which their mass in order of the hash passes
// `wanted`. Hashes are spread evenly: only those near the wanted one need to be put in order.
Index by_hash(const float *w, size_t n, const Range &range, double wanted, std::uint64_t seed) {
    const double filled = static_cast<double>(range.filled), whole = 0x1p64;
    const double rank = std::clamp(std::floor(wanted / range.first), 0.0, filled - 1);
    const double deviation = std::sqrt(rank * (filled - rank) / filled);
    for (double reach = 6 * deviation + 64;; reach *= 64) {
        const double from = (rank - reach) / filled * whole, to = (rank + reach) / filled * whole;
        const std::uint64_t low = from > 0 ? static_cast<std::uint64_t>(from) : 0;
        const std::uint64_t high = to < whole ? static_cast<std::uint64_t>(to) : ~std::uint64_t{0};
        Index before = 0;
        std::vector<Pixel> near;
        for (size_t i = 0; i < n; ++i) {
            if (w[i] != range.first) continue;
            const std::uint64_t hash = mixed(seed, i);
            before += hash < low;
            if (hash - low <= high - low) near.push_back({w[i], hash, static_cast<Index>(i)});
        }
        const Index at = static_cast<Index>(rank) - before;
        if (at < 0 || at >= static_cast<Index>(near.size())) continue;
        const auto lower = [](const Pixel &a, const Pixel &b) {
            return std::tie(a.hash, a.place) < std::tie(b.hash, b.place);
        };
        std::nth_element(near.begin(), near.begin() + at, near.end(), lower);
        return near[static_cast<size_t>(at)].place;
    }
}

// The pixel at a share of the map's mass, pixels in order of value and, where equal, of a hash.
// The range of values is cut until it holds few pixels, or a single value.
Index at_share(Weights map, double share, std::uint64_t seed) {
    const size_t n = map.size();
    const float *w = map.data();
    nb::gil_scoped_release free;
    constexpr Index few = 1 << 14;
    const double mass = mass_of(w, n), wanted = share * mass;
    if (!(mass > 0)) return -1;  // nothing to click on
    using Float = std::numeric_limits<float>;
    Range range{Float::denorm_min(), Float::infinity(), static_cast<Index>(n)};
    double below = 0;
    while (range.filled > few) {
        if (single(w, n, range)) return by_hash(w, n, range, wanted - below, seed);
        range = cut(w, n, range, wanted, below);
    }
    std::vector<Pixel> inside;
    inside.reserve(static_cast<size_t>(range.filled));
    for (size_t i = 0; i < n; ++i)
        if (range.holds(w[i])) inside.push_back({w[i], mixed(seed, i), static_cast<Index>(i)});
    return narrowed(inside, below, wanted);
}

// The pixels of a box whose weights lie between two values, both included.
struct Band {
    const float *w;
    Index rows, columns;   // of the box
    Index wide, up, left;  // columns of the image, and the first pixel of the box in it
    float bottom, top;

    float kept(float v) const { return (v >= bottom) & (v <= top) ? v : 0.0f; }

    // A segment of the image in raster order, as the pairwise sum needs it.
    const float *stretch(Index start, Index n, float *room) const {
        const Index last = start + n;
        Index y = start / wide;
        bool any = false;
        std::fill(room, room + n, 0.0f);
        for (Index row = y * wide; row < last; row += wide, ++y) {
            if (y < up || y >= up + rows) continue;
            const Index box = row + left;  // where the box's row begins
            const Index from = std::max(start, box), to = std::min(last, box + columns);
            const float *values = w + (y - up) * columns;
            for (Index i = from; i < to; ++i) room[i - start] = kept(values[i - box]);
            any |= from < to;
        }
        return any ? room : nullptr;
    }

    float total(Index picture_rows) const {
        const auto load = [this](Index start, Index n, float *room) {
            return stretch(start, n, room);
        };
        return pairwise(load, up * wide, (up + rows) * wide, 0, picture_rows * wide);
    }

    // No kept weight above zero is less than this.
    float least() const {
        if (bottom > 0) return bottom;
        std::uint32_t least = ~std::uint32_t{0};  // bits less one: zero comes last
        for (Index i = 0; i < rows * columns; ++i) least = std::min(least, bits_of(w[i]) - 1);
        return float_of(least + 1);
    }
};

// Running sums of the shares, float32 each, in float64.
struct Shares {
    const Band &band;
    float total;

    double of(float v) const { return static_cast<double>(band.kept(v) / total); }

    // A row's shares after those before it, one by one.
    double in_order(const float *row, double sum) const {
        for (Index x = 0; x < band.columns; ++x) sum += of(row[x]);
        return sum;
    }

    // The same, many sums at once: for where no step rounds.
    double in_lanes(const float *row, double sum) const {
        constexpr Index lanes = 64;
        double lane[lanes] = {};
        Index x = 0;
        for (; x + lanes <= band.columns; x += lanes)
            for (Index k = 0; k < lanes; ++k) lane[k] += of(row[x + k]);
        for (; x < band.columns; ++x) sum += of(row[x]);
        return std::accumulate(lane, lane + lanes, sum);
    }

    // The sum before each row, and the whole one.
    std::vector<double> before_rows(double (Shares::*add)(const float *, double) const) const {
        std::vector<double> before(static_cast<size_t>(band.rows) + 1, 0.0);
        for (size_t y = 0; y + 1 < before.size(); ++y)
            before[y + 1] = (this->*add)(band.w + static_cast<Index>(y) * band.columns, before[y]);
        return before;
    }

    // All shares are whole multiples of the last digit of the least. As long as their sum has
    // room for that digit in float64, no step rounds, and their order does not matter.
    std::vector<double> before_rows() const {
        const float least = band.least() / total;
        const double digit = std::nextafter(least, 2 * least) - least;
        std::vector<double> before = before_rows(&Shares::in_lanes);
        return before.back() < digit * 0x1p53 ? before : before_rows(&Shares::in_order);
    }
};

// One published draw between two limits: raster order, float32 shares, float64 running sum.
Index draw_between(Weights map, std::tuple<Index, Index, Index, Index> frame,
                   std::pair<float, float> limits, double uniform) {
    const auto [picture_rows, wide, up, left] = frame;
    const Index rows = static_cast<Index>(map.shape(0)), columns = static_cast<Index>(map.shape(1));
    const Band band{map.data(), rows, columns, wide, up, left, limits.first, limits.second};
    nb::gil_scoped_release free;
    const float total = band.total(picture_rows);
    if (!(total > 0) || std::isinf(total)) return -1;
    const Shares shares{band, total};
    const std::vector<double> before = shares.before_rows();
    const double whole = before.back();
    // The last row whose start has not passed the number holds the pixel.
    Index y = 0;
    while (y + 1 < rows && before[static_cast<size_t>(y) + 1] / whole <= uniform) ++y;
    double sum = before[static_cast<size_t>(y)];
    Index last = -1;
    for (Index i = y * columns; i < rows * columns; ++i) {
        if (!(band.kept(band.w[i]) > 0)) continue;
        sum += shares.of(band.w[i]);
        last = i;
        if (sum / whole > uniform) break;
    }
    return last;
}

}  // namespace

void bind_draws(nb::module_ &m) {
    m.def("at_share", &at_share, nb::arg("map"), nb::arg("share"), nb::arg("seed"),
          "Raster index of the pixel at a share of the mass; -1 for an empty map.");
    m.def("draw_between", &draw_between, nb::arg("map"), nb::arg("frame"), nb::arg("limits"),
          nb::arg("uniform"), "Raster index of a published draw; -1 if nothing is kept.");
}
