// The compiled module: one line a kernel.

#include "kernels.h"

NB_MODULE(_kernels, m) {
    bind_box(m);
    bind_clicks(m);
    bind_components(m);
    bind_depth(m);
    bind_draws(m);
    bind_enlarging(m);
    bind_erosion(m);
    bind_limits(m);
    bind_matching(m);
    bind_overlap(m);
    bind_prior(m);
    bind_runs(m);
    bind_suppression(m);
    bind_tables(m);
    bind_thinning(m);
    bind_volume_distances(m);
}
