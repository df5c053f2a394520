// y [n, m] += the products of each row's experts [n, USED, m], which are weighted already.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint USED = 1;
#include "push/moe_combine.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (row >= params.w[STEP_ROWS] || i >= m / 4) return;
    vec4 sum = y.v[row * (m / 4) + i];
    for (uint slot = 0; slot < USED; slot++) sum += x.v[(row * USED + slot) * (m / 4) + i];
    y.v[row * (m / 4) + i] = sum;
}
