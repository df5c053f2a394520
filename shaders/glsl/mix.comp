// y = sums of groups of columns, by numbers of the row: a thread for each column out.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ADD = 0; // 1: to what is there
#include "push/mix.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, at = gl_GlobalInvocationID.x, g = at / len, i = at % len;
    if (row >= params.w[STEP_ROWS] || g >= to) return;
    const uint out_at = row * y_width + g * y_stride + i;
    float sum = ADD == 1 ? y.v[out_at] : 0.0;
    for (uint j = 0; j < from; j++) sum += by.v[row * by_width + j * by_stride + g] * x.v[row * x_width + j * x_stride + i];
    y.v[out_at] = sum;
}
