// Draws from few pixels with mass, without the box around them.
#pragma once

#include "draws.h"

#include <cmath>
#include <numeric>

// Pixels above zero in raster order, each with its place in a box; all answers are places.
struct Spots {
    std::vector<float> weights;
    std::vector<Index> places;

    // The pixel at a share of the mass, as `at_share` finds it; -1 for none. Values are binned by
    // their leading bits, so that only one bin is looked into.
    Index at_share(double share, std::uint64_t seed) const {
        constexpr int shift = 20;
        const auto bin_of = [](float weight) { return bits_of(weight) >> shift; };
        std::vector<double> mass(size_t{1} << (32 - shift), 0.0);
        for (const float weight : weights) mass[bin_of(weight)] += weight;
        const double wanted = share * std::accumulate(mass.begin(), mass.end(), 0.0);
        double before = 0, after = 0;  // the bin's pixels
        size_t bin = 0;
        for (size_t b = 0; b < mass.size() && after <= wanted; ++b) {
            if (!(mass[b] > 0)) continue;
            before = after;
            after += mass[b];
            bin = b;
        }
        std::vector<Pixel> inside;
        for (size_t i = 0; i < weights.size(); ++i)
            if (bin_of(weights[i]) == bin) {
                const auto place = static_cast<std::uint64_t>(places[i]);
                inside.push_back({weights[i], mixed(seed, place), places[i]});
            }
        return inside.empty() ? -1 : narrowed(inside, before, wanted);
    }

    // A published draw from a group, as `group_limits` and `draw_between` find it; `raster` maps
    // a place to its index in the image's raster.
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
