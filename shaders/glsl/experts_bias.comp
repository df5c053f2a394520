// y += the biases of a row's experts: side by side [n, USED * m], or their weighted sum [n, m]. A thread for each output.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint USED = 1;
layout(constant_id = 2) const uint SUMMED = 0;
#include "push/experts_bias.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x, width = SUMMED == 1 ? m : USED * m;
    if (row >= params.w[STEP_ROWS] || i >= width) return;
    const uint from = row * 4 * USED;
    float sum = y.v[row * width + i];
    if (SUMMED == 1) {
        for (uint k = 0; k < USED; k++) sum += route.v[from + USED + k] * bias.v[floatBitsToUint(route.v[from + k]) * m + i];
    } else {
        sum += bias.v[floatBitsToUint(route.v[from + i / m]) * m + i % m];
    }
    y.v[row * width + i] = sum;
}
