// Low-resolution logit maps at the size of their image, evaluated only along contours.
//
// Both bilinear steps are convex, so a pixel lies between the least and the greatest of the
// few low-resolution samples it depends on. Pixels that begin at the same sample form a block;
// where a block's bounds lie on one side of every threshold nothing is interpolated. The rest
// is computed with the very additions and multiplications of the plain way, in their order.

#include "kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using Maps = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Map = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// One bilinear step along one axis: two samples and the weight of the second.
struct Step {
    const std::int32_t *first = nullptr, *second = nullptr;
    const float *weight = nullptr;
    int size = 0;

    Step() = default;
    Step(const Places &places, const Weights &weights, int samples)
        : first(places.data()), second(places.data() + weights.size()), weight(weights.data()),
          size(static_cast<int>(weights.size())) {
        if (places.shape(0) != 2 || places.shape(1) != weights.size())
            throw std::invalid_argument("a step has two samples and one weight a place");
        for (int i = 0; i < size; ++i)
            if (first[i] < 0 || second[i] < first[i] || second[i] >= samples ||
                (i && first[i] < first[i - 1]))
                throw std::invalid_argument("a step's samples lie in order inside its input");
    }
};

// Pixels begin..end-1 that depend on samples low..high and on middle places from..to-1.
struct Group {
    int begin, end, low, high, from, to;
};

struct Axis {
    Step inner, outer;  // `inner` has no places where there is one step only
    std::vector<Group> groups;
    int span = 1, most = 1;

    Axis(const Places &inner_places, const Weights &inner_weights, const Places &outer_places,
         const Weights &outer_weights, int samples)
        : inner(inner_places, inner_weights, samples),
          outer(outer_places, outer_weights, inner.size ? inner.size : samples) {
        for (int place = 0; place < outer.size; ++place) {
            const int a = outer.first[place], b = outer.second[place];
            const int low = inner.size ? inner.first[a] : a;
            const int high = inner.size ? inner.second[b] : b;
            if (groups.empty() || groups.back().low != low)
                groups.push_back({place, place + 1, low, high, a, b + 1});
            Group &group = groups.back();
            group.end = place + 1;
            group.high = std::max(group.high, high);
            group.to = std::max(group.to, b + 1);
        }
        for (const Group &group : groups) {
            span = std::max(span, group.high - group.low + 1);
            most = std::max(most, group.to - group.from);
        }
    }
};

struct Found {
    std::array<std::int64_t, 3> counts{};
    int top = 1 << 30, left = 1 << 30, bottom = -1, right = -1;

    void cover(int y0, int x0, int y1, int x1) {
        top = std::min(top, y0);
        left = std::min(left, x0);
        bottom = std::max(bottom, y1);
        right = std::max(right, x1);
    }
};

// As a processor that multiplies and adds in one step does it: the first product is not rounded.
inline float between(float a, float b, float weight) {
    const float second = weight * b;
    return static_cast<float>(static_cast<double>(a) * (1.0f - weight) + second);
}

// Bounds of every block, row of blocks by row of blocks.
class Bounds {
public:
    Bounds(const float *map, int height, int width, const Axis &columns)
        : map_(map), width_(width), span_(columns.span),
          low_(static_cast<size_t>(width + span_)), high_(low_.size()) {
        float sum = 0;
        for (int i = 0; i < height * width; ++i) sum += map[i] * 0.0f;
        finite_ = sum == 0.0f;
    }

    // False where a value is no number or endless: then every pixel is computed.
    bool finite() const { return finite_; }

    void enter(const Group &row) {
        const float *line = map_ + static_cast<std::int64_t>(row.low) * width_;
        std::copy(line, line + width_, low_.begin());
        std::copy(line, line + width_, high_.begin());
        for (int y = row.low + 1; y <= row.high; ++y) {
            line += width_;
            for (int x = 0; x < width_; ++x) {
                low_[x] = line[x] < low_[x] ? line[x] : low_[x];
                high_[x] = line[x] > high_[x] ? line[x] : high_[x];
            }
        }
        lowest_ = *std::min_element(low_.begin(), low_.begin() + width_);
        highest_ = *std::max_element(high_.begin(), high_.begin() + width_);
        for (int x = width_; x < width_ + span_; ++x) {
            low_[x] = low_[width_ - 1];
            high_[x] = high_[width_ - 1];
        }
        for (int reach = 1; reach < span_; ++reach)  // in place: each looks to its right
            for (int x = 0; x < width_; ++x) {
                low_[x] = low_[x + 1] < low_[x] ? low_[x + 1] : low_[x];
                high_[x] = high_[x + 1] > high_[x] ? high_[x + 1] : high_[x];
            }
    }

    float low(int x) const { return low_[static_cast<size_t>(x)]; }
    float high(int x) const { return high_[static_cast<size_t>(x)]; }
    float lowest() const { return lowest_; }
    float highest() const { return highest_; }

private:
    const float *map_;
    int width_, span_;
    bool finite_ = true;
    float lowest_ = 0, highest_ = 0;
    std::vector<float> low_, high_;
};

// How many thresholds a block lies above, or -1 where it must be looked at. Sums of rounded
// weights leave the bounds by a few units in the last place: 2e-6 of the larger is far more.
template <size_t N>
int side(float low, float high, const std::array<float, N> &thresholds) {
    const float slack = 2e-6f * std::max(std::fabs(low), std::fabs(high));
    int above = 0;
    for (const float threshold : thresholds) {
        const bool all = low - slack > threshold;
        if (!all && high + slack > threshold) return -1;
        above += all;
    }
    return above;
}

// Pixels of one block.
class Block {
public:
    Block(const float *map, int width, const Axis &rows, const Axis &columns)
        : map_(map), width_(width), rows_(rows), columns_(columns),
          middle_(static_cast<size_t>(rows.most) * columns.most) {}

    void enter(const Group &row, const Group &column) {
        row_ = &row;
        column_ = &column;
        wide_ = column.to - column.from;
        for (int y = row.from; y < row.to; ++y)
            for (int x = column.from; x < column.to; ++x)
                middle_[static_cast<size_t>(y - row.from) * wide_ + (x - column.from)] = inner(y, x);
    }

    float at(int y, int x) const {
        const Step &down = rows_.outer, &across = columns_.outer;
        const size_t top = static_cast<size_t>(down.first[y] - row_->from) * wide_;
        const size_t below = static_cast<size_t>(down.second[y] - row_->from) * wide_;
        const size_t left = across.first[x] - column_->from;
        const size_t right = across.second[x] - column_->from;
        const float u = across.weight[x];
        return between(between(middle_[top + left], middle_[top + right], u),
                       between(middle_[below + left], middle_[below + right], u), down.weight[y]);
    }

private:
    float inner(int y, int x) const {
        if (!rows_.inner.size) return map_[static_cast<std::int64_t>(y) * width_ + x];
        const Step &down = rows_.inner, &across = columns_.inner;
        const float *top = map_ + static_cast<std::int64_t>(down.first[y]) * width_;
        const float *below = map_ + static_cast<std::int64_t>(down.second[y]) * width_;
        const int left = across.first[x], right = across.second[x];
        const float u = across.weight[x];
        return between(between(top[left], top[right], u), between(below[left], below[right], u),
                       down.weight[y]);
    }

    const float *map_;
    int width_;
    const Axis &rows_, &columns_;
    const Group *row_ = nullptr, *column_ = nullptr;
    int wide_ = 0;
    std::vector<float> middle_;
};

void count_block(const Block &block, const Group &row, const Group &column,
                 const std::array<float, 3> &thresholds, Found &found) {
    for (int y = row.begin; y < row.end; ++y) {
        int first = -1, last = -1;
        for (int x = column.begin; x < column.end; ++x) {
            const float value = block.at(y, x);
            found.counts[0] += value > thresholds[0];
            found.counts[2] += value > thresholds[2];
            if (value > thresholds[1]) {
                ++found.counts[1];
                if (first < 0) first = x;
                last = x;
            }
        }
        if (first >= 0) found.cover(y, first, y, last);
    }
}

Found measure_one(const float *map, int height, int width, const Axis &rows, const Axis &columns,
                  const std::array<float, 3> &thresholds) {
    Found found;
    Bounds bounds(map, height, width, columns);
    Block block(map, width, rows, columns);
    const auto add = [&](const Group &row, int from, int to, int above) {
        const std::int64_t pixels = static_cast<std::int64_t>(row.end - row.begin) * (to - from);
        for (int t = 0; t < above; ++t) found.counts[t] += pixels;
        if (above > 1) found.cover(row.begin, from, row.end - 1, to - 1);
    };
    for (const Group &row : rows.groups) {
        bounds.enter(row);
        if (bounds.finite()) {
            const int all = side(bounds.lowest(), bounds.highest(), thresholds);
            if (all >= 0) {
                if (all) add(row, 0, columns.outer.size, all);
                continue;
            }
        }
        for (const Group &column : columns.groups) {
            const int above = bounds.finite()
                                  ? side(bounds.low(column.low), bounds.high(column.low), thresholds)
                                  : -1;
            if (above > 0) add(row, column.begin, column.end, above);
            if (above >= 0) continue;
            block.enter(row, column);
            count_block(block, row, column, thresholds, found);
        }
    }
    return found;
}

template <class Work>
void share(int count, int threads, const Work &work) {
    std::atomic<int> next{0};
    const auto go = [&] {
        for (int i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::thread> others;
    for (int k = 1; k < std::min(threads, count); ++k) others.emplace_back(go);
    go();
    for (std::thread &other : others) other.join();
}

using Table = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>>;

Table measure(Maps maps, Places row_inner, Weights row_inner_weights, Places row_outer,
              Weights row_outer_weights, Places column_inner, Weights column_inner_weights,
              Places column_outer, Weights column_outer_weights, float loose, float threshold,
              float strict, int threads) {
    const int count = static_cast<int>(maps.shape(0));
    const int height = static_cast<int>(maps.shape(1)), width = static_cast<int>(maps.shape(2));
    const Axis rows(row_inner, row_inner_weights, row_outer, row_outer_weights, height);
    const Axis columns(column_inner, column_inner_weights, column_outer, column_outer_weights,
                       width);
    const std::array<float, 3> thresholds{loose, threshold, strict};
    auto *values = new std::int64_t[static_cast<size_t>(count) * 7 + 1];
    nb::capsule owner(values, [](void *p) noexcept { delete[] static_cast<std::int64_t *>(p); });
    {
        nb::gil_scoped_release free;
        const std::int64_t size = static_cast<std::int64_t>(height) * width;
        share(count, threads, [&](int i) {
            const Found found =
                measure_one(maps.data() + i * size, height, width, rows, columns, thresholds);
            std::int64_t *line = values + static_cast<std::int64_t>(i) * 7;
            std::copy(found.counts.begin(), found.counts.end(), line);
            const bool empty = found.bottom < 0;
            line[3] = empty ? 0 : found.left;
            line[4] = empty ? 0 : found.top;
            line[5] = empty ? 0 : found.right;
            line[6] = empty ? 0 : found.bottom;
        });
    }
    return Table(values, {static_cast<size_t>(count), 7}, owner);
}

using Bits = nb::ndarray<nb::numpy, bool, nb::ndim<2>>;

Bits render(Map map, Places row_inner, Weights row_inner_weights, Places row_outer,
            Weights row_outer_weights, Places column_inner, Weights column_inner_weights,
            Places column_outer, Weights column_outer_weights, float threshold) {
    const int height = static_cast<int>(map.shape(0)), width = static_cast<int>(map.shape(1));
    const Axis rows(row_inner, row_inner_weights, row_outer, row_outer_weights, height);
    const Axis columns(column_inner, column_inner_weights, column_outer, column_outer_weights,
                       width);
    const int high = rows.outer.size, wide = columns.outer.size;
    auto *bits = new bool[static_cast<size_t>(high) * wide + 1]();
    nb::capsule owner(bits, [](void *p) noexcept { delete[] static_cast<bool *>(p); });
    {
        nb::gil_scoped_release free;
        const std::array<float, 1> thresholds{threshold};
        Bounds bounds(map.data(), height, width, columns);
        Block block(map.data(), width, rows, columns);
        for (const Group &row : rows.groups) {
            bounds.enter(row);
            if (bounds.finite() && side(bounds.lowest(), bounds.highest(), thresholds) == 0)
                continue;
            for (const Group &column : columns.groups) {
                const int above =
                    bounds.finite()
                        ? side(bounds.low(column.low), bounds.high(column.low), thresholds)
                        : -1;
                if (above == 0) continue;
                if (above < 0) block.enter(row, column);
                for (int y = row.begin; y < row.end; ++y) {
                    bool *line = bits + static_cast<std::int64_t>(y) * wide;
                    if (above > 0) {
                        std::memset(line + column.begin, 1, column.end - column.begin);
                        continue;
                    }
                    for (int x = column.begin; x < column.end; ++x)
                        line[x] = block.at(y, x) > threshold;
                }
            }
        }
    }
    return Bits(bits, {static_cast<size_t>(high), static_cast<size_t>(wide)}, owner);
}

}  // namespace

void bind_enlarging(nb::module_ &m) {
    m.def("measure_enlarged", &measure,
          "Pixels above three thresholds and the box above the middle one, of enlarged maps.");
    m.def("render_enlarged", &render, "Where an enlarged map is above a threshold.");
}
