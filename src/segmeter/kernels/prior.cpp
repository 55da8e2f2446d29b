// The embedded click model, computed on the wrong pixels only.
//
// The jitter's Gaussian parts into rows and columns. Rows are blurred where there is something to
// blur; columns only through the wrong pixels. What share of the jittered mass stays within
// reach follows without blurring anything outside the region: it is the mass of each pixel
// times the blurred reach at that pixel.

#include "prior.h"

#include "depth.h"
#include "dilation.h"

namespace {

// The Gaussian around the middle of a side, in units of its length.
std::vector<float> pull(Index length, double spread) {
    std::vector<float> out(static_cast<size_t>(length));
    for (size_t i = 0; i < out.size(); ++i) {
        const double side = static_cast<double>(length), middle = (side - 1) / 2;
        const double away = (static_cast<double>(i) - middle) / side / spread;
        out[i] = static_cast<float>(std::exp(-0.5 * away * away));
    }
    return out;
}

std::vector<Index> squared_depth(const Stretches &mask) {
    const std::vector<std::int32_t> column = column_distance(mask);
    std::vector<Index> squared(column.size(), 1);
    Envelope envelope(mask.columns());
    for (Index y = 0; y < mask.rows(); ++y)
        for (const Stretch &s : mask.row(y)) {
            const std::int32_t *g = column.data() + s.first;
            if (s.length() < 3 || *std::max_element(g, g + s.length()) == 1) continue;
            Index *out = squared.data() + s.first;
            envelope.run(g, s.length(), [=](Index x, Index depth) { out[x] = depth; });
        }
    return squared;
}

// The clicks that do not jitter: depth and the pull of the middle, summing to one.
std::vector<float> steady(const Stretches &region, const Law &law) {
    const std::vector<Index> squared = squared_depth(region);
    const Index deepest = *std::max_element(squared.begin(), squared.end());
    const std::vector<float> rows = pull(region.rows(), law.spread);
    const std::vector<float> columns = pull(region.columns(), law.spread);
    std::vector<float> powers(static_cast<size_t>(deepest) + 1, -1.0f);  // of each depth once
    std::vector<float> values(squared.size());
    double sum = 0;
    for (Index y = 0; y < region.rows(); ++y)
        for (const Stretch &s : region.row(y))
            for (Index x = s.begin; x < s.end; ++x) {
                const size_t i = static_cast<size_t>(s.first + x - s.begin);
                float &power = powers[static_cast<size_t>(squared[i])];
                if (power < 0)
                    power = static_cast<float>(std::pow(
                        static_cast<double>(squared[i]) / static_cast<double>(deepest), law.depth / 2));
                values[i] = power * (rows[static_cast<size_t>(y)] * columns[static_cast<size_t>(x)]);
                sum += values[i];
            }
    for (float &value : values) value = static_cast<float>(value / sum);
    return values;
}

constexpr Index kWide = 16;  // most columns that are added up at once

// The blurred rows around one row: as many above and below as the Gaussian is wide.
class Lines {
public:
    Lines(Index columns, Index radius)
        : many_(2 * radius + 1),
          stride_(columns + kWide),
          room_(static_cast<size_t>(many_ * stride_)),
          blank_(static_cast<size_t>(stride_), 0.0f),
          lines_(static_cast<size_t>(2 * many_), blank_.data()) {}

    // Moves one row down; the lowest line is now a row of zeros, to be filled if it is `used`.
    float *next(bool used) {
        float *line = room_.data() + oldest_ * stride_;
        if (used) std::fill(line, line + stride_, 0.0f);
        const auto slot = lines_.begin() + oldest_;
        *slot = *(slot + many_) = used ? line : blank_.data();
        if (++oldest_ == many_) oldest_ = 0;
        return line;
    }

    // From the topmost to the lowest.
    const float *const *all() const { return lines_.data() + oldest_; }

private:
    Index many_, stride_, oldest_ = 0;
    std::vector<float> room_, blank_;
    std::vector<const float *> lines_;  // each twice, so that they never wrap around
};

// One row of the region's mass, blurred along the row.
void blur_mass(const Stretches &region, Index y, const float *values, const Law &law, float *line) {
    for (const Stretch &s : region.row(y))
        for (Index x = s.begin; x < s.end; ++x) {
            const Index from = std::max(Index{0}, x - law.radius);
            const Index to = std::min(region.columns(), x + law.radius + 1);
            const float value = values[s.first + x - s.begin];
            const float *taps = law.taps + (from - x + law.radius);
            float *out = line + from;
            for (Index k = 0; k < to - from; ++k) out[k] += value * taps[k];
        }
}

// Blurs stretches of ones along a row: a blurred step up at the begin, one down at the end.
class Steps {
public:
    Steps(Index columns, const Law &law)
        : columns_(columns), radius_(law.radius), middle_(columns + 2 * law.radius + 1),
          steps_(static_cast<size_t>(2 * middle_)) {
        double sum = 0;
        for (Index at = -middle_; at < middle_; ++at) {
            if (at >= -radius_ && at <= radius_) sum += law.taps[at + radius_];
            steps_[static_cast<size_t>(at + middle_)] = static_cast<float>(sum);
        }
    }

    void add(Index begin, Index end, float *line) const {
        const Index from = std::max(Index{0}, begin - radius_);
        const Index to = std::min(columns_, end + radius_);
        const float *up = at(from, begin), *down = at(from, end);
        for (Index k = 0; k < to - from; ++k) line[from + k] += up[k] - down[k];
    }

private:
    // A step so far away is no step any more.
    const float *at(Index x, Index step) const {
        const Index away = std::clamp(x - step, -radius_ - columns_, radius_ + 1);
        return steps_.data() + middle_ + away;
    }

    Index columns_, radius_, middle_;
    std::vector<float> steps_;
};

// Blurs some neighbouring columns at one row, of both sets of lines.
template <Index wide>
void blur_columns(const float *const *mass, const float *const *reach, const Law &law, Index x,
                  float *moved, float *kept) {
    const float *taps = law.taps + law.radius;
    const auto m = mass + law.radius, r = reach + law.radius;
    float one[wide], two[wide];
    for (Index k = 0; k < wide; ++k) one[k] = taps[0] * m[0][x + k];
    for (Index k = 0; k < wide; ++k) two[k] = taps[0] * r[0][x + k];
    for (Index d = 1; d <= law.radius; ++d) {
        for (Index k = 0; k < wide; ++k) one[k] += taps[d] * (m[-d][x + k] + m[d][x + k]);
        for (Index k = 0; k < wide; ++k) two[k] += taps[d] * (r[-d][x + k] + r[d][x + k]);
    }
    std::copy(one, one + wide, moved);
    std::copy(two, two + wide, kept);
}

struct Jittered {
    std::vector<float> moved;  // mass that jitters to each pixel of the region
    std::vector<float> kept;   // share of each pixel's mass that stays within reach
};

Jittered jitter(const Stretches &region, const std::vector<float> &values, const Frame &frame,
                const Law &law) {
    const Nearby nearby(region, law.reach);
    const Steps steps(region.columns(), law);
    Lines mass(region.columns(), law.radius), reach(region.columns(), law.radius);
    const std::vector<float> none(values.size() + kWide);
    Jittered out{none, none};
    for (Index y = -2 * law.radius; y < region.rows(); ++y) {
        const Index below = y + law.radius, row = below + frame.top;
        const bool filled = !region.row(below).empty();
        float *line = mass.next(filled);
        if (filled) blur_mass(region, below, values.data(), law, line);
        const bool close = row >= 0 && row < frame.height && nearby.has(below);
        line = reach.next(close);
        if (close)
            nearby.each(below, [&](Index begin, Index end) {
                const Index right = frame.width - frame.left;
                steps.add(std::max(begin, -frame.left), std::min(end, right), line);
            });
        if (region.row(y).empty()) continue;
        const auto m = mass.all(), r = reach.all();
        for (const Stretch &s : region.row(y)) {
            // What is written past the end of a stretch is overwritten by the next one.
            float *moved = out.moved.data() + s.first, *kept = out.kept.data() + s.first;
            Index x = 0;
            for (; x + kWide <= s.length(); x += kWide)
                blur_columns<kWide>(m, r, law, s.begin + x, moved + x, kept + x);
            for (; x < s.length(); x += 4)
                blur_columns<4>(m, r, law, s.begin + x, moved + x, kept + x);
        }
    }
    return out;
}

}  // namespace

std::vector<float> prior_of(const Stretches &region, const Frame &frame, const Law &law) {
    std::vector<float> values = steady(region, law);
    if (!(law.sloppy > 0) || law.radius < 0) return values;
    const Jittered jittered = jitter(region, values, frame, law);
    double within = 0;
    for (size_t i = 0; i < values.size(); ++i)
        within += static_cast<double>(values[i]) * static_cast<double>(jittered.kept[i]);
    const float sloppy = static_cast<float>(law.sloppy), rest = static_cast<float>(1 - law.sloppy);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = rest * values[i] + sloppy * (jittered.moved[i] / static_cast<float>(within));
    return values;
}
