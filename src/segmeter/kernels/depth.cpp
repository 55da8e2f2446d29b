// The deepest pixel of a mask: exact squared distances, only where they can win.
//
// Depth of a pixel is its distance to the nearest pixel outside the mask; everything beyond
// the array is outside. It is never more than the distance along the column or along the row,
// so most rows are dismissed without computing any depth in them.

#include "kernels.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

namespace {

using Index = std::int64_t;

struct Deepest {
    Index squared = 0;
    Index place = -1;  // raster index; -1 while nothing was found
};

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

std::pair<Index, Index> deepest(Bits2D bits, std::vector<Index> barred) {
    const auto *data = reinterpret_cast<const std::uint8_t *>(bits.data());
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    nb::gil_scoped_release free;
    std::sort(barred.begin(), barred.end());
    const Deepest best = deepest_of(data, rows, columns, barred);
    return {best.squared, best.place};
}

}  // namespace

void bind_depth(nb::module_ &m) {
    m.def("deepest", &deepest, nb::arg("bits"), nb::arg("barred"),
          "Squared depth and raster index of the deepest pixel not barred; (0, -1) if none.");
}
