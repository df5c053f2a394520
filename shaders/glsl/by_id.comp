// y [n, len] = columns that a short list has for each row's id. A thread per column.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "push/by_id.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (row >= params.w[STEP_ROWS] || c >= len) return;
    uint id = step_token(params, row), entry = 0;
    if (id == TOKEN_SAMPLED) id = sampled.v[step_seq(params, row)];
    for (uint i = entries - 1; i > 0; i--) entry = uint(list.v[i * (1 + len)]) == id ? i : entry;
    y.v[row * len + c] = list.v[entry * (1 + len) + 1 + c];
}
