// ids [n] -> out [n, dim]: decodes one row of the embedding per workgroup.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
#include "push/embed.glsl"

void main() {
    WEIGHT_INIT
    // All that may be needed is asked for at once: what a row past the last one has is not looked at.
    uint row = gl_WorkGroupID.x, rows = params.w[STEP_ROWS], id = step_token(params, row), seq = step_seq(params, row);
    uint last = sampled.v[row < rows ? seq : 0];
    if (row >= rows) return;
    if (id == TOKEN_SAMPLED) id = last;
    for (uint i = 0, given = id; i < n_pairs; i++) {
        if (uint(pairs.v[2 * i]) == given) id = uint(pairs.v[2 * i + 1]);
    }
    Line line = line_of(embd, id, dim);
    for (uint c = gl_LocalInvocationID.x; c < dim / CHUNK; c += gl_WorkGroupSize.x) {
        Decoded d = weight_decode(line, c);
        [[unroll]] for (uint i = 0; i < GROUPS; i++) y.v[(row * dim + chunk_col(c, i)) / 4] = group_values(d, i);
    }
}
