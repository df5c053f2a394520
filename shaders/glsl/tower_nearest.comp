// Of each row what stands beside the code at the smallest distance, of equal ones the first: a workgroup each.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_nearest.glsl"
#include "lib/tower.glsl"

void main() {
    const uint row = number_of_group();
    if (row >= count) return;
    float least = 3.4e38;
    uint code = n_codes;
    for (uint i = gl_LocalInvocationID.x; i < n_codes; i += gl_WorkGroupSize.x) {
        float distance = 0.0;
        for (uint c = 0; c < cols; c++) {
            const float off = codes.v[i * cols + c] - x.v[row * cols + c];
            distance += off * off;
        }
        if (distance < least || code == n_codes) {
            least = distance;
            code = i;
        }
    }
    const float best = -workgroup_max(code < n_codes ? -least : -3.4e38);
    // Numbers of codes are small enough for floats to tell them apart.
    const uint chosen = uint(-workgroup_max(code < n_codes && least <= best ? -float(code) : -16777216.0));
    for (uint c = gl_LocalInvocationID.x; c < y_cols; c += gl_WorkGroupSize.x) {
        y.v[row * y_cols + c] = values.v[min(chosen, n_codes - 1) * y_cols + c];
    }
}
