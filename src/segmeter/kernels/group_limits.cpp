// The published limits of a clicking group: sorted weights, their running sum in float32.

#include "draws.h"
#include "kernels.h"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace {

using Weights = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Room that is written before it is read: filling it with zeros first would cost as much.
template <typename Item>
struct Room {
    explicit Room(size_t most) : items(new Item[most]) {}
    std::unique_ptr<Item[]> items;
    size_t size = 0;
};

// Least significant digits first, no more digits than the keys differ in.
template <typename Item, typename Key>
void sort_by(Room<Item> &room, const Key &key) {
    const size_t n = room.size;
    std::uint32_t low = ~std::uint32_t{0}, high = 0;
    for (size_t i = 0; i < n; ++i) {
        low = std::min(low, key(room.items[i]));
        high = std::max(high, key(room.items[i]));
    }
    int bits = 1;
    while (bits < 32 && high > low && (high - low) >> bits) ++bits;
    const int passes = (bits + 10) / 11, width = (bits + passes - 1) / passes;
    const std::uint32_t digits = 1u << width;
    const auto digit = [=](const Item &item, int pass) {
        return pass * digits + (((key(item) - low) >> (width * pass)) & (digits - 1));
    };
    std::vector<std::uint32_t> place(passes * digits, 0);
    for (size_t i = 0; i < n; ++i)
        for (int pass = 0; pass < passes; ++pass) ++place[digit(room.items[i], pass)];
    Room<Item> other(n);
    for (int pass = 0; pass < passes; ++pass) {
        const auto first = place.begin() + pass * digits;
        std::exclusive_scan(first, first + digits, first, 0u);
        for (size_t i = 0; i < n; ++i) {
            const Item item = room.items[i];
            other.items[place[digit(item, pass)]++] = item;
        }
        room.items.swap(other.items);
    }
}

// A value, by its bits, and how often it occurs; no positive value has the bits 0.
struct Count { std::uint32_t bits, times; };

// How often each value occurs: distances are roots of whole numbers, so that a map of millions
// of pixels holds a hundred thousand values, and a flat one a single one. False once values
// repeat so seldom that sorting them all is faster.
bool count_values(const float *w, size_t n, Room<Count> &counts) {
    constexpr size_t most = size_t{1} << 18, stretch = 4096;
    int bits = 4;  // a table of which at most a quarter is taken is seldom searched
    while ((size_t{1} << bits) < 4 * std::min(n, most)) ++bits;
    const int shift = 32 - bits;
    std::vector<Count> table(size_t{1} << bits);
    Count *const slots = table.data();
    size_t values = 0, pixels = 0;
    for (size_t start = 0; start < n; start += stretch) {
        const size_t end = std::min(n, start + stretch);
        for (size_t i = start; i < end; ++i) {
            if (!(w[i] > 0)) continue;
            const std::uint32_t key = bits_of(w[i]);
            std::uint32_t at = (key * 2654435769u) >> shift;
            if (slots[at].bits != key) {
                while (slots[at].bits && slots[at].bits != key) at = (at + 1) & (table.size() - 1);
                values += !slots[at].bits;
                slots[at].bits = key;
            }
            ++slots[at].times;
            ++pixels;
        }
        if (values + stretch > most || values > 1024 + pixels / 4) return false;
    }
    counts = Room<Count>(table.size());
    for (const Count &slot : table) {
        counts.items[counts.size] = slot;
        counts.size += slot.times > 0;
    }
    return true;
}

// All values in order, each as often as it occurs.
Room<float> spread(Room<Count> &counts) {
    sort_by(counts, [](const Count &count) { return count.bits; });
    constexpr size_t ahead = 16;  // whole blocks are written, and the next value over their end
    size_t pixels = 0;
    for (size_t i = 0; i < counts.size; ++i) pixels += counts.items[i].times;
    Room<float> out(pixels + ahead);
    for (size_t i = 0; i < counts.size; ++i) {
        const float value = float_of(counts.items[i].bits);
        float *const start = out.items.get() + out.size;
        for (size_t done = 0; done < counts.items[i].times; done += ahead)
            std::fill(start + done, start + done + ahead, value);
        out.size += counts.items[i].times;
    }
    return out;
}

// The positive weights in order.
Room<float> sorted_weights(const float *w, size_t n) {
    Room<Count> counts(0);
    if (count_values(w, n, counts)) return spread(counts);
    Room<float> out(n);
    for (size_t i = 0; i < n; ++i) {
        out.items[out.size] = w[i];
        out.size += w[i] > 0;
    }
    sort_by(out, bits_of);
    return out;
}

constexpr size_t kLeap = 256;

// The running sum in float32 after a whole stretch of values at once, or not a number.
//
// While the sum stays between one power of two and the next, it lies on a grid, and each value
// adds itself rounded to that grid, in whatever order: exact steps. Not so where a value lies
// halfway between two points of the grid, which the sum then decides: those are left to be added
// one by one, as are stretches that reach the next power.
float leap(float sum, const float *values) {
    const float power = float_of(bits_of(sum) & 0x7F800000u), half = power * 0x1p-24f;
    float steps[kLeap];
    std::uint32_t halfway = 0;
    for (size_t i = 0; i < kLeap; ++i) steps[i] = (power + values[i]) - power;
    for (size_t i = 0; i < kLeap; ++i) halfway |= std::fabs(values[i] - steps[i]) == half;
    sum += pairwise_leaf(steps, kLeap);
    return halfway || !(sum < 2 * power) ? NAN : sum;
}

// A place in the sorted values, with the sum of those before it.
struct Place {
    size_t index = 0;
    float sum = 0.0f;
};

// The first place from `at` on whose sum, its own value included, is `enough`.
template <typename Enough>
Place first_place(const Room<float> &sorted, Place at, const Enough &enough) {
    while (at.index < sorted.size) {
        const float *values = sorted.items.get() + at.index;
        size_t n = std::min(kLeap, sorted.size - at.index);
        const float after = n == kLeap ? leap(at.sum, values) : NAN;
        if (after >= at.sum && !enough(after)) {
            at = {at.index + n, after};
            continue;
        }
        for (; n > 0; --n, ++at.index) {
            const float sum = at.sum + *values++;
            if (enough(sum)) return at;
            at.sum = sum;
        }
    }
    return at;
}

}  // namespace

// Float32 all the way, the image's zeros included.
std::pair<float, float> limits_of(const float *weights, size_t n, Index pixels, double low,
                                  double high) {
    const Room<float> sorted = sorted_weights(weights, n);
    const float *values = sorted.items.get();
    const Index zeros = pixels - static_cast<Index>(sorted.size);
    const auto load = [=](Index start, Index count, float *room) {
        if (start >= zeros) return values + (start - zeros);
        const Index blank = zeros - start;
        std::fill(room, room + blank, 0.0f);
        std::copy(values, values + (count - blank), room + blank);
        return static_cast<const float *>(room);
    };
    const float total = pairwise(load, zeros, pixels, 0, pixels);
    const float from = static_cast<float>(low) * total, to = static_cast<float>(high) * total;
    const Place first = first_place(sorted, {}, [=](float sum) { return sum >= from; });
    const Place last = first_place(sorted, first, [=](float sum) { return sum > to; });
    float bottom = std::numeric_limits<float>::infinity(), top = 0.0f;
    if (first.index < sorted.size) bottom = values[first.index];
    if (zeros > 0 && 0.0f >= from) bottom = 0.0f;
    if (sorted.size) top = values[std::min(last.index, sorted.size - 1)];
    return {bottom, top};
}

namespace {

std::pair<float, float> group_limits(Weights map, Index pixels, double low, double high) {
    const size_t n = map.size();
    const float *w = map.data();
    nb::gil_scoped_release free;
    return limits_of(w, n, pixels, low, high);
}

}  // namespace

void bind_limits(nb::module_ &m) {
    m.def("group_limits", &group_limits, nb::arg("map"), nb::arg("pixels"), nb::arg("low"),
          nb::arg("high"), "The published value limits of a clicking group.");
}
