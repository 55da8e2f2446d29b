// What lies within reach of a mask, row by row.
#pragma once

#include "row_runs.h"

#include <cmath>

// The pixels no farther than `reach` from the mask, as bits. Rows of the mask are widened step by
// step, and laid on the rows above and below that a disc of that width touches.
class Nearby {
public:
    Nearby(const Stretches &mask, double reach)
        : far_(static_cast<Index>(reach)),
          words_((mask.columns() + 2 * far_) / 64 + 1),
          bits_(static_cast<size_t>((mask.rows() + 2 * far_) * words_), 0) {
        std::vector<std::uint64_t> wide(static_cast<size_t>(words_) + 2), wider(wide.size());
        for (Index y = 0; y < mask.rows(); ++y) {
            if (mask.row(y).empty()) continue;
            std::fill(wide.begin(), wide.end(), 0);
            for (const Stretch &s : mask.row(y)) set(wide.data() + 1, s.begin + far_, s.end + far_);
            Index width = 0;
            for (Index away = far_; away >= 0; --away) {
                for (; width * width + 2 * width + 1 + away * away <= reach * reach; ++width)
                    widen(wide, wider);
                lay(wide, y - away);
                lay(wide, y + away);
            }
        }
    }

    // Whether a row may have such pixels; rows and columns count as the mask's do.
    bool has(Index y) const {
        return y >= -far_ && (y + far_) * words_ < static_cast<Index>(bits_.size());
    }

    // Every stretch of such a row from left to right, `take(begin, end)`.
    template <typename Take>
    void each(Index y, Take take) const {
        const std::uint64_t *row = bits_.data() + (y + far_) * words_;
        std::uint64_t last = 0;  // bit of the column before
        Index begin = 0;
        for (Index k = 0; k < words_; ++k) {
            std::uint64_t turns = row[k] ^ (row[k] << 1 | last);
            last = row[k] >> 63;
            for (; turns; turns &= turns - 1) {
                const Index at = 64 * k + lowest(turns);
                if (row[k] >> (at % 64) & 1) begin = at;
                else take(begin - far_, at - far_);
            }
        }
    }

private:
    static void set(std::uint64_t *words, Index from, Index to) {
        for (Index k = from / 64; 64 * k < to; ++k) {
            const Index low = std::max(from - 64 * k, Index{0});
            const Index high = std::min(to - 64 * k, Index{64});
            words[k] |= (~std::uint64_t{0} >> (64 - (high - low))) << low;
        }
    }

    // One pixel more at both ends of every stretch; the first and last word are a rim of zeros.
    void widen(std::vector<std::uint64_t> &wide, std::vector<std::uint64_t> &wider) const {
        const std::uint64_t *in = wide.data() + 1;
        std::uint64_t *out = wider.data() + 1;
        for (Index k = 0; k < words_; ++k)
            out[k] = in[k] | in[k] << 1 | in[k] >> 1 | in[k - 1] >> 63 | in[k + 1] << 63;
        wide.swap(wider);
    }

    void lay(const std::vector<std::uint64_t> &wide, Index y) {
        std::uint64_t *row = bits_.data() + (y + far_) * words_;
        for (Index k = 0; k < words_; ++k) row[k] |= wide[static_cast<size_t>(k) + 1];
    }

    static Index lowest(std::uint64_t word) {
#if defined(__GNUC__)
        return __builtin_ctzll(word);
#else
        Index at = 0;
        for (; !(word & 1); word >>= 1) ++at;
        return at;
#endif
    }

    Index far_, words_;
    std::vector<std::uint64_t> bits_;
};
