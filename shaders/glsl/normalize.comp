// A norm of each group of columns of a row, by NORM_*, times weights, plus biases: a workgroup each.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KIND = 0;
layout(constant_id = 2) const uint WEIGHTED = 0;
layout(constant_id = 3) const uint BIASED = 0;
layout(constant_id = 4) const uint OUTPUT_ROWS = 0; // 1: a row for each output row, of x's row of the same number; 2: of the step's row
#include "words/general.glsl"
#include "push/normalize.glsl"

void main() {
    const uint row = gl_WorkGroupID.x, g = gl_WorkGroupID.y, t = gl_LocalInvocationID.x;
    if (row >= params.w[OUTPUT_ROWS > 0 ? STEP_OUTPUTS : STEP_ROWS]) return;
    const uint from = (OUTPUT_ROWS == 2 ? step_output(params, row) : row) * x_width + g * x_stride;
    float sum = 0.0, mean = 0.0;
    if (KIND == NORM_LAYER) {
        for (uint i = t; i < len; i += gl_WorkGroupSize.x) sum += x.v[from + i];
        mean = workgroup_sum(sum) / float(len);
        sum = 0.0;
    }
    for (uint i = t; i < len; i += gl_WorkGroupSize.x) sum += (x.v[from + i] - mean) * (x.v[from + i] - mean);
    sum = workgroup_sum(sum);
    const float by = KIND == NORM_L2 ? 1.0 / max(sqrt(sum), eps) : 1.0 / sqrt(sum / float(len) + eps);
    for (uint i = t; i < len; i += gl_WorkGroupSize.x) {
        float v = (x.v[from + i] - mean) * by;
        if (WEIGHTED == 1) v *= weight.v[g * len % weights + i];
        if (BIASED == 1) v += bias.v[g * len % biases + i];
        y.v[row * y_width + g * y_stride + i] = v;
    }
}
