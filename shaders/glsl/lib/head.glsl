// A head of q or k in shared memory, by one subgroup: its norm, and its rotation by RoPE. Who includes this says where heads are
// (HEADS, an array of vec4), what the norms' weights and the frequencies are (HEAD_NORM(i), HEAD_FREQ(i)), and how many threads a
// subgroup has (HEAD_LANES).
#include "lib/rope.glsl"
#ifndef HEAD_POS // the position that pair i rotates by
#define HEAD_POS(i) pos
#endif
float head_at(uint i) { return HEADS[i / 4][i % 4]; }
void put_head(uint i, float x) { HEADS[i / 4][i % 4] = x; }

// The HEAD_DIM elements from `from` on, with the norm's weights from `norm_from` on. No loop that threads leave one by one:
// compilers take what follows for a place where they have parted.
void turn_head(uint from, bool normed, uint norm_from, float norm_eps, uint dims, bool neox, uint pos) {
    const uint lane = gl_SubgroupInvocationID;
    if (normed) {
        float square = 0.0;
        [[unroll]] for (uint j = 0; j < HEAD_DIM; j += HEAD_LANES) {
            const float x = head_at(from + min(lane + j, HEAD_DIM - 1));
            square += lane + j < HEAD_DIM ? x * x : 0.0;
        }
        const float by = 1.0 / sqrt(subgroupAdd(square) / float(HEAD_DIM) + norm_eps);
        [[unroll]] for (uint j = 0; j < HEAD_DIM; j += HEAD_LANES) {
            const uint i = lane + j;
            if (i < HEAD_DIM) put_head(from + i, head_at(from + i) * by * HEAD_NORM(norm_from + i));
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
    [[unroll]] for (uint j = 0; j < HEAD_DIM / 2; j += HEAD_LANES) {
        const uint i = lane + j;
        if (i < dims / 2) {
            const uint a = from + (neox ? i : 2 * i), b = neox ? a + dims / 2 : a + 1;
            const vec2 turned = rotated(vec2(head_at(a), head_at(b)), HEAD_POS(i), HEAD_FREQ(i));
            put_head(a, turned.x);
            put_head(b, turned.y);
        }
    }
}
