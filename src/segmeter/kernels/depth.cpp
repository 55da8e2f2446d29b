// The deepest pixel of a mask: exact squared distances, only where they can win.
//
// Depth is never more than the distance along the column or along the row, so most stretches
// are dismissed without computing any depth in them.

#include "depth.h"
#include "parts.h"

#include <nanobind/stl/pair.h>

std::vector<std::int32_t> column_distance(const Stretches &mask) {
    std::vector<std::int32_t> distance(static_cast<size_t>(mask.pixels()), 1);
    const auto at = [&](const Stretch &s, Index x) { return distance.data() + s.first + x - s.begin; };
    for (Index y = 1; y < mask.rows(); ++y)
        shared(mask.row(y), mask.row(y - 1), [&](auto &here, auto &above, Index from, Index to) {
            const std::int32_t *in = at(above, from);
            std::int32_t *out = at(here, from);
            for (Index k = 0; k < to - from; ++k) out[k] = in[k] + 1;
        });
    // Upwards, pixels with nothing below them are 1 again: `done` is what was left so far.
    for (Index y = mask.rows() - 1; y >= 0; --y) {
        if (mask.row(y).empty()) continue;
        std::int32_t *done = distance.data() + mask.row(y).begin()->first;
        shared(mask.row(y), mask.row(y + 1), [&](auto &here, auto &below, Index from, Index to) {
            const std::int32_t *in = at(below, from);
            std::int32_t *out = at(here, from);
            std::fill(done, out, 1);
            for (Index k = 0; k < to - from; ++k) out[k] = std::min(out[k], in[k] + 1);
            done = out + (to - from);
        });
        const Stretch &last = mask.row(y).end()[-1];
        std::fill(done, at(last, last.end), 1);
    }
    return distance;
}

Deepest deepest_of(const Stretches &mask, const std::vector<Index> &barred) {
    Deepest best;
    const std::vector<std::int32_t> column = column_distance(mask);
    Envelope envelope(mask.columns());
    const auto tallest_in = [&](const Stretch &s) {
        const std::int32_t *g = column.data() + s.first;
        return *std::max_element(g, g + s.length());
    };
    const auto search = [&](Index y) {
        for (const Stretch &s : mask.row(y)) {
            const Index limit = std::min<Index>(tallest_in(s), (s.length() + 1) / 2);
            if (limit * limit < best.squared) continue;
            envelope.run(column.data() + s.first, s.length(), [&](Index x, Index squared) {
                if (squared < best.squared) return;
                const Index place = y * mask.columns() + s.begin + x;
                if (squared == best.squared && best.place >= 0 && place > best.place) return;
                if (std::binary_search(barred.begin(), barred.end(), place)) return;
                best = {squared, place};
            });
        }
    };
    // A tall row first: what it finds dismisses most of the others.
    Index start = 0;
    std::int32_t tallest = 0;
    for (Index y = 0; y < mask.rows(); ++y)
        for (const Stretch &s : mask.row(y))
            if (const std::int32_t here = tallest_in(s); here > tallest) {
                tallest = here;
                start = y;
            }
    search(start);
    for (Index y = 0; y < mask.rows(); ++y)
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
    const Deepest best = deepest_of(stretches_of(data, rows, columns), barred);
    return {best.squared, best.place};
}

using Found = std::tuple<Index, Index, Index>;  // squared depth, y, x
using Task = std::tuple<Index, Index, Index, std::vector<std::pair<Index, Index>>>;

// The deepest pixel of one part less two others; (0, -1, -1) if nothing is left to click.
Found deepest_rest(const Part &part, const Part *less, const Part *ignored,
                   const std::vector<std::pair<Index, Index>> &barred) {
    std::vector<Index> places;
    for (const auto &[y, x] : barred) {
        const Index at = y - part.top, across = x - part.left;
        if (at >= 0 && at < part.rows && across >= 0 && across < part.columns)
            places.push_back(at * part.columns + across);
    }
    std::sort(places.begin(), places.end());
    const Deepest best = deepest_of(rest_of(part, less, ignored), places);
    if (best.place < 0) return {0, -1, -1};
    return {best.squared, best.place / part.columns + part.top,
            best.place % part.columns + part.left};
}

// Tasks are (part, less, ignored, barred pixels), numbers of masks, -1 for none.
std::vector<Found> deepest_rests(const std::vector<Box> &masks, const std::vector<Task> &tasks,
                                 int threads) {
    const Parts parts(masks);
    std::vector<Found> found(tasks.size());
    nb::gil_scoped_release free;
    on_threads(threads, tasks.size(), parts.pixels(tasks), [&](size_t i) {
        const auto &[part, less, ignored, barred] = tasks[i];
        found[i] = deepest_rest(*parts[part], parts[less], parts[ignored], barred);
    });
    return found;
}

}  // namespace

void bind_depth(nb::module_ &m) {
    m.def("deepest", &deepest, nb::arg("bits"), nb::arg("barred"),
          "Squared depth and raster index of the deepest pixel not barred; (0, -1) if none.");
    m.def("deepest_rests", &deepest_rests, nb::arg("masks"), nb::arg("tasks"), nb::arg("threads"),
          "Squared depth, y and x of the deepest pixel of one mask less others, many at once.");
}
