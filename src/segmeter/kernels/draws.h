// What draws from clickability maps share: the order of equal pixels, the pixel at a mass, limits.
#pragma once

#include "floats.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
    std::uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

struct Pixel {
    float value;
    std::uint64_t hash;
    Index place;
};

// The pixel at which the mass of `before` and of the pixels in order passes `wanted`: narrowed
// down by halving, as quickselect does, but on mass.
inline Index narrowed(std::vector<Pixel> &pixels, double before, double wanted) {
    auto first = pixels.begin(), last = pixels.end();
    const auto lower = [](const Pixel &a, const Pixel &b) {
        return std::tie(a.value, a.hash, a.place) < std::tie(b.value, b.hash, b.place);
    };
    while (last - first > 1) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, lower);
        double half = 0;
        for (auto p = first; p != middle; ++p) half += p->value;
        if (before + half > wanted) last = middle;
        else { before += half; first = middle; }
    }
    return first->place;
}

// The published value limits of a group, from weights in any order, zeros among them or not.
std::pair<float, float> limits_of(const float *weights, size_t n, Index pixels, double low,
                                  double high);
