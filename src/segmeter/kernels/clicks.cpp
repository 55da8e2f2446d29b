// Clicks: quadrant counts, exact transport between point sets, and draws from click maps.

#include "kernels.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

namespace {

using Index = std::int64_t;
using Points = nb::ndarray<const double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<Index, nb::shape<-1, 6>, nb::c_contig, nb::device::cpu>;
using Costs = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Counts of what was added at or below a rank.
class Fenwick {
public:
    explicit Fenwick(size_t ranks) : tree_(ranks + 1, 0) {}
    void add(size_t rank) {
        for (size_t i = rank + 1; i < tree_.size(); i += i & (~i + 1)) ++tree_[i];
    }
    Index upto(size_t rank) const {
        Index sum = 0;
        for (size_t i = rank + 1; i > 0; i -= i & (~i + 1)) sum += tree_[i];
        return sum;
    }

private:
    std::vector<std::int32_t> tree_;
};

// For every point of both samples, first's then second's, six counts: how many of the first
// lie at or below it in both coordinates, in the first one, in the second one; then the same of
// the second sample. One sweep along the first coordinate for all of them.
void quadrants(Points first, Points second, Table out) {
    const size_t n = first.shape(0), m = second.shape(0), all = n + m;
    const double *a = first.data(), *b = second.data();
    Index *count = out.data();
    nb::gil_scoped_release free;
    struct Place { double at; std::uint32_t point; };
    std::vector<Place> across(all), up(all);
    for (size_t i = 0; i < all; ++i) {
        const double *p = i < n ? a + 2 * i : b + 2 * (i - n);
        across[i] = {p[0], static_cast<std::uint32_t>(i)};
        up[i] = {p[1], static_cast<std::uint32_t>(i)};
    }
    const auto lower = [](const Place &p, const Place &q) { return p.at < q.at; };
    std::sort(across.begin(), across.end(), lower);
    std::sort(up.begin(), up.end(), lower);
    std::vector<std::uint32_t> rank(all);
    Index seen[2] = {0, 0};
    for (size_t i = 0, r = 0; i < all; ++r) {
        size_t end = i;
        for (; end < all && up[end].at == up[i].at; ++end) ++seen[up[end].point >= n];
        for (; i < end; ++i) {
            const std::uint32_t p = up[i].point;
            rank[p] = static_cast<std::uint32_t>(r);
            count[6 * p + 2] = seen[0];
            count[6 * p + 5] = seen[1];
        }
    }
    Fenwick below[2] = {Fenwick(all), Fenwick(all)};
    seen[0] = seen[1] = 0;
    for (size_t i = 0; i < all;) {
        size_t end = i;
        for (; end < all && across[end].at == across[i].at; ++end) {
            const std::uint32_t p = across[end].point;
            ++seen[p >= n];
            below[p >= n].add(rank[p]);
        }
        for (; i < end; ++i) {
            const std::uint32_t p = across[i].point;
            for (size_t k = 0; k < 2; ++k) {
                count[6 * p + 3 * k] = below[k].upto(rank[p]);
                count[6 * p + 3 * k + 1] = seen[k];
            }
        }
    }
}

// Cheapest way to move equal weights of n sources to equal weights of m sinks: shortest
// augmenting paths with potentials on whole numbers, each source holding m / g units and each
// sink wanting n / g of them (g their greatest common divisor). Returns cost per unit.
double transport(Costs costs) {
    const Index n = static_cast<Index>(costs.shape(0)), m = static_cast<Index>(costs.shape(1));
    const double *cost = costs.data();
    nb::gil_scoped_release free;
    const Index divisor = std::gcd(n, m);
    std::vector<Index> supply(static_cast<size_t>(n), m / divisor);
    std::vector<Index> demand(static_cast<size_t>(m), n / divisor);
    std::vector<Index> flow(static_cast<size_t>(n * m), 0);
    std::vector<double> of_source(static_cast<size_t>(n), 0.0), of_sink(static_cast<size_t>(m), 0.0);
    std::vector<double> near_source(static_cast<size_t>(n)), near_sink(static_cast<size_t>(m));
    std::vector<Index> from_sink(static_cast<size_t>(n)), from_source(static_cast<size_t>(m));
    std::vector<char> done_source(static_cast<size_t>(n)), done_sink(static_cast<size_t>(m));
    const double far = std::numeric_limits<double>::infinity();
    // Potentials that make the cheapest ways free: most paths then end at their first step.
    for (Index j = 0; j < m; ++j) {
        double least = far;
        for (Index i = 0; i < n; ++i) least = std::min(least, cost[i * m + j]);
        of_sink[j] = least;
    }
    for (Index i = 0; i < n; ++i) {
        double least = far;
        for (Index j = 0; j < m; ++j) least = std::min(least, cost[i * m + j] - of_sink[j]);
        of_source[i] = least;
    }
    for (Index start = 0; start < n; ++start) {
        while (supply[start] > 0) {
            std::fill(near_source.begin(), near_source.end(), far);
            std::fill(near_sink.begin(), near_sink.end(), far);
            std::fill(done_source.begin(), done_source.end(), 0);
            std::fill(done_sink.begin(), done_sink.end(), 0);
            near_source[start] = 0;
            from_sink[start] = -1;
            Index end = -1, source = start;
            double reach = 0;
            while (end < 0) {
                done_source[source] = 1;
                const double base = reach - of_source[source];
                const double *row = cost + source * m;
                for (Index j = 0; j < m; ++j) {
                    const double way = base + row[j] - of_sink[j];
                    if (!done_sink[j] && way < near_sink[j]) { near_sink[j] = way; from_source[j] = source; }
                }
                // Settle nodes in order of distance until the next source, or a sink in want.
                while (true) {
                    Index sink = -1;
                    double best = far;
                    for (Index j = 0; j < m; ++j)
                        if (!done_sink[j] && near_sink[j] < best) { best = near_sink[j]; sink = j; }
                    Index back = -1;
                    double best_back = far;
                    for (Index i = 0; i < n; ++i)
                        if (!done_source[i] && near_source[i] < best_back) {
                            best_back = near_source[i];
                            back = i;
                        }
                    if (back >= 0 && best_back <= best) {
                        source = back;
                        reach = best_back;
                        break;
                    }
                    done_sink[sink] = 1;
                    if (demand[sink] > 0) { end = sink; reach = best; break; }
                    for (Index i = 0; i < n; ++i)  // reduced cost along used edges is zero
                        if (!done_source[i] && flow[i * m + sink] > 0 && best < near_source[i]) {
                            near_source[i] = best;
                            from_sink[i] = sink;
                        }
                }
            }
            for (Index i = 0; i < n; ++i)
                if (done_source[i]) of_source[i] += reach - near_source[i];
            for (Index j = 0; j < m; ++j)
                if (done_sink[j]) of_sink[j] -= reach - near_sink[j];
            Index amount = std::min(supply[start], demand[end]);
            for (Index j = end;;) {
                const Index i = from_source[j];
                if (i == start) break;
                j = from_sink[i];
                amount = std::min(amount, flow[i * m + j]);
            }
            for (Index j = end;;) {
                const Index i = from_source[j];
                flow[i * m + j] += amount;
                if (i == start) break;
                j = from_sink[i];
                flow[i * m + j] -= amount;
            }
            supply[start] -= amount;
            demand[end] -= amount;
        }
    }
    double sum = 0;
    for (size_t k = 0; k < flow.size(); ++k) sum += cost[k] * static_cast<double>(flow[k]);
    return sum / (static_cast<double>(n) * static_cast<double>(m) / static_cast<double>(divisor));
}

std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
    std::uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The pixel at a share of the map's mass, pixels in order of value and, where equal, of a hash.
// Values are binned by their leading bits, so that only one bin is ever sorted.
Index at_share(Weights map, double share, std::uint64_t seed) {
    const size_t n = map.size();
    const float *w = map.data();
    nb::gil_scoped_release free;
    constexpr int shift = 16;
    std::vector<double> mass(size_t{1} << 15, 0.0);
    std::vector<Index> filled(mass.size(), 0);
    for (size_t i = 0; i < n; ++i) {
        if (!(w[i] > 0)) continue;
        const size_t bin = bits_of(w[i]) >> shift;
        mass[bin] += w[i];
        ++filled[bin];
    }
    const double wanted = share * std::accumulate(mass.begin(), mass.end(), 0.0);
    double before = 0;
    size_t bin = mass.size();
    for (size_t b = 0; b < mass.size(); ++b) {
        if (!filled[b]) continue;
        bin = b;
        if (before + mass[b] > wanted) break;
        before += mass[b];
    }
    if (bin == mass.size()) return -1;  // nothing to click on
    if (before + mass[bin] <= wanted) before -= mass[bin];  // ran off the end: the last bin
    struct Pixel { float value; std::uint64_t hash; Index place; };
    std::vector<Pixel> inside;
    inside.reserve(static_cast<size_t>(filled[bin]));
    for (size_t i = 0; i < n; ++i)
        if (w[i] > 0 && bits_of(w[i]) >> shift == bin)
            inside.push_back({w[i], mixed(seed, i), static_cast<Index>(i)});
    // Narrow down to the one pixel by halving, as quickselect does, but on mass.
    auto first = inside.begin(), last = inside.end();
    const auto lower = [](const Pixel &a, const Pixel &b) {
        return std::tie(a.value, a.hash, a.place) < std::tie(b.value, b.hash, b.place);
    };
    while (last - first > 1) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, lower);
        double half = 0;
        for (auto p = first; p != middle; ++p) half += p->value;
        if (before + half > wanted) last = middle;
        else { before += half; first = middle; }
    }
    return first->place;
}

// NumPy's pairwise sum of float32, over an array that is known to be zero on some stretches:
// `blank(start, n)` may skip them, which adds nothing and changes no rounding; `load` copies
// a stretch of at most 128 values.
template <typename Load, typename Blank>
float pairwise(const Load &load, const Blank &blank, Index start, Index n) {
    if (blank(start, n)) return 0.0f;
    if (n > 128) {
        Index half = n / 2;
        half -= half % 8;
        return pairwise(load, blank, start, half) + pairwise(load, blank, start + half, n - half);
    }
    float part[128];
    load(start, n, part);
    float sum = -0.0f;
    Index i = 0;
    if (n >= 8) {
        float r[8];
        for (Index k = 0; k < 8; ++k) r[k] = part[k];
        for (i = 8; i < n - n % 8; i += 8)
            for (Index k = 0; k < 8; ++k) r[k] += part[i + k];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; ++i) sum += part[i];
    return sum;
}

// The bits of floats that are not negative sort like the floats.
void sort_bits(std::vector<std::uint32_t> &keys) {
    std::vector<std::uint32_t> other(keys.size());
    std::vector<size_t> place[3];
    for (auto &p : place) p.assign(2049, 0);
    for (std::uint32_t k : keys)
        for (int pass = 0; pass < 3; ++pass) ++place[pass][((k >> (11 * pass)) & 2047) + 1];
    for (int pass = 0; pass < 3; ++pass) {
        std::partial_sum(place[pass].begin(), place[pass].end(), place[pass].begin());
        for (std::uint32_t k : keys) other[place[pass][(k >> (11 * pass)) & 2047]++] = k;
        keys.swap(other);
    }
}

// The published limits of a group: float32 all the way, the picture's zeros included.
std::pair<float, float> group_limits(Weights map, Index pixels, double low, double high) {
    const size_t n = map.size();
    const float *w = map.data();
    nb::gil_scoped_release free;
    std::vector<std::uint32_t> keys(n);
    size_t filled = 0;
    for (size_t i = 0; i < n; ++i) {
        keys[filled] = bits_of(w[i]);
        filled += w[i] > 0;
    }
    keys.resize(filled);
    sort_bits(keys);
    std::vector<float> sorted(filled);
    if (filled) std::memcpy(sorted.data(), keys.data(), filled * sizeof(float));
    const Index zeros = pixels - static_cast<Index>(filled);
    const auto load = [&](Index start, Index count, float *out) {
        for (Index i = 0; i < count; ++i)
            out[i] = start + i < zeros ? 0.0f : sorted[static_cast<size_t>(start + i - zeros)];
    };
    const auto blank = [&](Index start, Index count) { return start + count <= zeros; };
    const float total = pairwise(load, blank, 0, pixels);
    const float from = static_cast<float>(low) * total, to = static_cast<float>(high) * total;
    float bottom = std::numeric_limits<float>::infinity(), sum = 0.0f;
    float top = sorted.empty() ? 0.0f : sorted.back();
    bool found = zeros > 0 && 0.0f >= from;
    if (found) bottom = 0.0f;
    for (float value : sorted) {
        sum += value;
        if (!found && sum >= from) { bottom = value; found = true; }
        if (sum > to) { top = value; break; }
    }
    return {bottom, top};
}

// One published draw between two limits: raster order, float32 shares, float64 running sum.
Index draw_between(Weights map, std::tuple<Index, Index, Index, Index> frame,
                   std::pair<float, float> limits, double uniform) {
    const auto [picture_rows, picture_columns, low_y, low_x] = frame;
    const Index rows = static_cast<Index>(map.shape(0)), columns = static_cast<Index>(map.shape(1));
    const float *w = map.data();
    nb::gil_scoped_release free;
    const float bottom = limits.first, top = limits.second;
    const auto kept = [=](float v) { return v >= bottom && v <= top ? v : 0.0f; };
    const Index wide = picture_columns, left = low_x, up = low_y;
    const auto load = [&](Index start, Index count, float *out) {
        Index y = start / wide - up, x = start % wide - left;
        for (Index i = 0; i < count; ++i) {
            const bool inside = y >= 0 && y < rows && x >= 0 && x < columns;
            out[i] = inside ? kept(w[y * columns + x]) : 0.0f;
            if (++x == wide - left) { x = -left; ++y; }
        }
    };
    const auto blank = [&](Index start, Index count) {
        const Index last = start + count - 1;
        if (last / wide < up || start / wide >= up + rows) return true;
        if (start / wide != last / wide) return false;
        return last % wide < left || start % wide >= left + columns;
    };
    const float total = pairwise(load, blank, 0, picture_rows * wide);
    if (!(total > 0)) return -1;
    std::vector<double> before(static_cast<size_t>(rows) + 1, 0.0);
    double sum = 0;
    for (Index y = 0; y < rows; ++y) {
        before[static_cast<size_t>(y)] = sum;
        for (Index x = 0; x < columns; ++x)
            if (const float v = kept(w[y * columns + x]); v > 0) sum += static_cast<double>(v / total);
    }
    const double whole = sum;
    before.back() = whole;
    // The last row whose start has not passed the number holds the pixel.
    Index y = 0;
    while (y + 1 < rows && before[static_cast<size_t>(y) + 1] / whole <= uniform) ++y;
    sum = before[static_cast<size_t>(y)];
    Index last = -1;
    for (Index i = y * columns; i < rows * columns; ++i) {
        const float v = kept(w[i]);
        if (!(v > 0)) continue;
        sum += static_cast<double>(v / total);
        last = i;
        if (sum / whole > uniform) break;
    }
    return last;
}

}  // namespace

void bind_clicks(nb::module_ &m) {
    m.def("quadrants", &quadrants, nb::arg("first"), nb::arg("second"), nb::arg("out"),
          "How many of each sample lie at or below every point: in both coordinates, in each.");
    m.def("transport", &transport, nb::arg("costs"),
          "Least mean cost of moving equal weights of the rows to equal weights of the columns.");
    m.def("at_share", &at_share, nb::arg("map"), nb::arg("share"), nb::arg("seed"),
          "Raster index of the pixel at a share of the mass; -1 for an empty map.");
    m.def("group_limits", &group_limits, nb::arg("map"), nb::arg("pixels"), nb::arg("low"),
          nb::arg("high"), "The published value limits of a clicking group.");
    m.def("draw_between", &draw_between, nb::arg("map"), nb::arg("frame"), nb::arg("limits"),
          nb::arg("uniform"), "Raster index of a published draw; -1 if nothing is kept.");
}
