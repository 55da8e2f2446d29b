// Run lengths of a mask as COCO's compressed text, straight from its bits.
//
// COCO counts down the columns while bits lie in rows. Two neighbouring rows are compared
// eight pixels at a time; where they differ a run begins or ends in that column.

#include "kernels.h"

#include <cstring>
#include <string>
#include <vector>

namespace {

using Index = std::int64_t;

struct Change {
    std::int32_t column;
    std::int32_t row;
};

// Where a row differs from the one above it; `above` is null for the first row.
void compare_rows(const std::uint8_t *above, const std::uint8_t *here, Index columns,
                  std::int32_t row, std::vector<Change> &changes) {
    Index x = 0;
    for (; x + 8 <= columns; x += 8) {
        std::uint64_t a = 0, b = 0;
        if (above) std::memcpy(&a, above + x, 8);
        if (here) std::memcpy(&b, here + x, 8);
        if (a == b) continue;
        for (Index k = x; k < x + 8; ++k)
            if ((above ? above[k] : 0) != (here ? here[k] : 0))
                changes.push_back({static_cast<std::int32_t>(k), row});
    }
    for (; x < columns; ++x)
        if ((above ? above[x] : 0) != (here ? here[x] : 0))
            changes.push_back({static_cast<std::int32_t>(x), row});
}

// Changes ordered by column, then by row: a counting sort keeps the rows' order.
std::vector<Change> by_column(const std::vector<Change> &changes, Index columns) {
    std::vector<Index> starts(static_cast<size_t>(columns) + 1, 0);
    for (const Change &c : changes) ++starts[static_cast<size_t>(c.column) + 1];
    for (size_t x = 1; x < starts.size(); ++x) starts[x] += starts[x - 1];
    std::vector<Change> sorted(changes.size());
    for (const Change &c : changes)
        sorted[static_cast<size_t>(starts[static_cast<size_t>(c.column)]++)] = c;
    return sorted;
}

// One count as five-bit characters, lowest bits first.
void append_count(std::string &text, Index value) {
    while (true) {
        const auto low = static_cast<char>(value & 31);
        value >>= 5;
        const bool done = (low & 16) ? value == -1 : value == 0;
        text.push_back(static_cast<char>(low + (done ? 0 : 32) + 48));
        if (done) return;
    }
}

std::string pack(const std::vector<Index> &counts) {
    std::string text;
    text.reserve(2 * counts.size());
    for (size_t i = 0; i < counts.size(); ++i)
        append_count(text, i > 2 ? counts[i] - counts[i - 2] : counts[i]);
    return text;
}

nb::bytes encode(Bits2D bits, Index top, Index left, Index height, Index width) {
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    const auto *data = reinterpret_cast<const std::uint8_t *>(bits.data());
    std::string text;
    {
        nb::gil_scoped_release free;
        std::vector<Change> changes;
        for (Index y = 0; y <= rows; ++y)
            compare_rows(y ? data + (y - 1) * columns : nullptr,
                         y < rows ? data + y * columns : nullptr, columns,
                         static_cast<std::int32_t>(y), changes);
        std::vector<Index> counts;
        Index last = 0;
        for (const Change &c : by_column(changes, columns)) {
            const Index place = (c.column + left) * height + c.row + top;
            // A run that ends where the next column's begins is continued.
            if (place == last && !counts.empty() && place != 0) {
                last -= counts.back();
                counts.pop_back();
                continue;
            }
            counts.push_back(place - last);
            last = place;
        }
        if (last < height * width || counts.empty()) counts.push_back(height * width - last);
        text = pack(counts);
    }
    return nb::bytes(text.data(), text.size());
}

}  // namespace

void bind_runs(nb::module_ &m) {
    m.def("encode_runs", &encode, nb::arg("bits"), nb::arg("top"), nb::arg("left"),
          nb::arg("height"), nb::arg("width"),
          "COCO's compressed run lengths of a box of bits inside an image.");
}
