// The smallest box around a mask, found from outside inwards.

#include "kernels.h"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace {

using Index = std::int64_t;

// First set pixel of a stretch, or its length when there is none.
Index first_set(const std::uint8_t *at, Index length) {
    const void *hit = std::memchr(at, 1, static_cast<size_t>(length));
    return hit ? static_cast<const std::uint8_t *>(hit) - at : length;
}

// One past the last set pixel of a stretch, or 0 when there is none; eight pixels at a time.
Index past_last_set(const std::uint8_t *at, Index length) {
    Index end = length;
    for (; end >= 8; end -= 8) {
        std::uint64_t eight;
        std::memcpy(&eight, at + end - 8, 8);
        if (eight) break;
    }
    while (end > 0 && !at[end - 1]) --end;
    return end;
}

std::tuple<Index, Index, Index, Index> box(Bits2D bits) {
    const auto *data = reinterpret_cast<const std::uint8_t *>(bits.data());
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    nb::gil_scoped_release free;
    const Index total = rows * columns;
    const Index first = first_set(data, total);
    if (first == total) return {0, 0, 0, 0};
    const Index top = first / columns;
    const Index bottom = (past_last_set(data, total) - 1) / columns + 1;
    Index left = columns, right = 0;
    for (Index y = top; y < bottom; ++y) {
        const std::uint8_t *row = data + y * columns;
        left = std::min(left, first_set(row, left));
        right += past_last_set(row + right, columns - right);
    }
    return {top, bottom, left, right};
}

}  // namespace

void bind_box(nb::module_ &m) {
    m.def("box", &box, nb::arg("bits"),
          "Top, bottom, left and right of the set pixels, ends excluded; zeros if there are none.");
}
