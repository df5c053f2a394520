// Scores of blocks of positions for each row: a thread each, by the key of the block's last position. Heads go by groups, whose
// queries stand in shared memory. Rows that see all of their positions need no scores.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GH = 1;      // heads of a group
layout(constant_id = 2) const uint WEIGHTS = 1; // 0: heads have none
#include "push/score_positions.glsl"
#include "lib/chosen.glsl"
const uint LEN = K_TYPE == KV_F32 ? 4 : 8; // elements of a unit
shared vec4 tile[GH * HEAD_DIM / 4];

void main() {
    const uint t = gl_LocalInvocationID.x, j = gl_GlobalInvocationID.x, row = first_row + gl_WorkGroupID.y;
    if (row >= params.w[STEP_ROWS]) return;
    const uint pos = step_pos(params, row), whole = (pos + 1) / every;
    if (sees_all(pos) || gl_WorkGroupID.x * gl_WorkGroupSize.x >= whole) return;
    const bool here = j < whole;
    const uint slot = here ? kv_slot(params, step_table(params, row) + table_at, (j + 1) * every - 1, 0, 1) : 0;
    float score = 0.0;
    for (uint h0 = 0; h0 < heads; h0 += GH) {
        barrier();
        for (uint i = t; i < min(GH, heads - h0) * HEAD_DIM; i += gl_WorkGroupSize.x) {
            tile[i / 4][i % 4] = q.v[row * q_width + (h0 + i / HEAD_DIM) * q_stride + i % HEAD_DIM];
        }
        barrier();
        if (!here) continue;
        float dots[GH];
        [[unroll]] for (uint g = 0; g < GH; g++) dots[g] = 0.0;
        for (uint u = 0; u < HEAD_DIM / LEN; u++) {
            vec4 a, b;
            kv_decode(K_TYPE, kv_fetch(k_cache, K_TYPE, HEAD_DIM, slot, u), a, b);
            [[unroll]] for (uint g = 0; g < GH; g++) {
                const uint at = (g * HEAD_DIM + u * LEN) / 4;
                dots[g] += dot(tile[at], a);
                if (LEN == 8) dots[g] += dot(tile[at + 1], b);
            }
        }
        [[unroll]] for (uint g = 0; g < GH; g++) {
            if (h0 + g >= heads) break;
            score += (WEIGHTS == 1 ? weights.v[row * w_width + (h0 + g) * w_stride] : 1.0) * max(dots[g], 0.0);
        }
    }
    if (here) scores.v[(row - first_row) * slots + j] = score;
}
