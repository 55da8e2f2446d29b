// Thinning until nothing changes: lines one pixel wide, as MATLAB's bwmorph makes them.
//
// Both passes look a pixel's eight neighbours up in a table. After the first round only pixels
// next to a change are looked at again. The plain twin is in measures/outlines.py.

#include "kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace {

using Index = std::int64_t;
using Table = std::array<bool, 256>;

// Whether a set pixel goes; bit k - 1 of the code is neighbour x_k, counter-clockwise from east.
bool goes(unsigned code, bool second) {
    const auto x = [&](unsigned k) { return (code >> ((k - 1) & 7u)) & 1u; };
    unsigned crossings = 0, one = 0, two = 0;
    for (unsigned k = 1; k <= 7; k += 2) {
        crossings += !x(k) && (x(k + 1) || x(k + 2));
        one += x(k) || x(k + 1);
        two += x(k + 1) || x(k + 2);
    }
    const unsigned fewest = std::min(one, two);
    const bool held = second ? (x(6) || x(7) || !x(4)) && x(5) : (x(2) || x(3) || !x(8)) && x(1);
    return crossings == 1 && fewest >= 2 && fewest <= 3 && !held;
}

Table table(bool second) {
    Table made{};
    for (unsigned code = 0; code < 256; ++code) made[code] = goes(code, second);
    return made;
}

class Thinning {
public:
    // `pixels` has a frame of zeros one pixel wide.
    Thinning(std::vector<std::uint8_t> &pixels, Index columns)
        : pixels_(pixels), marks_(pixels.size(), 0),
          around_{1, 1 - columns, -columns, -columns - 1, -1, columns - 1, columns, columns + 1} {
        static const Table tables[2] = {table(false), table(true)};
        tables_ = tables;
        for (Index p = columns; p < static_cast<Index>(pixels.size()) - columns; ++p)
            if (pixels_[static_cast<size_t>(p)]) look_[0].push_back(p);
        look_[1] = look_[0];
        for (const Index p : look_[0]) marks_[static_cast<size_t>(p)] = 3;
    }

    // Both passes once; false when neither took a pixel.
    bool round() {
        const bool first = pass(0);
        return pass(1) || first;
    }

private:
    std::vector<std::uint8_t> &pixels_;
    std::vector<std::uint8_t> marks_;  // bit w: already on the list of pass w
    std::array<Index, 8> around_;
    const Table *tables_;
    std::vector<Index> look_[2];

    bool pass(int which) {
        std::vector<Index> going;
        for (const Index p : look_[which]) {
            marks_[static_cast<size_t>(p)] &= static_cast<std::uint8_t>(~(1u << which));
            if (!pixels_[static_cast<size_t>(p)]) continue;
            unsigned code = 0;
            for (unsigned k = 0; k < 8; ++k)
                code |= static_cast<unsigned>(pixels_[static_cast<size_t>(p + around_[k])]) << k;
            if (tables_[which][code]) going.push_back(p);
        }
        look_[which].clear();
        for (const Index p : going) pixels_[static_cast<size_t>(p)] = 0;
        for (const Index p : going)
            for (const Index step : around_) look_again(p + step);
        return !going.empty();
    }

    void look_again(Index p) {
        if (!pixels_[static_cast<size_t>(p)]) return;
        for (int which = 0; which < 2; ++which)
            if (!(marks_[static_cast<size_t>(p)] & (1u << which))) {
                marks_[static_cast<size_t>(p)] |= static_cast<std::uint8_t>(1u << which);
                look_[which].push_back(p);
            }
    }
};

nb::ndarray<nb::numpy, bool, nb::ndim<2>> thin(Bits2D bits, Index rounds) {
    const auto rows = static_cast<Index>(bits.shape(0));
    const auto columns = static_cast<Index>(bits.shape(1));
    const auto *in = reinterpret_cast<const std::uint8_t *>(bits.data());
    const NewBits made(bits.shape(0), bits.shape(1));
    std::uint8_t *out = made.pixels;
    {
        nb::gil_scoped_release free;
        const Index wide = columns + 2;
        std::vector<std::uint8_t> framed(static_cast<size_t>((rows + 2) * wide), 0);
        for (Index y = 0; y < rows; ++y)
            std::memcpy(framed.data() + (y + 1) * wide + 1, in + y * columns,
                        static_cast<size_t>(columns));
        Thinning thinning(framed, wide);
        for (Index n = 0; rounds < 0 || n < rounds; ++n)
            if (!thinning.round()) break;
        for (Index y = 0; y < rows; ++y)
            std::memcpy(out + y * columns, framed.data() + (y + 1) * wide + 1,
                        static_cast<size_t>(columns));
    }
    return made.array();
}

}  // namespace

void bind_thinning(nb::module_ &m) {
    m.def("thin", &thin, nb::arg("bits"), nb::arg("rounds"),
          "A map thinned for so many rounds; until nothing changes when negative.");
}
