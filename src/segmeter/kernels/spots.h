// Draws from few pixels with mass, without the box around them.
#pragma once

#include "draws.h"

#include <cmath>

// Pixels above zero in raster order, each with its place in a box; all answers are places.
struct Spots {
    std::vector<float> weights;
    std::vector<Index> places;

    // The pixel at a share of the mass, as `at_share` finds it; -1 for none.
    Index at_share(double share, std::uint64_t seed) const {
        double sum = 0;
        std::vector<Pixel> pixels;
        pixels.reserve(places.size());
        for (size_t i = 0; i < places.size(); ++i) {
            sum += weights[i];
            const Index place = places[i];
            pixels.push_back({weights[i], mixed(seed, static_cast<std::uint64_t>(place)), place});
        }
        return pixels.empty() ? -1 : narrowed(pixels, 0, share * sum);
    }

    // A published draw from a group, as `group_limits` and `draw_between` find it; `raster` says
    // where in the picture's raster a place lies.
    template <typename Raster>
    Index between(double low, double high, double uniform, Index pixels, const Raster &raster) const {
        const auto [bottom, top] = limits_of(weights.data(), weights.size(), pixels, low, high);
        std::vector<float> kept;
        std::vector<Index> where;
        for (size_t i = 0; i < weights.size(); ++i) {
            if (!(weights[i] >= bottom && weights[i] <= top)) continue;
            kept.push_back(weights[i]);
            where.push_back(places[i]);
        }
        if (kept.empty()) return -1;
        size_t done = 0;  // stretches are asked for from left to right
        const auto load = [&](Index start, Index n, float *room) -> const float * {
            if (done == kept.size() || raster(where[done]) >= start + n) return nullptr;
            std::fill(room, room + n, 0.0f);
            for (; done < kept.size() && raster(where[done]) < start + n; ++done)
                room[raster(where[done]) - start] = kept[done];
            return room;
        };
        const float total = pairwise(load, raster(where[0]), raster(where.back()) + 1, 0, pixels);
        if (!(total > 0) || std::isinf(total)) return -1;
        double whole = 0, sum = 0;
        for (const float value : kept) whole += static_cast<double>(value / total);
        for (size_t i = 0; i < kept.size(); ++i) {
            sum += static_cast<double>(kept[i] / total);
            if (sum / whole > uniform) return where[i];
        }
        return where.back();
    }
};
