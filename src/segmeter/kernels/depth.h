// Depth: distance of a pixel to the nearest one outside the mask; beyond its box all is outside.
#pragma once

#include "row_runs.h"

struct Deepest {
    Index squared = 0;
    Index place = -1;  // raster index; -1 while nothing was found
};

// `barred` are sorted raster indices that cannot win.
Deepest deepest_of(const Stretches &mask, const std::vector<Index> &barred);

// Distance along the column to the nearest pixel outside, for every set pixel.
std::vector<std::int32_t> column_distance(const Stretches &mask);

// Lower envelope of the parabolas (x - c)^2 + g(c)^2 over one stretch of a row and its two ends.
class Envelope {
public:
    explicit Envelope(Index longest)
        : centres_(static_cast<size_t>(longest) + 2), from_(static_cast<size_t>(longest) + 2) {}

    // Squared depth of each pixel of a stretch, from its column distances, handed to
    // `take(x, squared)` from right to left; x counts from the stretch's begin.
    template <typename Take>
    void run(const std::int32_t *column, Index length, Take take) {
        const auto height = [&](Index c) -> Index {
            return c < 0 || c >= length ? 0 : Index{column[c]} * column[c];
        };
        Index top = 0;
        centres_[0] = from_[0] = -1;
        for (Index c = 0; c <= length; ++c) {
            const Index hc = height(c);
            while (true) {
                const Index b = centres_[static_cast<size_t>(top)];
                // First x at which c is strictly nearer than b.
                const Index first = floor_div(c * c + hc - b * b - height(b), 2 * (c - b)) + 1;
                if (first > from_[static_cast<size_t>(top)] || top == 0) {
                    ++top;
                    centres_[static_cast<size_t>(top)] = c;
                    from_[static_cast<size_t>(top)] = first;
                    break;
                }
                --top;
            }
        }
        for (Index x = length - 1, k = top; x >= 0; --x) {
            while (k > 0 && from_[static_cast<size_t>(k)] > x) --k;
            const Index c = centres_[static_cast<size_t>(k)];
            take(x, (x - c) * (x - c) + height(c));
        }
    }

private:
    static Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
    std::vector<Index> centres_, from_;
};
