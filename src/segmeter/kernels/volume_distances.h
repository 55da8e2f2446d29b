// Squared Euclidean distances on a grid of three axes, each with its own spacing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

struct Grid {
    std::int64_t depth, rows, columns;
    double z, y, x;  // spacing squared

    std::int64_t size() const { return depth * rows * columns; }
};

// Lower envelope of the parabolas f(c) + w (q - c)^2 along one line; infinite f has none.
class Line {
public:
    explicit Line(std::int64_t longest)
        : centres_(static_cast<size_t>(longest)), from_(static_cast<size_t>(longest)) {}

    void run(const double *f, double *out, std::int64_t length, double w) {
        constexpr double never = std::numeric_limits<double>::infinity();
        std::int64_t top = -1;
        for (std::int64_t q = 0; q < length; ++q) {
            if (f[q] == never) continue;
            double first = -never;
            while (top >= 0) {
                const std::int64_t c = centres_[static_cast<size_t>(top)];
                first = (f[q] - f[c] + w * static_cast<double>(q * q - c * c)) /
                        (2.0 * w * static_cast<double>(q - c));
                if (first > from_[static_cast<size_t>(top)]) break;
                --top;
            }
            ++top;
            centres_[static_cast<size_t>(top)] = q;
            from_[static_cast<size_t>(top)] = top == 0 ? -never : first;
        }
        if (top < 0) {
            std::fill(out, out + length, never);
            return;
        }
        std::int64_t k = 0;
        for (std::int64_t q = 0; q < length; ++q) {
            while (k < top && from_[static_cast<size_t>(k) + 1] < static_cast<double>(q)) ++k;
            const std::int64_t c = centres_[static_cast<size_t>(k)];
            out[q] = f[c] + w * static_cast<double>((q - c) * (q - c));
        }
    }

private:
    std::vector<std::int64_t> centres_;
    std::vector<double> from_;
};

// Squared distance of every place to the nearest seed; infinite where there is no seed.
// With `wanted`, only places that are not zero there are certain to be finished.
std::vector<double> squared_distances(const std::uint8_t *seeds, const Grid &grid,
                                      const std::uint8_t *wanted);
