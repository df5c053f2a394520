// Each row's shares by its softmax: a workgroup each.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_softmax.glsl"
#include "lib/tower.glsl"

void main() {
    const uint row = number_of_group();
    if (row >= count) return;
    float best = -3.4e38, sum = 0.0;
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) best = max(best, x.v[row * cols + c]);
    best = workgroup_max(best);
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) sum += exp(x.v[row * cols + c] - best);
    sum = workgroup_sum(sum);
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) {
        y.v[row * cols + c] = exp(x.v[row * cols + c] - best) / sum;
    }
}
