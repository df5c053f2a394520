// y (+)= W x + b for up to COLS activation rows with one read of the weights; ROWS outputs per workgroup.
// Up to three matrices stand one below the other (q, k, v); with GATED, y = silu(W0 x + b0) * (W1 x + b1).
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
#include "quant/contract.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;  // outputs per workgroup
layout(constant_id = 2) const uint COLS = 1;  // activation rows
layout(constant_id = 3) const uint GATED = 0; // 1: gate and up in one
layout(constant_id = 4) const uint ADD = 0;   // 1: adds to y
layout(constant_id = 6) const uint NORM = 0;  // 1: x is normed first
layout(constant_id = 10) const uint EXPERTS = 0; // 1: w0, w1 are of each row's experts, a workgroup row per (row, expert);
                                                 // 2: x is of a row's experts, whose weighted products are added up
layout(constant_id = 11) const uint USED = 1;    // experts of a row
layout(push_constant) uniform Push {
    uvec2 w0, w1, w2;   // [m_i, k]
    F32 b0, b1, b2;     // [m_i], if BIAS_i is set in flags; with EXPERTS b2 is the route [n, 4 * USED]
    F32x4 x;            // [COLS, k]
    F32 y;              // [COLS, y_stride], written from column y_at on
    U32x2 tables;
    F32x4 norm;         // [k], if NORM
    uint k;
    uint m0;            // rows of w0
    uint m01;           // rows of w0 and w1
    uint m;             // rows of all
    uint y_stride;
    uint y_at;
    uint flags;         // bit i: b_i is there
    float eps;          // of the norm
    float s0, s1, s2;   // of the products
};
const uint PARTS = GATED == 1 ? 2 : 1;
const uint LINES = ROWS * PARTS; // rows of matrices
const uint SUMS = LINES * COLS;
shared float sums[SUMS * 32];
shared float scales[COLS]; // of the norm

float biased(float sum, uint part, uint row) {
    if (EXPERTS == 1) return sum * b2.v[(gl_WorkGroupID.y / USED * 4 + 2 + part) * USED + gl_WorkGroupID.y % USED];
    sum *= part == 0 ? s0 : part == 1 ? s1 : s2;
    if ((flags & (1u << part)) == 0) return sum;
    if (part == 0) return sum + b0.v[row];
    if (part == 1) return sum + b1.v[row];
    return sum + b2.v[row];
}

// Row of the matrices where an expert's start: of this workgroup's row of experts, or of the expert that column `col` is of.
uint expert_row(uint col, uint k_of_one) {
    if (EXPERTS == 0) return 0;
    uint slot = EXPERTS == 1 ? gl_WorkGroupID.y % USED : col / k_of_one;
    uint row = EXPERTS == 1 ? gl_WorkGroupID.y / USED : gl_WorkGroupID.y;
    return floatBitsToUint(b2.v[row * 4 * USED + slot]) * m;
}
float expert_weight(uint slot) { return b2.v[(gl_WorkGroupID.y * 4 + 1) * USED + slot]; }
// First element of x and of y that the workgroup's row of the grid is about.
uint x_from(uint k_of_all) { return EXPERTS == 0 ? 0 : EXPERTS == 1 ? gl_WorkGroupID.y / USED * k_of_all : gl_WorkGroupID.y * k_of_all; }
uint y_from() { return EXPERTS == 0 ? 0 : gl_WorkGroupID.y * y_stride; }

void main() {
    WEIGHT_INIT
    uint first = gl_WorkGroupID.x * ROWS;
    // Rows past the end repeat the last one, so that no branch keeps the loops below from unrolling.
    uint one = EXPERTS == 2 ? k / USED : k, above = expert_row(0, one); // inputs of one matrix
    Line line[LINES];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = min(first + r, m - 1);
        if (GATED == 1) {
            line[r] = line_of(w0, above + row, one);
            line[ROWS + r] = line_of(w1, above + row, one);
        } else if (EXPERTS > 0) line[r] = line_of(w0, above + row, one);
        else line[r] = line_of(row < m0 ? w0 : row < m01 ? w1 : w2, row < m0 ? row : row < m01 ? row - m0 : row - m01, one);
    }
    float acc[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; i++) acc[i] = 0.0;
    float square[COLS];
    [[unroll]] for (uint col = 0; col < COLS; col++) square[col] = 0.0;
    for (uint at = gl_LocalInvocationID.x; at < k / CHUNK; at += gl_WorkGroupSize.x) {
        uint c = EXPERTS == 2 ? at % (one / CHUNK) : at, slot = at / (one / CHUNK), from = x_from(k);
        float weight = 1.0;
        if (EXPERTS == 2) {
            from += slot * one;
            weight = expert_weight(slot);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                line[r] = line_of(w0, expert_row(slot * one, one) + min(first + r, m - 1), one);
            }
        }
        Decoded d[LINES];
        [[unroll]] for (uint r = 0; r < LINES; r++) d[r] = weight_decode(line[r], c);
        // An activation is fetched once for all rows: their traffic would otherwise exceed that of the weights.
        [[unroll]] for (uint col = 0; col < COLS; col++) {
            [[unroll]] for (uint i = 0; i < GROUPS; i++) {
                vec4 a = weight * x.v[(from + col * k + chunk_col(c, i)) / 4];
                if (NORM == 1) {
                    square[col] += dot(a, a);
                    a *= norm.v[chunk_col(c, i) / 4];
                }
                [[unroll]] for (uint r = 0; r < LINES; r++) acc[r * COLS + col] += dot(group_values(d[r], i), a);
            }
        }
    }
    if (NORM == 1) {
        for (uint col = 0; col < COLS; col++) {
            float mean = workgroup_sum(square[col]) / float(k);
            if (gl_LocalInvocationIndex == 0) scales[col] = 1.0 / sqrt(mean + eps);
        }
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        float sum = subgroupAdd(acc[i]);
        if (subgroupElect()) sums[gl_SubgroupID * SUMS + i] = sum;
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < ROWS * COLS; i += gl_WorkGroupSize.x) {
        uint row = first + i / COLS, col = i % COLS;
        if (row >= m) continue;
        float sum = 0.0, other = 0.0;
        for (uint s = 0; s < gl_NumSubgroups; s++) {
            sum += sums[s * SUMS + i];
            if (GATED == 1) other += sums[s * SUMS + ROWS * COLS + i];
        }
        if (NORM == 1) {
            sum *= scales[col];
            other *= scales[col];
        }
        if (GATED == 1) {
            sum = biased(sum, 0, row);
            sum = sum / (1.0 + exp(-sum)) * biased(other, 1, row);
        } else if (row < m0) sum = biased(sum, 0, row);
        else if (row < m01) sum = biased(sum, 1, row - m0);
        else sum = biased(sum, 2, row - m01);
        uint at = y_from() + col * y_stride + y_at + row;
        y.v[at] = ADD == 1 ? y.v[at] + sum : sum;
    }
}
