// sums [k] += column sums of x² over the step's rows; a thread owns four columns.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
    F32x4 x;    // [n, k]
    F32x4 sums; // [k]
    Step params;
    uint k;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= k / 4) return;
    vec4 sum = sums.v[i];
    for (uint row = 0; row < params.w[STEP_ROWS]; row++) {
        vec4 a = x.v[row * (k / 4) + i];
        sum += a * a;
    }
    sums.v[i] = sum;
}
