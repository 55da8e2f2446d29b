// One-to-one matching of boundary pixels: as many pairs as can be, then the least distance.
//
// Left and right pixels may pair when they lie within reach. A maximum matching tells which
// pixels can be left over; it splits the pixels into two parts in each of which one side, the
// rows, is matched completely by every best answer (Dulmage and Mendelsohn). In each part
// shortest augmenting paths with prices (Jonker and Volgenant) give the least total distance.
// The plain twin, measures/matching.py, takes the same steps in the same order.

#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <vector>

namespace {

using Node = std::int32_t;
using Nodes = std::vector<Node>;
using Places = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Partners = nb::ndarray<nb::numpy, Node, nb::ndim<1>>;

constexpr Node none = -1;
constexpr Node far = 1 << 30;
constexpr int bidding_rounds = 2;

size_t at(Node n) { return static_cast<size_t>(n); }

// Who may pair with whom, and at what cost: for each node a stretch of `to` and `cost`.
struct Graph {
    Nodes first{0};
    Nodes to;
    Nodes cost;

    Node nodes() const { return static_cast<Node>(first.size()) - 1; }
    Node begin(Node n) const { return first[at(n)]; }
    Node end(Node n) const { return first[at(n) + 1]; }
};

// Pairs within reach, in row-major order of both ends; cost is the distance in hundredths.
Graph candidates(const std::int64_t *left, Node lefts, const std::int64_t *right, Node rights,
                 std::int64_t width, std::int64_t reach_squared) {
    const auto reach = static_cast<Node>(std::sqrt(static_cast<double>(reach_squared)) + 1e-9);
    Nodes cost(static_cast<size_t>(reach_squared) + 1), half(at(reach) + 1);
    for (size_t d = 0; d < cost.size(); ++d)
        cost[d] = static_cast<Node>(std::nearbyint(100.0 * std::sqrt(static_cast<double>(d))));
    for (Node dy = 0; dy <= reach; ++dy)
        half[at(dy)] = static_cast<Node>(
            std::sqrt(static_cast<double>(reach_squared - std::int64_t{dy} * dy)) + 1e-9);

    Nodes row(at(rights)), column(at(rights)), next(at(2 * reach + 1), 0);
    for (Node r = 0; r < rights; ++r) {
        row[at(r)] = static_cast<Node>(right[r] / width);
        column[at(r)] = static_cast<Node>(right[r] % width);
    }
    Graph graph;
    graph.first.reserve(at(lefts) + 1);
    graph.to.reserve(at(lefts) * 12);
    graph.cost.reserve(at(lefts) * 12);
    for (Node l = 0; l < lefts; ++l) {
        const auto y = static_cast<Node>(left[l] / width), x = static_cast<Node>(left[l] % width);
        for (Node dy = -reach; dy <= reach; ++dy) {
            const Node w = half[at(std::abs(dy))];
            // Lefts come in raster order, so the first right in sight only moves on.
            Node &from = next[at(dy + reach)];
            while (from < rights && (row[at(from)] < y + dy ||
                                     (row[at(from)] == y + dy && column[at(from)] < x - w)))
                ++from;
            for (Node r = from; r < rights && row[at(r)] == y + dy && column[at(r)] <= x + w; ++r) {
                const Node dx = column[at(r)] - x;
                graph.to.push_back(r);
                graph.cost.push_back(cost[at(dx * dx + dy * dy)]);
            }
        }
        graph.first.push_back(static_cast<Node>(graph.to.size()));
    }
    return graph;
}

// Any maximum matching, by shortest alternating paths from each free left node. What a search
// that fails has seen can help no later search and is retired: these are the left nodes that
// some maximum matching leaves over.
class Maximum {
public:
    Maximum(const Graph &graph, Node rights)
        : left(at(graph.nodes()), none), right(at(rights), none), spare(at(graph.nodes()), 0),
          graph_(graph), seen_(at(graph.nodes()), none), before_(at(graph.nodes())) {
        take_the_nearest_free();
        for (Node l = 0; l < graph_.nodes(); ++l)
            if (left[at(l)] == none) search(l);
    }

    Nodes left, right;
    std::vector<char> spare;

private:
    const Graph &graph_;
    Nodes seen_, before_, queue_;  // `seen_` holds the start of the search that came last

    void take_the_nearest_free() {
        for (Node l = 0; l < graph_.nodes(); ++l) {
            Node best = none, least = far;
            for (Node e = graph_.begin(l); e < graph_.end(l); ++e)
                if (right[at(graph_.to[at(e)])] == none && graph_.cost[at(e)] < least)
                    least = graph_.cost[at(e)], best = graph_.to[at(e)];
            if (best != none) left[at(l)] = best, right[at(best)] = l;
        }
    }

    void search(Node start) {
        queue_.assign(1, start);
        seen_[at(start)] = start;
        for (size_t head = 0; head < queue_.size(); ++head) {
            const Node l = queue_[head];
            for (Node e = graph_.begin(l); e < graph_.end(l); ++e) {
                const Node r = graph_.to[at(e)], owner = right[at(r)];
                if (owner == none) return flip(start, l, r);
                if (seen_[at(owner)] == start || spare[at(owner)]) continue;
                seen_[at(owner)] = start;
                before_[at(owner)] = l;
                queue_.push_back(owner);
            }
        }
        for (const Node l : queue_) spare[at(l)] = 1;
    }

    // Hand each left node on the path the right node of the next.
    void flip(Node start, Node l, Node r) {
        while (true) {
            const Node given = left[at(l)];
            left[at(l)] = r;
            right[at(r)] = l;
            if (l == start) return;
            l = before_[at(l)];
            r = given;
        }
    }
};

// The cheapest assignment that gives every row a column of its own.
class Assignment {
public:
    Assignment(const Graph &graph, Node columns)
        : graph_(graph), column_of(at(graph.nodes()), none), row_of(at(columns), none),
          price_(at(columns), 0), distance_(at(columns), far), from_(at(columns)),
          step_(at(columns)), cost_of_(at(columns)) {
        Nodes waiting;
        for (Node row = 0; row < graph_.nodes(); ++row)
            if (graph_.begin(row) < graph_.end(row)) waiting.push_back(row);
        for (int round = 0; round < bidding_rounds; ++round) waiting = bid(waiting);
        for (const Node row : waiting) find_place(row);
    }

private:
    const Graph &graph_;

public:
    Nodes column_of, row_of;

private:
    // Of each column: its price; in a search how far it is, from which row and at what cost;
    // and what it costs the row that has it.
    Nodes price_, distance_, from_, step_, cost_of_;
    Nodes touched_, settled_;
    std::vector<std::uint64_t> heap_;

    // Each waiting row takes its cheapest column and lowers the price to its second choice.
    // A column worth no more to it than the next stays with its owner. Rows left without one
    // come back in the order they lost.
    Nodes bid(const Nodes &waiting) {
        Nodes lost;
        for (const Node row : waiting) {
            Node first = none, least = far, second = none, next = far;
            for (Node e = graph_.begin(row); e < graph_.end(row); ++e) {
                const Node column = graph_.to[at(e)];
                const Node cost = graph_.cost[at(e)] - price_[at(column)];
                if (cost < least) {
                    second = first, next = least;
                    first = column, least = cost;
                } else if (cost < next) {
                    second = column, next = cost;
                }
            }
            if (next == least && row_of[at(first)] != none) std::swap(first, second);
            const Node owner = row_of[at(first)];
            if (owner != none && (next == least || next == far)) {
                lost.push_back(row);
                continue;
            }
            cost_of_[at(first)] = least + price_[at(first)];
            if (owner != none) {
                column_of[at(owner)] = none;
                lost.push_back(owner);
                price_[at(first)] -= next - least;
            }
            row_of[at(first)] = row;
            column_of[at(row)] = first;
        }
        return lost;
    }

    // Dijkstra from a row over columns in order of (distance, number) to the first free one.
    void find_place(Node start) {
        touched_.clear();
        settled_.clear();
        heap_.clear();
        Node goal = none, limit = far, row = start, so_far = 0;
        while (true) {
            scan(row, so_far, goal, limit);
            Node column = none;
            while (!heap_.empty() && column == none) {
                const std::uint64_t top = heap_.front();
                std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
                heap_.pop_back();
                const auto distance = static_cast<Node>(top >> 32);
                const auto popped = static_cast<Node>(top & 0xffffffffu);
                if (distance >= limit) heap_.clear();
                else if (distance == distance_[at(popped)]) column = popped;
            }
            if (column == none) break;
            settled_.push_back(column);
            row = row_of[at(column)];
            so_far = distance_[at(column)];
        }
        for (const Node column : settled_) price_[at(column)] += distance_[at(column)] - limit;
        for (Node column = goal; column != none;) {
            const Node giver = from_[at(column)];
            const Node before = column_of[at(giver)];
            row_of[at(column)] = giver;
            column_of[at(giver)] = column;
            cost_of_[at(column)] = step_[at(column)];
            column = giver == start ? none : before;
        }
        for (const Node column : touched_) distance_[at(column)] = far;
    }

    void scan(Node row, Node so_far, Node &goal, Node &limit) {
        const Node mine = column_of[at(row)];
        const Node worth = mine == none ? 0 : cost_of_[at(mine)] - price_[at(mine)];
        for (Node e = graph_.begin(row); e < graph_.end(row); ++e) {
            const Node column = graph_.to[at(e)];
            const Node distance = so_far + graph_.cost[at(e)] - price_[at(column)] - worth;
            if (distance >= limit || distance >= distance_[at(column)]) continue;
            if (distance_[at(column)] == far) touched_.push_back(column);
            distance_[at(column)] = distance;
            from_[at(column)] = row;
            step_[at(column)] = graph_.cost[at(e)];
            if (row_of[at(column)] == none) {
                limit = distance;
                goal = column;
            } else {
                heap_.push_back(static_cast<std::uint64_t>(distance) << 32 |
                                static_cast<std::uint32_t>(column));
                std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
            }
        }
    }
};

// The edges whose left end is (or is not) dispensable and whose right end is matched so,
// turned round when the right nodes are to be the rows.
Graph part(const Graph &whole, const std::vector<char> &keep_left, bool kept,
           const std::vector<char> &keep_right, Node rights, bool turned) {
    Graph out;
    const auto inside = [&](Node l, Node e) {
        return (keep_left[at(l)] != 0) == kept && (keep_right[at(whole.to[at(e)])] != 0) == kept;
    };
    if (!turned) {
        out.to.reserve(whole.to.size());
        out.cost.reserve(whole.to.size());
        for (Node l = 0; l < whole.nodes(); ++l) {
            for (Node e = whole.begin(l); e < whole.end(l); ++e)
                if (inside(l, e)) {
                    out.to.push_back(whole.to[at(e)]);
                    out.cost.push_back(whole.cost[at(e)]);
                }
            out.first.push_back(static_cast<Node>(out.to.size()));
        }
        return out;
    }
    out.first.assign(at(rights) + 1, 0);
    for (Node l = 0; l < whole.nodes(); ++l)
        for (Node e = whole.begin(l); e < whole.end(l); ++e)
            if (inside(l, e)) ++out.first[at(whole.to[at(e)]) + 1];
    for (Node r = 0; r < rights; ++r) out.first[at(r) + 1] += out.first[at(r)];
    Nodes next(out.first.begin(), out.first.end() - 1);
    out.to.resize(at(out.first.back()));
    out.cost.resize(out.to.size());
    for (Node l = 0; l < whole.nodes(); ++l)
        for (Node e = whole.begin(l); e < whole.end(l); ++e)
            if (inside(l, e)) {
                const Node place = next[at(whole.to[at(e)])]++;
                out.to[at(place)] = l;
                out.cost[at(place)] = whole.cost[at(e)];
            }
    return out;
}

// Every second row looks at its columns from the last, so that ties lean neither way.
Graph even_handed(Graph graph) {
    for (Node row = 1; row < graph.nodes(); row += 2) {
        std::reverse(graph.to.begin() + graph.begin(row), graph.to.begin() + graph.end(row));
        std::reverse(graph.cost.begin() + graph.begin(row), graph.cost.begin() + graph.end(row));
    }
    return graph;
}

Nodes partners(const Graph &graph, Node rights) {
    const Maximum maximum(graph, rights);
    const std::vector<char> &spare = maximum.spare;
    // A right node's part is its partner's; a free one belongs to the part of needed lefts.
    std::vector<char> scarce(at(rights), 0);
    for (Node l = 0; l < graph.nodes(); ++l)
        if (spare[at(l)] && maximum.left[at(l)] != none) scarce[at(maximum.left[at(l)])] = 1;

    const Graph needed = even_handed(part(graph, spare, false, scarce, rights, false));
    Nodes result = Assignment(needed, rights).column_of;
    const Graph contested = even_handed(part(graph, spare, true, scarce, rights, true));
    const Assignment chosen(contested, graph.nodes());
    for (Node l = 0; l < graph.nodes(); ++l)
        if (chosen.row_of[at(l)] != none) result[at(l)] = chosen.row_of[at(l)];
    return result;
}

Partners match(Places left, Places right, std::int64_t width, std::int64_t reach_squared) {
    const auto lefts = static_cast<Node>(left.shape(0)), rights = static_cast<Node>(right.shape(0));
    auto *found = new Nodes();
    nb::capsule owner(found, [](void *p) noexcept { delete static_cast<Nodes *>(p); });
    {
        nb::gil_scoped_release free;
        const Graph graph =
            candidates(left.data(), lefts, right.data(), rights, width, reach_squared);
        *found = partners(graph, rights);
    }
    return {found->data(), {found->size()}, owner};
}

}  // namespace

void bind_matching(nb::module_ &m) {
    m.def("match_pixels", &match, nb::arg("left"), nb::arg("right"), nb::arg("width"),
          nb::arg("reach_squared"),
          "For each left pixel its right partner's number, or -1; pixels are sorted raster "
          "indices in an image of the given width.");
}
