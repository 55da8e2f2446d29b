// Float32 as NumPy adds it, and the bits that sort like it.
#pragma once

#include <cstdint>
#include <cstring>

using Index = std::int64_t;

// The bits of floats that are not negative sort like the floats.
inline std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Values in eight interleaved sums, as NumPy adds up to 128 of them.
inline float pairwise_leaf(const float *part, Index n) {
    float sum = -0.0f;
    Index i = 0;
    if (n >= 8) {
        float r[8];
        for (Index k = 0; k < 8; ++k) r[k] = part[k];
        for (i = 8; i < n - n % 8; i += 8)
            for (Index k = 0; k < 8; ++k) r[k] += part[i + k];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; ++i) sum += part[i];
    return sum;
}

// NumPy's pairwise sum of places `start` to `start + n` of an array that is zero outside
// `first` to `end`: zeros are skipped, which changes no rounding. `load(start, n, room)` says
// where at most 128 values lie, in `room` if need be, or null if they are all zero; it is asked
// from left to right.
template <typename Load>
float pairwise(const Load &load, Index first, Index end, Index start, Index n) {
    if (start + n <= first || start >= end) return 0.0f;
    if (n <= 128) {
        float room[128];
        const float *part = load(start, n, room);
        return part ? pairwise_leaf(part, n) : 0.0f;
    }
    Index half = n / 2;
    half -= half % 8;
    // In two statements: operands of `+` come in any order, and loads are promised theirs.
    const float left = pairwise(load, first, end, start, half);
    return left + pairwise(load, first, end, start + half, n - half);
}
