// Non-maximum suppression of boxes: of those that overlap too much the better one stays.

#include "kernels.h"

#include <algorithm>
#include <vector>

namespace {

template <typename Real>
using Corners = nb::ndarray<const Real, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Every step rounds as NumPy's does in the twin; the quotient is widened before it is compared.
template <typename Real>
bool above(const Real *a, const Real *b, double threshold) {
    const Real wide = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), Real(0));
    const Real high = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), Real(0));
    const Real shared = wide * high;
    const Real first = (a[2] - a[0]) * (a[3] - a[1]);
    const Real second = (b[2] - b[0]) * (b[3] - b[1]);
    return static_cast<double>(shared / (first + second - shared)) > threshold;
}

template <typename Real>
nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>> suppress(Corners<Real> boxes, Order order,
                                                           double threshold) {
    const Real *box = boxes.data();
    auto *kept = new std::vector<std::int64_t>();
    nb::capsule owner(kept, [](void *p) noexcept {
        delete static_cast<std::vector<std::int64_t> *>(p);
    });
    {
        nb::gil_scoped_release free;
        for (size_t k = 0; k < order.shape(0); ++k) {
            const std::int64_t one = order.data()[k];
            const bool dropped = std::any_of(kept->begin(), kept->end(), [&](std::int64_t better) {
                return above(box + 4 * better, box + 4 * one, threshold);
            });
            if (!dropped) kept->push_back(one);
        }
    }
    return nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

}  // namespace

void bind_suppression(nb::module_ &m) {
    m.def("suppress_boxes", &suppress<float>, nb::arg("boxes"), nb::arg("order"),
          nb::arg("threshold"), "Indices that stay, in the given order, in single precision.");
    m.def("suppress_boxes", &suppress<double>, nb::arg("boxes"), nb::arg("order"),
          nb::arg("threshold"), "The same in double precision.");
}
