// Clicks: quadrant counts, and exact transport between point sets.

#include "kernels.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using Index = std::int64_t;
using Points = nb::ndarray<const double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const Index, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<std::int32_t, nb::shape<6, -1>, nb::c_contig, nb::device::cpu>;
using Costs = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Counts of what was added at or below a rank, of both samples in one word: the first sample in
// its lower half, the second in its upper one.
class Fenwick {
public:
    explicit Fenwick(size_t ranks) : tree_(ranks + 1, 0) {}
    void add(size_t rank, std::uint64_t one) {
        for (size_t i = rank + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += one;
    }
    std::uint64_t upto(size_t rank) const {
        std::uint64_t sum = 0;
        for (size_t i = rank + 1; i > 0; i -= i & (~i + 1)) sum += tree_[i];
        return sum;
    }

private:
    std::vector<std::uint64_t> tree_;
};

// For every point of two samples, the first's `n` first, six counts: how many of the first sample
// lie at or below it in both coordinates, in the first one, in the second one; then the same of
// the second sample. One sweep along the first coordinate for all of them; `across` and `up` are
// the points in the order of their first and second coordinate.
void quadrants(Points points, size_t n, Order across, Order up, Table out) {
    const size_t all = points.shape(0);
    const double *at = points.data();
    const Index *by_first = across.data(), *by_second = up.data();
    std::int32_t *count = out.data();
    nb::gil_scoped_release free;
    const auto is_second = [n](Index p) { return static_cast<size_t>(p) >= n; };
    std::vector<std::uint32_t> rank(all);
    std::int32_t seen[2] = {0, 0};
    for (size_t i = 0, r = 0; i < all; ++r) {
        const double value = at[2 * by_second[i] + 1];
        size_t end = i;
        for (; end < all && at[2 * by_second[end] + 1] == value; ++end) {
            ++seen[is_second(by_second[end])];
        }
        for (; i < end; ++i) {
            const Index p = by_second[i];
            rank[p] = static_cast<std::uint32_t>(r);
            count[2 * all + p] = seen[0];
            count[5 * all + p] = seen[1];
        }
    }
    Fenwick below(all);
    seen[0] = seen[1] = 0;
    for (size_t i = 0; i < all;) {
        const double value = at[2 * by_first[i]];
        size_t end = i;
        for (; end < all && at[2 * by_first[end]] == value; ++end) {
            const Index p = by_first[end];
            ++seen[is_second(p)];
            below.add(rank[p], is_second(p) ? std::uint64_t{1} << 32 : 1);
        }
        for (; i < end; ++i) {
            const Index p = by_first[i];
            const std::uint64_t both = below.upto(rank[p]);
            count[p] = static_cast<std::int32_t>(both);
            count[3 * all + p] = static_cast<std::int32_t>(both >> 32);
            count[all + p] = seen[0];
            count[4 * all + p] = seen[1];
        }
    }
}

// Cheapest way to move equal weights of n sources to equal weights of m sinks: shortest
// augmenting paths with potentials on whole numbers, each source holding m / g units and each
// sink wanting n / g of them (g their greatest common divisor). Returns cost per unit.
double transport(Costs costs) {
    const Index n = static_cast<Index>(costs.shape(0)), m = static_cast<Index>(costs.shape(1));
    const double *cost = costs.data();
    nb::gil_scoped_release free;
    const Index divisor = std::gcd(n, m);
    std::vector<Index> supply(static_cast<size_t>(n), m / divisor);
    std::vector<Index> demand(static_cast<size_t>(m), n / divisor);
    std::vector<Index> flow(static_cast<size_t>(n * m), 0);
    std::vector<double> of_source(static_cast<size_t>(n), 0.0), of_sink(static_cast<size_t>(m), 0.0);
    std::vector<double> near_source(static_cast<size_t>(n)), near_sink(static_cast<size_t>(m));
    std::vector<Index> from_sink(static_cast<size_t>(n)), from_source(static_cast<size_t>(m));
    std::vector<char> done_source(static_cast<size_t>(n)), done_sink(static_cast<size_t>(m));
    const double far = std::numeric_limits<double>::infinity();
    // Potentials that make the cheapest ways free: most paths then end at their first step.
    for (Index j = 0; j < m; ++j) {
        double least = far;
        for (Index i = 0; i < n; ++i) least = std::min(least, cost[i * m + j]);
        of_sink[j] = least;
    }
    for (Index i = 0; i < n; ++i) {
        double least = far;
        for (Index j = 0; j < m; ++j) least = std::min(least, cost[i * m + j] - of_sink[j]);
        of_source[i] = least;
    }
    for (Index start = 0; start < n; ++start) {
        while (supply[start] > 0) {
            std::fill(near_source.begin(), near_source.end(), far);
            std::fill(near_sink.begin(), near_sink.end(), far);
            std::fill(done_source.begin(), done_source.end(), 0);
            std::fill(done_sink.begin(), done_sink.end(), 0);
            near_source[start] = 0;
            from_sink[start] = -1;
            Index end = -1, source = start;
            double reach = 0;
            while (end < 0) {
                done_source[source] = 1;
                const double base = reach - of_source[source];
                const double *row = cost + source * m;
                for (Index j = 0; j < m; ++j) {
                    const double way = base + row[j] - of_sink[j];
                    if (!done_sink[j] && way < near_sink[j]) { near_sink[j] = way; from_source[j] = source; }
                }
                // Settle nodes in order of distance until the next source, or a sink in want.
                while (true) {
                    Index sink = -1;
                    double best = far;
                    for (Index j = 0; j < m; ++j)
                        if (!done_sink[j] && near_sink[j] < best) { best = near_sink[j]; sink = j; }
                    Index back = -1;
                    double best_back = far;
                    for (Index i = 0; i < n; ++i)
                        if (!done_source[i] && near_source[i] < best_back) {
                            best_back = near_source[i];
                            back = i;
                        }
                    if (back >= 0 && best_back <= best) {
                        source = back;
                        reach = best_back;
                        break;
                    }
                    done_sink[sink] = 1;
                    if (demand[sink] > 0) { end = sink; reach = best; break; }
                    for (Index i = 0; i < n; ++i)  // reduced cost along used edges is zero
                        if (!done_source[i] && flow[i * m + sink] > 0 && best < near_source[i]) {
                            near_source[i] = best;
                            from_sink[i] = sink;
                        }
                }
            }
            for (Index i = 0; i < n; ++i)
                if (done_source[i]) of_source[i] += reach - near_source[i];
            for (Index j = 0; j < m; ++j)
                if (done_sink[j]) of_sink[j] -= reach - near_sink[j];
            Index amount = std::min(supply[start], demand[end]);
            for (Index j = end;;) {
                const Index i = from_source[j];
                if (i == start) break;
                j = from_sink[i];
                amount = std::min(amount, flow[i * m + j]);
            }
            for (Index j = end;;) {
                const Index i = from_source[j];
                flow[i * m + j] += amount;
                if (i == start) break;
                j = from_sink[i];
                flow[i * m + j] -= amount;
            }
            supply[start] -= amount;
            demand[end] -= amount;
        }
    }
    double sum = 0;
    for (size_t k = 0; k < flow.size(); ++k) sum += cost[k] * static_cast<double>(flow[k]);
    return sum / (static_cast<double>(n) * static_cast<double>(m) / static_cast<double>(divisor));
}

}  // namespace

void bind_clicks(nb::module_ &m) {
    m.def("quadrants", &quadrants, nb::arg("points"), nb::arg("n"), nb::arg("across"),
          nb::arg("up"), nb::arg("out"),
          "How many of each sample lie at or below every point: in both coordinates, in each.");
    m.def("transport", &transport, nb::arg("costs"),
          "Least mean cost of moving equal weights of the rows to equal weights of the columns.");
}
