// Rows times a matrix for each group of columns, [m, k] each: LANES threads share an output of COLS rows. Of one matrix whose rows
// are too short to be read 16 bytes at a time, number by number.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 1) const uint LANES = 1;   // divides SIZE
layout(constant_id = 2) const uint COLS = 1;    // rows taken at a time
layout(constant_id = 3) const uint ADD = 0;     // 1: adds to y
layout(constant_id = 4) const uint ALIGNED = 1; // 1: inputs start at multiples of 16 bytes
layout(constant_id = 5) const uint SINGLY = 0;  // 1: of floats, k may be any
#include "push/head_matmul.glsl"
const uint SIZE = gl_WorkGroupSize.x, OUTPUTS = SIZE / LANES;
shared float sums[SIZE * COLS];

vec4 input_at(uint i) {
    if (ALIGNED == 1) return F32x4(x).v[i / 4];
    F32 from = F32(x);
    return vec4(from.v[i], from.v[i + 1], from.v[i + 2], from.v[i + 3]);
}
#if BLOCK_LEN == 1
float weight_at(Line l, uint i) {
#if BLOCK_BYTES == 4
    return F32(l.at).v[i];
#elif defined(BF16)
    return uintBitsToFloat(uint(U16(l.at).v[i]) << 16);
#else
    return half1(uint(U16(l.at).v[i]));
#endif
}
#endif

void main() {
    WEIGHT_INIT
    const uint t = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, first = gl_WorkGroupID.z * COLS;
    const uint from = gl_WorkGroupID.x * OUTPUTS, row = from + t / LANES, lane = t % LANES;
    Line line = line_of(w, head * m + min(row, m - 1), k);
    float acc[COLS];
    [[unroll]] for (uint col = 0; col < COLS; col++) acc[col] = 0.0;
    if (SINGLY == 0) {
        for (uint c = lane; c < k / CHUNK; c += LANES) {
            Decoded d = weight_decode(line, c);
            [[unroll]] for (uint col = 0; col < COLS; col++) {
                const uint at = min(first + col, n - 1) * x_width + head * x_stride;
                [[unroll]] for (uint i = 0; i < GROUPS; i++) acc[col] += dot(group_values(d, i), input_at(at + chunk_col(c, i)));
            }
        }
    }
#if BLOCK_LEN == 1
    if (SINGLY == 1) {
        for (uint i = lane; i < k; i += LANES) {
            const float v = weight_at(line, i);
            [[unroll]] for (uint col = 0; col < COLS; col++) {
                acc[col] += v * F32(x).v[min(first + col, n - 1) * x_width + head * x_stride + i];
            }
        }
    }
#endif
    [[unroll]] for (uint col = 0; col < COLS; col++) sums[col * SIZE + t] = acc[col];
    barrier();
    for (uint at = t; at < OUTPUTS * COLS; at += SIZE) {
        const uint output_row = from + at % OUTPUTS, col = at / OUTPUTS;
        if (output_row >= m || first + col >= n) continue;
        float sum = 0.0;
        for (uint i = 0; i < LANES; i++) sum += sums[col * SIZE + at % OUTPUTS * LANES + i];
        sum *= scale;
        if (flags == 1) sum += bias.v[output_row];
        const uint to = (first + col) * y_width + head * y_stride + output_row;
        y.v[to] = ADD == 1 ? y.v[to] + sum : sum;
    }
}
