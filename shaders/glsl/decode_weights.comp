// Weights as halves for gemm_matrix2.comp: [m, k] of a format -> [m, k] halves. A workgroup takes 64 chunks that follow each other, whose
// halves it writes from shared memory, so that threads write side by side.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 64) in;
#include "quant/contract.glsl"
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Units { uvec4 v[]; };
#include "push/decode_weights.glsl"
const uint UNITS = CHUNK / 8;
shared uvec4 halves[64 * UNITS];

#include "lib/halves.glsl"

void main() {
    WEIGHT_INIT
    const uint t = gl_LocalInvocationID.x, from = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * 64;
    const uint chunks = k / CHUNK, all = m * chunks, c = min(from + t, all - 1);
    const Decoded d = weight_decode(line_of(w, c / chunks, k), c % chunks);
    if (from + t < all) {
        [[unroll]] for (uint i = 0; i < GROUPS; i += 2) {
            const uint at = c / chunks * chunks * CHUNK + chunk_col(c % chunks, i) - from * CHUNK;
            halves[at / 8] = uvec4(halves_of(group_values(d, i)), halves_of(group_values(d, i + 1)));
        }
    }
    barrier();
    for (uint i = t; i < min(64, all - from) * UNITS; i += 64) y.v[from * UNITS + i] = halves[i];
}
