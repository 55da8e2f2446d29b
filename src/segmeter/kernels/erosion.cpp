// The band along the outline of a mask: its pixels within `reach` of the outside.

#include "kernels.h"

#include <algorithm>
#include <cstring>
#include <limits>
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

// Takes from a copy of the mask what an erosion by a square of side `2 reach + 1` leaves. `Count`
// holds how many rows above a pixel, its own included, were left by the erosion along rows; it
// stops at `2 reach + 1`, so that narrow counts, many of which are added at once, suffice.
template <typename Count>
void take_inside(const std::uint8_t *in, std::uint8_t *out, Index rows, Index columns, Index reach) {
    std::vector<std::uint8_t> row(static_cast<size_t>(columns));
    std::vector<Count> streak(static_cast<size_t>(columns), 0);
    const auto needed = static_cast<Count>(2 * reach + 1);
    for (Index y = 0; y < rows; ++y) {
        erode_row(in + y * columns, row.data(), columns, reach);
        Count *count = streak.data();
        for (Index x = 0; x < columns; ++x) {
            const auto more = static_cast<Count>(count[x] + (count[x] < needed));
            count[x] = row[static_cast<size_t>(x)] ? more : Count{0};
        }
        if (y < 2 * reach) continue;
        std::uint8_t *line = out + (y - reach) * columns;
        for (Index x = 0; x < columns; ++x) line[x] &= count[x] != needed;
    }
}

nb::ndarray<nb::numpy, bool, nb::ndim<2>> band(Bits2D bits, Index reach) {
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    const auto *in = reinterpret_cast<const std::uint8_t *>(bits.data());
    const NewBits made(bits.shape(0), bits.shape(1));
    std::uint8_t *out = made.pixels;
    {
        nb::gil_scoped_release free;
        std::memcpy(out, in, static_cast<size_t>(rows * columns));
        if (2 * reach < std::numeric_limits<std::uint8_t>::max())
            take_inside<std::uint8_t>(in, out, rows, columns, reach);
        else
            take_inside<std::int32_t>(in, out, rows, columns, reach);
    }
    return made.array();
}

}  // namespace

void bind_erosion(nb::module_ &m) {
    m.def("band", &band, nb::arg("bits"), nb::arg("reach"),
          "The pixels of a mask within `reach` (chessboard) of the outside.");
}
