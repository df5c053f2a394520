// Attention of one row over a part of its sequence, for the GH query heads of one K/V head per workgroup, so that K and V
// are read once for all of them: q of qkv -> y [n, heads * V_DIM]. The parts of a long sequence meet in `partials`, where
// the last workgroup to arrive joins them. With ROPE, norms and RoPE are done here too, and the workgroups of the newest
// position write k and v to the cache, those of one K/V head the same; a step must hold no other row of the sequence then.
#version 460
#include "lib/attn.glsl"
const uint K_LEN = K_TYPE == KV_F32 ? 4 : 8, V_LEN = V_TYPE == KV_F32 ? 4 : 8; // elements of a unit
const uint K_UNITS = HEAD_DIM / K_LEN, V_UNITS = V_DIM / V_LEN;
const uint SHARES = SIZE / SPAN;      // threads that share a position's score
const uint GROUPS = SIZE / V_UNITS;   // positions whose V is taken at once
const uint K_LOADS = (SPAN * K_UNITS + SIZE - 1) / SIZE, V_LOADS = (SPAN + GROUPS - 1) / GROUPS;
shared uvec4 k_tile[SPAN * (K_UNITS + 1)]; // a unit of padding per position spreads banks
uvec4 k_raw[K_LOADS], v_raw[V_LOADS];

// The i-th position that a row sees, counted from the first one of all or, if they are chosen, in its list.
uint seen_at(uint row, uint i) { return MASK == MASK_CHOSEN ? U32(q_norm).v[row * window + 1 + i] : i; }

// Asks for K and V of the positions from `base` on.
void fetch(uint row, uint table, uint kv_head, uint base, uint end) {
    uint t = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
        uint j = t + i * SIZE, pos = base + j / K_UNITS;
        if (j < SPAN * K_UNITS && pos < end) {
            k_raw[i] = kv_fetch(k_cache, K_TYPE, HEAD_DIM, kv_slot(params, table, seen_at(row, pos), kv_head, kv_heads), j % K_UNITS);
        }
    }
    [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
        uint pos = base + t / V_UNITS + i * GROUPS;
        if (t < GROUPS * V_UNITS && pos < min(end, base + SPAN)) {
            v_raw[i] = kv_fetch(v_cache, V_TYPE, V_DIM, kv_slot(params, table, seen_at(row, pos), kv_head, kv_heads), t % V_UNITS);
        }
    }
}

// Adds up what the threads have for head g: the output, or this part's share of it.
void gather(uint g, uint row, uint h0, uint part, uint parts, uint used, vec4 a[2]) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    summed[t * (V_LEN / 4)] = a[0];
    if (V_LEN == 8) summed[2 * t + 1] = a[1];
    barrier();
    if (t < V_DIM / 4) {
        vec4 o = vec4(0.0);
        for (uint k = 0; k < GROUPS; k++) o += summed[V_DIM / 4 * k + t];
        give(g, t, row, h0, part, parts, used, o);
    }
    if (LEAVES == 0 && used > 1 && t == 0) give_state(g, row, h0, part, parts);
}

void main() {
    uint row = gl_WorkGroupID.x, h0 = gl_WorkGroupID.y * GH, part = gl_WorkGroupID.z, parts = gl_NumWorkGroups.z;
    uint t = gl_LocalInvocationID.x;
    if (row >= params.w[MASK == MASK_CHOSEN ? STEP_ROWS : STEP_SINGLES]) return;
    uint table = table_of(row), pos = step_pos(params, row);
    uint len = MASK == MASK_CHOSEN ? U32(q_norm).v[row * window] : end_seen(row), kv_head = h0 / (heads / kv_heads), used, start, end;
    find_part(first_seen(row, pos), len, part, parts, used, start, end);
    if (start >= len) {
        if (LEAVES == 1) leave_none(h0, part, parts);
        return;
    }
    bool fresh = ROPE == 1 && end == len;
    if (fresh) end--;
    fetch(row, table, kv_head, start, end);
    load_heads(row, h0, kv_head, pos, fresh);
    if (fresh) store_newest(kv_slot(params, table, len - 1, kv_head, kv_heads));
    score_newest(fresh, h0, part);
    uint group = t / V_UNITS, unit = t % V_UNITS;
    vec4 acc[8][2];
    [[unroll]] for (uint g = 0; g < GH; g++) {
        bool first = fresh && group == 0;
        uint at = ((GH + 1) * HEAD_DIM + unit * V_LEN) / 4;
        acc[g][0] = first ? keep[g] * q[at] : vec4(0.0);
        acc[g][1] = first && V_LEN == 8 ? keep[g] * q[at + 1] : vec4(0.0);
    }
    for (uint base = start; base < end; base += SPAN) {
        [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
            uint j = t + i * SIZE;
            if (j < SPAN * K_UNITS) k_tile[j / K_UNITS * (K_UNITS + 1) + j % K_UNITS] = k_raw[i];
        }
        uvec4 v_now[V_LOADS];
        [[unroll]] for (uint i = 0; i < V_LOADS; i++) v_now[i] = v_raw[i];
        barrier();
        fetch(row, table, kv_head, base + SPAN, end);
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
            float largest = best[g], all = sum[g], most = -1e30, total = 0.0;
            for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
                float whole = 0.0;
                [[unroll]] for (uint k = 0; k < SHARES; k++) whole += p[g * SIZE + k * SPAN + i];
                whole = ruled(whole * scale, h0 + g, pos, base + i < end ? seen_at(row, base + i) : pos);
                p[g * SIZE + i] = whole;
                if (base + i < end) most = max(most, whole);
            }
            const float by = raise(largest, all, max(largest, subgroupMax(most)));
            for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
                float e = base + i < end ? exp(p[g * SIZE + i] - largest) : 0.0;
                p[g * SIZE + i] = e;
                total += e;
            }
            total = subgroupAdd(total);
            if (subgroupElect()) {
                keep[g] = by;
                best[g] = largest;
                sum[g] = all + total;
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
    if (LEAVES == 0 && used > 1) join_parts(row, h0, parts, used);
}
