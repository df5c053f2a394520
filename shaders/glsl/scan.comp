// A recurrence over the rows of a sequence, SCAN_*: a subgroup holds ROWS of the V_DIM rows of a head's state, [V_DIM, K_DIM], and
// goes from row to row of the sequence, whose first one in the step it stands for. Of a decode batch that is one pass over the state.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 10) const uint ROWS = 1;   // divides V_DIM
layout(constant_id = 11) const uint LANES = 1;  // threads of a subgroup
layout(constant_id = 28) const uint QUADS = 0;  // 1: threads have columns by fours, each aligned, and all have some
#include "lib/scan.glsl"
const uint EACH = (K_DIM + LANES - 1) / LANES; // columns of a thread
const uint SLICES = V_DIM / ROWS;

// What the next row of the sequence brings.
float next_q[EACH], next_k[EACH], next_fade[EACH], next_a[EACH], next_b[EACH], next_v[ROWS], next_rate;

// A thread's column of that number.
uint column(uint e) {
    const uint lane = gl_SubgroupInvocationID;
    return QUADS == 1 ? (e / 4 * LANES + lane) * 4 + e % 4 : lane + e * LANES;
}

#define ASK(into, from, at) \
    if (QUADS == 1) { \
        [[unroll]] for (uint e = 0; e < EACH / 4; e++) { \
            const vec4 four = F32x4(uvec2(from)).v[((at) + column(4 * e)) / 4]; \
            [[unroll]] for (uint j = 0; j < 4; j++) into[4 * e + j] = four[j]; \
        } \
    } else { \
        [[unroll]] for (uint e = 0; e < EACH; e++) into[e] = column(e) < K_DIM ? from.v[(at) + column(e)] : 0.0; \
    }

void ask(uint row, uint head, uint group, uint v0) {
    next_rate = rate_of(row, head);
    ASK(next_q, q, row * Q_WIDTH + group * Q_STRIDE)
    ASK(next_k, k, row * K_WIDTH + group * K_STRIDE)
    if (DECAYS == 2) {
        ASK(next_fade, decay, row * DECAY_WIDTH + head * DECAY_STRIDE)
    } else {
        const float all = decay_of(row, head, 0);
        [[unroll]] for (uint e = 0; e < EACH; e++) next_fade[e] = all;
    }
    if (KIND == SCAN_WKV7) {
        ASK(next_a, a, row * A_WIDTH + head * A_STRIDE)
        ASK(next_b, b, row * B_WIDTH + head * B_STRIDE)
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) next_v[r] = v.v[row * V_WIDTH + head * V_STRIDE + v0 + r];
}

void main() {
    const uint row = gl_WorkGroupID.y, item = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID, lane = gl_SubgroupInvocationID;
    if (row >= params.w[STEP_ROWS] || item >= HEADS * SLICES) return;
    if (row_before(row) != NO_ROW) return;
    const uint head = item / SLICES, v0 = item % SLICES * ROWS, group = group_of(head);
    ask(row, head, group, v0); // where the state is has to be read first
    F32 kept = state_of(row);
    const uint from = (head * V_DIM + v0) * K_DIM;
    const bool fresh = step_pos(params, row) == 0;
    float s[ROWS * EACH], factors[EACH];
    // What is there before position 0 may be no number.
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float one[EACH];
        ASK(one, kept, from + r * K_DIM)
        [[unroll]] for (uint e = 0; e < EACH; e++) s[r * EACH + e] = fresh ? 0.0 : one[e];
    }
    [[unroll]] for (uint e = 0; e < EACH; e++) factors[e] = factor_of(head, min(column(e), K_DIM - 1));
    uint after = row_after(row);
    for (uint at = row; at != NO_ROW;) {
        float qs[EACH], ks[EACH], fades[EACH], as[EACH], bs[EACH], vs[ROWS];
        const float by = next_rate;
        [[unroll]] for (uint r = 0; r < ROWS; r++) vs[r] = next_v[r];
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            qs[e] = next_q[e];
            ks[e] = next_k[e];
            fades[e] = fade_of(next_fade[e], by, factors[e]);
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
            if (lane == 0) y.v[at * Y_WIDTH + head * Y_STRIDE + v0 + r] = scale * sum + skipped(head, vs[r]);
        }
        at = after;
        after = later;
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (QUADS == 1) {
            [[unroll]] for (uint e = 0; e < EACH / 4; e++) {
                const uint at = r * EACH + 4 * e;
                F32x4(uvec2(kept)).v[(from + r * K_DIM + column(4 * e)) / 4] = vec4(s[at], s[at + 1], s[at + 2], s[at + 3]);
            }
        } else {
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                if (column(e) < K_DIM) kept.v[from + r * K_DIM + column(e)] = s[r * EACH + e];
            }
        }
    }
}
