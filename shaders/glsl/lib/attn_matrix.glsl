// What attention by cooperative matrices shares, whose parts threads fill themselves: K and V go from memory to registers as they lie,
// for which inputs of a matrix product are which does not matter, and become halves there. Needs the caches and `kv_heads`.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
const uint TILE = 16;              // positions at a time
const uint BLOCKS = HEAD_DIM / 32; // runs of 32 dimensions, of which a thread has 8
const uint WIDES = HEAD_DIM / 64;  // runs of 64 dimensions
#define Queries coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define Keys coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB>
#define Scores coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>
uvec4 k_raw[2][BLOCKS], v_raw[4][WIDES];

Keys keys(uvec2 four) {
    const f16vec2 a = unpackFloat2x16(four.x), b = unpackFloat2x16(four.y);
    Keys k;
    k[0] = a.x;
    k[1] = a.y;
    k[2] = b.x;
    k[3] = b.y;
    return k;
}
// V of the i-th eight dimensions.
Keys values(uint i) {
    Keys v;
    [[unroll]] for (uint e = 0; e < 4; e++) v[e] = unpackFloat2x16(v_raw[e][i / 8][i % 8 / 2])[i % 2];
    return v;
}
void halve_v() {
    if (V_TYPE == KV_F16) return;
    [[unroll]] for (uint e = 0; e < 4; e++) {
        [[unroll]] for (uint w = 0; w < WIDES; w++) v_raw[e][w] = kv_halves(V_TYPE, v_raw[e][w]);
    }
}

// Slot of a position of a block of the cache.
uint slot_of(uint word, uint kv_head, uint pos) { return (word * kv_heads + kv_head) * KV_BLOCK + pos % KV_BLOCK; }
// Threads 4 n + t have dimensions 8 t of every 32 of position n and of position 8 + n.
void fetch_k(uint word, uint kv_head, uint from, uint end, uint lane) {
    [[unroll]] for (uint half_ = 0; half_ < 2; half_++) {
        const uint slot = slot_of(word, kv_head, min(from + 8 * half_ + lane / 4, end - 1));
        [[unroll]] for (uint b = 0; b < BLOCKS; b++) k_raw[half_][b] = kv_fetch(k_cache, K_TYPE, HEAD_DIM, slot, 4 * b + lane % 4);
    }
}
// Threads 4 n + t have dimensions 8 n of every 64 of positions 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.
void fetch_v(uint word, uint kv_head, uint from, uint end, uint lane) {
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint pos = min(from + 2 * (lane % 4) + i % 2 + i / 2 * 8, end - 1);
        const uint slot = slot_of(word, kv_head, pos);
        [[unroll]] for (uint w = 0; w < WIDES; w++) v_raw[i][w] = kv_fetch(v_cache, V_TYPE, HEAD_DIM, slot, 8 * w + lane / 4);
    }
}

// Greatest and sum over the four threads of a row.
float row_max(vec4 s) {
    float most = max(max(s.x, s.y), max(s.z, s.w));
    most = max(most, subgroupShuffleXor(most, 1));
    return max(most, subgroupShuffleXor(most, 2));
}
float row_sum(float x) {
    x += subgroupShuffleXor(x, 1);
    return x + subgroupShuffleXor(x, 2);
}
