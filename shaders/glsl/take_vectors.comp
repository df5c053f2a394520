// y [n, dim] = columns of the vector that a row is, or += them; rows that are none stay. A thread per column.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ADD = 0;
#include "push/take_vectors.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (row >= params.w[STEP_ROWS] || c >= dim) return;
    const uint vector = step_medium(params, row, MEDIUM_VECTOR);
    if (vector == 0) return;
    const float x = vectors.v[(vector - 1) * width + at + c];
    y.v[row * dim + c] = ADD == 1 ? y.v[row * dim + c] + x : x;
}
