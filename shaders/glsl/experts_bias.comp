// y += the biases of a row's experts, side by side: [n, USED * m]. A thread for each output.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint USED = 1;
#include "push/experts_bias.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x, width = USED * m;
    if (row >= params.w[STEP_ROWS] || i >= width) return;
    const uint from = row * 4 * USED;
    y.v[row * width + i] += bias.v[floatBitsToUint(route.v[from + i / m]) * m + i % m];
}
