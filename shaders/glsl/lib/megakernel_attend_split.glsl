// Attention in parts as a stage of megakernel.glsl, and the stage that joins them. A workgroup takes the query heads of a K/V head and
// a part of the positions, each of its subgroups PAIR of the heads, with an online softmax of its own. Parts go on four values
// at a time, with the state they belong to.
#include "lib/attn_parts.glsl"
const uint SIDES = LANES / HEAD_UNITS; // positions of a subgroup at once
const uint HELD = 4, RUN_OF = SIDES * HELD; // and at a time, of one block of the cache
shared float of_best[SUBGROUPS * PAIR], of_sum[SUBGROUPS * PAIR];
const float NO_SCORE = -1e30, LOW_SCORE = -1e29; // of a position that is not there; above it, below all others

vec4 as_halves(vec4 x) { return halves(packHalf2x16(x.xy), packHalf2x16(x.zw)); }

// For one thread: `words` without the others.
void put_part(uint four, uint part, uint parts, vec4 o, float best, float sum) {
    const uint epoch = epochs + words[stage][AT_EPOCH_OUT], at = part_of(four, part, parts);
    Messages to = Messages(uvec2(words[stage][AT_MESSAGES_OUT], words[stage][AT_MESSAGES_OUT + 1]));
    to.v[at] = part_low(o, epoch);
    to.v[at + 1] = part_high(o, best, sum, epoch);
}

// Takes q of the heads from h0 on, and k and v, from the stages before.
void take_newest(uint h0, uint at_once, uint kv_head) {
    const uint EACH = ((HEADS_MOST + 2) * HEAD_DIM + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const uint t = gl_LocalInvocationID.x, heads = word(AT_K), kv_heads = word(AT_M0), count = (at_once + 2) * HEAD_DIM;
    const uint expected = epochs + word(AT_EPOCH_IN);
    Values there = Values(address(AT_MESSAGES_IN));
    uvec2 held[EACH];
    uint spins = 0;
    bool found;
    do {
        found = true;
        [[unroll]] for (uint j = 0; j < EACH; j++) {
            const uint i = min(t + j * gl_WorkGroupSize.x, count - 1), part = i / HEAD_DIM;
            const uint head = part < at_once ? h0 + part : heads + kv_head + (part == at_once ? 0 : kv_heads);
            held[j] = there.v[head * HEAD_DIM + i % HEAD_DIM];
        }
        [[unroll]] for (uint j = 0; j < EACH; j++) found = found && held[j].y == expected;
    } while (again(found, spins));
    [[unroll]] for (uint j = 0; j < EACH; j++) {
        const uint i = min(t + j * gl_WorkGroupSize.x, count - 1);
        newest[i / 4][i % 4] = uintBitsToFloat(held[j].x);
    }
}

void attend_parts() {
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID, unit = lane % HEAD_UNITS, own = lane / HEAD_UNITS;
    const uint subgroup = subgroupBroadcastFirst(gl_SubgroupID);
    const uint heads = word(AT_K), kv_heads = word(AT_M0), dims = word(AT_M01), at_once = word(AT_HEADS), parts = word(AT_PARTS);
    const uint pos = subgroupBroadcastFirst(step_pos(params, 0)), table = subgroupBroadcastFirst(step_table(params, 0));
    const uint turned_at = subgroupBroadcastFirst(step_rope(params, 0));
    U32x4 k_cache = U32x4(address(AT_W)), v_cache = U32x4(address(AT_W + 2));
    const uvec2 freqs = address(AT_W + 4), q_norm = address(AT_B), k_norm = address(AT_B + 2);
    const bool normed = (q_norm.x | q_norm.y) != 0;
    const bool neox = is(NEOX);
    const float scale = number(AT_SCALE);
    // Subgroups of a pair of heads, the pair, and which of them this is; positions of a part, and that a workgroup takes at a time.
    const uint team = SUBGROUPS * PAIR / at_once, pair = subgroup / team * PAIR, member = subgroup % team;
    const uint per = max((pos + parts * RUN_OF - 1) / (parts * RUN_OF), 1) * RUN_OF, step = team * RUN_OF;
    for (uint task = gl_WorkGroupID.x; task < heads / at_once * parts; task += gl_NumWorkGroups.x) {
        const uint part = task % parts, h0 = task / parts * at_once, kv_head = h0 / (heads / kv_heads);
        const uint start = min(part * per, pos), end = min(start + per, pos), last = max(end, 1) - 1;
        // The subgroup's next run lies in one block of the cache, whose number is asked for a turn ahead.
        uint first = start + member * RUN_OF;
        uint block = params.w[table + min(first, last) / KV_BLOCK], ahead = params.w[table + min(first + step, last) / KV_BLOCK];
        uvec4 k_raw[HELD], v_raw[HELD];
        uint at[HELD];
#define FIND \
        [[unroll]] for (uint j = 0; j < HELD; j++) { \
            const uint slot = min(first + own + j * SIDES, last) % KV_BLOCK; \
            at[j] = ((block * kv_heads + kv_head) * KV_BLOCK + slot) * HEAD_UNITS + unit; \
        }
#define FETCH(raw, cache) [[unroll]] for (uint j = 0; j < HELD; j++) raw[j] = cache.v[at[j]];
        FIND
        FETCH(k_raw, k_cache)
        FETCH(v_raw, v_cache)
        if (t < dims / 2) frequencies[t] = F32(freqs).v[t];
        if (normed && t < HEAD_DIM) {
            head_norms[t] = F32(q_norm).v[t];
            head_norms[HEAD_DIM + t] = F32(k_norm).v[t];
        }
        take_newest(h0, at_once, kv_head);
        barrier();
        for (uint h = subgroup; h <= at_once; h += SUBGROUPS) turn_newest(h, at_once, normed, dims, neox, turned_at);
        barrier();
        // The newest k and v, as the cache has them, are the first part's. Workgroups with heads of one K/V head write the same.
        const uint k_at = at_once * HEAD_DIM / 4, v_at = k_at + HEAD_DIM / 4;
        if (part == 0 && t < HEAD_DIM) {
            const uint two = k_at * 2 + t;
            const uint packed = packHalf2x16(vec2(newest[two / 2][two % 2 * 2], newest[two / 2][two % 2 * 2 + 1]));
            const uint to = cache_at(table, pos, kv_head, kv_heads) * 4 + t % (HEAD_DIM / 2);
            W32(t < HEAD_DIM / 2 ? address(AT_W) : address(AT_W + 2)).v[to] = packed;
        }
        const bool newly = part == 0 && member == 0;
        const float whole = newly && own == 0 ? 1.0 : 0.0;
        vec4 q[PAIR][2], a[PAIR][2];
        float most[PAIR], total[PAIR];
        [[unroll]] for (uint p = 0; p < PAIR; p++) {
            [[unroll]] for (uint i = 0; i < 2; i++) {
                q[p][i] = newest[(pair + p) * HEAD_DIM / 4 + 2 * unit + i] * scale;
                a[p][i] = whole * as_halves(newest[v_at + 2 * unit + i]);
            }
            float s = dot(q[p][0], as_halves(newest[k_at + 2 * unit])) + dot(q[p][1], as_halves(newest[k_at + 2 * unit + 1]));
            [[unroll]] for (uint by = 1; by < HEAD_UNITS; by *= 2) s += subgroupShuffleXor(s, by);
            most[p] = newly ? s : LOW_SCORE;
            total[p] = whole;
        }
        while (first < end) {
            const bool more = first + step < end;
            float s[PAIR][HELD];
            [[unroll]] for (uint j = 0; j < HELD; j++) {
                const vec4 k0 = halves(k_raw[j].x, k_raw[j].y), k1 = halves(k_raw[j].z, k_raw[j].w);
                [[unroll]] for (uint p = 0; p < PAIR; p++) {
                    s[p][j] = dot(q[p][0], k0) + dot(q[p][1], k1);
                    [[unroll]] for (uint by = 1; by < HEAD_UNITS; by *= 2) s[p][j] += subgroupShuffleXor(s[p][j], by);
                    s[p][j] = first + own + j * SIDES < end ? s[p][j] : NO_SCORE;
                }
            }
            first += step;
            if (more) {
                block = ahead;
                ahead = params.w[table + min(first + step, last) / KV_BLOCK];
                FIND
                FETCH(k_raw, k_cache)
            }
            [[unroll]] for (uint p = 0; p < PAIR; p++) {
                float now = most[p];
                [[unroll]] for (uint j = 0; j < HELD; j++) now = max(now, s[p][j]);
                [[unroll]] for (uint by = HEAD_UNITS; by < LANES; by *= 2) now = max(now, subgroupShuffleXor(now, by));
                const float by = raise(most[p], total[p], now);
                a[p][0] *= by;
                a[p][1] *= by;
                [[unroll]] for (uint j = 0; j < HELD; j++) {
                    s[p][j] = exp(s[p][j] - now);
                    total[p] += s[p][j];
                }
            }
            [[unroll]] for (uint j = 0; j < HELD; j++) {
                const vec4 v0 = halves(v_raw[j].x, v_raw[j].y), v1 = halves(v_raw[j].z, v_raw[j].w);
                [[unroll]] for (uint p = 0; p < PAIR; p++) {
                    a[p][0] += s[p][j] * v0;
                    a[p][1] += s[p][j] * v1;
                }
            }
            if (more) {
                FETCH(v_raw, v_cache)
            }
        }
#undef FIND
#undef FETCH
        if (lane == 0) {
            [[unroll]] for (uint p = 0; p < PAIR; p++) of_best[subgroup * PAIR + p] = most[p];
        }
        barrier();
        [[unroll]] for (uint p = 0; p < PAIR; p++) {
            float best = most[p];
            for (uint k = 0; k < team; k += LANES) best = max(best, of_best[(subgroup - member + (lane + k) % team) * PAIR + p]);
            const float by = exp(most[p] - subgroupMax(best));
            total[p] *= by;
            a[p][0] *= by;
            a[p][1] *= by;
            [[unroll]] for (uint over = HEAD_UNITS; over < LANES; over *= 2) {
                total[p] += subgroupShuffleXor(total[p], over);
                a[p][0] += subgroupShuffleXor(a[p][0], over);
                a[p][1] += subgroupShuffleXor(a[p][1], over);
            }
            const uint to = ((subgroup * PAIR + p) * HEAD_UNITS + unit) * 2;
            if (own == 0) {
                x_q[to] = floatBitsToUint(a[p][0]);
                x_q[to + 1] = floatBitsToUint(a[p][1]);
            }
            if (lane == 0) of_sum[subgroup * PAIR + p] = total[p];
        }
        barrier();
        // Of all threads, for the same reason as in lib/head.glsl; those with nothing to do repeat the last's.
        const uint i = min(t, at_once * HEAD_DIM / 4 - 1), head = i / (HEAD_DIM / 4);
        const uint from = head / PAIR * team * PAIR + head % PAIR;
        float best = of_best[from], sum = 0.0;
        vec4 o = vec4(0.0);
        for (uint k = 0; k < team; k++) {
            best = max(best, of_best[from + k * PAIR]);
            sum += of_sum[from + k * PAIR];
            o += uintBitsToFloat(x_q[(from + k * PAIR) * (HEAD_DIM / 4) + i % (HEAD_DIM / 4)]);
        }
        if (t == i) put_part(h0 * (HEAD_DIM / 4) + t, part, parts, o, best, sum);
        barrier();
    }
}

// Puts the parts of attention together: a subgroup has a message of the output, four threads of it a part.
void join_parts() {
    const uint SLICES = LANES / 4, AT_A_TIME = 2, lane = gl_SubgroupInvocationID, slice = lane / 4, unit = lane % 4;
    const uint parts = word(AT_PARTS), messages = word(AT_M) / 16, expected = epochs + word(AT_EPOCH_IN);
    const uint group = gl_WorkGroupID.x, groups = gl_NumWorkGroups.x;
    const bool sends = is(SEND);
    Messages there = Messages(address(AT_MESSAGES_IN));
    Met y = Met(address(AT_Y));
    uint spins = 0;
    for (uint slot = subgroupBroadcastFirst(gl_SubgroupID); slot * groups + group < messages; slot += SUBGROUPS) {
        const uint message = slot * groups + group;
        float best = LOW_SCORE, total = 0.0;
        vec4 o = vec4(0.0);
        for (uint from = 0; from < parts; from += SLICES * AT_A_TIME) {
            uvec4 low[AT_A_TIME], high[AT_A_TIME];
            bool found;
            do {
                found = true;
                [[unroll]] for (uint j = 0; j < AT_A_TIME; j++) {
                    const uint at = part_of(message * 4 + unit, min(from + j * SLICES + slice, parts - 1), parts);
                    low[j] = there.v[at];
                    high[j] = there.v[at + 1];
                }
                [[unroll]] for (uint j = 0; j < AT_A_TIME; j++) found = found && low[j].w == expected && high[j].w == expected;
            } while (again(found, spins));
            float now = best;
            [[unroll]] for (uint j = 0; j < AT_A_TIME; j++) now = max(now, uintBitsToFloat(high[j].y));
            o *= raise(best, total, now);
            [[unroll]] for (uint j = 0; j < AT_A_TIME; j++) {
                const float weight = from + j * SLICES + slice < parts ? exp(uintBitsToFloat(high[j].y) - now) : 0.0;
                total += weight * uintBitsToFloat(high[j].z);
                o += weight * uintBitsToFloat(uvec4(low[j].xyz, high[j].x));
            }
        }
        float most = best;
        [[unroll]] for (uint over = 4; over < LANES; over *= 2) most = max(most, subgroupShuffleXor(most, over));
        o *= raise(best, total, most);
        [[unroll]] for (uint over = 4; over < LANES; over *= 2) {
            total += subgroupShuffleXor(total, over);
            o += subgroupShuffleXor(o, over);
        }
        o /= total;
        if (slice == 0) {
            outgoing[slot * 4 + unit] = o;
            outgoing_squares[slot * 4 + unit] = o * o;
            [[unroll]] for (uint i = 0; i < 4; i++) y.v[message * 16 + unit * 4 + i] = o[i];
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        if (sends && lane == 0) send(slot, message);
    }
}
