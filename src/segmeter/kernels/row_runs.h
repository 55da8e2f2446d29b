// The set pixels of a box as stretches of its rows: what is empty costs nothing afterwards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using Index = std::int64_t;

// Neighbouring set pixels of a row.
struct Stretch {
    Index begin, end;  // columns, the end excluded
    Index first;       // how many set pixels come before, in raster order

    Index length() const { return end - begin; }
};

// Rows of stretches. Values of pixels are stored separately, in raster order of the set pixels.
class Stretches {
public:
    struct Row {
        const Stretch *from, *to;
        const Stretch *begin() const { return from; }
        const Stretch *end() const { return to; }
        bool empty() const { return from == to; }
    };

    explicit Stretches(Index columns) : columns_(columns), starts_{0} {}

    // One more row below the others, a byte a pixel.
    void add_row(const std::uint8_t *bits) {
        for (Index x = 0; x < columns_;) {
            const Index begin = x + find(bits + x, 1, columns_ - x);
            if (begin == columns_) break;
            const Index end = begin + find(bits + begin, 0, columns_ - begin);
            all_.push_back({begin, end, pixels_});
            pixels_ += end - begin;
            x = end + 1;
        }
        starts_.push_back(all_.size());
    }

    // Takes empty rows and columns off every side; says how many at the top and at the left.
    std::pair<Index, Index> tighten() {
        if (all_.empty()) return {0, 0};
        Index top = 0, left = columns_, right = 0;
        while (row(top).empty()) ++top;
        while (row(rows() - 1).empty()) starts_.pop_back();
        starts_.erase(starts_.begin(), starts_.begin() + top);
        for (const Stretch &s : all_) {
            left = std::min(left, s.begin);
            right = std::max(right, s.end);
        }
        for (Stretch &s : all_) {
            s.begin -= left;
            s.end -= left;
        }
        columns_ = right - left;
        return {top, left};
    }

    Index rows() const { return static_cast<Index>(starts_.size()) - 1; }
    Index columns() const { return columns_; }
    Index pixels() const { return pixels_; }

    // Rows above and below the box are empty.
    Row row(Index y) const {
        if (y < 0 || y >= rows()) return {nullptr, nullptr};
        const size_t at = static_cast<size_t>(y);
        return {all_.data() + starts_[at], all_.data() + starts_[at + 1]};
    }

private:
    // Distance to the first such byte, or the length when there is none.
    static Index find(const std::uint8_t *at, int byte, Index length) {
        const void *hit = std::memchr(at, byte, static_cast<size_t>(length));
        return hit ? static_cast<const std::uint8_t *>(hit) - at : length;
    }

    Index columns_, pixels_ = 0;
    std::vector<Stretch> all_;
    std::vector<size_t> starts_;  // of each row among all, and the end
};

// The stretches of a whole array.
inline Stretches stretches_of(const std::uint8_t *bits, Index rows, Index columns) {
    Stretches found(columns);
    for (Index y = 0; y < rows; ++y) found.add_row(bits + y * columns);
    return found;
}

// What two neighbouring rows share: `take(mine, theirs, from, to)`, from left to right.
template <typename Take>
void shared(const Stretches::Row &mine, const Stretches::Row &theirs, Take take) {
    const Stretch *first = theirs.begin();
    for (const Stretch &m : mine) {
        while (first != theirs.end() && first->end <= m.begin) ++first;
        for (const Stretch *t = first; t != theirs.end() && t->begin < m.end; ++t)
            take(m, *t, std::max(m.begin, t->begin), std::min(m.end, t->end));
    }
}
