// Columns of rows that end a block of their sequence -> what the layer keeps of the last blocks: a thread for each number.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "push/keep.glsl"
#include "lib/sequence.glsl"

void main() {
    const uint c = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (c >= len || row >= params.w[STEP_ROWS]) return;
    const uint pos = step_pos(params, row), block = pos / every;
    if ((pos + 1) % every != 0) return;
    // Of blocks that share a place, the last one stays.
    const uint ended = (step_pos(params, last_row(row)) + 1) / every;
    if (block + slots < ended) return;
    state_of(row).v[block % slots * stride + c] = x.v[row * x_width + c];
}
