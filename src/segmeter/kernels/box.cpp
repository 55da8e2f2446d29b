// The smallest box around the set pixels of a mask, found from outside inwards.

#include "kernels.h"

#include <nanobind/stl/tuple.h>

#include <cstring>
#include <tuple>

namespace {

using Index = std::int64_t;

// The first pixel of a row with a value, or its length when there is none.
Index find(const std::uint8_t *row, int value, Index length) {
    const void *hit = std::memchr(row, value, static_cast<size_t>(length));
    return hit ? static_cast<const std::uint8_t *>(hit) - row : length;
}

std::tuple<Index, Index, Index, Index> box(Window bits) {
    if (bits.stride(1) != 1) throw nb::value_error("box takes bits whose rows lie together");
    const auto *data = reinterpret_cast<const std::uint8_t *>(bits.data());
    const auto columns = static_cast<Index>(bits.shape(1));
    const auto row = [&](Index y) { return data + y * bits.stride(0); };
    nb::gil_scoped_release free;
    Index top = 0, bottom = static_cast<Index>(bits.shape(0));
    while (top < bottom && find(row(top), 1, columns) == columns) ++top;
    while (top < bottom && find(row(bottom - 1), 1, columns) == columns) --bottom;
    Index left = columns, right = 0;
    for (Index y = top; y < bottom; ++y) {
        left = find(row(y), 1, left);
        // Past the end of each run that reaches beyond the box so far.
        for (Index x = right; (x += find(row(y) + x, 1, columns - x)) < columns; right = x)
            x += find(row(y) + x, 0, columns - x);
    }
    return {top, bottom, left, right};
}

}  // namespace

void bind_box(nb::module_ &m) {
    m.def("box", &box, nb::arg("bits"),
          "Top, bottom, left and right of the set pixels, ends excluded; top is bottom for none.");
}
