// y [n, dim] += the row of a matrix for each row's position: a workgroup each.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
#include "push/positions.glsl"

void main() {
    WEIGHT_INIT
    const uint row = gl_WorkGroupID.x;
    if (row >= params.w[STEP_ROWS]) return;
    Line line = line_of(w, step_rope(params, row) % positions, dim);
    for (uint c = gl_LocalInvocationID.x; c < dim / CHUNK; c += gl_WorkGroupSize.x) {
        Decoded d = weight_decode(line, c);
        [[unroll]] for (uint i = 0; i < GROUPS; i++) y.v[(row * dim + chunk_col(c, i)) / 4] += group_values(d, i);
    }
}
