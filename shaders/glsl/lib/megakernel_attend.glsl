// Attention as a stage of megakernel.glsl, of one row and a cache of halves: a workgroup takes a query head at a time. K and V of
// the first positions are asked for before q, k and v are there; those arrive value by value, with an epoch each.
const uint HEAD_UNITS = HEAD_DIM / 8; // of 16 bytes
const uint AT_ONCE = gl_WorkGroupSize.x / HEAD_UNITS, DEEP = 4, SPAN = AT_ONCE * DEEP; // positions
const uint SUBGROUPS = gl_WorkGroupSize.x / LANES;
shared vec4 newest[(PARTED == 1 ? HEADS_MOST + 2 : 3) * HEAD_DIM / 4]; // q, k, v
shared float scores[2][PARTED == 1 ? 1 : SPAN];
shared float frequencies[HEAD_DIM / 2], head_norms[2 * HEAD_DIM];

uint cache_at(uint table, uint pos, uint kv_head, uint kv_heads) {
    return kv_slot(params, table, pos, kv_head, kv_heads) * HEAD_UNITS;
}
vec4 halves(uint a, uint b) { return vec4(unpackHalf2x16(a), unpackHalf2x16(b)); }

#define HEADS newest
#define HEAD_NORM(i) head_norms[i]
#define HEAD_FREQ(i) frequencies[i]
#define HEAD_LANES LANES
#include "lib/head.glsl"
// Norms and turns a head of `newest`: q, or k, which comes after `count` of them.
void turn_newest(uint head, uint count, bool normed, uint dims, bool neox, uint pos) {
    turn_head(head * HEAD_DIM, normed, head < count ? 0 : HEAD_DIM, number(AT_EPS), dims, neox, pos);
}

void attend() {
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID, unit = t % HEAD_UNITS, own = t / HEAD_UNITS;
    const uint heads = word(AT_K), kv_heads = word(AT_M0), dims = word(AT_M01), expected = epochs + word(AT_EPOCH_IN);
    const uint pos = subgroupBroadcastFirst(step_pos(params, 0)), table = subgroupBroadcastFirst(step_table(params, 0));
    const uint turned_at = subgroupBroadcastFirst(step_rope(params, 0));
    const uint last = max(pos, 1) - 1;
    U32x4 k_cache = U32x4(address(AT_W)), v_cache = U32x4(address(AT_W + 2));
    const uvec2 freqs = address(AT_W + 4), q_norm = address(AT_B), k_norm = address(AT_B + 2);
    const bool normed = (q_norm.x | q_norm.y) != 0;
    const bool neox = is(NEOX);
    Values there = Values(address(AT_MESSAGES_IN));
    const float scale = number(AT_SCALE);
    Met y = Met(address(AT_Y));
    for (uint h = gl_WorkGroupID.x; h < heads; h += gl_NumWorkGroups.x) {
        const uint kv_head = h / (heads / kv_heads);
        uvec4 k_raw[DEEP], v_raw[DEEP];
#define FETCH(raw, cache, base) \
        [[unroll]] for (uint j = 0; j < DEEP; j++) { \
            raw[j] = cache.v[cache_at(table, min(base + own + j * AT_ONCE, last), kv_head, kv_heads) + unit]; \
        }
        FETCH(k_raw, k_cache, 0)
        FETCH(v_raw, v_cache, 0)
        if (t < dims / 2) frequencies[t] = F32(freqs).v[t];
        if (normed && t < HEAD_DIM) {
            head_norms[t] = F32(q_norm).v[t];
            head_norms[HEAD_DIM + t] = F32(k_norm).v[t];
        }
        uint spins = 0;
        [[unroll]] for (uint i = 0; i < 3 * HEAD_DIM; i += gl_WorkGroupSize.x) {
            const uint at = min(i + t, 3 * HEAD_DIM - 1), part = at / HEAD_DIM;
            const uint head = part == 0 ? h : part == 1 ? heads + kv_head : heads + kv_heads + kv_head;
            uvec2 value;
            do {
                value = there.v[head * HEAD_DIM + at % HEAD_DIM];
            } while (again(value.y == expected, spins));
            newest[at / 4][at % 4] = uintBitsToFloat(value.x);
        }
        barrier();
        for (uint i = subgroupBroadcastFirst(gl_SubgroupID); i < 2; i += SUBGROUPS) turn_newest(i, 1, normed, dims, neox, turned_at);
        barrier();
        // k and v as the cache has them; workgroups with heads of one K/V head write the same.
        if (t < HEAD_DIM) {
            const uint at = (HEAD_DIM + 2 * t) / 2;
            const uint pair = packHalf2x16(vec2(newest[at / 2][at % 2 * 2], newest[at / 2][at % 2 * 2 + 1]));
            const vec2 kept = unpackHalf2x16(pair);
            newest[at / 2][at % 2 * 2] = kept.x;
            newest[at / 2][at % 2 * 2 + 1] = kept.y;
            const uint to = cache_at(table, pos, kv_head, kv_heads) * 4 + t % (HEAD_DIM / 2);
            W32(t < HEAD_DIM / 2 ? address(AT_W) : address(AT_W + 2)).v[to] = pair;
        }
        const vec4 q0 = newest[2 * unit] * scale, q1 = newest[2 * unit + 1] * scale;
        float most = -1e30, total = 0.0;
        vec4 a0 = vec4(0.0), a1 = vec4(0.0);
        for (uint base = 0; base < pos; base += SPAN) {
            const uint side = base / SPAN % 2;
            [[unroll]] for (uint j = 0; j < DEEP; j++) {
                float s = dot(q0, halves(k_raw[j].x, k_raw[j].y)) + dot(q1, halves(k_raw[j].z, k_raw[j].w));
                [[unroll]] for (uint by = 1; by < HEAD_UNITS; by *= 2) s += subgroupShuffleXor(s, by);
                if (unit == 0) scores[side][own + j * AT_ONCE] = base + own + j * AT_ONCE < pos ? s : -1e30;
            }
            if (base + SPAN < pos) {
                FETCH(k_raw, k_cache, base + SPAN)
            }
            barrier();
            float now = most, sum = 0.0;
            for (uint i = lane; i < SPAN; i += LANES) now = max(now, scores[side][i]);
            now = subgroupMax(now);
            for (uint i = lane; i < SPAN; i += LANES) sum += exp(scores[side][i] - now);
            const float by = raise(most, total, now);
            total += subgroupAdd(sum);
            a0 *= by;
            a1 *= by;
            [[unroll]] for (uint j = 0; j < DEEP; j++) {
                const float weight = exp(scores[side][own + j * AT_ONCE] - now);
                a0 += weight * halves(v_raw[j].x, v_raw[j].y);
                a1 += weight * halves(v_raw[j].z, v_raw[j].w);
            }
            if (base + SPAN < pos) {
                FETCH(v_raw, v_cache, base + SPAN)
            }
        }
#undef FETCH
        barrier();
        float s = 0.0;
        for (uint i = lane; i < HEAD_DIM / 4; i += LANES) s += dot(newest[i], newest[HEAD_DIM / 4 + i]);
        s = subgroupAdd(s) * scale;
        const float now = max(most, s), by = exp(most - now), weight = exp(s - now), share = 1.0 / (total * by + weight);
        [[unroll]] for (uint over = HEAD_UNITS; over < LANES; over *= 2) {
            a0 += subgroupShuffleXor(a0, over);
            a1 += subgroupShuffleXor(a1, over);
        }
        if (lane < HEAD_UNITS) {
            x_q[(gl_SubgroupID * HEAD_UNITS + unit) * 2] = floatBitsToUint(a0);
            x_q[(gl_SubgroupID * HEAD_UNITS + unit) * 2 + 1] = floatBitsToUint(a1);
        }
        barrier();
        if (t < HEAD_DIM / 4) {
            vec4 o = vec4(0.0);
            for (uint g = 0; g < SUBGROUPS; g++) o += uintBitsToFloat(x_q[g * (HEAD_DIM / 4) + t]);
            o = (o * by + weight * newest[HEAD_DIM / 2 + t]) * share;
            outgoing[t] = o;
            outgoing_squares[t] = o * o;
            [[unroll]] for (uint e = 0; e < 4; e++) y.v[h * HEAD_DIM + 4 * t + e] = o[e];
        }
        barrier();
        if (is(SEND) && t < HEAD_DIM / 16) send(t, h * (HEAD_DIM / 16) + t);
        barrier();
    }
}
