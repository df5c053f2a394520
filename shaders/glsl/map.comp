// y = scale * act(a) + b, or * b, number by number: a thread each, of groups of columns of a row.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ACT = 0;
layout(constant_id = 2) const uint TIMES = 0;       // 1: * b
layout(constant_id = 3) const uint A_KIND = 0;      // OPERAND_*
layout(constant_id = 4) const uint B_KIND = 0;
layout(constant_id = 5) const uint OUTPUT_ROWS = 0; // 1: a row for each output row
#include "push/map.glsl"
#include "lib/act.glsl"
#include "lib/operand.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, at = gl_GlobalInvocationID.x, g = at / len, i = at % len;
    if (row >= params.w[OUTPUT_ROWS == 1 ? STEP_OUTPUTS : STEP_ROWS] || g >= groups) return;
    const float x = operand(A_KIND, a, row, g, i, len, a_stride, a_width, a_number);
    const float other = operand(B_KIND, b, row, g, i, len, b_stride, b_width, b_number);
    const float scaled = scale * acted(ACT, x, vec4(p[0], p[1], p[2], p[3]));
    y.v[row * y_width + g * y_stride + i] = TIMES == 1 ? scaled * other : scaled + other;
}
