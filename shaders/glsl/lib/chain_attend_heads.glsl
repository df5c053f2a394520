// Attention by ATTEND_HEADS query heads of one K/V head at a time, each over `each` of the `pos` positions before the newest.
void ATTEND(uint heads, uint pos, uint each) {
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID, unit = t % HEAD_UNITS, own = t / HEAD_UNITS;
    const uint kv_heads = word(AT_M0), dims = word(AT_M01), wanted = (tags + word(AT_IN_TAG)) & TAG_BITS;
    const uint table = step_table(params, 0), takers = heads / ATTEND_HEADS, parts = (max(pos, 1) + each - 1) / max(each, 1);
    U32x4 k_cache = U32x4(address(AT_W)), v_cache = U32x4(address(AT_W + 2));
    const uvec2 freqs = address(AT_W + 4), q_norm = address(AT_B), k_norm = address(AT_B + 2);
    const bool normed = (q_norm.x | q_norm.y) != 0, neox = is(NEOX);
    Values there = Values(address(AT_IN)), partial = Values(address(AT_VALUES));
    const float scale = number(AT_SCALE);
    Met y = Met(address(AT_Y));
    for (uint job = gl_WorkGroupID.x; job < takers * parts; job += gl_NumWorkGroups.x) {
        const uint h0 = job % takers * ATTEND_HEADS, part = job / takers, kv_head = h0 / (heads / kv_heads);
        const uint start = part * each, end = min(start + each, pos), last = max(end, 1) - 1;
        const bool has_newest = part == 0;
        uvec4 k_raw[DEEP], v_raw[DEEP];
#define FETCH(raw, cache, base) \
        [[unroll]] for (uint j = 0; j < DEEP; j++) { \
            raw[j] = cache.v[cache_at(table, min(base + own + j * AT_ONCE, last), kv_head, kv_heads) + unit]; \
        }
        FETCH(k_raw, k_cache, start)
        FETCH(v_raw, v_cache, start)
        if (t < dims / 2) frequencies[t] = F32(freqs).v[t];
        if (normed && t < HEAD_DIM) {
            head_norms[t] = F32(q_norm).v[t];
            head_norms[HEAD_DIM + t] = F32(k_norm).v[t];
        }
        uint looks = 0;
        const uint ALL = (ATTEND_HEADS + 2) * HEAD_DIM;
        [[unroll]] for (uint i = 0; i < ALL; i += gl_WorkGroupSize.x) {
            const uint at = min(i + t, ALL - 1), v = at / HEAD_DIM;
            const uint kv_at = v == ATTEND_HEADS ? heads + kv_head : heads + kv_heads + kv_head;
            uvec2 value;
            do {
                value = there.v[(v < ATTEND_HEADS ? h0 + v : kv_at) * HEAD_DIM + at % HEAD_DIM];
            } while (again(value.y == wanted, looks));
            newest[at / 4][at % 4] = uintBitsToFloat(value.x);
        }
        barrier();
        for (uint v = gl_SubgroupID; v < ATTEND_HEADS + 1; v += gl_NumSubgroups) {
            turn_head(v * HEAD_DIM, v < ATTEND_HEADS ? 0 : HEAD_DIM, normed, dims, neox, pos);
        }
        barrier();
        // k and v as the cache has them; workgroups with heads of one K/V head write the same.
        const uint K_AT = ATTEND_HEADS * HEAD_DIM;
        if (t < HEAD_DIM && has_newest) {
            const uint at = (K_AT + 2 * t) / 2;
            const uint pair = packHalf2x16(vec2(newest[at / 2][at % 2 * 2], newest[at / 2][at % 2 * 2 + 1]));
            const vec2 kept = unpackHalf2x16(pair);
            newest[at / 2][at % 2 * 2] = kept.x;
            newest[at / 2][at % 2 * 2 + 1] = kept.y;
            const uint to = cache_at(table, pos, kv_head, kv_heads) * 4 + t % (HEAD_DIM / 2);
            W32(t < HEAD_DIM / 2 ? address(AT_W) : address(AT_W + 2)).v[to] = pair;
        }
        float most[ATTEND_HEADS], total[ATTEND_HEADS];
        vec4 a0[ATTEND_HEADS], a1[ATTEND_HEADS];
        [[unroll]] for (uint g = 0; g < ATTEND_HEADS; g++) {
            most[g] = -1e30;
            total[g] = 0.0;
            a0[g] = a1[g] = vec4(0.0);
        }
        for (uint base = start; base < end; base += SPAN) {
            const uint side = (base - start) / SPAN % 2;
            [[unroll]] for (uint g = 0; g < ATTEND_HEADS; g++) {
                const vec4 q0 = newest[g * HEAD_DIM / 4 + 2 * unit], q1 = newest[g * HEAD_DIM / 4 + 2 * unit + 1];
                [[unroll]] for (uint j = 0; j < DEEP; j++) {
                    float s = dot(q0, halves(k_raw[j].x, k_raw[j].y)) + dot(q1, halves(k_raw[j].z, k_raw[j].w));
                    [[unroll]] for (uint by = 1; by < HEAD_UNITS; by *= 2) s += subgroupShuffleXor(s, by);
                    const bool inside = base + own + j * AT_ONCE < end;
                    if (unit == 0) scores[side][g * SPAN + own + j * AT_ONCE] = inside ? s * scale : -1e30;
                }
            }
            FETCH(k_raw, k_cache, base + SPAN)
            barrier();
            [[unroll]] for (uint g = 0; g < ATTEND_HEADS; g++) {
                float now = most[g], sum = 0.0;
                for (uint i = lane; i < SPAN; i += LANES) now = max(now, scores[side][g * SPAN + i]);
                now = subgroupMax(now);
                for (uint i = lane; i < SPAN; i += LANES) sum += exp(scores[side][g * SPAN + i] - now);
                const float by = exp(most[g] - now);
                total[g] = total[g] * by + subgroupAdd(sum);
                a0[g] *= by;
                a1[g] *= by;
                most[g] = now;
            }
            [[unroll]] for (uint j = 0; j < DEEP; j++) {
                const vec4 v0 = halves(v_raw[j].x, v_raw[j].y), v1 = halves(v_raw[j].z, v_raw[j].w);
                [[unroll]] for (uint g = 0; g < ATTEND_HEADS; g++) {
                    const float weight = exp(scores[side][g * SPAN + own + j * AT_ONCE] - most[g]);
                    a0[g] += weight * v0;
                    a1[g] += weight * v1;
                }
            }
            FETCH(v_raw, v_cache, base + SPAN)
        }
#undef FETCH
        barrier();
        [[unroll]] for (uint g = 0; g < ATTEND_HEADS; g++) {
            float s = 0.0;
            for (uint i = lane; i < HEAD_DIM / 4; i += LANES) s += dot(newest[g * HEAD_DIM / 4 + i], newest[K_AT / 4 + i]);
            s = has_newest ? subgroupAdd(s) * scale : -1e30;
            const float now = max(most[g], s), by = exp(most[g] - now), weight = has_newest ? exp(s - now) : 0.0;
            [[unroll]] for (uint over = HEAD_UNITS; over < LANES; over *= 2) {
                a0[g] += subgroupShuffleXor(a0[g], over);
                a1[g] += subgroupShuffleXor(a1[g], over);
            }
            if (lane < HEAD_UNITS) {
                x_codes[(gl_SubgroupID * HEAD_UNITS + unit) * 2] = floatBitsToUint(a0[g]);
                x_codes[(gl_SubgroupID * HEAD_UNITS + unit) * 2 + 1] = floatBitsToUint(a1[g]);
            }
            barrier();
            const float all = total[g] * by + weight;
            if (t < HEAD_DIM / 4) {
                vec4 o = vec4(0.0);
                for (uint i = 0; i < gl_NumSubgroups; i++) o += uintBitsToFloat(x_codes[i * (HEAD_DIM / 4) + t]);
                o = o * by + weight * newest[K_AT / 4 + HEAD_DIM / 4 + t];
                if (ATTEND_HEADS == 1 && parts == 1) {
                    outgoing[t] = o / all;
                    outgoing_squares[t] = vec4(0.0);
                    [[unroll]] for (uint e = 0; e < 4; e++) y.v[h0 * HEAD_DIM + 4 * t + e] = o[e] / all;
                } else {
                    const uint at = ((h0 + g) * MOST_PARTS + part) * STATE;
                    [[unroll]] for (uint e = 0; e < 4; e++) send_value(partial, at + 4 * t + e, o[e]);
                    if (t == 0) {
                        send_value(partial, at + HEAD_DIM, now);
                        send_value(partial, at + HEAD_DIM + 1, all);
                    }
                }
            }
            barrier();
        }
        if (ATTEND_HEADS == 1 && parts == 1) {
            if (is(SEND) && t < HEAD_DIM / 16) send(t, h0 * (HEAD_DIM / 16) + t);
            barrier();
        }
    }
}
#undef ATTEND
#undef ATTEND_HEADS
