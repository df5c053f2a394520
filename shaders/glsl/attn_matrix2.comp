// Attention of many rows by cooperative matrices that a whole workgroup holds (VK_NV_cooperative_matrix2), with an online softmax of
// their elements: heads of any width. A workgroup takes BR queries, of GH heads of one K/V head and BR / GH rows, and a block of the
// cache at a time. Halves come from the cache as they lie, other types through shared memory. Rows of several sequences may meet in a
// tile: each sequence is walked in turn, the others masked.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GH = 1;  // query heads per workgroup, all of one K/V head
layout(constant_id = 2) const uint BR = 64; // queries
#define Rows F32
#include "push/attn_matrix2.glsl"
#include "lib/mask.glsl"
#define EXP exp2
#include "lib/softmax.glsl"
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Halves { float16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer OneHalf { float16_t v; };
const uint BC = KV_BLOCK; // positions at a time
const uint EDGE = gl_WorkGroupSize.x > 128 ? 32 : 16;   // sides of matrices are multiples of it, with zeros behind the head
const uint K_DIM = (HEAD_DIM + EDGE - 1) / EDGE * EDGE, O_DIM = (V_DIM + EDGE - 1) / EDGE * EDGE;
const uint STRIDE = (K_DIM > O_DIM ? K_DIM : O_DIM) / 8 | 1; // odd, so that positions start in banks of their own
const bool STAGES = K_TYPE != KV_F16 || V_TYPE != KV_F16;
#define Queries coopmat<float16_t, gl_ScopeWorkgroup, BR, K_DIM, gl_MatrixUseA>
#define Keys coopmat<float16_t, gl_ScopeWorkgroup, K_DIM, BC, gl_MatrixUseB>
#define Scores coopmat<float, gl_ScopeWorkgroup, BR, BC, gl_MatrixUseAccumulator>
#define Weights coopmat<float16_t, gl_ScopeWorkgroup, BR, BC, gl_MatrixUseA>
#define Values coopmat<float16_t, gl_ScopeWorkgroup, BC, O_DIM, gl_MatrixUseB>
#define Outs coopmat<float, gl_ScopeWorkgroup, BR, O_DIM, gl_MatrixUseAccumulator>
#define Ragged tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV>
shared uvec4 tile[STAGES ? BC * STRIDE : 1];
#define LEADS_WHOLE
#include "lib/attn_leads.glsl"
uint first, h0, now_from, now_table;

float larger(const in float a, const in float b) { return max(a, b); }
float added(const in float a, const in float b) { return a + b; }
float larger_of(const in uint row, const in uint col, const in float a, const in float b) { return max(a, b); }
float power(const in uint row, const in uint col, const in float x) { return exp2(x); }

// A query's dimension, scaled so that scores are powers of two.
float16_t query(const in OneHalf unused, const in uint block[2], const in uint within[2]) {
    const uint row = first + block[0] / GH, h = h0 + block[0] % GH;
    if (row >= params.w[STEP_ROWS] || block[1] >= HEAD_DIM) return float16_t(0.0);
    const uint at = row * ((heads + kv_heads) * HEAD_DIM + kv_heads * V_DIM) + h * HEAD_DIM + block[1];
    return float16_t(F32(uvec2(qkv)).v[at] * (scale * LOG2_E));
}
// A score by the rules, or what stands for one that is masked.
float masked(const in uint row, const in uint col, const in float s) {
    const uint pos = now_from + col, limit = row_table[row] == now_table ? row_len[row] : 0;
    float score = s;
    if (RULES != 0) score = ruled(score / LOG2_E, h0 + row % GH, row_pos[row], pos) * LOG2_E;
    return pos < limit && (MASK == MASK_CAUSAL || pos >= row_first[row]) ? score : -1e30;
}
// What outputs are multiplied with at the end.
float factor(const in uint row, const in uint col, const in float largest, const in float sum) {
    float most = largest, total = sum, by = 1.0;
    if (has_sinks()) by = sink_in(most, total, F32(sinks).v[h0 + row % GH] * LOG2_E);
    return by / total;
}
float give(const in uint at, const in uint col, const in float o) {
    const uint row = first + at / GH;
    if (row < params.w[STEP_ROWS] && col < V_DIM) y.v[(row * heads + h0 + at % GH) * V_DIM + col] = o;
    return o;
}

uint slot_of(uint word, uint kv_head) { return (word * kv_heads + kv_head) * KV_BLOCK; }
Halves halves_at(uvec2 cache, uint slot, uint dim) {
    uint high, low, carry;
    umulExtended(slot, dim * 2, high, low);
    const uint sum = uaddCarry(cache.x, low, carry);
    return Halves(uvec2(sum, cache.y + high + carry));
}
// A block's positions below `end` as halves, zeros behind them and behind the head.
void stage(uvec2 cache, uint type, uint dim, uint wide, uint slot, uint end) {
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < BC * (wide / 8); i += gl_WorkGroupSize.x) {
        const uint pos = i / (wide / 8), unit = i % (wide / 8);
        const bool there = now_from + pos < end && unit < dim / 8;
        tile[pos * STRIDE + unit] = there ? kv_halves(type, kv_fetch(cache, type, dim, slot + pos, unit)) : uvec4(0);
    }
    barrier();
}

void main() {
    const uint t = gl_LocalInvocationID.x, n = params.w[STEP_ROWS];
    // The last rows, which have most to look at, first.
    first = params.w[STEP_SINGLES] + (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * (BR / GH);
    if (first >= n) return;
    h0 = gl_WorkGroupID.y * GH;
    const uint kv_head = h0 / (heads / kv_heads);
    find_leads(first, n);
    barrier();
    tensorLayoutNV<2> asking = createTensorLayoutNV(2), keys = createTensorLayoutNV(2), values = createTensorLayoutNV(2);
    asking = setTensorLayoutDimensionNV(asking, BR, K_DIM);
    keys = setTensorLayoutDimensionNV(keys, BC, HEAD_DIM);
    values = setTensorLayoutDimensionNV(values, BC, V_DIM);
    tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
    Queries asked;
    coopMatLoadTensorNV(asked, Halves(uvec2(qkv)).v, 0, sliceTensorLayoutNV(asking, 0, BR, 0, K_DIM), query);
    Outs outs = Outs(0.0);
    Scores most = Scores(-1e29), total = Scores(0.0); // above what stands for positions that are masked
    for (uint lead = 0; lead < BR; lead++) {
        const uint begin = lead_first[lead], end = lead_len[lead];
        now_table = row_table[lead];
        for (uint from = begin; from < end; from += BC) {
            now_from = from;
            const uint slot = slot_of(params.w[now_table + from / KV_BLOCK], kv_head);
            const bool ragged = from + BC > end;
            Keys k;
            if (STAGES) {
                stage(k_cache, K_TYPE, HEAD_DIM, K_DIM, slot, end);
                coopMatLoad(k, tile, 0, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            } else if (K_DIM == HEAD_DIM) {
                // Positions that nobody wrote are masked.
                coopMatLoadTensorNV(k, halves_at(k_cache, slot, HEAD_DIM).v, 0, sliceTensorLayoutNV(keys, 0, BC, 0, K_DIM), turned);
            } else {
                Ragged some = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
                some = setTensorLayoutDimensionNV(some, BC, HEAD_DIM);
                coopMatLoadTensorNV(k, halves_at(k_cache, slot, HEAD_DIM).v, 0, sliceTensorLayoutNV(some, 0, BC, 0, K_DIM), turned);
            }
            Scores s = coopMatMulAdd(asked, k, Scores(0.0));
            const bool whole = RULES == 0 && from >= lead_from[lead] && from + BC <= lead_whole[lead];
            if (!whole) coopMatPerElementNV(s, s, masked);
            Scores now, sums;
            coopMatReduceNV(now, s, gl_CooperativeMatrixReduceRowNV, larger);
            coopMatPerElementNV(now, now, larger_of, most);
            Scores by = most - now;
            coopMatPerElementNV(by, by, power);
            most = now;
            s = s - most;
            coopMatPerElementNV(s, s, power);
            coopMatReduceNV(sums, s, gl_CooperativeMatrixReduceRowNV, added);
            total = total * by + sums;
            Outs kept;
            coopMatReduceNV(kept, by, gl_CooperativeMatrixReduceRowNV, larger);
            outs = outs * kept;
            Values v;
            if (STAGES) {
                stage(v_cache, V_TYPE, V_DIM, O_DIM, slot, end);
                coopMatLoad(v, tile, 0, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            } else if (O_DIM == V_DIM && !ragged) {
                coopMatLoadTensorNV(v, halves_at(v_cache, slot, V_DIM).v, 0, sliceTensorLayoutNV(values, 0, BC, 0, O_DIM));
            } else {
                // What nobody wrote may be no number, which a weight of 0 does not undo.
                Ragged some = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
                some = setTensorLayoutDimensionNV(some, min(BC, end - from), V_DIM);
                coopMatLoadTensorNV(v, halves_at(v_cache, slot, V_DIM).v, 0, sliceTensorLayoutNV(some, 0, BC, 0, O_DIM));
            }
            outs = coopMatMulAdd(Weights(s), v, outs);
        }
    }
    Scores last;
    coopMatPerElementNV(last, most, factor, total);
    Outs factors;
    coopMatReduceNV(factors, last, gl_CooperativeMatrixReduceRowNV, larger);
    outs = outs * factors;
    coopMatPerElementNV(outs, outs, give);
}
