// Softmax of groups of few columns, in place: a thread each.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "push/softmax.glsl"

void main() {
    const uint row = gl_GlobalInvocationID.x / groups, from = row * width + gl_GlobalInvocationID.x % groups * stride;
    if (row >= params.w[STEP_ROWS]) return;
    float most = x.v[from], sum = 0.0;
    for (uint i = 1; i < len; i++) most = max(most, x.v[from + i]);
    for (uint i = 0; i < len; i++) sum += exp(x.v[from + i] - most);
    for (uint i = 0; i < len; i++) x.v[from + i] = exp(x.v[from + i] - most) / sum;
}
