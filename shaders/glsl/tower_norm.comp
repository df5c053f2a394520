// A norm of each group of columns of a row, times weights, plus biases: a workgroup each. A thread writes only what it alone reads,
// so that rows out may be those in.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_norm.glsl"
#include "lib/tower.glsl"

void main() {
    const uint group = number_of_group();
    if (group >= count) return;
    const uint row = group / groups, at = group % groups * len, from = row * x_stride + at, to = row * y_stride + at;
    float mean = 0.0;
    if (layer == 1) {
        float sum = 0.0;
        for (uint i = gl_LocalInvocationID.x; i < len; i += gl_WorkGroupSize.x) sum += x.v[from + i];
        mean = workgroup_sum(sum) / float(len);
    }
    float square = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < len; i += gl_WorkGroupSize.x) {
        const float off = x.v[from + i] - mean;
        square += off * off;
    }
    const float by = 1.0 / sqrt(workgroup_sum(square) / float(len) + eps);
    for (uint i = gl_LocalInvocationID.x; i < len; i += gl_WorkGroupSize.x) {
        float value = (x.v[from + i] - mean) * by;
        if (weights > 0) value *= weight.v[(at + i) % weights];
        if (biases > 0) value += bias.v[(at + i) % biases];
        y.v[to + i] = value;
    }
}
