// Attention of one row over a part of its sequence, for the GH query heads of one K/V head per workgroup, so that K and V
// are read once for all of them: q of qkv -> y [n, heads * HEAD_DIM]. Every subgroup takes chunks of as many positions as it
// has threads and needs no barrier until its part is done: a thread scores a position, then the threads share V's elements.
// The parts of a long sequence meet in `partials`, where the last workgroup to arrive joins them. With ROPE, norms and RoPE
// are done here too, and the workgroup of the newest position writes k and v to the cache; a step must hold no other row of
// the sequence then, but may hold other heads of the same k and v, which write the same.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#include "lib/rope.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in; // a multiple of LANES
layout(constant_id = 1) const uint GH = 1;   // query heads per workgroup, at most 8; divides those of a K/V head
layout(constant_id = 2) const uint ROPE = 0; // 1: qkv is as the product left it
layout(constant_id = 3) const uint NEOX = 0; // 1: rotates halves, 0: neighbours
layout(constant_id = 4) const uint NORM = 0; // 1: q and k are normed per head
layout(constant_id = 5) const uint LANES = 32; // threads of a subgroup
layout(constant_id = 6) const uint LEAST = 1; // positions that are worth a workgroup
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
const uint SUBS = SIZE / LANES;
const uint POS = LANES >= V_UNITS ? LANES / V_UNITS : 1; // positions whose V a subgroup takes at once
const uint V_PER = LANES >= V_UNITS ? 1 : (V_UNITS + LANES - 1) / LANES; // units of V a thread has
const uint V_VECS = V_PER * V_LEN / 4;
const uint V_TURNS = (LANES + POS - 1) / POS * V_PER; // units of V a thread reads per chunk
const uint AHEAD = 4; // units under way
const uint QUADS = (GH + 3) / 4;
const uint PLACES = SUBS * POS; // that hold a share of the sums
shared vec4 q[(GH + 2) * HEAD_DIM / 4]; // query heads, then the newest k and v
shared float head[2 * HEAD_DIM];        // the newest k and v on their way to the cache
shared vec4 p[SIZE * QUADS];            // weights of a chunk's positions, a thread's own, by head
shared vec4 summed[2 * PLACES * HEAD_DIM / 4];
shared float freqs[HEAD_DIM / 2], norms[2 * HEAD_DIM];
shared float best[SUBS * GH], sum[SUBS * GH], newest[GH];
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

uvec4 k_raw[AHEAD], v_raw[AHEAD];

// Slots of a chunk's first position and of the 32nd after it, in another block.
uvec2 slots_of(uint table, uint kv_head, uint base, uint end) {
    uint second = LANES > KV_BLOCK ? kv_slot(params, table, min(base + KV_BLOCK, end - 1), kv_head, kv_heads) : 0;
    return uvec2(kv_slot(params, table, base, kv_head, kv_heads), second);
}
uint slot_at(uvec2 slots, uint offset) { return LANES <= KV_BLOCK || offset < KV_BLOCK ? slots.x + offset : slots.y + offset - KV_BLOCK; }

// Asks for units of K of the thread's position, and of V of the positions the subgroup takes together; `last` is the chunk's
// last position that there is.
void ask_k(uvec2 slots, uint last, uint from) {
    uint slot = slot_at(slots, min(gl_SubgroupInvocationID, last));
    [[unroll]] for (uint i = 0; i < AHEAD; i++) k_raw[i] = kv_fetch(k_cache, K_TYPE, slot, min(from + i, K_UNITS - 1));
}
void ask_v(uvec2 slots, uint last, uint from) {
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < AHEAD; i++) {
        uint slot = slot_at(slots, min((from + i) / V_PER * POS + lane / V_UNITS, last));
        v_raw[i] = kv_fetch(v_cache, V_TYPE, slot, V_PER == 1 ? lane % V_UNITS : min(lane + (from + i) % V_PER * LANES, V_UNITS - 1));
    }
}

// Indexed by literals alone: a loop that is not unrolled, for a loop or a barrier in it, would put them in memory. Hence EACH.
#define EACH(DO) DO(0) if (GH > 1) { DO(1) } if (GH > 2) { DO(2) } if (GH > 3) { DO(3) } if (GH > 4) { DO(4) } if (GH > 5) { DO(5) } if (GH > 6) { DO(6) } if (GH > 7) { DO(7) }
vec4 acc[8 * V_VECS];
float scores[8], most[8], total[8]; // total: of the thread's own positions

void score_unit(uvec4 raw, uint unit) {
    vec4 a, b;
    kv_decode(K_TYPE, raw, a, b);
    if (K_UNITS % AHEAD != 0 && unit >= K_UNITS) a = b = vec4(0.0);
    uint at = min(unit, K_UNITS - 1) * (K_LEN / 4);
    #define SCORE(g) scores[g] += dot(q[g * HEAD_DIM / 4 + at], a); if (K_LEN == 8) scores[g] += dot(q[g * HEAD_DIM / 4 + at + 1], b);
    EACH(SCORE)
}

void score_chunk(uvec2 slots, uint last) {
    #define CLEAR(g) scores[g] = 0.0;
    EACH(CLEAR)
    for (uint from = 0; from < K_UNITS; from += AHEAD) {
        uvec4 r0 = k_raw[0], r1 = k_raw[1], r2 = k_raw[2], r3 = k_raw[3];
        if (from + AHEAD < K_UNITS) ask_k(slots, last, from + AHEAD);
        score_unit(r0, from);
        score_unit(r1, from + 1);
        score_unit(r2, from + 2);
        score_unit(r3, from + 3);
    }
}

// The score of head g to a weight, in p; what was summed up before is scaled to the new largest score.
void weigh(uint g, bool there, uint mine) {
    float score = there ? scores[g] * scale : -1e30;
    float now = max(most[g], subgroupMax(score)), keep = exp(most[g] - now), w = there ? exp(score - now) : 0.0;
    total[g] = total[g] * keep + w;
    most[g] = now;
    p[mine + g / 4][g % 4] = w;
    [[unroll]] for (uint i = 0; i < V_VECS; i++) acc[g * V_VECS + i] *= keep;
}

void weigh_chunk(uint last) {
    bool there = gl_SubgroupInvocationID <= last;
    uint mine = (gl_SubgroupID * LANES + gl_SubgroupInvocationID) * QUADS;
    subgroupBarrier();
    #define WEIGH(g) weigh(g, there, mine);
    EACH(WEIGH)
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

void add_weighted(uint at, float w, vec4 a, vec4 b) {
    acc[at] += w * a;
    if (V_LEN == 8) acc[at + 1] += w * b;
}

void sum_unit(uvec4 raw, uint turn) {
    vec4 a, b;
    kv_decode(V_TYPE, raw, a, b);
    uint offset = turn / V_PER * POS + gl_SubgroupInvocationID / V_UNITS;
    if (V_PER > 1) offset = turn / V_PER;
    uint at = (gl_SubgroupID * LANES + min(offset, LANES - 1)) * QUADS;
    vec4 w0 = p[at], w1 = QUADS > 1 ? p[at + QUADS - 1] : vec4(0.0);
    if (offset >= LANES) w0 = w1 = vec4(0.0);
    uint part = V_PER == 1 ? 0 : turn % V_PER * (V_LEN / 4);
    #define SUM(g) add_weighted(g * V_VECS + part, g < 4 ? w0[g % 4] : w1[g % 4], a, b);
    EACH(SUM)
}

void sum_chunk(uvec2 slots, uint last) {
    for (uint from = 0; from < V_TURNS; from += AHEAD) {
        uvec4 r0 = v_raw[0], r1 = v_raw[1], r2 = v_raw[2], r3 = v_raw[3];
        if (from + AHEAD < V_TURNS) ask_v(slots, last, from + AHEAD);
        sum_unit(r0, from);
        sum_unit(r1, from + 1);
        sum_unit(r2, from + 2);
        sum_unit(r3, from + 3);
    }
}

// Four elements of the output, e counting through the workgroup's heads.
void put_out(uint row, uint h0, uint e, vec4 o) {
    for (uint j = 0; j < 4; j++) y.v[(row * heads + h0) * HEAD_DIM + 4 * e + j] = o[j];
}

// The largest score of head g in the workgroup.
float largest_of(uint g) {
    float largest = best[g];
    for (uint s = 1; s < SUBS; s++) largest = max(largest, best[s * GH + g]);
    return largest;
}

// What the thread has for head g, as one of two.
void share(uint g, uint two) {
    uint lane = gl_SubgroupInvocationID;
    float by = exp(most[g] - largest_of(g));
    uint place = two * PLACES + gl_SubgroupID * POS + (V_PER == 1 ? lane / V_UNITS : 0);
    [[unroll]] for (uint i = 0; i < V_VECS; i++) {
        uint unit = V_PER == 1 ? lane % V_UNITS : lane + i / (V_LEN / 4) * LANES;
        if (V_PER == 1 ? lane < POS * V_UNITS : unit < V_UNITS) {
            summed[(place * V_UNITS + unit) * (V_LEN / 4) + i % (V_LEN / 4)] = by * acc[g * V_VECS + i];
        }
    }
}

// Adds up what the subgroups have for heads g and g + 1: the output, or this part's share of it.
void gather(uint g, uint row, uint h0, uint part, uint parts, uint used) {
    uint h = row * heads + h0 + g;
    barrier();
    share(g, 0);
    if (g + 1 < GH) share(g + 1, 1);
    barrier();
    for (uint e = gl_LocalInvocationID.x; e < min(2, GH - g) * HEAD_DIM / 4; e += SIZE) {
        uint two = e / (HEAD_DIM / 4), i = e % (HEAD_DIM / 4), at = ((h + two) * parts + part) * STATE;
        vec4 o = vec4(0.0);
        for (uint k = 0; k < PLACES; k++) o += summed[(two * PLACES + k) * (HEAD_DIM / 4) + i];
        float largest = largest_of(g + two), all = 0.0;
        for (uint s = 0; s < SUBS; s++) all += sum[s * GH + g + two] * exp(best[s * GH + g + two] - largest);
        if (used == 1) put_out(row, h0, g * (HEAD_DIM / 4) + e, o / all);
        else PartialSums(partials).v[at / 4 + 1 + i] = o;
        if (used > 1 && i == 0) {
            partials.v[at] = largest;
            partials.v[at + 1] = all;
        }
    }
}

float weight_of(uint g, uint k) { return p[(g * SIZE + k) / 4][k % 4]; }

// The newest position is the first subgroup's.
void start_head(uint g, bool starts) {
    uint lane = gl_SubgroupInvocationID;
    most[g] = starts ? newest[g] : -1e30;
    total[g] = starts && lane == 0 ? 1.0 : 0.0;
    bool mine = starts && (V_PER > 1 || lane < V_UNITS);
    [[unroll]] for (uint i = 0; i < V_VECS; i++) {
        uint unit = V_PER == 1 ? lane : min(lane + i / (V_LEN / 4) * LANES, V_UNITS - 1);
        acc[g * V_VECS + i] = mine ? q[((GH + 1) * HEAD_DIM + unit * V_LEN) / 4 + i % (V_LEN / 4)] : vec4(0.0);
    }
}

void leave(uint g) {
    float all = subgroupAdd(total[g]);
    if (!subgroupElect()) return;
    best[gl_SubgroupID * GH + g] = most[g];
    sum[gl_SubgroupID * GH + g] = all;
}

void main() {
    uint row = gl_WorkGroupID.x, h0 = gl_WorkGroupID.y * GH, part = gl_WorkGroupID.z, parts = gl_NumWorkGroups.z;
    uint t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_ROWS]) return;
    uint table = step_table(params, row), len = step_pos(params, row) + 1, kv_head = h0 / (heads / kv_heads);
    uint per = max((len + parts - 1) / parts, LEAST);
    const uint GRAIN = max(LANES, KV_BLOCK);
    per = (per + GRAIN - 1) / GRAIN * GRAIN;
    uint used = (len + per - 1) / per, start = part * per, end = min(start + per, len);
    if (start >= len) return;
    bool fresh = ROPE == 1 && end == len;
    if (fresh) end--;
    uint base = start + gl_SubgroupID * LANES, lane = gl_SubgroupInvocationID;
    uvec2 slots = uvec2(0);
    if (base < end) {
        slots = slots_of(table, kv_head, base, end);
        ask_k(slots, end - 1 - base, 0);
    }
    load_heads(row, h0, kv_head, len - 1, fresh);
    if (fresh) store_newest(kv_slot(params, table, len - 1, kv_head, kv_heads));
    for (uint g = gl_SubgroupID; g < (fresh ? GH : 0); g += SUBS) {
        float score = 0.0;
        for (uint i = lane; i < HEAD_DIM / 4; i += LANES) score += dot(q[g * HEAD_DIM / 4 + i], q[GH * HEAD_DIM / 4 + i]);
        score = subgroupAdd(score) * scale;
        if (subgroupElect()) newest[g] = score;
    }
    barrier();
    bool starts = fresh && gl_SubgroupID == 0;
    #define START(g) start_head(g, starts);
    EACH(START)
    while (base < end) {
        uint last = end - 1 - base, next = base + SUBS * LANES;
        score_chunk(slots, last);
        ask_v(slots, last, 0);
        uvec2 next_slots = slots;
        if (next < end) next_slots = slots_of(table, kv_head, next, end);
        weigh_chunk(last);
        if (next < end) ask_k(next_slots, end - 1 - next, 0);
        sum_chunk(slots, last);
        base = next;
        slots = next_slots;
    }
    #define LEAVE(g) leave(g);
    EACH(LEAVE)
    if (GH > 0) gather(0, row, h0, part, parts, used);
    if (GH > 2) gather(2, row, h0, part, parts, used);
    if (GH > 4) gather(4, row, h0, part, parts, used);
    if (GH > 6) gather(6, row, h0, part, parts, used);
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
        float largest = -1e30, all = 0.0;
        for (uint k = gl_SubgroupInvocationID; k < used; k += gl_SubgroupSize) largest = max(largest, partials.v[at + k * STATE]);
        largest = subgroupMax(largest);
        for (uint k = gl_SubgroupInvocationID; k < used; k += gl_SubgroupSize) {
            float by = exp(partials.v[at + k * STATE] - largest);
            p[(g * SIZE + k) / 4][k % 4] = by;
            all += by * partials.v[at + k * STATE + 1];
        }
        all = subgroupAdd(all);
        if (subgroupElect()) sum[g] = all;
    }
    barrier();
    const uint ELEMENTS = GH * HEAD_DIM / 4, SLICES = max(SIZE / ELEMENTS, 1);
    for (uint i = t; i < ELEMENTS * SLICES; i += SIZE) {
        uint e = i % ELEMENTS, g = e / (HEAD_DIM / 4), from = (first + g * parts * STATE + 4) / 4 + e % (HEAD_DIM / 4);
        vec4 o = vec4(0.0);
        for (uint k = i / ELEMENTS; k < used; k += 8 * SLICES) {
            vec4 a[8];
            [[unroll]] for (uint j = 0; j < 8; j++) a[j] = PartialSums(partials).v[from + min(k + j * SLICES, used - 1) * (STATE / 4)];
            [[unroll]] for (uint j = 0; j < 8; j++) o += k + j * SLICES < used ? weight_of(g, k + j * SLICES) * a[j] : vec4(0.0);
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
