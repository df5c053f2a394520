// A recurrence over the rows of a sequence, SCAN_*: a subgroup holds ROWS of the V_DIM rows of a head's state, [V_DIM, K_DIM], and
// goes from row to row of the sequence, whose first one in the step it stands for.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KIND = 0;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint V_DIM = 1;
layout(constant_id = 4) const uint K_DIM = 1;
layout(constant_id = 5) const uint GROUPS = 1;
layout(constant_id = 6) const uint TILED = 0;   // 1: head h is of group h % GROUPS
layout(constant_id = 7) const uint DECAYS = 0;  // per head: 1 or K_DIM; 0: none
layout(constant_id = 8) const uint FACTORS = 0; // likewise
layout(constant_id = 9) const uint RATED = 0;
layout(constant_id = 10) const uint ROWS = 1;   // divides V_DIM
layout(constant_id = 11) const uint LANES = 1;  // threads of a subgroup
// Columns of a row, and from one group to the next, of each input.
layout(constant_id = 12) const uint Q_WIDTH = 1;
layout(constant_id = 13) const uint Q_STRIDE = 1;
layout(constant_id = 14) const uint K_WIDTH = 1;
layout(constant_id = 15) const uint K_STRIDE = 1;
layout(constant_id = 16) const uint V_WIDTH = 1;
layout(constant_id = 17) const uint V_STRIDE = 1;
layout(constant_id = 18) const uint DECAY_WIDTH = 1;
layout(constant_id = 19) const uint DECAY_STRIDE = 1;
layout(constant_id = 20) const uint RATE_WIDTH = 1;
layout(constant_id = 21) const uint RATE_STRIDE = 1;
layout(constant_id = 22) const uint A_WIDTH = 1;
layout(constant_id = 23) const uint A_STRIDE = 1;
layout(constant_id = 24) const uint B_WIDTH = 1;
layout(constant_id = 25) const uint B_STRIDE = 1;
layout(constant_id = 26) const uint Y_WIDTH = 1;
layout(constant_id = 27) const uint Y_STRIDE = 1;
#include "words/general.glsl"
#include "push/scan.glsl"
#include "lib/sequence.glsl"
const uint EACH = (K_DIM + LANES - 1) / LANES; // columns of a thread
const uint SLICES = V_DIM / ROWS;

// What the next row of the sequence brings.
float next_q[EACH], next_k[EACH], next_fade[EACH], next_a[EACH], next_b[EACH], next_v[ROWS], next_rate;

float factor_of(uint head, uint i) { return FACTORS == 0 ? 0.0 : factor.v[FACTORS == 1 ? head : head * K_DIM + i]; }

void ask(uint row, uint head, uint group, uint v0) {
    next_rate = RATED == 1 ? rate.v[row * RATE_WIDTH + head * RATE_STRIDE] : 1.0;
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint at = gl_SubgroupInvocationID + e * LANES, i = min(at, K_DIM - 1);
        const bool there = at < K_DIM;
        next_q[e] = there ? q.v[row * Q_WIDTH + group * Q_STRIDE + i] : 0.0;
        next_k[e] = there ? k.v[row * K_WIDTH + group * K_STRIDE + i] : 0.0;
        next_fade[e] = DECAYS > 0 ? decay.v[row * DECAY_WIDTH + head * DECAY_STRIDE + (DECAYS == 1 ? 0 : i)] : 1.0;
        if (KIND != SCAN_WKV7) continue;
        next_a[e] = there ? a.v[row * A_WIDTH + head * A_STRIDE + i] : 0.0;
        next_b[e] = there ? b.v[row * B_WIDTH + head * B_STRIDE + i] : 0.0;
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) next_v[r] = v.v[row * V_WIDTH + head * V_STRIDE + v0 + r];
}

void main() {
    const uint row = gl_WorkGroupID.y, item = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID, lane = gl_SubgroupInvocationID;
    if (row >= params.w[STEP_ROWS] || item >= HEADS * SLICES) return;
    if (row_before(row) != NO_ROW) return;
    const uint head = item / SLICES, v0 = item % SLICES * ROWS;
    const uint group = TILED == 1 ? head % GROUPS : head / (HEADS / GROUPS);
    F32 kept = state_of(row);
    const uint from = (head * V_DIM + v0) * K_DIM;
    const bool fresh = step_pos(params, row) == 0;
    float s[ROWS * EACH], factors[EACH];
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint i = lane + e * LANES;
        factors[e] = factor_of(head, min(i, K_DIM - 1));
        [[unroll]] for (uint r = 0; r < ROWS; r++) s[r * EACH + e] = fresh || i >= K_DIM ? 0.0 : kept.v[from + r * K_DIM + i];
    }
    ask(row, head, group, v0);
    uint after = row_after(row);
    for (uint at = row; at != NO_ROW;) {
        float qs[EACH], ks[EACH], fades[EACH], as[EACH], bs[EACH], vs[ROWS];
        const float by = next_rate;
        [[unroll]] for (uint r = 0; r < ROWS; r++) vs[r] = next_v[r];
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            qs[e] = next_q[e];
            ks[e] = next_k[e];
            fades[e] = next_fade[e];
            if (KIND == SCAN_DELTA && DECAYS > 0) fades[e] = exp(fades[e]);
            if (KIND == SCAN_MAMBA) fades[e] = exp(by * factors[e]);
            if (KIND != SCAN_WKV7) continue;
            as[e] = next_a[e];
            bs[e] = next_b[e];
        }
        // The next one is under way while this one is worked on, and so is the question which comes after that.
        uint later = NO_ROW;
        if (after != NO_ROW) {
            ask(after, head, group, v0);
            later = row_after(after);
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float early = 0.0, along = 0.0, read = 0.0, late = 0.0;
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                if (KIND == SCAN_WKV6) early += (s[r * EACH + e] + vs[r] * factors[e] * ks[e]) * qs[e];
                if (KIND == SCAN_WKV7) along += s[r * EACH + e] * as[e];
                s[r * EACH + e] *= fades[e];
                if (KIND == SCAN_DELTA) read += s[r * EACH + e] * ks[e];
            }
            if (KIND == SCAN_WKV7) along = subgroupAdd(along);
            float add = vs[r];
            if (KIND == SCAN_MAMBA) add *= by;
            if (KIND == SCAN_DELTA) add = by * (add - subgroupAdd(read));
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                s[r * EACH + e] += add * ks[e];
                if (KIND == SCAN_WKV7) s[r * EACH + e] += along * bs[e];
                late += s[r * EACH + e] * qs[e];
            }
            const float sum = subgroupAdd(KIND == SCAN_WKV6 ? early : late);
            if (lane == 0) y.v[at * Y_WIDTH + head * Y_STRIDE + v0 + r] = scale * sum;
        }
        at = after;
        after = later;
    }
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint i = lane + e * LANES;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            if (i < K_DIM) kept.v[from + r * K_DIM + i] = s[r * EACH + e];
        }
    }
}
