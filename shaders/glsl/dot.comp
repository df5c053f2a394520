// y = act(scale * sum of a * b) of each group of columns of a row: a workgroup each.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ACT = 0;
layout(constant_id = 2) const uint A_KIND = 0; // OPERAND_*
layout(constant_id = 3) const uint B_KIND = 0;
#include "push/dot.glsl"
#include "lib/act.glsl"
#include "lib/operand.glsl"

void main() {
    const uint row = gl_WorkGroupID.x, g = gl_WorkGroupID.y, t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_ROWS]) return;
    float sum = 0.0;
    for (uint i = t; i < len; i += gl_WorkGroupSize.x) {
        const float x = operand(A_KIND, a, row, g, i, len, a_stride, a_width, a_number);
        sum += x * operand(B_KIND, b, row, g, i, len, b_stride, b_width, b_number);
    }
    sum = workgroup_sum(sum);
    if (t == 0) y.v[row * y_width + g * y_stride] = acted(ACT, scale * sum, vec4(p[0], p[1], p[2], p[3]));
}
