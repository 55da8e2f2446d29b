// Erosion by a square: what is left of a mask after taking `reach` pixels off every side.

#include "kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace {

using Index = std::int64_t;

// One row eroded along itself: every run loses `reach` pixels at both ends.
void erode_row(const std::uint8_t *in, std::uint8_t *out, Index columns, Index reach) {
    std::memset(out, 0, static_cast<size_t>(columns));
    for (Index x = 0; x < columns;) {
        const void *hit = std::memchr(in + x, 1, static_cast<size_t>(columns - x));
        if (!hit) return;
        const Index begin = static_cast<const std::uint8_t *>(hit) - in;
        const void *stop = std::memchr(in + begin, 0, static_cast<size_t>(columns - begin));
        const Index end = stop ? static_cast<const std::uint8_t *>(stop) - in : columns;
        if (end - begin > 2 * reach)
            std::memset(out + begin + reach, 1, static_cast<size_t>(end - begin - 2 * reach));
        x = end;
    }
}

nb::ndarray<nb::numpy, bool, nb::ndim<2>> erode(Bits2D bits, Index reach) {
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    const auto *in = reinterpret_cast<const std::uint8_t *>(bits.data());
    auto *out = new std::uint8_t[static_cast<size_t>(std::max<Index>(rows * columns, 1))];
    nb::capsule owner(out, [](void *p) noexcept { delete[] static_cast<std::uint8_t *>(p); });
    {
        nb::gil_scoped_release free;
        std::memset(out, 0, static_cast<size_t>(rows * columns));
        std::vector<std::uint8_t> row(static_cast<size_t>(columns));
        std::vector<std::int32_t> streak(static_cast<size_t>(columns), 0);
        const auto needed = static_cast<std::int32_t>(2 * reach + 1);
        for (Index y = 0; y < rows; ++y) {
            erode_row(in + y * columns, row.data(), columns, reach);
            for (Index x = 0; x < columns; ++x)
                streak[static_cast<size_t>(x)] =
                    row[static_cast<size_t>(x)] ? streak[static_cast<size_t>(x)] + 1 : 0;
            if (y < 2 * reach) continue;
            std::uint8_t *line = out + (y - reach) * columns;
            for (Index x = 0; x < columns; ++x) line[x] = streak[static_cast<size_t>(x)] >= needed;
        }
    }
    return {reinterpret_cast<bool *>(out),
            {static_cast<size_t>(rows), static_cast<size_t>(columns)}, owner};
}

}  // namespace

void bind_erosion(nb::module_ &m) {
    m.def("erode", &erode, nb::arg("bits"), nb::arg("reach"),
          "A mask without the pixels within `reach` (chessboard) of the outside.");
}
