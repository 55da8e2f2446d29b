// The deepest pixel of a mask: exact squared distances, only where they can win.
//
// Depth of a pixel is its distance to the nearest pixel outside the mask; everything beyond
// the array is outside. It is never more than the distance along the column or along the row,
// so most rows are dismissed without computing any depth in them.

#include "depth.h"
#include "kernels.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <tuple>
#include <vector>

namespace {

// Distance along the column to the nearest pixel outside, for every pixel.
std::vector<std::int32_t> column_distance(const std::uint8_t *bits, Index rows, Index columns) {
    std::vector<std::int32_t> distance(static_cast<size_t>(rows * columns));
    for (Index y = 0; y < rows; ++y) {
        const std::uint8_t *in = bits + y * columns;
        std::int32_t *out = distance.data() + y * columns;
        const std::int32_t *above = y ? out - columns : nullptr;
        for (Index x = 0; x < columns; ++x)
            out[x] = in[x] ? (above ? above[x] : 0) + 1 : 0;
    }
    for (Index x = 0; x < columns; ++x) {
        std::int32_t &last = distance[static_cast<size_t>((rows - 1) * columns + x)];
        last = std::min(last, 1);
    }
    for (Index y = rows - 2; y >= 0; --y) {
        std::int32_t *out = distance.data() + y * columns;
        const std::int32_t *below = out + columns;
        for (Index x = 0; x < columns; ++x) out[x] = std::min(out[x], below[x] + 1);
    }
    return distance;
}

// Lower envelope of the parabolas (x - c)^2 + g(c)^2 over one run of a row and its two ends.
class Envelope {
public:
    explicit Envelope(Index longest)
        : centres_(static_cast<size_t>(longest) + 2), from_(static_cast<size_t>(longest) + 2) {}

    // Squared depth of each pixel of the run, handed to `take(x, squared)` from left to right.
    template <typename Take>
    void run(const std::int32_t *column, Index begin, Index end, Take take) {
        auto height = [&](Index c) -> Index {
            if (c < begin || c >= end) return 0;
            const Index g = column[c];
            return g * g;
        };
        Index top = 0;
        centres_[0] = begin - 1;
        from_[0] = begin - 1;
        for (Index c = begin; c <= end; ++c) {
            const Index hc = height(c);
            while (true) {
                const Index b = centres_[static_cast<size_t>(top)];
                // First x at which c is strictly nearer than b.
                const Index first = floor_div(c * c + hc - b * b - height(b), 2 * (c - b)) + 1;
                if (first > from_[static_cast<size_t>(top)] || top == 0) {
                    ++top;
                    centres_[static_cast<size_t>(top)] = c;
                    from_[static_cast<size_t>(top)] = first;
                    break;
                }
                --top;
            }
        }
        for (Index x = end - 1, k = top; x >= begin; --x) {
            while (k > 0 && from_[static_cast<size_t>(k)] > x) --k;
            const Index c = centres_[static_cast<size_t>(k)];
            take(x, (x - c) * (x - c) + height(c));
        }
    }

private:
    static Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
    std::vector<Index> centres_;
    std::vector<Index> from_;
};

}  // namespace

Deepest deepest_of(const std::uint8_t *bits, Index rows, Index columns,
                   const std::vector<Index> &barred) {
    Deepest best;
    if (rows == 0 || columns == 0) return best;
    const std::vector<std::int32_t> column = column_distance(bits, rows, columns);
    Envelope envelope(columns);

    auto search = [&](Index y) {
        const std::int32_t *g = column.data() + y * columns;
        for (Index x = 0; x < columns;) {
            if (g[x] == 0) { ++x; continue; }
            const Index begin = x;
            std::int32_t tallest = 0;
            for (; x < columns && g[x] != 0; ++x) tallest = std::max(tallest, g[x]);
            const Index half = (x - begin + 1) / 2;
            const Index limit = std::min<Index>(tallest, half);
            if (limit * limit < best.squared) continue;
            envelope.run(g, begin, x, [&](Index at, Index squared) {
                if (squared < best.squared) return;
                const Index place = y * columns + at;
                if (squared == best.squared && best.place >= 0 && place > best.place) return;
                if (std::binary_search(barred.begin(), barred.end(), place)) return;
                best = {squared, place};
            });
        }
    };
    // A tall row first: what it finds dismisses most of the others.
    Index start = 0;
    std::int32_t tallest = -1;
    for (Index y = 0; y < rows; ++y) {
        const std::int32_t *g = column.data() + y * columns;
        const std::int32_t here = *std::max_element(g, g + columns);
        if (here > tallest) { tallest = here; start = y; }
    }
    search(start);
    for (Index y = 0; y < rows; ++y)
        if (y != start) search(y);
    return best;
}

namespace {

std::pair<Index, Index> deepest(Bits2D bits, std::vector<Index> barred) {
    const auto *data = reinterpret_cast<const std::uint8_t *>(bits.data());
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    nb::gil_scoped_release free;
    std::sort(barred.begin(), barred.end());
    const Deepest best = deepest_of(data, rows, columns, barred);
    return {best.squared, best.place};
}

// A part of a scene: bits inside a box whose first pixel is (top, left).
struct Part {
    const std::uint8_t *bits;
    Index top, left, rows, columns;
};

using Found = std::tuple<Index, Index, Index>;                   // squared depth, y, x
using Box = std::tuple<Bits2D, Index, Index>;                    // bits, top, left
using Task = std::tuple<Index, Index, Index, std::vector<std::pair<Index, Index>>>;

void take_away(std::vector<std::uint8_t> &from, const Part &box, const Part &other) {
    const Index top = std::max(box.top, other.top), left = std::max(box.left, other.left);
    const Index bottom = std::min(box.top + box.rows, other.top + other.rows);
    const Index right = std::min(box.left + box.columns, other.left + other.columns);
    for (Index y = top; y < bottom; ++y) {
        std::uint8_t *mine = from.data() + (y - box.top) * box.columns - box.left;
        const std::uint8_t *theirs = other.bits + (y - other.top) * other.columns - other.left;
        for (Index x = left; x < right; ++x) mine[x] &= static_cast<std::uint8_t>(!theirs[x]);
    }
}

// The deepest pixel of one part less two others; (0, -1, -1) if nothing is left to click.
Found deepest_rest(const Part &part, const Part *less, const Part *ignored,
                   const std::vector<std::pair<Index, Index>> &barred) {
    std::vector<std::uint8_t> rest(part.bits, part.bits + part.rows * part.columns);
    if (less) take_away(rest, part, *less);
    if (ignored) take_away(rest, part, *ignored);
    Index top = part.rows, bottom = 0, left = part.columns, right = 0;
    for (Index y = 0; y < part.rows; ++y) {
        const std::uint8_t *row = rest.data() + y * part.columns;
        const void *hit = std::memchr(row, 1, static_cast<size_t>(part.columns));
        if (!hit) continue;
        top = std::min(top, y);
        bottom = y + 1;
        left = std::min(left, static_cast<Index>(static_cast<const std::uint8_t *>(hit) - row));
        Index end = part.columns;
        while (end > right && !row[end - 1]) --end;
        right = std::max(right, end);
    }
    if (bottom == 0) return {0, -1, -1};
    const Index rows = bottom - top, columns = right - left;
    for (Index y = 0; y < rows; ++y)  // forwards, so nothing is overwritten before it moved
        std::memmove(rest.data() + y * columns, rest.data() + (y + top) * part.columns + left,
                     static_cast<size_t>(columns));
    std::vector<Index> places;
    for (const auto &[y, x] : barred) {
        const Index at = y - part.top - top, across = x - part.left - left;
        if (at >= 0 && at < rows && across >= 0 && across < columns)
            places.push_back(at * columns + across);
    }
    std::sort(places.begin(), places.end());
    const Deepest best = deepest_of(rest.data(), rows, columns, places);
    if (best.place < 0) return {0, -1, -1};
    return {best.squared, best.place / columns + top + part.top,
            best.place % columns + left + part.left};
}

// Tasks are (part, less, ignored, barred pixels), numbers of masks, -1 for none.
std::vector<Found> deepest_rests(const std::vector<Box> &masks, const std::vector<Task> &tasks,
                                 int threads) {
    std::vector<Part> parts;
    parts.reserve(masks.size());
    for (const auto &[bits, top, left] : masks)
        parts.push_back({reinterpret_cast<const std::uint8_t *>(bits.data()), top, left,
                         static_cast<Index>(bits.shape(0)), static_cast<Index>(bits.shape(1))});
    std::vector<Found> found(tasks.size());
    nb::gil_scoped_release free;
    std::atomic<size_t> next{0};
    const auto part_of = [&](Index i) { return i < 0 ? nullptr : &parts[static_cast<size_t>(i)]; };
    const auto work = [&] {
        for (size_t i = next++; i < tasks.size(); i = next++) {
            const auto &[part, less, ignored, barred] = tasks[i];
            found[i] = deepest_rest(*part_of(part), part_of(less), part_of(ignored), barred);
        }
    };
    const size_t many = std::min<size_t>(static_cast<size_t>(std::max(1, threads)), tasks.size());
    std::vector<std::thread> others;
    for (size_t i = 1; i < many; ++i) others.emplace_back(work);
    work();
    for (auto &thread : others) thread.join();
    return found;
}

}  // namespace

void bind_depth(nb::module_ &m) {
    m.def("deepest", &deepest, nb::arg("bits"), nb::arg("barred"),
          "Squared depth and raster index of the deepest pixel not barred; (0, -1) if none.");
    m.def("deepest_rests", &deepest_rests, nb::arg("masks"), nb::arg("tasks"), nb::arg("threads"),
          "Squared depth, y and x of the deepest pixel of one mask less others, many at once.");
}
