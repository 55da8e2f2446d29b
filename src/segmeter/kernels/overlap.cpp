// How many pixels two boxes of bits share, in one pass and without a copy.

#include "kernels.h"

#include <algorithm>
#include <cstring>

namespace {

using Index = std::int64_t;

// The sum of eight byte counters.
std::uint64_t gather(std::uint64_t counters) {
    const std::uint64_t even = 0x00FF00FF00FF00FF;
    return ((counters & even) + ((counters >> 8) & even)) * 0x0001000100010001 >> 48;
}

// Pixels that two rows share. Bits are bytes of 0 or 1, so eight are added at a time, and no
// counter passes 255.
std::uint64_t shared(const std::uint8_t *a, const std::uint8_t *b, Index length) {
    std::uint64_t count = 0;
    Index x = 0;
    while (x + 8 <= length) {
        std::uint64_t counters = 0;
        for (const Index end = std::min(length - 7, x + 8 * 255); x < end; x += 8) {
            std::uint64_t mine, theirs;
            std::memcpy(&mine, a + x, 8);
            std::memcpy(&theirs, b + x, 8);
            counters += mine & theirs;
        }
        count += gather(counters);
    }
    for (; x < length; ++x) count += a[x] & b[x];
    return count;
}

std::uint64_t overlap(Window a, Window b) {
    if (a.shape(0) != b.shape(0) || a.shape(1) != b.shape(1) || a.stride(1) != 1 || b.stride(1) != 1)
        throw nb::value_error("overlap takes two boxes of one shape whose rows lie together");
    const auto *mine = reinterpret_cast<const std::uint8_t *>(a.data());
    const auto *theirs = reinterpret_cast<const std::uint8_t *>(b.data());
    nb::gil_scoped_release free;
    std::uint64_t count = 0;
    for (size_t y = 0; y < a.shape(0); ++y)
        count += shared(mine + y * a.stride(0), theirs + y * b.stride(0),
                        static_cast<Index>(a.shape(1)));
    return count;
}

}  // namespace

void bind_overlap(nb::module_ &m) {
    m.def("overlap", &overlap, nb::arg("a"), nb::arg("b"), "How many pixels are set in both.");
}
