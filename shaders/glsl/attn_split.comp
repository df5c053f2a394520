// Attention of one row over a part of its sequence, for the GH query heads of one K/V head per workgroup, so that K and V
// are read once for all of them: q of qkv -> y [n, heads * HEAD_DIM]. The parts of a long sequence meet in `partials`, where
// the last workgroup to arrive joins them. With ROPE, norms and RoPE are done here too, and the workgroups of the newest
// position write k and v to the cache, those of one K/V head the same; a step must hold no other row of the sequence then.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#include "lib/rope.glsl"
#include "lib/few.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in; // at least HEAD_DIM / 4, a multiple of SPAN
layout(constant_id = 1) const uint GH = 1;   // query heads per workgroup, at most 8; divides those of a K/V head
layout(constant_id = 2) const uint ROPE = 0; // 1: qkv is as the product left it
layout(constant_id = 3) const uint NEOX = 0; // 1: rotates halves, 0: neighbours
layout(constant_id = 4) const uint NORM = 0; // 1: q and k are normed per head
layout(constant_id = 5) const uint SPAN = 1; // positions at a time
layout(constant_id = 6) const uint LEAST = 1; // positions that are worth a workgroup
layout(constant_id = 13) const uint PASSED = 0; // not 0: y is packed as the next product wants it (lib/few.glsl)
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Partials { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer PartialSums { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };
layout(push_constant) uniform Push {
    F32 qkv;           // [n, (heads + 2 kv_heads) * HEAD_DIM]
    F32 y;             // [n, heads * HEAD_DIM]
    uvec2 k_cache;
    uvec2 v_cache;
    Step params;
    Partials partials; // [n, heads, parts, STATE]: largest score, sum, two unused, weighted V
    Arrivals arrivals; // [n, heads / GH], zero between dispatches
    F32 q_norm;        // [HEAD_DIM]
    F32 k_norm;        // [HEAD_DIM]
    F32 inv_freq;      // [rope_dims / 2]
    uint heads;
    uint kv_heads;
    uint rope_dims;
    float scale;
    float eps;
};
const uint SIZE = gl_WorkGroupSize.x;
const uint K_LEN = K_TYPE == KV_F32 ? 4 : 8, V_LEN = V_TYPE == KV_F32 ? 4 : 8; // elements of a unit
const uint K_UNITS = HEAD_DIM / K_LEN, V_UNITS = HEAD_DIM / V_LEN;
const uint STATE = 4 + HEAD_DIM;
const uint SHARES = SIZE / SPAN;      // threads that share a position's score
const uint GROUPS = SIZE / V_UNITS;   // positions whose V is taken at once
const uint K_LOADS = (SPAN * K_UNITS + SIZE - 1) / SIZE, V_LOADS = (SPAN + GROUPS - 1) / GROUPS;
shared vec4 q[(GH + 2) * HEAD_DIM / 4];    // query heads, then the newest k and v
shared float head[2 * HEAD_DIM];           // the newest k and v on their way to the cache
shared uvec4 k_tile[SPAN * (K_UNITS + 1)]; // a unit of padding per position spreads banks
shared float p[GH * SIZE];
shared vec4 summed[2 * SIZE];
shared float freqs[HEAD_DIM / 2], norms[2 * HEAD_DIM];
shared float best[GH], sum[GH], keep[GH];
shared uint arrived;
#include "lib/kv_store.glsl"

void put(uint at, float x) { q[at / 4][at % 4] = x; }

// Brings the heads in, with all that norms and RoPE need, in one round of loads; then a subgroup takes a head at a time.
void load_heads(uint row, uint h0, uint kv_head, uint pos, bool fresh) {
    uint t = gl_LocalInvocationID.x, from = row * (heads + 2 * kv_heads) * HEAD_DIM;
    for (uint i = t; i < (fresh ? GH + 2 : GH) * HEAD_DIM; i += SIZE) {
        uint v = i / HEAD_DIM, h = v < GH ? h0 + v : v == GH ? heads + kv_head : heads + kv_heads + kv_head;
        put(i, qkv.v[from + h * HEAD_DIM + i % HEAD_DIM]);
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
    uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    for (uint v = gl_SubgroupID; v < (fresh ? GH + 1 : GH); v += gl_NumSubgroups) {
        if (NORM == 1) {
            float square = 0.0;
            for (uint i = lane; i < HEAD_DIM / 4; i += lanes) square += dot(q[v * HEAD_DIM / 4 + i], q[v * HEAD_DIM / 4 + i]);
            float by = 1.0 / sqrt(subgroupAdd(square) / float(HEAD_DIM) + eps);
            for (uint i = lane; i < HEAD_DIM; i += lanes) {
                uint at = v * HEAD_DIM + i;
                put(at, q[at / 4][at % 4] * by * norms[v < GH ? i : HEAD_DIM + i]);
            }
            subgroupMemoryBarrierShared();
            subgroupBarrier();
        }
        for (uint i = lane; i < rope_dims / 2; i += lanes) {
            uint a = v * HEAD_DIM + (NEOX == 1 ? i : 2 * i), b = NEOX == 1 ? a + rope_dims / 2 : a + 1;
            vec2 turned = rotated(vec2(q[a / 4][a % 4], q[b / 4][b % 4]), pos, freqs[i]);
            put(a, turned.x);
            put(b, turned.y);
        }
    }
    barrier();
}

// Writes the newest k and v to the cache and leaves them in q as they will be read from there.
void store_newest(uint slot) {
    for (uint i = gl_LocalInvocationID.x; i < 2 * HEAD_DIM; i += SIZE) head[i] = q[(GH * HEAD_DIM + i) / 4][i % 4];
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < HEAD_DIM / 4; i += SIZE) {
        bool is_v = i >= HEAD_DIM / 8;
        uint eight = i % (HEAD_DIM / 8), type = is_v ? V_TYPE : K_TYPE, from = is_v ? HEAD_DIM : 0;
        uvec2 cache = is_v ? v_cache : k_cache;
        if (type > KV_BF16 && eight % 4 == 0) {
            if (is_v) kv_store32(cache, V_TYPE, slot, eight / 4, from);
            else kv_store32(cache, K_TYPE, slot, eight / 4, from);
            for (uint u = eight; u < eight + 4; u++) {
                uint at = (GH * HEAD_DIM + from) / 4 + 2 * u;
                if (is_v) kv_decode(V_TYPE, kv_fetch(cache, V_TYPE, slot, u), q[at], q[at + 1]);
                else kv_decode(K_TYPE, kv_fetch(cache, K_TYPE, slot, u), q[at], q[at + 1]);
            }
        }
        if (type <= KV_BF16) {
            for (uint j = 8 * eight; j < 8 * eight + 8; j += 2) {
                vec2 stored = kv_store2(cache, type, slot, j / 2, vec2(head[from + j], head[from + j + 1]));
                put(GH * HEAD_DIM + from + j, stored.x);
                put(GH * HEAD_DIM + from + j + 1, stored.y);
            }
        }
    }
    barrier();
}

uvec4 k_raw[K_LOADS], v_raw[V_LOADS];

// Asks for K and V of the positions from `base` on.
void fetch(uint table, uint kv_head, uint base, uint end) {
    uint t = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
        uint j = t + i * SIZE, pos = base + j / K_UNITS;
        if (j < SPAN * K_UNITS && pos < end) {
            k_raw[i] = kv_fetch(k_cache, K_TYPE, kv_slot(params, table, pos, kv_head, kv_heads), j % K_UNITS);
        }
    }
    [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
        uint pos = base + t / V_UNITS + i * GROUPS;
        if (t < GROUPS * V_UNITS && pos < min(end, base + SPAN)) {
            v_raw[i] = kv_fetch(v_cache, V_TYPE, kv_slot(params, table, pos, kv_head, kv_heads), t % V_UNITS);
        }
    }
}

// Four elements of the output, e counting through the workgroup's heads.
void put_out(uint row, uint h0, uint e, vec4 o) {
    if (PASSED > 0) Groups(y).v[few_at(PASSED, (gl_NumWorkGroups.x + 7) / 8, row, h0 * HEAD_DIM / 4 + e)] = few_halves(o);
    else for (uint j = 0; j < 4; j++) y.v[(row * heads + h0) * HEAD_DIM + 4 * e + j] = o[j];
}

// Adds up what the threads have for head g: the output, or this part's share of it.
void gather(uint g, uint row, uint h0, uint part, uint parts, uint used, vec4 a[2]) {
    uint t = gl_LocalInvocationID.x, h = row * heads + h0 + g, at = (h * parts + part) * STATE;
    barrier();
    summed[t * (V_LEN / 4)] = a[0];
    if (V_LEN == 8) summed[2 * t + 1] = a[1];
    barrier();
    if (t < HEAD_DIM / 4) {
        vec4 o = vec4(0.0);
        for (uint k = 0; k < GROUPS; k++) o += summed[HEAD_DIM / 4 * k + t];
        if (used == 1) put_out(row, h0, g * (HEAD_DIM / 4) + t, o / sum[g]);
        else PartialSums(partials).v[at / 4 + 1 + t] = o;
    }
    if (used > 1 && t == 0) {
        partials.v[at] = best[g];
        partials.v[at + 1] = sum[g];
    }
}

void main() {
    uint row = gl_WorkGroupID.x, h0 = gl_WorkGroupID.y * GH, part = gl_WorkGroupID.z, parts = gl_NumWorkGroups.z;
    uint t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_ROWS]) return;
    uint table = step_table(params, row), len = step_pos(params, row) + 1, kv_head = h0 / (heads / kv_heads);
    uint per = max((len + parts - 1) / parts, LEAST);
    per = (per + SPAN - 1) / SPAN * SPAN;
    uint used = (len + per - 1) / per, start = part * per, end = min(start + per, len);
    if (start >= len) return;
    bool fresh = ROPE == 1 && end == len;
    if (fresh) end--;
    fetch(table, kv_head, start, end);
    load_heads(row, h0, kv_head, len - 1, fresh);
    if (fresh) store_newest(kv_slot(params, table, len - 1, kv_head, kv_heads));
    for (uint g = gl_SubgroupID; g < GH; g += gl_NumSubgroups) {
        float score = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < HEAD_DIM / 4; i += gl_SubgroupSize) {
            score += dot(q[g * HEAD_DIM / 4 + i], q[GH * HEAD_DIM / 4 + i]);
        }
        score = subgroupAdd(score) * scale;
        if (subgroupElect()) {
            best[g] = fresh ? score : -1e30;
            sum[g] = fresh ? 1.0 : 0.0;
        }
    }
    uint group = t / V_UNITS, unit = t % V_UNITS;
    vec4 acc[8][2];
    [[unroll]] for (uint g = 0; g < GH; g++) {
        bool first = fresh && group == 0;
        uint at = ((GH + 1) * HEAD_DIM + unit * V_LEN) / 4;
        acc[g][0] = first ? q[at] : vec4(0.0);
        acc[g][1] = first && V_LEN == 8 ? q[at + 1] : vec4(0.0);
    }
    for (uint base = start; base < end; base += SPAN) {
        [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
            uint j = t + i * SIZE;
            if (j < SPAN * K_UNITS) k_tile[j / K_UNITS * (K_UNITS + 1) + j % K_UNITS] = k_raw[i];
        }
        uvec4 v_now[V_LOADS];
        [[unroll]] for (uint i = 0; i < V_LOADS; i++) v_now[i] = v_raw[i];
        barrier();
        fetch(table, kv_head, base + SPAN, end);
        float score[GH];
        [[unroll]] for (uint g = 0; g < GH; g++) score[g] = 0.0;
        for (uint u = t / SPAN; u < K_UNITS; u += SHARES) {
            vec4 a, b;
            kv_decode(K_TYPE, k_tile[t % SPAN * (K_UNITS + 1) + u], a, b);
            [[unroll]] for (uint g = 0; g < GH; g++) {
                uint at = (g * HEAD_DIM + u * K_LEN) / 4;
                score[g] += dot(q[at], a);
                if (K_LEN == 8) score[g] += dot(q[at + 1], b);
            }
        }
        [[unroll]] for (uint g = 0; g < GH; g++) p[g * SIZE + t] = score[g];
        barrier();
        for (uint g = gl_SubgroupID; g < GH; g += gl_NumSubgroups) {
            float before = best[g], most = -1e30, total = 0.0;
            for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
                float whole = 0.0;
                [[unroll]] for (uint k = 0; k < SHARES; k++) whole += p[g * SIZE + k * SPAN + i];
                p[g * SIZE + i] = whole * scale;
                if (base + i < end) most = max(most, whole * scale);
            }
            float now = max(before, subgroupMax(most));
            for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
                float e = base + i < end ? exp(p[g * SIZE + i] - now) : 0.0;
                p[g * SIZE + i] = e;
                total += e;
            }
            total = subgroupAdd(total);
            if (subgroupElect()) {
                keep[g] = exp(before - now);
                best[g] = now;
                sum[g] = sum[g] * keep[g] + total;
            }
        }
        barrier();
        [[unroll]] for (uint g = 0; g < GH; g++) {
            acc[g][0] *= keep[g];
            acc[g][1] *= keep[g];
        }
        [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
            uint j = group + i * GROUPS;
            if (group < GROUPS && j < SPAN && base + j < end) {
                vec4 a, b;
                kv_decode(V_TYPE, v_now[i], a, b);
                [[unroll]] for (uint g = 0; g < GH; g++) {
                    acc[g][0] += p[g * SIZE + j] * a;
                    if (V_LEN == 8) acc[g][1] += p[g * SIZE + j] * b;
                }
            }
        }
    }
    // By hand: a loop with barriers in it would not be unrolled, and the sums would live in local memory.
    if (GH > 0) gather(0, row, h0, part, parts, used, acc[0]);
    if (GH > 1) gather(1, row, h0, part, parts, used, acc[1]);
    if (GH > 2) gather(2, row, h0, part, parts, used, acc[2]);
    if (GH > 3) gather(3, row, h0, part, parts, used, acc[3]);
    if (GH > 4) gather(4, row, h0, part, parts, used, acc[4]);
    if (GH > 5) gather(5, row, h0, part, parts, used, acc[5]);
    if (GH > 6) gather(6, row, h0, part, parts, used, acc[6]);
    if (GH > 7) gather(7, row, h0, part, parts, used, acc[7]);
    if (used == 1) return;
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
    const uint ELEMENTS = GH * HEAD_DIM / 4, SLICES = max(SIZE / ELEMENTS, 1);
    for (uint i = t; i < ELEMENTS * SLICES; i += SIZE) {
        uint e = i % ELEMENTS, g = e / (HEAD_DIM / 4), from = (first + g * parts * STATE + 4) / 4 + e % (HEAD_DIM / 4);
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
        put_out(row, h0, e, o / sum[e / (HEAD_DIM / 4)]);
    }
}
