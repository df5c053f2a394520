// ids [n] -> out [n, dim]: decodes one row of the embedding per workgroup.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "quant/contract.glsl"
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uvec2 embd;     // [vocab, dim]
    F32x4 y;        // [n, dim]
    Step params;
    U32 sampled;    // [n_seqs]
    U32x2 tables;
    uint dim;
};

void main() {
    WEIGHT_INIT
    uint row = gl_WorkGroupID.x;
    if (row >= params.w[STEP_ROWS]) return;
    uint id = step_token(params, row);
    if (id == TOKEN_SAMPLED) id = sampled.v[step_seq(params, row)];
    Line line = line_of(embd, id, dim);
    for (uint c = gl_LocalInvocationID.x; c < dim / CHUNK; c += gl_WorkGroupSize.x) {
        Decoded d = weight_decode(line, c);
        [[unroll]] for (uint i = 0; i < GROUPS; i++) y.v[(row * dim + chunk_col(c, i)) / 4] = group_values(d, i);
    }
}
