// Shared-pixel tables: numbering the regions of a label map, and counting which pixels two
// numbered maps have in common. Both work on runs of equal labels along the scan, since
// neighbours mostly agree.

#include "kernels.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace {

using Index = std::int64_t;
using Numbers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> handed_over(std::vector<T> &&values) {
    auto *kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return {kept->data(), {kept->size()}, owner};
}

// Labels below this are looked up in an array, larger ones in a hash map.
constexpr std::int64_t kSmall = 1 << 16;

// Each label's number, in order of first appearance.
class Numbering {
  public:
    std::int32_t operator[](std::int64_t label) {
        if (label >= 0 && label < kSmall) {
            if (static_cast<size_t>(label) >= small_.size())
                small_.resize(static_cast<size_t>(label) + 1, -1);
            std::int32_t &slot = small_[static_cast<size_t>(label)];
            if (slot < 0) slot = next_++;
            return slot;
        }
        const auto [place, fresh] = large_.try_emplace(label, next_);
        if (fresh) ++next_;
        return place->second;
    }
    std::int32_t count() const { return next_; }

  private:
    std::vector<std::int32_t> small_;
    std::unordered_map<std::int64_t, std::int32_t> large_;
    std::int32_t next_ = 0;
};

template <typename T>
nb::tuple number_regions(
    nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> labels) {
    const auto pixels = static_cast<Index>(labels.shape(0));
    const T *in = labels.data();
    std::vector<std::int32_t> numbers(static_cast<size_t>(pixels));
    std::vector<std::int64_t> areas;
    {
        nb::gil_scoped_release free;
        Numbering numbering;
        for (Index begin = 0, end; begin < pixels; begin = end) {
            for (end = begin + 1; end < pixels && in[end] == in[begin];) ++end;
            const std::int32_t number = numbering[static_cast<std::int64_t>(in[begin])];
            if (static_cast<size_t>(numbering.count()) > areas.size()) areas.push_back(0);
            areas[static_cast<size_t>(number)] += end - begin;
            std::fill(numbers.begin() + begin, numbers.begin() + end, number);
        }
    }
    return nb::make_tuple(handed_over(std::move(numbers)), handed_over(std::move(areas)));
}

struct Run {
    std::int32_t column;
    std::int32_t length;
};

// Cells in order of row, then column.
nb::tuple shared_pixels(Numbers row_numbers, Numbers column_numbers, Index rows, Index columns) {
    const auto pixels = static_cast<Index>(row_numbers.shape(0));
    const std::int32_t *in_row = row_numbers.data(), *in_column = column_numbers.data();
    std::vector<std::int32_t> cell_rows, cell_columns;
    std::vector<std::int64_t> counts;
    {
        nb::gil_scoped_release free;
        std::vector<std::int32_t> run_rows;
        std::vector<Run> runs;
        std::vector<Index> first(static_cast<size_t>(rows) + 1, 0);
        for (Index begin = 0, end; begin < pixels; begin = end) {
            const std::int32_t i = in_row[begin], j = in_column[begin];
            for (end = begin + 1; end < pixels && in_row[end] == i && in_column[end] == j;) ++end;
            run_rows.push_back(i);
            runs.push_back({j, static_cast<std::int32_t>(end - begin)});
            ++first[static_cast<size_t>(i) + 1];
        }
        for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
        std::vector<Run> sorted(runs.size());
        std::vector<Index> place(first.begin(), first.end() - 1);
        for (size_t k = 0; k < runs.size(); ++k)
            sorted[static_cast<size_t>(place[static_cast<size_t>(run_rows[k])]++)] = runs[k];
        std::vector<std::int64_t> shared(static_cast<size_t>(columns), 0);
        std::vector<std::int32_t> touched;
        for (Index i = 0; i < rows; ++i) {
            touched.clear();
            for (Index k = first[static_cast<size_t>(i)]; k < first[static_cast<size_t>(i) + 1]; ++k) {
                const Run &run = sorted[static_cast<size_t>(k)];
                auto &count = shared[static_cast<size_t>(run.column)];
                if (count == 0) touched.push_back(run.column);
                count += run.length;
            }
            std::sort(touched.begin(), touched.end());
            for (const std::int32_t j : touched) {
                cell_rows.push_back(static_cast<std::int32_t>(i));
                cell_columns.push_back(j);
                counts.push_back(shared[static_cast<size_t>(j)]);
                shared[static_cast<size_t>(j)] = 0;
            }
        }
    }
    return nb::make_tuple(handed_over(std::move(cell_rows)), handed_over(std::move(cell_columns)),
                          handed_over(std::move(counts)));
}

}  // namespace

void bind_tables(nb::module_ &m) {
    constexpr const char *text = "Numbers by first appearance, and the area of each.";
    m.def("number_regions", &number_regions<std::uint8_t>, nb::arg("labels").noconvert(), text);
    m.def("number_regions", &number_regions<std::uint16_t>, nb::arg("labels").noconvert(), text);
    m.def("number_regions", &number_regions<std::int32_t>, nb::arg("labels").noconvert(), text);
    m.def("number_regions", &number_regions<std::int64_t>, nb::arg("labels").noconvert(), text);
    m.def("shared_pixels", &shared_pixels, nb::arg("row_numbers"), nb::arg("column_numbers"),
          nb::arg("rows"), nb::arg("columns"), "Non-zero cells as rows, columns and counts.");
}
