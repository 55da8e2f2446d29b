// Parts of scenes as kernels get them, what is left of one part less others, many at once.
#pragma once

#include "kernels.h"
#include "row_runs.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <tuple>

// Bits inside a box whose first pixel is (top, left).
struct Part {
    const std::uint8_t *bits;
    Index top, left, rows, columns;
};

using Box = std::tuple<Bits2D, Index, Index>;  // bits, top, left

// Masks that tasks name by number; -1 is none.
class Parts {
public:
    explicit Parts(const std::vector<Box> &masks) {
        parts_.reserve(masks.size());
        for (const auto &[bits, top, left] : masks)
            parts_.push_back({reinterpret_cast<const std::uint8_t *>(bits.data()), top, left,
                              static_cast<Index>(bits.shape(0)), static_cast<Index>(bits.shape(1))});
    }
    const Part *operator[](Index i) const {
        return i < 0 ? nullptr : &parts_.at(static_cast<size_t>(i));
    }
    // Pixels of the boxes that tasks begin with.
    template <typename Tasks>
    Index pixels(const Tasks &tasks) const {
        Index sum = 0;
        for (const auto &task : tasks) {
            const Part &part = parts_.at(static_cast<size_t>(std::get<0>(task)));
            sum += part.rows * part.columns;
        }
        return sum;
    }

private:
    std::vector<Part> parts_;
};

// Takes from a row of a part what another part holds there.
inline void take_away(std::uint8_t *row, Index y, const Part &part, const Part *other) {
    if (!other || y < other->top || y >= other->top + other->rows) return;
    const Index from = std::max(part.left, other->left);
    const Index to = std::min(part.left + part.columns, other->left + other->columns);
    if (from >= to) return;
    std::uint8_t *mine = row + (from - part.left);
    const std::uint8_t *theirs =
        other->bits + (y - other->top) * other->columns + (from - other->left);
    for (Index x = 0; x < to - from; ++x) mine[x] &= static_cast<std::uint8_t>(theirs[x] ^ 1);
}

// One part less two others, in the box of the part.
inline Stretches rest_of(const Part &part, const Part *less, const Part *ignored) {
    Stretches rest(part.columns);
    std::vector<std::uint8_t> row(static_cast<size_t>(part.columns));
    for (Index y = 0; y < part.rows; ++y) {
        std::memcpy(row.data(), part.bits + y * part.columns, row.size());
        take_away(row.data(), y + part.top, part, less);
        take_away(row.data(), y + part.top, part, ignored);
        rest.add_row(row.data());
    }
    return rest;
}

// `work(i)` for every i below `count`, on at most so many threads: fewer where there are so few
// pixels to look at that starting a thread would cost more than it saves, or where the system
// gives no more. What `work` throws on any of them is thrown here, after all have ended.
template <typename Work>
void on_threads(int threads, size_t count, Index pixels, const Work &work) {
    constexpr Index worth_a_thread = 1 << 16;
    std::atomic<size_t> next{0};
    std::atomic<bool> failing{false};
    std::exception_ptr failure;
    const auto some = [&] {
        try {
            for (size_t i = next++; i < count; i = next++) work(i);
        } catch (...) {
            if (!failing.exchange(true)) failure = std::current_exception();
            next = count;
        }
    };
    const Index most = std::min<Index>(std::max(1, threads), 1 + pixels / worth_a_thread);
    const size_t many = std::min(static_cast<size_t>(most), count);
    std::vector<std::thread> others;
    others.reserve(many);
    try {
        for (size_t i = 1; i < many; ++i) others.emplace_back(some);
    } catch (const std::system_error &) {
        // No more threads are available: the existing ones do all the work.
    }
    some();
    for (auto &thread : others) thread.join();
    if (failure) std::rethrow_exception(failure);
}
