// The prior's maps, and clicks drawn from them for many players at once.

#include "parts.h"
#include "prior.h"
#include "sparse_draws.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cmath>
#include <optional>

namespace {

using Taps = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = std::tuple<double, double, double, Taps, double>;  // the last one is the reach
using Places = std::tuple<Index, Index, Index, Index>;             // as in a frame
using Map = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

Law law_of(const Numbers &numbers) {
    const auto &[depth, spread, sloppy, taps, reach] = numbers;
    const Index radius = taps.size() ? static_cast<Index>(taps.size() / 2) : -1;
    return {depth, spread, sloppy, taps.data(), radius, reach};
}

// Weights in the tight box of a region, zero outside the region.
Map prior_on(Bits2D bits, const Places &place, const Numbers &numbers) {
    const auto *data = reinterpret_cast<const std::uint8_t *>(bits.data());
    const auto rows = static_cast<Index>(bits.shape(0)), columns = static_cast<Index>(bits.shape(1));
    const auto [top, left, height, width] = place;
    const Law law = law_of(numbers);
    auto *out = new float[static_cast<size_t>(rows * columns)]();
    nb::capsule owner(out, [](void *p) noexcept { delete[] static_cast<float *>(p); });
    {
        nb::gil_scoped_release free;
        const Stretches region = stretches_of(data, rows, columns);
        const std::vector<float> weights = prior_of(region, {top, left, height, width}, law);
        for (Index y = 0; y < rows; ++y)
            for (const Stretch &s : region.row(y))
                std::copy_n(weights.data() + s.first, s.length(), out + y * columns + s.begin);
    }
    return {out, {bits.shape(0), bits.shape(1)}, owner};
}

using Point = std::pair<Index, Index>;
// Mask, masks to take away, pixels that were clicked, share of the mass, uniform number, seed.
using Task = std::tuple<Index, Index, Index, std::vector<Point>, std::pair<double, double>, double,
                        std::optional<std::uint64_t>>;

// The pixels of a region with their weights, but not those that were clicked.
Spots spots_of(const Stretches &region, const std::vector<float> &weights,
               std::vector<Index> clicked) {
    std::sort(clicked.begin(), clicked.end());
    Spots spots;
    spots.weights.reserve(weights.size());
    spots.places.reserve(weights.size());
    for (Index y = 0; y < region.rows(); ++y)
        for (const Stretch &s : region.row(y))
            for (Index x = s.begin; x < s.end; ++x) {
                const Index place = y * region.columns() + x;
                const float weight = weights[static_cast<size_t>(s.first + x - s.begin)];
                if (!(weight > 0) || std::binary_search(clicked.begin(), clicked.end(), place)) continue;
                spots.weights.push_back(weight);
                spots.places.push_back(place);
            }
    return spots;
}

// One click on the prior of one part less two others; (-1, -1) if there is nothing to click.
Point prior_click(const Parts &parts, const Task &task, Index height, Index width, const Law &law) {
    const auto &[part, less, ignored, clicked, share, uniform, seed] = task;
    Stretches region = rest_of(*parts[part], parts[less], parts[ignored]);
    if (!region.pixels()) return {-1, -1};
    auto [top, left] = region.tighten();
    top += parts[part]->top;
    left += parts[part]->left;
    const Index columns = region.columns();
    std::vector<Index> places;
    for (const auto &[y, x] : clicked)
        if (x >= left && x < left + columns) places.push_back((y - top) * columns + x - left);
    const std::vector<float> weights = prior_of(region, {top, left, height, width}, law);
    const Spots spots = spots_of(region, weights, std::move(places));
    const auto [low, high] = share;
    const Index first = top * width + left;
    const auto raster = [=](Index place) { return first + place / columns * width + place % columns; };
    const Index found = seed ? spots.at_share(low + uniform * (high - low), *seed)
                             : spots.between(low, high, uniform, height * width, raster);
    if (found < 0) return {-1, -1};
    return {found / columns + top, found % columns + left};
}

std::vector<Point> prior_clicks(const std::vector<Box> &masks, const std::vector<Task> &tasks,
                                const Point &shape, const Numbers &numbers, int threads) {
    const Parts parts(masks);
    const Law law = law_of(numbers);
    std::vector<Point> found(tasks.size());
    nb::gil_scoped_release free;
    on_threads(threads, tasks.size(), parts.pixels(tasks), [&](size_t i) {
        found[i] = prior_click(parts, tasks[i], shape.first, shape.second, law);
    });
    return found;
}

}  // namespace

void bind_prior(nb::module_ &m) {
    m.def("prior_on", &prior_on, nb::arg("bits"), nb::arg("place"), nb::arg("numbers"),
          "The embedded click model's weights of a region, in its tight box.");
    m.def("prior_clicks", &prior_clicks, nb::arg("masks"), nb::arg("tasks"), nb::arg("shape"),
          nb::arg("numbers"), nb::arg("threads"),
          "Clicks drawn from the embedded click model of one mask less others, many at once.");
}
