// y (+)= W x + b for up to COLS activation rows with one read of the weights; ROWS outputs per workgroup.
// Up to three matrices stand one below the other (q, k, v); with GATED, W0 x + b0 gates W1 x + b1.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
#include "lib/gemv.glsl"
const uint SUMS = LINES * COLS;
shared float sums[SUMS * 32];
shared float squares[COLS * 32]; // of x, for the norm

void main() {
    ask_route();
    WEIGHT_INIT
    stage_route();
    uint first = gl_WorkGroupID.x * ROWS;
    uint one = EXPERTS == 2 ? k / USED : k; // inputs of one matrix
    Line line[LINES];
    find_lines(first, expert_row(0, one), one, line);
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
            find_lines(first, expert_row(slot * one, one), one, line);
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
    [[unroll]] for (uint col = 0; col < (NORM == 1 ? COLS : 0); col++) {
        float sum = subgroupAdd(square[col]);
        if (subgroupElect()) squares[gl_SubgroupID * COLS + col] = sum;
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        float sum = subgroupAdd(acc[i]);
        if (subgroupElect()) sums[gl_SubgroupID * SUMS + i] = sum;
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < ROWS * COLS; i += gl_WorkGroupSize.x) {
        uint row = first + i / COLS, col = i % COLS;
        if (row >= m) continue;
        float sum = 0.0, other = 0.0, all = 0.0;
        for (uint s = 0; s < gl_NumSubgroups; s++) {
            if (NORM == 1) all += squares[s * COLS + col];
            sum += sums[s * SUMS + i];
            if (GATED == 1) other += sums[s * SUMS + ROWS * COLS + i];
        }
        if (NORM == 1) {
            float scale = 1.0 / sqrt(all / float(k) + eps);
            sum *= scale;
            other *= scale;
        }
        store(row, col, sum, other, before(row, col));
    }
}
