// What attention kernels of few rows share: arguments, the newest q, k and v, and how the parts of a long sequence meet.
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#include "lib/pack_layout.glsl"
#include "lib/attn_parts.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in; // at least HEAD_DIM / 4 and V_DIM / 4, a multiple of SPAN
layout(constant_id = 1) const uint GH = 1;   // query heads per workgroup, at most 8; divides those of a K/V head
layout(constant_id = 2) const uint ROPE = 0; // 1: qkv is as the product left it
layout(constant_id = 3) const uint NEOX = 0; // 1: rotates halves, 0: neighbours
layout(constant_id = 4) const uint NORM = 0; // 1: q and k are normed per head
layout(constant_id = 5) const uint SPAN = 1; // positions at a time
layout(constant_id = 6) const uint LEAST = 1; // positions that are worth a workgroup
layout(constant_id = 13) const uint PACK_EPILOGUE = 0; // not 0: y is packed as the next product wants it (lib/pack_layout.glsl)
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Partials { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer PartialSums { vec4 v[]; };
layout(constant_id = 14) const uint LEAVES = 0; // 1: parts are left for a megakernel to join (lib/attn_parts.glsl)
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Parts { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };
#include "push/attn_split.glsl"
#include "lib/mask.glsl"
#include "lib/softmax.glsl"
const uint SIZE = gl_WorkGroupSize.x;
const uint STATE = 4 + V_DIM;
shared vec4 q[(GH + 2) * HEAD_DIM / 4];    // query heads, then the newest k and v
shared float p[GH * SIZE];
shared vec4 summed[2 * SIZE];
shared float freqs[ROPE == 1 ? HEAD_DIM / 2 : 1], norms[ROPE == 1 ? 2 * HEAD_DIM : 1];
shared float best[GH], sum[GH], keep[GH]; // keep: what is summed up takes so much of what was
shared uint arrived;
#define HEADS q
#define HEAD_NORM(i) norms[i]
#define HEAD_FREQ(i) freqs[i]
#define HEAD_LANES gl_SubgroupSize
#include "lib/head.glsl"
#include "lib/kv_store.glsl"

// Brings the heads in, with all that norms and RoPE need, in one round of loads; then a subgroup takes a head at a time.
void load_heads(uint row, uint h0, uint kv_head, uint pos, bool fresh) {
    const uint t = gl_LocalInvocationID.x, from = row * ((heads + kv_heads) * HEAD_DIM + kv_heads * V_DIM);
    for (uint i = t; i < (fresh ? GH + 2 : GH) * HEAD_DIM; i += SIZE) {
        const uint v = i / HEAD_DIM, e = i % HEAD_DIM;
        if (v > GH && e >= V_DIM) continue;
        const uint head = v < GH ? h0 + v : v == GH ? heads + kv_head : heads + kv_heads;
        put_head(i, qkv.v[from + head * HEAD_DIM + (v > GH ? kv_head * V_DIM : 0) + e]);
    }
    if (ROPE == 1) {
        for (uint i = t; i < rope_dims / 2; i += SIZE) freqs[i] = inv_freq.v[i];
        for (uint i = t; i < (NORM == 1 ? HEAD_DIM : 0); i += SIZE) {
            norms[i] = q_norm.v[i];
            norms[HEAD_DIM + i] = k_norm.v[i];
        }
    }
    barrier();
    if (ROPE == 0) return;
    const uint turned_at = step_rope(params, row);
    for (uint v = gl_SubgroupID; v < (fresh ? GH + 1 : GH); v += gl_NumSubgroups) {
        turn_head(v * HEAD_DIM, NORM == 1, v < GH ? 0 : HEAD_DIM, eps, rope_dims, NEOX == 1, turned_at);
    }
    barrier();
}

// Writes the newest k and v to the cache and leaves them in q as they will be read from there.
void store_newest(uint slot) {
    for (uint i = gl_LocalInvocationID.x; i < (HEAD_DIM + V_DIM) / 8; i += SIZE) {
        const bool is_v = i >= HEAD_DIM / 8;
        const uint eight = is_v ? i - HEAD_DIM / 8 : i, type = is_v ? V_TYPE : K_TYPE, from = (is_v ? GH + 1 : GH) * HEAD_DIM;
        const uvec2 cache = is_v ? v_cache : k_cache;
        if (type > KV_BF16 && eight % 4 == 0) {
            if (is_v) kv_store32(cache, V_TYPE, V_DIM, slot, eight / 4, from);
            else kv_store32(cache, K_TYPE, HEAD_DIM, slot, eight / 4, from);
            for (uint u = eight; u < eight + 4; u++) {
                const uint at = from / 4 + 2 * u;
                if (is_v) kv_decode(V_TYPE, kv_fetch(cache, V_TYPE, V_DIM, slot, u), q[at], q[at + 1]);
                else kv_decode(K_TYPE, kv_fetch(cache, K_TYPE, HEAD_DIM, slot, u), q[at], q[at + 1]);
            }
        }
        if (type <= KV_BF16) {
            for (uint j = from + 8 * eight; j < from + 8 * eight + 8; j += 2) {
                const vec2 two = vec2(head_at(j), head_at(j + 1));
                const vec2 stored = kv_store2(cache, type, is_v ? V_DIM : HEAD_DIM, slot, (j - from) / 2, two);
                put_head(j, stored.x);
                put_head(j + 1, stored.y);
            }
        }
    }
    barrier();
}

// Starts every head's state: with the score of the newest position, if it is this workgroup's, and with the sink, which the first
// part has. What counts of the newest position's V is in `keep` then.
void score_newest(bool fresh, uint h0, uint part) {
    for (uint g = gl_SubgroupID; g < GH; g += gl_NumSubgroups) {
        float score = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < HEAD_DIM / 4; i += gl_SubgroupSize) {
            score += dot(q[g * HEAD_DIM / 4 + i], q[GH * HEAD_DIM / 4 + i]);
        }
        score = ruled(subgroupAdd(score) * scale, h0 + g, 0, 0);
        if (subgroupElect()) {
            float largest = fresh ? score : -1e30, total = fresh ? 1.0 : 0.0;
            keep[g] = 1.0;
            if (has_sinks() && part == 0) keep[g] = sink_in(largest, total, F32(sinks).v[h0 + g]);
            best[g] = largest;
            sum[g] = total;
        }
    }
    barrier();
}

// Positions of a part of those from `first` on, below `len`: from `start` to `end`; and how many parts have any.
void find_part(uint first, uint len, uint part, uint parts, out uint used, out uint start, out uint end) {
    uint count = len - first, per = max((count + parts - 1) / parts, LEAST);
    per = (per + SPAN - 1) / SPAN * SPAN;
    used = (count + per - 1) / per;
    start = first + part * per;
    end = min(start + per, len);
}

// Four elements of the output, e counting through the workgroup's heads.
void put_out(uint row, uint h0, uint e, vec4 o) {
    const uint tiles = (gl_NumWorkGroups.x + 7) / 8;
    if (PACK_EPILOGUE > 0) Groups(y).v[packed_at(PACK_EPILOGUE, tiles, row, h0 * V_DIM / 4 + e)] = packed_halves(o);
    else for (uint j = 0; j < 4; j++) y.v[(row * heads + h0) * V_DIM + 4 * e + j] = o[j];
}

// Leaves four elements, e counting through the workgroup's heads.
void leave(uint e, uint h0, uint part, uint parts, vec4 o, float most, float weight) {
    const uint at = part_of(h0 * (V_DIM / 4) + e, part, parts), full = params.w[STEP_EPOCHS] + epoch;
    Parts(uvec2(partials)).v[at] = part_low(o, full);
    Parts(uvec2(partials)).v[at + 1] = part_high(o, most, weight, full);
}
// A part without positions is left, too.
void leave_none(uint h0, uint part, uint parts) {
    for (uint e = gl_LocalInvocationID.x; e < GH * V_DIM / 4; e += SIZE) leave(e, h0, part, parts, vec4(0.0), -1e30, 0.0);
}

// Four elements of head h0 + g, `e` of them: the output, or this part's share of it.
void give(uint g, uint e, uint row, uint h0, uint part, uint parts, uint used, vec4 o) {
    if (LEAVES == 1) leave(g * (V_DIM / 4) + e, h0, part, parts, o, best[g], sum[g]);
    else if (used == 1) put_out(row, h0, g * (V_DIM / 4) + e, o / sum[g]);
    else PartialSums(partials).v[((row * heads + h0 + g) * parts + part) * (STATE / 4) + 1 + e] = o;
}
void give_state(uint g, uint row, uint h0, uint part, uint parts) {
    uint at = ((row * heads + h0 + g) * parts + part) * STATE;
    partials.v[at] = best[g];
    partials.v[at + 1] = sum[g];
}

// The last workgroup of a sequence's parts to arrive joins them.
void join_parts(uint row, uint h0, uint parts, uint used) {
    uint t = gl_LocalInvocationID.x;
    memoryBarrierBuffer();
    barrier();
    if (t == 0) {
        arrived = atomicAdd(arrivals.v[row * gl_NumWorkGroups.y + gl_WorkGroupID.y], 1);
        if (arrived == used - 1) arrivals.v[row * gl_NumWorkGroups.y + gl_WorkGroupID.y] = 0;
    }
    barrier();
    if (arrived != used - 1) return;
    memoryBarrierBuffer();
    // Weights of the parts, in p; then every thread adds up some parts of a few elements.
    uint first = (row * heads + h0) * parts * STATE;
    for (uint g = gl_SubgroupID; g < GH; g += gl_NumSubgroups) {
        uint at = first + g * parts * STATE;
        float most = -1e30, total = 0.0;
        for (uint k = gl_SubgroupInvocationID; k < used; k += gl_SubgroupSize) most = max(most, partials.v[at + k * STATE]);
        most = subgroupMax(most);
        for (uint k = gl_SubgroupInvocationID; k < used; k += gl_SubgroupSize) {
            float by = exp(partials.v[at + k * STATE] - most);
            p[g * SIZE + k] = by;
            total += by * partials.v[at + k * STATE + 1];
        }
        total = subgroupAdd(total);
        if (subgroupElect()) sum[g] = total;
    }
    barrier();
    const uint ELEMENTS = GH * V_DIM / 4, SLICES = max(SIZE / ELEMENTS, 1);
    for (uint i = t; i < ELEMENTS * SLICES; i += SIZE) {
        uint e = i % ELEMENTS, g = e / (V_DIM / 4), from = (first + g * parts * STATE + 4) / 4 + e % (V_DIM / 4);
        vec4 o = vec4(0.0);
        for (uint k = i / ELEMENTS; k < used; k += 8 * SLICES) {
            vec4 a[8];
            [[unroll]] for (uint j = 0; j < 8; j++) a[j] = PartialSums(partials).v[from + min(k + j * SLICES, used - 1) * (STATE / 4)];
            [[unroll]] for (uint j = 0; j < 8; j++) o += k + j * SLICES < used ? p[g * SIZE + k + j * SLICES] * a[j] : vec4(0.0);
        }
        if (SLICES == 1) put_out(row, h0, e, o / sum[g]);
        else summed[i] = o;
    }
    if (SLICES == 1) return;
    barrier();
    for (uint e = t; e < ELEMENTS; e += SIZE) {
        vec4 o = vec4(0.0);
        for (uint k = 0; k < SLICES; k++) o += summed[e + k * ELEMENTS];
        put_out(row, h0, e, o / sum[e / (V_DIM / 4)]);
    }
}
