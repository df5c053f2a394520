// y = x / sqrt(mean(x^2) + eps) * weight, one row per workgroup: [n, dim] -> [n, dim], or the output rows -> [w, dim].
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OUTPUT_ROWS = 0; // 1: take the output rows only
#include "push/rms_norm.glsl"

void main() {
    uint row = gl_WorkGroupID.x, from = row;
    if (row >= params.w[OUTPUT_ROWS == 1 ? STEP_OUTPUTS : STEP_ROWS]) return;
    if (OUTPUT_ROWS == 1) from = step_output(params, row);
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < dim / 4; i += gl_WorkGroupSize.x) {
        vec4 v = x.v[from * (dim / 4) + i];
        sum += dot(v, v);
    }
    float scale = 1.0 / sqrt(workgroup_sum(sum) / float(dim) + eps);
    for (uint i = gl_LocalInvocationID.x; i < dim / 4; i += gl_WorkGroupSize.x)
        y.v[row * (dim / 4) + i] = x.v[from * (dim / 4) + i] * scale * weight.v[i];
}
