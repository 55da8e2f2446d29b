// The deepest pixel of a mask, for kernels that need many.
#pragma once

#include <cstdint>
#include <vector>

using Index = std::int64_t;

struct Deepest {
    Index squared = 0;
    Index place = -1;  // raster index; -1 while nothing was found
};

// `barred` are sorted raster indices that cannot win.
Deepest deepest_of(const std::uint8_t *bits, Index rows, Index columns,
                   const std::vector<Index> &barred);
